// Ground truth: schedules of delays, whose times are known, and batches that take 15 ms to make.
//
// Two delays overlap perfectly on two streams and not at all on one. Any schedule of delays takes
// as long as its longest path. Batches that take almost no time to consume arrive as fast as the
// workers make them. The whole method is under test: gate, streams, waits, events, agreement of
// ranks, medians, bounds, metrics, and the check that marks a pair that did not overlap.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "device/host/host_load.h"
#include "fake_workload.h"
#include "fixtures/coverage.h"
#include "fixtures/statistics.h"
#include "test_ranks.h"
#include "workload/data.h"
#include "workload/own_time.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr int kGroups = 101;
constexpr int kInARow = 20;
constexpr int kSupplies = 3;  // for each number of workers
constexpr double kDelay_ms = 4;

struct Tolerances {
  double slowdown_together;
  double slowdown_in_turn;
  double efficiency;
};
constexpr Tolerances kHostTolerances = {0.02, 0.03, 0.05};
constexpr Tolerances kCudaTolerances = {0.01, 0.01, 0.01};

class GroundTruthTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's

  struct Row {
    Remark remark;
    Counters counters;
  };

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (!IsSkipped()) FillRegistry(registry_, machine());
  }

  void Open(Benchmark benchmark) {
    session_ = std::make_unique<Session>(machine(), std::move(benchmark));
    session_->SetUp(true);
    session_->WarmUp();
  }
  std::vector<Group> Measure(int count) {
    std::vector<Group> groups;
    for (int i = 0; i < count; ++i) groups.push_back(session_->Measure());
    return groups;
  }
  [[nodiscard]] Row Report(const std::vector<Group>& groups) const {
    Row row;
    row.remark = session_->benchmark().report(Measurement(*session_, groups), row.counters);
    return row;
  }

  // The first row of this scenario, at these values.
  void OpenRow(const std::string& scenario, const Values& values) {
    const Catalog catalog{registry_, device(), machine()};
    Plan plan({});
    for (const Family& family : AllFamilies()) {
      for (Scenario& one : family.scenarios(catalog)) {
        if (one.name != scenario) continue;
        SetValues(one.axes, values);
        plan.Add(one);
        return Open(plan.benchmarks().at(0));
      }
    }
    FAIL() << "no scenario " << scenario;
  }
  // The first right measurement of a few, else the last: other processes may spoil some on the
  // host, but hardly all.
  template <class Measuring, class Right>
  auto FirstRight(const Measuring& measure, const Right& right, int attempts = 3) const {
    auto found = measure();
    for (int more = on_host() ? attempts - 1 : 0; more > 0 && !right(found); --more)
      found = measure();
    return found;
  }
  Row MeasurePair(const std::string& streams, double slowdown, double efficiency) {
    OpenRow("Overlap/SecondDelay+Delay", {{"streams", streams}, {"cache", "warm"}});
    return FirstRight([this] { return Report(Measure(kGroups)); },
                      [&](const Row& row) {
                        return IsNear(row, "slowdown", slowdown, tolerances().slowdown_together) &&
                               IsNear(row, "efficiency", efficiency, tolerances().efficiency);
                      });
  }
  static bool IsNear(const Row& row, const char* counter, double expected, double tolerance) {
    return std::abs(row.counters.at(counter) - expected) <= tolerance;
  }

  struct Near {
    const char* counter;
    double expected;
    double tolerance;
  };
  // Eight batches from workers that sleep. Another process makes a sample longer, never shorter.
  Row MeasureSupply(const std::string& workers, const std::vector<Near>& expected) {
    constexpr int kAttempts = 15;
    OpenRow("Supply/Batches", {{"workers", workers},
                               {"source", "wait"},
                               {"make_us", "15000"},
                               {"supply_batches", "8"},
                               {"batch_bytes", "4096"},
                               {"intensity", "1"},
                               {"cache", "warm"}});
    return FirstRight([this] { return Report({LeastDisturbed(Measure(kSupplies))}); },
                      [&](const Row& row) {
                        return std::ranges::all_of(expected, [&](const Near& one) {
                          return IsNear(row, one.counter, one.expected, one.tolerance);
                        });
                      },
                      kAttempts);
  }
  // The shortest sample of each run.
  static Group LeastDisturbed(const std::vector<Group>& groups) {
    Group least = groups.front();
    for (const Group& group : groups) {
      for (std::size_t run = 0; run < least.size(); ++run)
        least[run] = std::min(least[run], group[run], [](const Sample& a, const Sample& b) {
          return a.total_ms < b.total_ms;
        });
    }
    return least;
  }

  // A benchmark of these runs, in a warm cache.
  void OpenRuns(const std::vector<Run>& runs, const std::string& cadence = "isolated") {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"warm"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    Open({.name = "Family/Row",
          .settings = SettingsOf(axes, {{"cadence", cadence}}),
          .runs = [runs](const Settings&) { return runs; },
          .report = {}});
  }
  // Samples the open benchmark's first run until a sample takes at most `most_ms`. If none does,
  // other processes may have the cores: then what the ranks' threads waited for a core, per each of
  // the `batch` runs of a sample, must account for the rest.
  void ExpectTime(double least_ms, double most_ms, int batch = 1) {
    constexpr int kMostSamples = 40;
    double shortest_ms = 0;
    double least_disturbed_ms = 0;
    for (int i = 0; i < kMostSamples && (i == 0 || shortest_ms > most_ms); ++i) {
      const double before_ms = Waited_ms();
      const double time_ms = Measure(1).at(0).at(0).total_ms;
      const double own_ms = time_ms - (Waited_ms() - before_ms) / batch;
      shortest_ms = i == 0 ? time_ms : std::min(shortest_ms, time_ms);
      least_disturbed_ms = i == 0 ? own_ms : std::min(least_disturbed_ms, own_ms);
    }
    EXPECT_GE(shortest_ms, least_ms);
    EXPECT_LE(least_disturbed_ms, most_ms) << "the shortest sample took " << shortest_ms << " ms";
  }
  // How long all threads of all ranks have waited for a core so far. A GPU waits for none.
  double Waited_ms() {
    if (!on_host()) return 0;
    double waited_ms = 0;
    for (const auto& [id, thread] : ReadThreadTimes()) waited_ms += thread.waited_s * 1000;
    const auto all = machine().ranks.GatherNumbers({&waited_ms, 1}, "adding up waits");
    return std::accumulate(all.begin(), all.end(), 0.0);
  }

  [[nodiscard]] bool on_host() const { return GetParam() == Backend::kHost; }
  [[nodiscard]] const Tolerances& tolerances() const {
    return on_host() ? kHostTolerances : kCudaTolerances;
  }
  // From event to event, outside a session.
  double ShortestTime_us(const std::string& workload, const Values& values) {
    constexpr int kRuns = 9;
    const WorkloadSpec& spec = registry_.Find(workload);
    const auto made = spec.make(SettingsOf(spec.axes, {values.begin(), values.end()}));
    const auto stream = device().CreateStream();
    made->Connect();
    made->Reset(*stream);
    return overlapbench::ShortestTime_us(machine(), *stream, kRuns, workload,
                                         [&] { made->Enqueue(*stream); });
  }
  [[nodiscard]] std::string Missing(const std::string& workload) const {
    return registry_.Find(workload).missing;
  }

 private:
  Registry registry_;
  std::unique_ptr<Session> session_;
};
INSTANTIATE_ON_EACH_BACKEND(GroundTruthTest);

