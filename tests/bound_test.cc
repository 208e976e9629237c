// Bounds of schedules: compared with cases that can be followed by hand, with closed formulas of
// pipelines and supplies, and, for random schedules, with a longest path found another way. Times
// in milliseconds.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "fixtures/schedule.h"
#include "schedules.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

using Steps = std::vector<std::size_t>;

constexpr double kRounding = 1e-12;  // of a sum of some hundred steps, relative

// ---- BoundOf

void ExpectBound(const ScheduleBuilder& built, const std::vector<double>& step_ms, double total_ms,
                 const Steps& path) {
  const Bound bound = BoundOf(built.schedule, step_ms);
  EXPECT_DOUBLE_EQ(bound.total_ms, total_ms);
  EXPECT_EQ(bound.path, path);
}

TEST(Bound, IsZeroForAnEmptySchedule) { ExpectBound({}, {}, 0, {}); }

TEST(Bound, StepsOnALaneFollowEachOther) {
  ScheduleBuilder built;
  for (const char* lane : {"x", "y", "x"}) built.Add("work", {}, lane);
  ExpectBound(built, {2, 4, 3}, 5, {0, 2});
  ExpectBound(built, {2, 6, 3}, 6, {1});
}

TEST(Bound, AStepFollowsEverythingItWaitsFor) {
  ScheduleBuilder built;
  built.Add("a");
  built.Add("b");
  built.Add("c", {.after = {0, 1}});
  built.Add("d", {.after = {0}});
  ExpectBound(built, {1, 3, 2, 1}, 5, {1, 2});
  ExpectBound(built, {4, 3, 2, 1}, 6, {0, 2});
  ExpectBound(built, {4, 3, 2, 5}, 9, {0, 3});
}

TEST(Bound, LanesShareAnEngine) {
  ScheduleBuilder built;
  built.Add("a", {.engine = "bus"});
  built.Add("b", {.engine = "bus"});
  built.Add("c", {.engine = "other"});
  ExpectBound(built, {2, 3, 4}, 5, {0, 1});
}

// The engine is busy until 5, the lane until 3.
TEST(Bound, AStepWaitsForItsLaneAndForItsEngine) {
  ScheduleBuilder built;
  built.Add("a", {.engine = "bus"}, "x");
  built.Add("b", {}, "y");
  built.Add("c", {.engine = "bus"}, "y");
  ExpectBound(built, {5, 3, 1}, 6, {0, 2});
  ExpectBound(built, {5, 7, 1}, 8, {1, 2});
}

// Both steps behind the wait are enqueued after `a` has ended, whichever of them names it.
TEST(Bound, AHostWaitDelaysEverythingEnqueuedLater) {
  ScheduleBuilder built;
  built.Add("a");
  built.Add("before");
  built.Add("b", {.host_after = {0}});
  built.Add("behind");
  ExpectBound(built, {4, 1, 1, 3}, 7, {0, 3});
  ExpectBound(built, {4, 9, 1, 3}, 9, {1});
}

TEST(Bound, AWaitBetweenAHostThreadAndALaneDelaysEverythingEnqueuedLater) {
  Schedule schedule;
  const std::size_t host = schedule.AddLane({.name = "host", .on_host = true});
  const std::size_t device = schedule.AddLane({.name = "device"});
  const std::size_t other = schedule.AddLane({.name = "other"});
  const Work work = WorkNamed("work");
  const std::size_t made = schedule.Add(host, work);
  schedule.Add(device, work, {.after = {made}});
  schedule.Add(other, work);
  const Bound bound = BoundOf(schedule, std::array{4.0, 1.0, 3.0});
  EXPECT_DOUBLE_EQ(bound.total_ms, 7);
  EXPECT_EQ(bound.path, (Steps{0, 2}));
}

TEST(Bound, AHostThreadThatWaitsForItselfDelaysNothingElse) {
  Schedule schedule;
  const std::size_t host = schedule.AddLane({.name = "host", .on_host = true});
  const std::size_t device = schedule.AddLane({.name = "device"});
  const Work work = WorkNamed("work");
  const std::size_t made = schedule.Add(host, work);
  schedule.Add(host, work, {.after = {made}});
  schedule.Add(device, work);
  EXPECT_DOUBLE_EQ(BoundOf(schedule, std::array{4.0, 1.0, 3.0}).total_ms, 5);
}

