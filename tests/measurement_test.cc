// What a measurement says of groups whose truth is known: medians by name, costs, times alone and
// bounds; the rates made of them; and the solo runs that a bound needs.
#include "fixtures/measurement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_workload.h"
#include "fixtures/benchmark.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

// A sample in which the lanes ran so.
Sample Ran(std::vector<TimeSpan> lanes, std::vector<TimeSpan> steps = {}) {
  Sample sample;
  for (const TimeSpan& lane : lanes) {
    sample.total_ms = std::max(sample.total_ms, lane.end_ms);
    sample.enqueue_ms.push_back(0);
  }
  sample.lanes = std::move(lanes);
  sample.steps = std::move(steps);
  return sample;
}
// A sample of one lane.
Sample Took(double time_ms) { return Ran({{0, time_ms}}); }

class MeasurementTest : public testing::Test {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's

  Work AddWork(const std::string& name, Behaviour& behaviour) {
    return FakeWork(name, WorkClass::kCompute, behaviour);
  }
  // The measurement of these runs from `groups`.
  const Measurement& Measure(const std::vector<Run>& runs, std::vector<Group> groups = {}) {
    const std::vector<Axis> axes = {ChoiceAxis("cache", "", {"warm"}, "warm"),
                                    ChoiceAxis("cadence", "", {"isolated"}, "isolated")};
    groups_ = std::move(groups);
    session_ = std::make_unique<Session>(Machine{*device_, TestRanks()},
                                         Benchmark{.name = "Family/Row",
                                                   .settings = SettingsOf(axes, {}),
                                                   .runs = [runs](const Settings&) { return runs; },
                                                   .report = {}});
    session_->SetUp(true);
    measurement_ = std::make_unique<Measurement>(*session_, groups_);
    return *measurement_;
  }
  // Both alone, and both on two lanes, each step timed.
  std::vector<Run> Pair() {
    Run both{.name = "both", .timed = Timed::kSteps};
    both.schedule.Add(both.schedule.AddLane({"A"}), AddWork("a", a_));
    both.schedule.Add(both.schedule.AddLane({"B"}), AddWork("b", b_));
    return WithSoloRuns(both);
  }

  Behaviour a_;
  Behaviour b_;
  std::unique_ptr<Device> device_ = OpenHostDevice(1);
  std::vector<Group> groups_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Measurement> measurement_;
};

TEST_F(MeasurementTest, FindsRunsByName) {
  const Measurement& measurement = Measure(Pair());
  EXPECT_EQ(measurement.own().name, "both");
  EXPECT_EQ(measurement.run("b").schedule.steps().size(), 1U);
  EXPECT_TRUE(measurement.Has("a"));
  EXPECT_FALSE(measurement.Has("c"));
  EXPECT_THROW(static_cast<void>(measurement.run("c")), Error);
  EXPECT_THROW(static_cast<void>(measurement.Total_ms("c")), Error);
  EXPECT_EQ(measurement.settings().Text("cache"), "warm");
  EXPECT_EQ(&measurement.device(), device_.get());
}

