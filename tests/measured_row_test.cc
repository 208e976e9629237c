// Rows that Google Benchmark runs, from their benchmark to the file.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_workload.h"
#include "fixtures/timed_fixture.h"
#include "run_reporters.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// A benchmark whose only work takes the host 5 ms, and what it reports.
class MeasuredRowTest : public RunReporterTest {
 protected:
  MeasuredRowTest() {
    slow_.enqueue = [](Stream&) { std::this_thread::sleep_for(kSlow); };
    row_.name = "Race/Horse/laps:2";
    row_.settings = row_.settings.With("cache", "warm").With("cadence", "isolated");
    row_.runs = [this](const Settings&) {
      const WorkloadSpec spec = FakeSpec("Horse", WorkClass::kCompute, slow_);
      return std::vector<overlapbench::Run>{SoloRun(MakeWork(spec, {}), false)};
    };
    row_.report = [this](const Measurement&, Counters& counters) {
      counters["furlongs"] = 12;
      return remark_;
    };
  }

  // The row of a run with these flags.
  Json Run(const std::vector<std::string>& flags = {}) {
    Options options = ParseOptions(flags);
    options.budget = 1ms;
    const auto device = OpenHostDevice(1);
    Suite suite{{*device, TestRanks()}, options};
    benchmark::ClearRegisteredBenchmarks();
    Register(suite, row_);
    Progress progress(0, 1);
    RunReporter reporter(progress, suite.finished, table_, {},
                         std::make_unique<ResultFile>(path()));
    benchmark::RunSpecifiedBenchmarks(&reporter, ".");
    benchmark::ClearRegisteredBenchmarks();
    return ReadFile(path()).At("benchmarks").items.at(0);
  }

  static constexpr auto kSlow = 5ms;
  Behaviour slow_;
  overlapbench::Benchmark row_;
  Remark remark_;
};

// Noise makes no difference to a control.
TEST_F(MeasuredRowTest, HasTheRemarkOfItsReport) {
  remark_ = Remark::Control("it waited");
  const Json control = Run();
  EXPECT_EQ(control.At("name").text, "Race/Horse/laps:2");
  EXPECT_EQ(control.At("state").text, "control");
  EXPECT_EQ(control.At("reason").text, "it waited");
  EXPECT_EQ(control.At("valid").number, 1);
  EXPECT_DOUBLE_EQ(control.At("furlongs").number, 12);
  remark_ = Remark::Invalid("it slipped");
  const Json invalid = Run();
  EXPECT_EQ(invalid.At("state").text, "invalid");
  EXPECT_EQ(invalid.At("reason").text, "it slipped");
  EXPECT_EQ(invalid.At("valid").number, 0);
}

TEST_F(MeasuredRowTest, IsInvalidIfAKnobHadNoEffect) {
  slow_.knob_fault = "sm_target:8 changed no grid";
  remark_ = Remark::Finding("a finding");
  EXPECT_EQ(Run().At("reason").text, "sm_target:8 changed no grid");
  EXPECT_EQ(Run().At("state").text, "invalid");
}

TEST_F(MeasuredRowTest, IsAnErrorIfItsResultIsWrong) {
  slow_.fault = [] { return "element 3 is 1, expected 2"; };
  const Json row = Run();
  EXPECT_EQ(row.At("state").text, "error");
  EXPECT_EQ(row.At("reason").text,
            "wrong result of COMP 'Horse' in run 'Horse': element 3 is 1, expected 2");
  EXPECT_FALSE(row.Has("furlongs"));
}

TEST_F(MeasuredRowTest, HasItsTimesInTheRequestedUnit) {
  const struct {
    const char* unit;
    double in_ms;
  } units[] = {{"ns", 1e-6}, {"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
  for (const auto& [unit, in_ms] : units) {
    const Json row = Run({std::string("--benchmark_time_unit=") + unit});
    EXPECT_EQ(row.At("time_unit").text, unit);
    const double time_ms = row.At("real_time").number * in_ms;
    EXPECT_GE(time_ms, 5) << unit;
    EXPECT_LT(time_ms, 5000) << unit;  // units differ a thousandfold
  }
  EXPECT_EQ(Run().At("time_unit").text, "ms");
}

}  // namespace
}  // namespace overlapbench