TEST(Bound, ReportsTheFirstOfEqualPaths) {
  ScheduleBuilder built;
  built.Add("a");
  built.Add("b");
  built.Add("c", {.after = {0, 1}});
  built.Add("d");
  ExpectBound(built, {2, 2, 1, 3}, 3, {0, 2});
}

TEST(Bound, StepsWithoutDurationAreOnNoPath) {
  ScheduleBuilder built;
  built.Add("a");
  built.Add("b", {.after = {0}});
  built.Add("c", {.after = {1}});
  ExpectBound(built, {0, 2, 0}, 2, {1});
}

// ---- Pipelines and supplies, whose bounds have closed formulas

struct StageTimes {
  double in_ms = 0;
  double compute_ms = 0;
  double out_ms = 0;
};

constexpr const char* kIn = "in";
constexpr const char* kCompute = "compute";
constexpr const char* kOut = "out";

// Each part on a lane of its own, each stage on an engine.
Schedule PipelineOf(int parts) {
  Schedule schedule;
  const Work work = WorkNamed("work");
  for (int part = 0; part < parts; ++part) {
    const std::size_t lane = schedule.AddLane({});
    for (const char* engine : {kIn, kCompute, kOut}) schedule.Add(lane, work, {.engine = engine});
  }
  return schedule;
}

std::vector<double> StepsOf(const StageTimes& stages, int parts) {
  std::vector<double> step_ms;
  for (int part = 0; part < parts; ++part) {
    for (const double stage_ms : {stages.in_ms, stages.compute_ms, stages.out_ms})
      step_ms.push_back(stage_ms / parts);
  }
  return step_ms;
}

double PipelineBound_ms(const StageTimes& stages, int parts) {
  return BoundOf(PipelineOf(parts), StepsOf(stages, parts)).total_ms;
}

double FormulaOfPipeline_ms(const StageTimes& stages, int parts) {
  const auto& [in_ms, compute_ms, out_ms] = stages;
  const double slowest_ms = std::max({in_ms, compute_ms, out_ms});
  return (in_ms + compute_ms + out_ms + (parts - 1) * slowest_ms) / parts;
}

// Parts of 1, 2 and 0.5: the first leaves at 3.5, and then one every 2.
TEST(Bound, PipelineIsFillAndDrainPlusTheSlowestStage) {
  EXPECT_DOUBLE_EQ(PipelineBound_ms({3, 5, 2}, 1), 10);
  EXPECT_DOUBLE_EQ(PipelineBound_ms({4, 8, 2}, 4), 9.5);
  EXPECT_DOUBLE_EQ(PipelineBound_ms({8, 2, 4}, 4), 9.5);
  EXPECT_DOUBLE_EQ(PipelineBound_ms({2, 4, 8}, 4), 9.5);
  EXPECT_DOUBLE_EQ(PipelineBound_ms({0, 8, 0}, 16), 8);
  EXPECT_NEAR(PipelineBound_ms({3, 3, 3}, 600), 3.01, 3.01 * kRounding);
}

// Workers on host threads make batches, each at most `ahead` batches ahead of its consumption. The
// host waits for every consumption. Makes and uses alternate as the batches need them.
Schedule SupplyOf(long workers, long batches, long ahead) {
  Schedule schedule;
  const Work work = WorkNamed("work");
  const std::size_t device = schedule.AddLane({.name = "device"});
  for (long i = 0; i < workers; ++i) schedule.AddLane({.name = "worker", .on_host = true});
  Steps made;
  Steps used;
  while (std::ssize(used) < batches) {
    const long batch = std::ssize(made);
    if (batch < batches && batch < std::ssize(used) + ahead) {
      Schedule::StepOptions options;
      if (batch >= ahead) options.after = {used[batch - ahead]};
      made.push_back(schedule.Add(device + 1 + batch % workers, work, options));
      continue;
    }
    Schedule::StepOptions options{.after = {made[std::ssize(used)]}};
    if (!used.empty()) options.host_after = {used.back()};
    used.push_back(schedule.Add(device, work, options));
  }
  return schedule;
}

double SupplyBound_ms(double make_ms, double use_ms, long workers, long batches, long ahead) {
  const Schedule schedule = SupplyOf(workers, batches, ahead);
  std::vector<double> step_ms;
  for (const Schedule::Step& step : schedule.steps())
    step_ms.push_back(step.lane == 0 ? use_ms : make_ms);
  return BoundOf(schedule, step_ms).total_ms;
}