// One disturbed group of three changes nothing.
TEST_F(MeasurementTest, TimesAreMediansOfTheRunTheLaneAndTheStep) {
  std::vector<Group> groups;
  for (const double factor : {1.0, 100.0, 1.0}) {
    const auto span = [&](double begin_ms, double end_ms) {
      return TimeSpan{factor * begin_ms, factor * end_ms};
    };
    groups.push_back({Took(factor * 2), Took(factor * 3),
                      Ran({span(0, 4), span(1, 5)}, {span(0.5, 3.5), span(1.5, 4.5)})});
  }
  const Measurement& measurement = Measure(Pair(), groups);
  EXPECT_DOUBLE_EQ(measurement.Total_ms("a").median(), 2);
  EXPECT_DOUBLE_EQ(measurement.Total_ms("b").median(), 3);
  EXPECT_DOUBLE_EQ(measurement.Total_ms().median(), 5);
  EXPECT_EQ(measurement.Total_ms("a").values(), (std::vector{2.0, 200.0, 2.0}));
  EXPECT_DOUBLE_EQ(measurement.LaneOwn_ms("both", "B").median(), 4);
  EXPECT_DOUBLE_EQ(measurement.StepOwn_ms("both", "b").median(), 3);
  const TimeSpan step = measurement.Step("both", "b");
  EXPECT_DOUBLE_EQ(step.begin_ms, 1.5);
  EXPECT_DOUBLE_EQ(step.end_ms, 4.5);
  EXPECT_THROW(static_cast<void>(measurement.LaneOwn_ms("both", "b")), Error);
  EXPECT_THROW(static_cast<void>(measurement.Step("both", "B")), Error);
}

// The times differ by a tenth, and so does their ratio to the other run that does not drift.
TEST_F(MeasurementTest, TheMarginIsTheWiderOfTheTimesAndTheRatiosToTheLongestBaseline) {
  const auto margin = [&](auto other_ms) {
    std::vector<Group> groups;
    for (int i = 0; i < 11; ++i) {
      const double own_ms = 10 + 0.1 * (i % 3);
      groups.push_back({Took(1), Took(other_ms(own_ms, i)), Took(own_ms)});
    }
    return Measure(Pair(), groups).Margin();
  };
  const double drifting = margin([](double own_ms, int) { return own_ms / 2; });
  const double steady = margin([](double, int) { return 5.0; });
  const double noisy = margin([](double, int i) { return i % 2 == 0 ? 5.0 : 8.0; });
  EXPECT_GT(drifting, 0);
  EXPECT_NEAR(steady, drifting, 1e-9);
  EXPECT_GT(noisy, 10 * drifting);
}

// A row of one callable takes 10 ms. The time of an empty run on the host varies by half, and so
// does that of a run with the host's launches.
TEST_F(MeasurementTest, AnEmptyRunAndTheHostsPartAreNoBaselines) {
  const auto margin = [&](bool is_empty, bool gated = true, bool own_gated = true) {
    std::vector<Run> runs = Pair();
    runs.erase(runs.begin());
    runs.front().is_empty = is_empty;
    runs.front().gated = gated;
    runs.back().gated = own_gated;
    std::vector<Group> groups;
    for (int i = 0; i < 11; ++i) groups.push_back({Took(i % 2 == 0 ? 0.02 : 0.03), Took(10)});
    return Measure(runs, groups).Margin();
  };
  EXPECT_DOUBLE_EQ(margin(true), 0);
  EXPECT_GT(margin(false), 0.1);
  EXPECT_DOUBLE_EQ(margin(false, false), 0);
  EXPECT_GT(margin(false, false, false), 0.1);
}