TEST_P(GroundTruthTest, TwoStreamsOverlapPerfectly) {
  const Row row = MeasurePair("2", 1, 1);
  EXPECT_NEAR(row.counters.at("slowdown"), 1.0, tolerances().slowdown_together);
  EXPECT_NEAR(row.counters.at("efficiency"), 1.0, tolerances().efficiency);
  EXPECT_EQ(row.remark.state, RowState::kOk) << row.remark.reason;
}

TEST_P(GroundTruthTest, OneStreamDoesNotOverlapAndIsMarked) {
  const Row row = MeasurePair("1", 1.5, 0);
  EXPECT_NEAR(row.counters.at("slowdown"), 1.5, tolerances().slowdown_in_turn);
  EXPECT_NEAR(row.counters.at("efficiency"), 0.0, tolerances().efficiency);
  EXPECT_EQ(row.remark.state, RowState::kControl) << row.remark.reason;
}

TEST_P(GroundTruthTest, ADelayAloneTakesItsTime) {
  OpenRuns({SoloRun(DelayWork(machine(), "delay", 4ms))});
  const auto measure = [&] {
    std::vector<double> times_ms;
    for (const Group& group : Measure(kGroups)) times_ms.push_back(group.at(0).total_ms);
    return Median(times_ms);
  };
  const double time_ms = FirstRight(measure, [this](double one_ms) {
    return std::abs(one_ms / kDelay_ms - 1) <= tolerances().slowdown_together;
  });
  EXPECT_NEAR(time_ms / kDelay_ms, 1, tolerances().slowdown_together);
}

// A sample's time is the mean of twenty.
TEST_P(GroundTruthTest, EachOfTwentyDelaysInARowTakesItsTime) {
  OpenRuns({SoloRun(DelayWork(machine(), "delay", 4ms))}, "streaming");
  const double tolerance_ms = kDelay_ms * tolerances().slowdown_together;
  ExpectTime(kDelay_ms - tolerance_ms, kDelay_ms + tolerance_ms, kInARow);
}

TEST_P(GroundTruthTest, TheShortestTimeOfADelayIsTheDelay) {
  EXPECT_NEAR(ShortestTime_us("Delay", {{"delay_us", "4000"}}) / 4000, 1, 0.01);
}