// The device waits either for the first batch only, or for the workers' last turn, whose batches
// arrive at the same time.
TEST(Bound, SupplyIsBoundByTheDeviceOrTheWorkers) {
  constexpr long kBatches = 8;
  constexpr std::array<std::pair<double, double>, 5> kTimes = {
      {{4, 1}, {1, 4}, {4, 0.5}, {2, 2}, {0, 1}}};  // to make, to use
  for (const auto& [make_ms, use_ms] : kTimes) {
    for (const long workers : {1, 2, 3, 4, 8, 100}) {
      const long turns = (kBatches + workers - 1) / workers;
      const long in_last_turn = kBatches - (turns - 1) * workers;
      const double device_ms = make_ms + kBatches * use_ms;
      const double workers_ms =
          static_cast<double>(turns) * make_ms + static_cast<double>(in_last_turn) * use_ms;
      EXPECT_DOUBLE_EQ(SupplyBound_ms(make_ms, use_ms, workers, kBatches, workers * kBatches),
                       std::max(device_ms, workers_ms))
          << workers << " workers, " << make_ms << " + " << use_ms;
    }
  }
}

TEST(Bound, SupplyWithoutPrefetchAlternates) {
  EXPECT_DOUBLE_EQ(SupplyBound_ms(4, 1, 1, 8, 1), 40);
  EXPECT_DOUBLE_EQ(SupplyBound_ms(1, 4, 1, 8, 1), 40);
  EXPECT_DOUBLE_EQ(SupplyBound_ms(4, 1, 16, 1, 1), 5);
}

// ---- ContendedBound_ms

// A pipeline whose copies in and out slow each other down.
double ContendedPipeline_ms(const StageTimes& stages, double in_slowdown, double out_slowdown,
                            int parts) {
  const std::array<Contention, 2> contentions = {
      {{kIn, kOut, in_slowdown}, {kOut, kIn, out_slowdown}}};
  return ContendedBound_ms(PipelineOf(parts), StepsOf(stages, parts), contentions);
}

TEST(ContendedBound, OnePartTakesTheSumOfItsStages) {
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({3, 5, 2}, 4, 4, 1), 10);
}

// Parts of 1 and 1. At 1 the second comes in while the first goes out: both take 2 and not 1. At 3
// the second goes out alone.
TEST(ContendedBound, CopiesThatMeetTakeLonger) {
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({2, 0, 2}, 1, 1, 2), 3);
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({2, 0, 2}, 2, 2, 2), 4);
}

// Parts of 2, 1 and 2. The second comes in alone from 2 to 3, is half done when the first starts
// out, and needs 2 more beside it, to 5; computed to 6, out to 8.
TEST(ContendedBound, AStepIsSlowedOnlyWhileOthersRun) {
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({4, 2, 4}, 1, 1, 2), 7);
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({4, 2, 4}, 2, 1, 2), 8);
}

// Parts of 2, 1 and 2. The first goes out from 3 on, a quarter of it until the second is in at 4,
// and the rest alone until 5.5; the second, computed at 5, follows until 7.5.
TEST(ContendedBound, EachEngineHasItsOwnSlowdown) {
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({4, 2, 4}, 1, 2, 2), 7.5);
}

// Parts of 1, 3 and 1: all is in at 2, the first goes out at 4.
TEST(ContendedBound, StepsThatNeverMeetTakeNoLonger) {
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({2, 6, 2}, 3, 3, 2), 8);
}

TEST(ContendedBound, TerminatesIfAStageTakesNoTime) {
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({0, 8, 0}, 2, 2, 4), 8);
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({8, 0, 0}, 2, 2, 4), 8);
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({0, 0, 8}, 2, 2, 4), 8);
  EXPECT_DOUBLE_EQ(ContendedPipeline_ms({0, 0, 0}, 2, 2, 4), 0);
  EXPECT_DOUBLE_EQ(ContendedBound_ms({}, {}, {}), 0);
}

TEST(ContendedBound, GrowsWithTheSlowdowns) {
  double before_ms = 0;
  for (const double slowdown : {1.0, 1.1, 1.25, 1.5, 2.0, 3.0}) {
    const double time_ms = ContendedPipeline_ms({4, 2, 4}, slowdown, slowdown, 8);
    EXPECT_GT(time_ms, before_ms) << slowdown;
    before_ms = time_ms;
  }
}