// Zeros would pass for measured times.
TEST_F(MeasurementTest, ReadingTimesThatARunDoesNotRecordIsAnError) {
  const auto refusal = [](const auto& read) -> std::string {
    try {
      static_cast<void>(read());
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  std::vector<Run> runs(3);
  for (Run& run : runs) {
    run.schedule.Add(run.schedule.AddLane({"A"}), AddWork("a", a_));
    run.schedule.Add(run.schedule.AddLane({.name = "worker", .on_host = true}), AddWork("b", b_));
  }
  runs[0].name = "total";
  runs[1].name = "lanes";
  runs[1].timed = Timed::kLanes;
  runs[2].name = "steps";
  runs[2].timed = Timed::kSteps;
  const Sample sample = Ran({{0, 1}, {}}, {{0, 1}, {}});
  const Measurement& measurement = Measure(runs, {{sample, sample, sample}});
  EXPECT_EQ(refusal([&] { return measurement.LaneOwn_ms("total", "A"); }),
            "run 'total' does not time its lanes: set Run::timed");
  EXPECT_EQ(refusal([&] { return measurement.Step("total", "a"); }),
            "run 'total' does not time its steps: set Run::timed");
  EXPECT_EQ(refusal([&] { return measurement.Step("lanes", "a"); }),
            "run 'lanes' does not time its steps: set Run::timed");
  EXPECT_EQ(refusal([&] { return measurement.LaneOwn_ms("lanes", "worker"); }),
            "run 'lanes': what runs on the host thread 'worker' has no times");
  EXPECT_EQ(refusal([&] { return measurement.Step("steps", "b"); }),
            "run 'steps': what runs on the host thread 'worker' has no times");
  for (const char* run : {"lanes", "steps"})
    EXPECT_EQ(measurement.LaneOwn_ms(run, "A").median(), 1);
  EXPECT_EQ(measurement.Step("steps", "a").end_ms, 1);
}

TEST_F(MeasurementTest, TheEnqueueTimeIsThatOfTheFirstLane) {
  Group group = {Took(1), Took(1), Ran({{0, 1}, {0, 1}})};
  group[2].enqueue_ms = {0.25, 7};
  EXPECT_DOUBLE_EQ(Measure(Pair(), {group}).Enqueue_ms("both").median(), 0.25);
}

TEST_F(MeasurementTest, ARunsCostIsTheSumOverItsWorks) {
  a_.cost = {.flops = 1,
             .moved_bytes = 20,
             .cached_bytes = 5,
             .copied_bytes = 300,
             .host_bytes = 200,
             .memory_bytes = 7,
             .wire_bytes = 4000,
             .bus_factor = 1.5};
  b_.cost = {.flops = 2,
             .moved_bytes = 30,
             .cached_bytes = 6,
             .copied_bytes = 400,
             .host_bytes = 50,
             .memory_bytes = 8,
             .wire_bytes = 5000,
             .bus_factor = 1.25};
  const Cost cost = Measure(Pair()).CostOf("both");
  EXPECT_DOUBLE_EQ(cost.flops, 3);
  EXPECT_DOUBLE_EQ(cost.moved_bytes, 50);
  EXPECT_DOUBLE_EQ(cost.cached_bytes, 11);
  EXPECT_DOUBLE_EQ(cost.copied_bytes, 700);
  EXPECT_DOUBLE_EQ(cost.host_bytes, 250);
  EXPECT_DOUBLE_EQ(cost.memory_bytes, 15);
  EXPECT_DOUBLE_EQ(cost.wire_bytes, 9000);
  EXPECT_DOUBLE_EQ(cost.bus_factor, 1.5);
  EXPECT_DOUBLE_EQ(measurement_->CostOf("b").flops, 2);
}

TEST_F(MeasurementTest, PartsCostAsMuchAsTheWholeAndTwoPassesTwice) {
  a_.cost.flops = 12;
  const Work work = AddWork("a", a_);
  Run parts{.name = "parts"};
  Run twice{.name = "twice"};
  const std::size_t lane = parts.schedule.AddLane({"lane"});
  for (long i = 0; i < 3; ++i) parts.schedule.Add(lane, work, {.part = {i, 3}});
  twice.schedule.AddLane({"lane"});
  for (int i = 0; i < 2; ++i) twice.schedule.Add(lane, work);
  const Measurement& measurement = Measure({parts, twice});
  EXPECT_DOUBLE_EQ(measurement.CostOf("parts").flops, 12);
  EXPECT_DOUBLE_EQ(measurement.CostOf("twice").flops, 24);
}

TEST_F(MeasurementTest, WorkOfOtherRanksCostsNothingHere) {
  a_.cost.flops = 12;
  const Work work = AddWork("a", a_);
  Run run{.name = "run"};
  const int own = TestRanks().rank();
  for (const int rank : {own, own + 1, own + 1})
    run.schedule.Add(run.schedule.AddLane({.name = "lane", .rank = rank}), work);
  EXPECT_DOUBLE_EQ(Measure({run}).CostOf("run").flops, 12);
}

// That of a run is its largest, and the first of such.
TEST_F(MeasurementTest, AProductIsReportedByItsSizes) {
  a_.cost.product = {2, 3, 4};
  b_.cost.product = {5, 6, 7};
  for (const bool swaps : {false, true}) {
    if (swaps) std::swap(a_.cost, b_.cost);
    Counters counters;
    ReportProduct(Measure(Pair()).CostOf("both").product, counters);
    EXPECT_EQ(counters.at("m"), 5);
    EXPECT_EQ(counters.at("n"), 6);
    EXPECT_EQ(counters.at("k"), 7);
  }
  a_.cost.product = {7, 6, 5};
  b_.cost.product = {5, 6, 7};
  EXPECT_EQ(Measure(Pair()).CostOf("both").product.m, 7);
  Counters none;
  ReportProduct({}, none);
  EXPECT_TRUE(none.empty());
}

TEST_F(MeasurementTest, WhatAStepDidNotObserveIsAnError) {
  EXPECT_THROW(static_cast<void>(Measure(Pair()).Observed("both", "a")), Error);
}

TEST_F(MeasurementTest, ResultsAreIdenticalOnlyIfBothAreKnown) {
  a_.fingerprint = b_.fingerprint = 7;
  EXPECT_TRUE(Measure(Pair()).Identical("a", "b"));
  b_.fingerprint = 8;
  EXPECT_FALSE(Measure(Pair()).Identical("a", "b"));
  a_.fingerprint = b_.fingerprint = std::nullopt;
  EXPECT_FALSE(Measure(Pair()).Identical("a", "b"));
}

// Four parts of `in` on one engine, and of `use` on four lanes: alone 8 ms, a part 2, and 3 ms. On
// their engine as in the pipeline, the four take `engine_ms`.
class PipelineTest : public MeasurementTest {
 protected:
  const Measurement& MeasurePipeline(double own_ms, double engine_ms = 8, double in_ms = 8) {
    Run run{.name = "pipeline"};
    const Work in = AddWork("in", a_);
    const Work use = AddWork("use", b_);
    for (long i = 0; i < 4; ++i) {
      const std::size_t lane = run.schedule.AddLane({std::to_string(i)});
      run.schedule.Add(lane, in, {.part = {i, 4}, .engine = "bus"});
      run.schedule.Add(lane, use, {.part = {i, 4}});
    }
    Group group = {Took(in_ms), Took(3), Took(engine_ms), Took(own_ms)};
    group[1].lanes.resize(4);
    return Measure(WithSoloRuns(run), {group});
  }
};

TEST_F(PipelineTest, AStepAloneTakesItsPartOfTheLongestLane) {
  const Measurement& measurement = MeasurePipeline(16);
  const std::vector<Work> works = measurement.own().schedule.works();
  EXPECT_DOUBLE_EQ(measurement.StepAlone_ms(works[0], 4).median(), 2);
  EXPECT_DOUBLE_EQ(measurement.StepAlone_ms(works[1], 4).median(), 3);
  // All of `use` on one lane.
  EXPECT_DOUBLE_EQ(measurement.StepAlone_ms(works[1], 1).median(), 12);
}

// The last part is in at 8 and used at 11.
TEST_F(PipelineTest, TheBoundUsesTimesAlone) {
  const Measurement& measurement = MeasurePipeline(16);
  const Bound bound = measurement.MedianBound();
  EXPECT_DOUBLE_EQ(bound.total_ms, 11);
  EXPECT_EQ(bound.path, (std::vector<std::size_t>{0, 2, 4, 6, 7}));
  Counters counters;
  ReportBound(measurement, counters);
  EXPECT_DOUBLE_EQ(counters.at("bound_ms"), 11);
  EXPECT_DOUBLE_EQ(counters.at("pct_of_bound"), 68.75);
}

// Launches are hidden there, and caches are warm: a part takes 1.5 ms instead of 2.
TEST_F(PipelineTest, StepsOfAnEngineTakeAsLongTogetherAsTheyDoThere) {
  const Measurement& measurement = MeasurePipeline(16, 6);
  EXPECT_DOUBLE_EQ(measurement.MedianBound().total_ms, 4 * 1.5 + 3);
  EXPECT_EQ(measurement.Bound_ms().values(), std::vector<double>{4 * 1.5 + 3});
}

TEST_F(PipelineTest, StepsThatTakeNoTimeTakeNoneOnTheirEngine) {
  EXPECT_DOUBLE_EQ(MeasurePipeline(16, 6, 0).MedianBound().total_ms, 3);
}

// Rank 1 takes 3 ms where rank 0 takes 2; all ranks together took 1 ms to send.
TEST_F(MeasurementTest, AStepOfOneRankTakesAsLongAloneAsOnThatRank) {
  Run run{.name = "run"};
  const Work compute = AddWork("compute", a_);
  const Work send = FakeWork("send", WorkClass::kComm, b_);
  const std::size_t first = run.schedule.AddLane({.name = "0", .rank = 0});
  const std::size_t link = run.schedule.AddLane({.name = "link"});
  const std::size_t second = run.schedule.AddLane({.name = "1", .rank = 1});
  for (int i = 0; i < 2; ++i) run.schedule.Add(first, compute);
  const std::size_t sent = run.schedule.Add(link, send, {.after = {1}});
  run.schedule.Add(second, compute, {.after = {sent}});
  Sample computed = Took(4);
  computed.ranks = {{.time_ms = 4}, {.time_ms = 3}};
  const Measurement& measurement = Measure(WithSoloRuns(run), {{computed, Took(1), Took(8)}});
  EXPECT_EQ(measurement.Bound_ms().values(), std::vector<double>{2 * 2 + 1 + 3});
  EXPECT_DOUBLE_EQ(measurement.MedianBound().total_ms, 2 * 2 + 1 + 3);
}

// Six groups of the pipeline, whose bound is 11 ms. On its fastest rank, `in` takes `least_ms`.
class BeatenBoundTest : public PipelineTest {
 protected:
  BeatenBound Beaten(double own_ms, double least_ms = 8) {
    MeasurePipeline(own_ms);
    for (Sample& sample : groups_.front()) sample.least_ms = sample.total_ms;
    groups_.front()[0].least_ms = groups_.front()[2].least_ms = least_ms;
    const Group group = groups_.front();
    groups_.assign(6, group);
    return measurement_->Beaten();
  }
};

TEST_F(BeatenBoundTest, IsOneIfTheRowTookLess) {
  EXPECT_EQ(Beaten(11).fault, "");
  EXPECT_EQ(Beaten(12).fault, "");
  const BeatenBound beaten = Beaten(10);
  EXPECT_EQ(beaten.fault, "it took 10 ms, less than its bound of 11 ms");
  EXPECT_FALSE(beaten.is_explained);
}

// From 7 + 3 ms on.
TEST_F(BeatenBoundTest, IsExplainedByRanksThatAreFasterAtAStep) {
  EXPECT_FALSE(Beaten(10, 7.2).is_explained);
  const BeatenBound beaten = Beaten(10, 6.8);
  EXPECT_TRUE(beaten.is_explained);
  EXPECT_EQ(beaten.fault,
            "it took 10 ms, less than its bound of 11 ms: uneven ranks, whose fastest give 9.8 ms");
}

TEST_F(BeatenBoundTest, IsExplainedByCopiesOfSeveralRanks) {
  a_.cost.copied_bytes = 1;
  EXPECT_FALSE(Beaten(10).is_explained) << "GPUs' own links are not shared";
  a_.cost.host_bytes = 1;
  const BeatenBound beaten = Beaten(10);
  EXPECT_EQ(beaten.is_explained, TestRanks().size() > 1);
  const bool is_said = beaten.fault.ends_with(": the ranks' copies alone share links and memory");
  EXPECT_EQ(is_said, TestRanks().size() > 1);
}

// What stands on one lane is not compared with anything shorter than itself.
TEST_F(MeasurementTest, OneLaneIsItsOwnBound) {
  Run run{.name = "turn"};
  const std::size_t lane = run.schedule.AddLane({"lane"});
  run.schedule.Add(lane, AddWork("a", a_));
  run.schedule.Add(lane, AddWork("b", b_));
  const Measurement& measurement = Measure(WithSoloRuns(run), {{Took(3), Took(4), Took(5)}});
  EXPECT_EQ(measurement.Bound_ms().values(), std::vector<double>{5});
}

// Each group's times alone bound that group: 11 of 16 ms, then 22 of 32.
TEST_F(PipelineTest, TheBoundIsPairedWithItsGroup) {
  MeasurePipeline(16);
  const Group slow = {Took(16), Took(6), Took(16), Took(32)};
  groups_.push_back(slow);
  groups_.back()[1].lanes.resize(4);
  Counters counters;
  ReportBound(*measurement_, counters);
  EXPECT_EQ(measurement_->Bound_ms().values(), (std::vector<double>{11, 22}));
  const auto pct_of_bound = counters.at("pct_of_bound").interval.value_or(Interval{});
  EXPECT_DOUBLE_EQ(pct_of_bound.low, 68.75);
  EXPECT_DOUBLE_EQ(pct_of_bound.high, 68.75);
  const auto bound_ms = counters.at("bound_ms").interval.value_or(Interval{});
  EXPECT_LT(bound_ms.low, bound_ms.high);
}

// Three parts come in while an earlier one is used: the second from 2 on, half as fast until 5.
TEST_F(PipelineTest, TheContendedBoundUsesTimesAlone) {
  const Measurement& measurement = MeasurePipeline(16);
  EXPECT_DOUBLE_EQ(measurement.ContendedBound_ms({}), 11);
  const std::array<Contention, 1> contentions = {{{"bus", "lane 0", 2}}};
  // In the 3 ms for which the first part is used, 1.5 ms of the copies are done.
  EXPECT_DOUBLE_EQ(measurement.ContendedBound_ms(contentions), 12.5);
}

// ---- Rates

std::map<std::string, double> RatesOf(const Cost& cost, double time_ms) {
  Counters counters;
  ReportRates(cost, Series({time_ms}), counters);
  return {counters.begin(), counters.end()};
}
using Rates = std::map<std::string, double>;

TEST(Rates, OnlyApplicableRatesAreReported) {
  EXPECT_EQ(RatesOf({}, 2), Rates{});
  EXPECT_EQ(RatesOf({.flops = 4e9}, 2), (Rates{{"TFLOPs", 2}}));
  EXPECT_EQ(RatesOf({.moved_bytes = 6e6}, 2), (Rates{{"GBps", 3}}));
  EXPECT_EQ(RatesOf({.cached_bytes = 10e6}, 2), (Rates{{"GBps", 5}}));
  EXPECT_EQ(RatesOf({.copied_bytes = 8e6}, 2), (Rates{{"GBps", 4}}));
  EXPECT_EQ(RatesOf({.wire_bytes = 8e6, .bus_factor = 1.5}, 2),
            (Rates{{"algbw_GBps", 4}, {"busbw_GBps", 6}}));
}

TEST_F(MeasurementTest, ABaselineReportsItsOwnRates) {
  a_.cost.flops = 4e9;
  b_.cost.flops = 8e9;
  const Measurement& measurement =
      Measure({SoloRun(AddWork("b", b_)), SoloRun(AddWork("a", a_))}, {{Took(1), Took(2)}});
  Counters counters;
  const Remark remark = ReportOwnRates(measurement, counters);
  EXPECT_EQ(remark.state, RowState::kOk);
  EXPECT_EQ(remark.reason, "");
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_DOUBLE_EQ(counters.at("TFLOPs"), 2);
}

// ---- Runs

TEST(WithSoloRuns, AddsARunOfEachWorkTimedLikeTheWhole) {
  const Behaviour behaviour;
  overlapbench::Run run{.name = "both", .gated = false, .timed = Timed::kSteps};
  const Work a = FakeWork("a", WorkClass::kCompute, behaviour);
  const Work b = FakeWork("b", WorkClass::kComm, behaviour);
  const std::size_t first = run.schedule.Add(run.schedule.AddLane({"A"}), b);
  run.schedule.Add(run.schedule.AddLane({"B"}), a, {.after = {first}});
  run.schedule.leader = 0;
  const std::vector<overlapbench::Run> runs = WithSoloRuns(run);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].name, "b");
  EXPECT_EQ(runs[1].name, "a");
  EXPECT_EQ(runs[2].name, "both");
  for (const std::size_t solo : {0, 1}) {
    EXPECT_EQ(runs[solo].schedule.works(), std::vector<Work>{solo == 0 ? b : a});
    EXPECT_FALSE(runs[solo].gated);
    EXPECT_EQ(runs[solo].timed, Timed::kSteps);
  }
  EXPECT_EQ(runs[2].schedule.steps().size(), 2U);
  EXPECT_EQ(runs[2].schedule.leader, 0U);
}

