// An injected delay: which benchmarks get it, what it leaves alone, and what is refused.
#include "benchmarks/injected_delay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fake_workload.h"

namespace overlapbench {
namespace {

class InjectedDelayTest : public testing::Test {
 protected:
  InjectedDelayTest() {
    work_.enqueue = [this](Stream&) { log_.emplace_back("work"); };
    work_.fault = [] { return "the work's own fault"; };
    work_.fingerprint = 7;
    work_.enqueue_waits = true;
    work_.knob_fault = "the work's own knob";
    work_.cost.flops = 5;
    delay_.enqueue = [this](Stream&) { log_.emplace_back("delay"); };
    WorkloadSpec delay = FakeSpec("Delay", Side::kCompute, delay_);
    delay.axes = {IntegerAxis("delay_us", "", 1, 1000, "10")};
    delay.make = [this, make = delay.make](const Settings& settings) {
      delays_us_.push_back(settings.Integer("delay_us"));
      return make(settings);
    };
    registry_.Add(delay);
    registry_.Add(FakeSpec("Work", Side::kCompute, work_));
    for (const auto* name : {"Compute/Work/n:1/cache:cold", "Compute/Work/n:2/cache:cold"}) {
      benchmarks_.push_back({{name, &registry_.Find("Work"), nullptr, {}}, nullptr});
    }
  }

  std::string Refusal(const std::string& flag) {
    try {
      InjectDelay(flag, registry_, benchmarks_);
    } catch (const UsageError& error) {
      return error.what();
    }
    ADD_FAILURE() << "taken: " << flag;
    return "";
  }

  std::vector<std::string> log_;
  std::vector<long> delays_us_;
  Behaviour work_;
  Behaviour delay_;
  Registry registry_;
  std::vector<PlannedBenchmark> benchmarks_;
};

TEST_F(InjectedDelayTest, StandsBehindTheWorkOfTheBenchmarkThatMatches) {
  const auto specs = InjectDelay("n:2/:250", registry_, benchmarks_);
  ASSERT_EQ(specs.size(), 1U);
  EXPECT_EQ(benchmarks_[0].configuration.comp, &registry_.Find("Work"));
  ASSERT_EQ(benchmarks_[1].configuration.comp, specs[0].get());
  const auto device = OpenHostDevice(1);
  const auto stream = device->CreateStream();
  specs[0]->make({})->Enqueue(*stream);
  EXPECT_EQ(log_, (std::vector<std::string>{"work", "delay"}));
  EXPECT_EQ(delays_us_, std::vector<long>{250});
}

TEST_F(InjectedDelayTest, LeavesTheRestToTheWork) {
  const auto specs = InjectDelay("Work:1", registry_, benchmarks_);
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[0]->name, "Work");
  const auto device = OpenHostDevice(1);
  const auto stream = device->CreateStream();
  const auto workload = specs[0]->make({});
  EXPECT_EQ(workload->Verify(*stream).fault, "the work's own fault");
  EXPECT_EQ(workload->Fingerprint(), 7U);
  EXPECT_TRUE(workload->enqueue_waits());
  EXPECT_EQ(workload->IneffectiveKnob(), "the work's own knob");
  EXPECT_EQ(workload->cost().flops, 5);
}

TEST_F(InjectedDelayTest, RefusesWhatIsNoDelayOrConcernsNothing) {
  EXPECT_EQ(Refusal("Work"), "--inject_delay takes REGEX:MICROSECONDS, got 'Work'");
  EXPECT_EQ(Refusal("Work:soon"),
            "--inject_delay: microseconds: 'soon' is not a whole number from 1 to 1000");
  EXPECT_EQ(Refusal("Work:0"),
            "--inject_delay: microseconds: '0' is not a whole number from 1 to 1000");
  EXPECT_EQ(Refusal("(:5"), "--inject_delay: '(' is not a regular expression");
  EXPECT_EQ(Refusal("n:3/:5"),
            "--inject_delay=n:3/:5 matches none of the benchmarks that were chosen");
}

}  // namespace
}  // namespace overlapbench