// Beside two others, a step that each of them slows twofold takes four times as long.
TEST(ContendedBound, SlowdownsMultiply) {
  ScheduleBuilder built;
  for (const char* name : {"a", "b", "c"}) built.Add(name, {.engine = name});
  const std::array<Contention, 2> contentions = {{{"a", "b", 2}, {"a", "c", 2}}};
  EXPECT_DOUBLE_EQ(ContendedBound_ms(built.schedule, std::array{1.0, 8.0, 8.0}, contentions), 8);
  EXPECT_DOUBLE_EQ(ContendedBound_ms(built.schedule, std::array{2.0, 4.0, 2.0}, contentions), 4.5);
}

// ---- Random schedules

// Numbers that are the same in every run.
class Draw {
 public:
  double Uniform(double least, double most) {
    return least + (most - least) * std::ldexp(Random(1, index_++), -32);
  }
  std::size_t Below(std::size_t limit) {
    return static_cast<std::size_t>(Uniform(0, static_cast<double>(limit)));
  }
  bool OneIn(double n) { return Uniform(0, n) < 1; }

 private:
  long index_ = 0;
};

struct Drawn {
  Schedule schedule;
  std::vector<double> step_ms;
};

Drawn DrawSchedule(Draw& draw) {
  constexpr std::size_t kMostLanes = 4;
  constexpr std::size_t kMostSteps = 20;
  Drawn drawn;
  const std::size_t lanes = 1 + draw.Below(kMostLanes);
  for (std::size_t i = 0; i < lanes; ++i)
    drawn.schedule.AddLane({.name = fmt::format("{}", i), .on_host = draw.OneIn(8)});
  const Work work = WorkNamed("work");
  const std::size_t steps = 1 + draw.Below(kMostSteps);
  for (std::size_t i = 0; i < steps; ++i) {
    Schedule::StepOptions options;
    while (i > 0 && draw.OneIn(2)) options.after.push_back(draw.Below(i));
    while (i > 0 && draw.OneIn(10)) options.host_after.push_back(draw.Below(i));
    if (draw.OneIn(3)) options.engine = fmt::format("engine {}", draw.Below(2));
    drawn.schedule.Add(draw.Below(lanes), work, options);
    drawn.step_ms.push_back(draw.OneIn(8) ? 0 : std::pow(10, draw.Uniform(-3, 3)));
  }
  return drawn;
}

// By the definition in schedule.h, for each pair of steps.
bool MustFollow(const Schedule& schedule, std::size_t later, std::size_t earlier) {
  const Schedule::Step& one = schedule.steps()[later];
  const Schedule::Step& other = schedule.steps()[earlier];
  const auto contains = [](const Steps& steps, std::size_t step) {
    return std::ranges::find(steps, step) != steps.end();
  };
  const bool same_engine =
      !one.options.engine.empty() && one.options.engine == other.options.engine;
  if (one.lane == other.lane || same_engine || contains(one.options.after, earlier)) return true;
  for (std::size_t i = earlier + 1; i <= later; ++i) {  // enqueued before it, or it
    const Schedule::Step& step = schedule.steps()[i];
    const bool one_on_host =
        schedule.lanes()[step.lane].on_host || schedule.lanes()[other.lane].on_host;
    if (contains(step.options.host_after, earlier)) return true;
    if (contains(step.options.after, earlier) && step.lane != other.lane && one_on_host)
      return true;
  }
  return false;
}

// The longest of all paths that end with each step, by relaxing every pair until nothing changes.
std::vector<double> LongestPaths_ms(const Drawn& drawn) {
  std::vector<double> end_ms = drawn.step_ms;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t later = 0; later < end_ms.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        const double through_ms = end_ms[earlier] + drawn.step_ms[later];
        if (through_ms <= end_ms[later] || !MustFollow(drawn.schedule, later, earlier)) continue;
        end_ms[later] = through_ms;
        changed = true;
      }
    }
  }
  return end_ms;
}

// Calls check(drawn) for many schedules, until one fails.
template <class Check>
void ForManySchedules(const Check& check) {
  Draw draw;
  for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("schedule {}", i));
    check(DrawSchedule(draw));
  }
}

TEST(RandomSchedules, HaveTheLongestPathAsTheirBound) {
  ForManySchedules([](const Drawn& drawn) {
    const double longest_ms = std::ranges::max(LongestPaths_ms(drawn));
    EXPECT_NEAR(BoundOf(drawn.schedule, drawn.step_ms).total_ms, longest_ms,
                longest_ms * kRounding);
  });
}