// Works take turns on lane "A", and lanes on the engine "bus". Lane "C" has one work alone, and "D"
// is one rank's.
TEST(WithSoloRuns, AddsARunOfEachEngineOnWhichWorksOrLanesTakeTurns) {
  const Behaviour behaviour;
  overlapbench::Run run{.name = "all", .gated = false};
  const Work a = FakeWork("a", WorkClass::kCompute, behaviour);
  const Work b = FakeWork("b", WorkClass::kComm, behaviour);
  for (const char* name : {"A", "B", "C"}) run.schedule.AddLane({name});
  run.schedule.AddLane({.name = "D", .rank = 0});
  const std::size_t in = run.schedule.Add(1, b, {.part = {0, 2}, .engine = "bus"});
  run.schedule.Add(0, a, {.after = {in}, .name = "first"});
  const std::size_t last = run.schedule.Add(0, b, {.part = {1, 2}, .host_after = {in}});
  run.schedule.Add(2, a, {.after = {last}});
  run.schedule.Add(2, a);
  run.schedule.Add(1, b, {.engine = "bus"});
  run.schedule.Add(0, b, {.engine = "bus"});
  for (const Work& work : {a, b}) run.schedule.Add(3, work);
  const std::vector<overlapbench::Run> runs = WithSoloRuns(run);
  ASSERT_EQ(runs.size(), 5U);
  EXPECT_EQ(runs[2].name, "bus alone");
  EXPECT_EQ(runs[2].alone, (std::vector<std::size_t>{0, 5, 6}));
  EXPECT_EQ(runs[3].name, "A alone");
  EXPECT_EQ(runs[3].alone, (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(runs[4].alone.empty());
  for (const int engine : {2, 3}) {
    EXPECT_FALSE(runs[engine].gated);
    EXPECT_FALSE(runs[engine].is_verified);
    EXPECT_EQ(runs[engine].schedule.lanes().size(), 4U);
    for (const auto& step : runs[engine].schedule.steps())
      EXPECT_TRUE(step.options.after.empty() && step.options.host_after.empty());
  }
  const auto& steps = runs[3].schedule.steps();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].name, "first");
  EXPECT_EQ(steps[0].work, a);
  EXPECT_EQ(steps[1].work, b);
  EXPECT_EQ(steps[1].options.part.index, 1);
}

