// What Google Benchmark is told of a benchmark: the time of its samples, and a state that all ranks
// agree on.
#include "fixtures/timed_fixture.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fake_workload.h"
#include "fixtures/statistics.h"
#include "injection/faulty_device.h"
#include "report/row.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

class Rows : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs) rows_.push_back(MakeRow(run));
  }
  [[nodiscard]] const Row& last() const { return rows_.back(); }

 private:
  std::vector<Row> rows_;
};

class TimedFixtureTest : public testing::Test {
 protected:
  TimedFixtureTest() {
    options_.budget = 1ms;
    row_.name = "Race/Horse";
    row_.settings = row_.settings.With("cache", "warm").With("cadence", "isolated");
    row_.runs = [this] {
      return std::vector{SoloRun(FakeWork("horse", WorkClass::kCompute, horse_), false)};
    };
    row_.report = [](const Measurement&, benchmark::UserCounters&) { return Remark(); };
    Register(suite_, row_);
  }
  void TearDown() override { benchmark::ClearRegisteredBenchmarks(); }

  Row Measure() {
    Rows rows;
    benchmark::RunSpecifiedBenchmarks(&rows, ".");
    return rows.last();
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }

  Behaviour horse_;
  overlapbench::Benchmark row_;
  FaultyDevice device_{OpenHostDevice(1)};
  Options options_;
  Suite suite_{{device_, TestRanks()}, options_};
};

TEST_F(TimedFixtureTest, AKnobThatOneRankSawFailIsAFaultOnAll) {
  if (OnLastRank()) horse_.knob_fault = "the bit is loose";
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "the bit is loose");
  EXPECT_EQ(row.Counter("valid"), 0);
}

TEST_F(TimedFixtureTest, ClocksThatOneRankSawThrottledAreAFaultOnAll) {
  if (OnLastRank()) device_.Throttle();
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "clocks were throttled: injected");
}

// It may be noisy: it takes microseconds.
TEST_F(TimedFixtureTest, ARowWithoutFaultIsValid) {
  const Row row = Measure();
  EXPECT_LT(row.state, RowState::kInvalid) << row.reason;
  EXPECT_EQ(row.Counter("valid"), 1);
  EXPECT_EQ(suite_.error_rows, 0);
}

// Every other sample takes eight times as long. More samples than the least are taken, in vain.
TEST_F(TimedFixtureTest, ARowThatTellsTooLittleIsNoisy) {
  options_.budget = 200ms;
  horse_.enqueue = [count = 0](Stream&) mutable {
    std::this_thread::sleep_for(++count % 2 == 0 ? 1ms : 8ms);
  };
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_EQ(row.reason.find("known to ±"), 0U) << row.reason;
  EXPECT_GT(row.Counter("margin_pct"), 25);
  EXPECT_GT(row.Counter("samples"), 10);
  EXPECT_EQ(row.Counter("valid"), 1);
  EXPECT_LT(row.Counter("time_low_ms"), row.time_ms);
  EXPECT_GT(row.Counter("time_high_ms"), row.time_ms);
}

TEST_F(TimedFixtureTest, SamplingEndsWhenTheRowIsPrecise) {
  options_.budget = 1000ms;
  options_.precision = 1e9;  // any margin will do
  horse_.enqueue = [](Stream&) { std::this_thread::sleep_for(2ms); };
  EXPECT_EQ(Measure().Counter("samples"), 10);
  options_.precision = 0;
  EXPECT_GT(Measure().Counter("samples"), 100);
}

TEST_F(TimedFixtureTest, AnErrorIsCountedAndItsSessionEnds) {
  horse_.fault = [] { return "it is a mule"; };
  EXPECT_EQ(Measure().state, RowState::kError);
  EXPECT_EQ(suite_.error_rows, 1);
  EXPECT_EQ(suite_.session, nullptr);
}

TEST_F(TimedFixtureTest, ARepetitionHasItsOwnSamples) {
  options_.precision = 0;  // as many as are allowed
  const double samples = Measure().Counter("samples");
  EXPECT_GE(samples, 3);
  EXPECT_EQ(Measure().Counter("samples"), samples);
}

TEST_F(TimedFixtureTest, TheTimeIsTheMedianOfTheSamples) {
  int runs = 0;
  horse_.enqueue = [&](Stream&) { std::this_thread::sleep_for(++runs * 1ms); };  // it tires
  std::vector<double> totals_ms;
  suite_.write_samples = [&](const std::string& lines) {
    std::istringstream text(lines);
    for (std::string line; std::getline(text, line);) {
      const std::size_t total = line.find(",horse,") + 7;
      totals_ms.push_back(std::stod(line.substr(total)));
    }
  };
  const Row row = Measure();
  EXPECT_EQ(std::ssize(totals_ms), row.Counter("samples"));
  EXPECT_NEAR(row.time_ms, Median(totals_ms), 1e-9);
}

}  // namespace
}  // namespace overlapbench