TEST(RandomSchedules, HaveAPathOfConsecutiveStepsAsLongAsTheBound) {
  ForManySchedules([](const Drawn& drawn) {
    const Bound bound = BoundOf(drawn.schedule, drawn.step_ms);
    double sum_ms = 0;
    for (std::size_t i = 0; i < bound.path.size(); ++i) {
      sum_ms += drawn.step_ms[bound.path[i]];
      if (i == 0) continue;
      ASSERT_LT(bound.path[i - 1], bound.path[i]);
      EXPECT_TRUE(MustFollow(drawn.schedule, bound.path[i], bound.path[i - 1]));
    }
    EXPECT_NEAR(sum_ms, bound.total_ms, bound.total_ms * kRounding);
  });
}

TEST(RandomSchedules, HaveTheSameBoundIfEnginesDoNotContend) {
  ForManySchedules([](const Drawn& drawn) {
    const double bound_ms = BoundOf(drawn.schedule, drawn.step_ms).total_ms;
    EXPECT_NEAR(ContendedBound_ms(drawn.schedule, drawn.step_ms, {}), bound_ms,
                bound_ms * kRounding);
    const std::array<Contention, 1> kNone = {{{"engine 0", "engine 1", 1}}};
    EXPECT_NEAR(ContendedBound_ms(drawn.schedule, drawn.step_ms, kNone), bound_ms,
                bound_ms * kRounding);
  });
}

// Two ranks, each with an engine "sms": the ranks compute at the same time, but rank 1 computes
// from rank 0's result only after the transfer.
TEST(BoundOfRanks, IsTheLongestPathThroughAllRanks) {
  Schedule schedule;
  const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  const Work transfer = WorkOfClass(WorkClass::kComm, "transfer");
  for (const int rank : {0, 1}) {
    schedule.AddLane({.name = "comp", .rank = rank});
    schedule.AddLane({.name = "comm", .rank = rank});
  }
  const std::size_t made = schedule.Add(0, compute, {.engine = "sms"});
  schedule.Add(2, compute, {.engine = "sms"});
  schedule.Add(1, transfer, {.after = {made}, .engine = "bus"});
  const std::size_t received = schedule.Add(3, transfer, {.after = {made}});
  schedule.Add(2, compute, {.after = {received}, .engine = "sms"});
  const std::vector<double> step_ms = {10, 11, 2, 2, 5};
  EXPECT_EQ(BoundOf(schedule, step_ms).total_ms, 17);
  EXPECT_EQ(BoundOf(schedule, step_ms).path, (std::vector<std::size_t>{0, 3, 4}));
  // Rank 1 computes while rank 0 sends; that slows none of rank 1's engines.
  const std::array<Contention, 1> kBus = {{{"sms", "bus", 3}}};
  EXPECT_EQ(ContendedBound_ms(schedule, step_ms, kBus), 17);
}

// Calls check(stages, parts, draw) for many pipelines: stages of a microsecond to a second, some of
// no time.
template <class Check>
void ForManyPipelines(const Check& check) {
  Draw draw;
  const auto stage = [&] { return draw.OneIn(8) ? 0.0 : std::pow(10, draw.Uniform(-3, 3)); };
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
    const StageTimes stages = {stage(), stage(), stage()};
    const int parts = static_cast<int>(draw.Uniform(1, 33));
    SCOPED_TRACE(fmt::format("{} + {} + {} ms in {} parts", stages.in_ms, stages.compute_ms,
                             stages.out_ms, parts));
    check(stages, parts, draw);
  }
}

TEST(RandomPipelines, HaveTheFormulaAsTheirBound) {
  ForManyPipelines([](const StageTimes& stages, int parts, Draw& /*draw*/) {
    const double ideal_ms = FormulaOfPipeline_ms(stages, parts);
    EXPECT_NEAR(PipelineBound_ms(stages, parts), ideal_ms, ideal_ms * kRounding);
  });
}

// At best no copy is slowed, at worst each one always.
TEST(RandomPipelines, LieBetweenTheIdealAndThatOfSlowCopies) {
  ForManyPipelines([](const StageTimes& stages, int parts, Draw& draw) {
    const double in = draw.Uniform(1, 3);
    const double out = draw.Uniform(1, 3);
    const StageTimes slow = {stages.in_ms * in, stages.compute_ms, stages.out_ms * out};
    const double time_ms = ContendedPipeline_ms(stages, in, out, parts);
    EXPECT_GE(time_ms, FormulaOfPipeline_ms(stages, parts) * (1 - kRounding));
    EXPECT_LE(time_ms, FormulaOfPipeline_ms(slow, parts) * (1 + kRounding));
  });
}

}  // namespace
}  // namespace overlapbench