// A row of `computations` and as many communications on a lane each.
Benchmark Predictable(int computations, const std::string& owned = "") {
  static const Behaviour kNothing;
  return {.name = "Family/Row",
          .settings = Settings().With("comm_priority", "2"),
          .runs =
              [=](const Settings&) {
                overlapbench::Run run{.name = "pattern"};
                run.schedule.AddLane({.name = "comm"});
                run.schedule.AddLane(owned.empty() ? Schedule::Lane{.name = "comp"}
                                                   : Schedule::Lane{.name = "comp", .rank = 0});
                for (int i = 0; i < computations; ++i) {
                  const std::string name = std::to_string(i);
                  run.schedule.Add(0, FakeWork("send " + name, WorkClass::kComm, kNothing));
                  run.schedule.Add(1, FakeWork("make " + name, WorkClass::kCompute, kNothing));
                }
                return std::vector{overlapbench::Run{.name = "send 0 beside make 1",
                                                     .schedule = run.schedule.WithoutSteps()},
                                   run};
              },
          .report = {},
          .is_predictable = true};
}

// Before the row's own run, unless it has such a run already.
TEST(MakeRuns, AddsPairsOfWorksToRowsThatArePredicted) {
  const auto names = [](const Benchmark& benchmark) {
    std::vector<std::string> found;
    for (const auto& run : MakeRuns(benchmark)) found.push_back(run.name);
    return found;
  };
  Benchmark benchmark = Predictable(2);
  EXPECT_EQ(names(benchmark),
            (std::vector<std::string>{"send 0 beside make 1", "send 0 beside make 0",
                                      "send 1 beside make 0", "send 1 beside make 1", "pattern"}));
  const overlapbench::Run pair = MakeRuns(benchmark)[1];
  EXPECT_EQ(pair.timed, Timed::kLanes);
  EXPECT_FALSE(pair.is_verified);
  EXPECT_EQ(pair.schedule.leader, 0U);
  EXPECT_EQ(pair.schedule.works().front()->name, "send 0");
  EXPECT_EQ(MakeRuns(Predictable(6)).size(), 24 + 1U)
      << "24 of 36 pairs, one the row's own, and the pattern";
  EXPECT_EQ(MakeRuns(Predictable(1)).size(), 2U) << "two steps are a pair already";
  EXPECT_EQ(MakeRuns(Predictable(2, "by rank 0")).size(), 2U);
  benchmark.is_predictable = false;
  EXPECT_EQ(MakeRuns(benchmark).size(), 2U);
}