// Its time includes its launch and its end.
TEST_P(GroundTruthTest, AStandInTakesItsTime) {
  if (!Missing("StandIn").empty()) GTEST_SKIP() << Missing("StandIn");
  for (const char* bytes : {"0", "16M"}) {
    const double time_us =
        ShortestTime_us("StandIn", {{"stand_in_us", "300"}, {"stand_in_bytes", bytes}});
    EXPECT_NEAR(time_us, 300, 1.5) << bytes;
  }
}

// Each worker makes a batch in 15 ms, and all of them at once.
TEST_P(GroundTruthTest, BatchesArriveAsFastAsTheirWorkersMakeThem) {
  constexpr double kTolerance = 0.1;
  constexpr double kMake_ms = 15;
  for (const int workers : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    const double batches_per_s = workers * 1000 / kMake_ms;
    const std::vector<Near> expected = {
        {"batches_per_s", batches_per_s, kTolerance * batches_per_s},
        {"prediction_error_pct", 0, kTolerance * 100},
        {"make_ms", kMake_ms, kTolerance * kMake_ms},
        {"device_idle_share", 1, kTolerance}};
    const Row row = MeasureSupply(std::to_string(workers), expected);
    for (const auto& [counter, value, tolerance] : expected)
      EXPECT_NEAR(row.counters.at(counter), value, tolerance) << counter;
    EXPECT_EQ(row.remark.state, RowState::kOk);
    EXPECT_EQ(row.remark.reason, "bound by the producers");
  }
}

// ---- Random schedules

// How far a schedule's time may lie above its bound; never below. `waits`: of the host.
double Slack_ms(bool on_host, double bound_ms, int waits) {
  // On a GPU a step that waits for another starts some microseconds after it, and a wait of the
  // host costs a look at an event and a launch besides.
  if (!on_host) return 0.01 * bound_ms + 0.02 + 0.05 * waits;
  // On the host every step of a path starts by waking a sleeping thread. That takes 0.1 ms, 2 % of
  // the shortest delay here, or occasionally a time slice of the scheduler if all cores are busy.
  return 0.02 * bound_ms + 1.5;
}

// Up to 4 lanes and 20 steps of delays. The same for all ranks and in all runs of the test.
struct RandomSchedule {
  RandomSchedule(Machine& machine, std::uint32_t seed, bool with_host_waits) {
    const bool on_host = machine.device.backend() == Backend::kHost;
    const auto below = [&](std::size_t limit) { return Random(seed, draws++) % limit; };
    const std::size_t lanes = 1 + below(4);
    const std::size_t steps = 1 + below(20);
    for (std::size_t i = 0; i < lanes; ++i) {
      schedule.AddLane({.name = fmt::format("lane {}", i),
                        .priority = static_cast<int>(below(machine.device.info().priorities))});
    }
    for (std::size_t i = 0; i < steps; ++i) {
      // From 5 to 12 ms on the host, from 1 to 4 on a GPU, whose threads need no waking.
      const auto delay_us = static_cast<long>(on_host ? 5000 + below(7000) : 1000 + below(3000));
      Schedule::StepOptions options;
      while (i > 0 && below(2) == 0) options.after.push_back(below(i));
      if (with_host_waits && i > 0 && below(4) == 0) options.host_after.push_back(below(i));
      host_waits += static_cast<int>(options.host_after.size());
      schedule.Add(
          below(lanes),
          DelayWork(machine, fmt::format("step {}", i), std::chrono::microseconds(delay_us)),
          options);
      step_ms.push_back(static_cast<double>(delay_us) / 1000);
    }
  }

  Schedule schedule;
  std::vector<double> step_ms;
  int host_waits = 0;
  long draws = 0;
};

class RandomScheduleTest : public GroundTruthTest {
 protected:
  // Measures schedules and compares each with its bound.
  void ExpectBounds(std::uint32_t first_seed, int schedules, bool with_host_waits) {
    for (std::uint32_t seed = first_seed; seed < first_seed + schedules; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      const RandomSchedule drawn(machine(), seed, with_host_waits);
      const double bound_ms = BoundOf(drawn.schedule, drawn.step_ms).total_ms;
      OpenRuns({Run{.name = "random", .schedule = drawn.schedule}});
      ExpectTime(bound_ms * (1 - kClock),
                 bound_ms + Slack_ms(on_host(), bound_ms, drawn.host_waits));
    }
  }
  // By how much the clock of delays and that of events may differ: a GPU's %globaltimer moves in
  // steps of up to a microsecond.
  static constexpr double kClock = 1e-3;
};
INSTANTIATE_ON_EACH_BACKEND(RandomScheduleTest);

// On two ranks fewer: these are the same schedules.
int Fewer(int count) { return TestRanks().size() > 1 ? count / 2 : count; }

TEST_P(RandomScheduleTest, TakesAsLongAsItsBound) { ExpectBounds(100, Fewer(10), false); }

TEST_P(RandomScheduleTest, WithHostWaitsTakesAsLongAsItsBound) {
  ExpectBounds(200, Fewer(6), true);
}

}  // namespace
}  // namespace overlapbench
