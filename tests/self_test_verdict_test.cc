// The self-test's verdict, from known rows that report what a test sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/self_test.h"
#include "fake_workload.h"
#include "scenarios.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

class SelfTestVerdict : public testing::Test {
 protected:
  // A row of two delays of 4 and 2 ms, whose attempts report these slowdowns in turn, and then the
  // last one.
  Benchmark Known(const std::string& streams, std::vector<double> slowdowns) {
    return {.name = "Known/" + streams,
            .settings = Settings()
                            .With("delay_us", "4000")
                            .With("second_delay_us", "2000")
                            .With("streams", streams)
                            .With("cache", "warm")
                            .With("cadence", "isolated"),
            .runs =
                [this](const Settings&) {
                  return std::vector{SoloRun(FakeWork("work", WorkClass::kCompute, nothing_))};
                },
            .report =
                [slowdowns = std::move(slowdowns), next = 0U](const Measurement&,
                                                              Counters& counters) mutable {
                  counters["slowdown"] =
                      slowdowns[std::min<std::size_t>(next++, slowdowns.size() - 1)];
                  return Remark();
                }};
  }
  SelfTest Test(const std::vector<Benchmark>& known) { return RunSelfTest(suite_, known); }

  Behaviour nothing_;
  Options options_;
  std::unique_ptr<Device> device_ = OpenHostDevice(1);
  Suite suite_{{*device_, TestRanks()}, options_};
};

TEST_F(SelfTestVerdict, PassesIfEveryRowIsRight) {
  const SelfTest test = Test({Known("2", {1.02}), Known("1", {1.45})});
  EXPECT_TRUE(test.passed);
  EXPECT_EQ(test.text, "passed: slowdown 1.02 of 1.00, 1.45 of 1.50");
}

TEST_F(SelfTestVerdict, FailsIfAnyRowIsWrong) {
  const SelfTest first = Test({Known("2", {1.2}), Known("1", {1.5})});
  EXPECT_FALSE(first.passed) << "a later row does not make up for it";
  EXPECT_EQ(first.text, "failed: slowdown 1.20 of 1.00, 1.50 of 1.50");
  EXPECT_FALSE(Test({Known("2", {1}), Known("1", {1})}).passed);
  EXPECT_FALSE(Test({Known("2", {0.8})}).passed) << "too fast is wrong, too";
}

TEST_F(SelfTestVerdict, GivesARowThreeAttempts) {
  EXPECT_TRUE(Test({Known("2", {2, 2, 1})}).passed);
  EXPECT_FALSE(Test({Known("2", {2, 2, 2, 1})}).passed);
}

TEST_F(SelfTestVerdict, AllowsTenPercentOnTheHost) {
  EXPECT_TRUE(Test({Known("2", {1.099})}).passed);
  EXPECT_FALSE(Test({Known("2", {1.101})}).passed);
}

TEST_F(SelfTestVerdict, IsLeftOutWithoutKnownRows) {
  const SelfTest test = Test({});
  EXPECT_TRUE(test.passed);
  EXPECT_EQ(test.text, "left out");
}

TEST_F(SelfTestVerdict, SaysHowLongHandOversTake) {
  Benchmark handover = Known("2", {});
  handover.name = "Launch/HandOver/kernels:100/cache:warm";
  handover.report = [](const Measurement&, Counters& counters) {
    counters["same_stream_us"] = 1.234;
    counters["other_stream_us"] = 4.0;
    return Remark();
  };
  const SelfTest test = Test({Known("2", {1}), handover});
  EXPECT_TRUE(test.passed) << "it is no part of the verdict";
  EXPECT_EQ(test.text, "passed: slowdown 1.00 of 1.00");
  EXPECT_EQ(test.handover, "1.23 us on the same stream, 4 us on another");
  EXPECT_EQ(Test({Known("2", {1})}).handover, "");
}

TEST_F(SelfTestVerdict, AllowsTwoPercentOnGpus) {
  const auto gpu = PosingDevice::H200();
  Suite suite{{*gpu, TestRanks()}, options_};
  const auto passes = [&](double slowdown) {
    return RunSelfTest(suite, {Known("2", {slowdown})}).passed;
  };
  EXPECT_TRUE(passes(1.019));
  EXPECT_FALSE(passes(1.021));
  EXPECT_TRUE(passes(0.981));
  EXPECT_FALSE(passes(0.979));
}

}  // namespace
}  // namespace overlapbench