TEST(MakeRuns, PrioritizesCommunicationsWhereTheRowSaysSo) {
  Benchmark benchmark = Predictable(2);
  EXPECT_EQ(MakeRuns(benchmark).back().schedule.lanes()[0].priority, 0);
  benchmark.prioritizes_comm = true;
  for (const auto& run : MakeRuns(benchmark)) {
    if (run.schedule.steps().empty()) continue;
    EXPECT_EQ(run.schedule.lanes()[0].priority, 2) << run.name;
    EXPECT_EQ(run.schedule.lanes()[1].priority, 0) << run.name;
  }
}

TEST(SoloRun, IsTheWorkOnOneLaneOfItsClass) {
  const Behaviour behaviour;
  const Work work = FakeWork("copy", WorkClass::kMemory, behaviour);
  const overlapbench::Run run = SoloRun(work, false);
  EXPECT_EQ(run.name, "copy");
  EXPECT_FALSE(run.gated);
  ASSERT_EQ(run.schedule.lanes().size(), 1U);
  EXPECT_EQ(run.schedule.lanes()[0].name, "MEM");
  EXPECT_EQ(run.schedule.works(), std::vector<Work>{work});
  EXPECT_TRUE(SoloRun(work).gated);
}

}  // namespace
}  // namespace overlapbench
