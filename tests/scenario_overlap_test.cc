// What rows of Overlap and Priority report of samples whose truth is known: counters, and what the
// row says of itself. Times in milliseconds.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "scenarios.h"

namespace overlapbench {
namespace {

// ---- Overlap

// A computation of 4 ms and a communication of 2 ms that ran so when both were started at once.
Timings Overlapped(TimeSpan comp, TimeSpan comm) {
  return {{"comp", Took(4)}, {"comm", Took(2)}, {"overlap", Ran({{"comp", comp}, {"comm", comm}})}};
}

class OverlapReport : public testing::Test {
 protected:
  Reported Report(TimeSpan comp, TimeSpan comm) { return pair_.Report(Overlapped(comp, comm)); }
  ScenarioReport pair_{"Overlap/AllToAll+Gemm"};
};

TEST_F(OverlapReport, PerfectOverlapNeedsNoRemark) {
  const Reported row = Report({0, 4}, {0, 2});
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("efficiency"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("coverage"), 1);
}

// Both held each other up: the computation took 5 of its 4, the communication 3 of its 2.
TEST_F(OverlapReport, HasThreeTimesAndWhatFollowsFromThem) {
  const Reported row = Report({0, 5}, {0, 3});
  ExpectCounters(row, {{"comp_ms", 4},
                       {"comm_ms", 2},
                       {"overlap_ms", 5},
                       {"slowdown", 1.25},
                       {"speedup", 1.2},
                       {"efficiency", 0.5},
                       {"hidden_comm", 0.5},
                       {"comp_slowdown", 1.25},
                       {"comm_slowdown", 1.5},
                       {"exposed_comm_ms", 1},
                       {"coverage", 1}});
  EXPECT_EQ(row.state, RowState::kOk);
}

// 6 MB on the wire in the 3 ms for which it ran beside the computation.
TEST_F(OverlapReport, RatesAreTheCommunicationsWhileOverlapped) {
  Cost cost;
  cost.wire_bytes = 6e6;
  cost.bus_factor = 1.5;
  pair_.Costs("comm", cost);
  Cost of_computation;
  of_computation.flops = 1e9;
  pair_.Costs("comp", of_computation);
  const Reported row = Report({0, 5}, {1, 4});
  EXPECT_DOUBLE_EQ(row.counters.at("algbw_GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("busbw_GBps"), 3);
  EXPECT_FALSE(row.counters.contains("TFLOPs"));
}

TEST_F(OverlapReport, OneStreamIsAFault) {
  const Reported row = Report({2, 6}, {0, 2});
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason.find("not overlapped"), 0U) << row.reason;
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1.5);
}

TEST(OverlapControl, MustNotOverlapOnOneStream) {
  ScenarioReport control("Overlap/SecondDelay+Delay", {{"streams", "1"}});
  const Reported passed = control.Report(Overlapped({2, 6}, {0, 2}));
  EXPECT_EQ(passed.state, RowState::kControl);
  EXPECT_DOUBLE_EQ(passed.counters.at("slowdown"), 1.5);
  const Reported failed = control.Report(Overlapped({0, 4}, {0, 2}));
  EXPECT_EQ(failed.state, RowState::kInvalid);
  EXPECT_EQ(failed.reason.find("the negative control overlapped"), 0U) << failed.reason;
}

// Both end within 1.9 ms, although one takes 4 ms alone.
TEST_F(OverlapReport, WhatNothingCanDoIsNoise) {
  const std::vector<Timings> groups(5, Overlapped({0, 1.9}, {0, 1}));
  const Reported row = pair_.ReportAll(groups);
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_EQ(row.reason.find("both together took 0.475"), 0U) << row.reason;
  // Within 2 % it may be the noise of a good measurement.
  EXPECT_EQ(pair_.ReportAll(std::vector<Timings>(5, Overlapped({0, 3.95}, {0, 2}))).state,
            RowState::kOk);
}

TEST_F(OverlapReport, SerializationByTheDeviceIsAStateThatNamesWhoWaited) {
  const Reported computation = Report({0, 6}, {0, 2});
  EXPECT_EQ(computation.state, RowState::kSerialized);
  EXPECT_EQ(computation.reason.find("computation waited"), 0U) << computation.reason;
  const Reported communication = Report({0, 4}, {0, 6});
  EXPECT_EQ(communication.state, RowState::kSerialized);
  EXPECT_EQ(communication.reason.find("communication waited"), 0U) << communication.reason;
}

// One disturbed group of many changes nothing.
TEST_F(OverlapReport, CountersAreOfTheMedians) {
  std::vector<Timings> groups(5, Overlapped({0, 4}, {0, 2}));
  groups[2] = Overlapped({0, 400}, {0, 200});
  const Reported row = pair_.ReportAll(groups);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_DOUBLE_EQ(row.counters.at("overlap_ms"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
}

TEST(OverlapRuns, PutBothSidesOnOneLaneOnRequest) {
  const Schedule two = ScenarioReport("Overlap/SecondDelay+Delay").runs().back().schedule;
  ASSERT_EQ(two.lanes().size(), 2U);
  EXPECT_NE(two.steps()[0].lane, two.steps()[1].lane);
  const Schedule one =
      ScenarioReport("Overlap/SecondDelay+Delay", {{"streams", "1"}}).runs().back().schedule;
  ASSERT_EQ(one.lanes().size(), 1U);
  EXPECT_EQ(one.steps().size(), 2U);
}

// The communication is enqueued first, whichever side leads.
TEST(OverlapRuns, LetTheSideLeadThatIsAskedFor) {
  for (const char* first : {"comp", "comm", "none"}) {
    const Schedule schedule =
        ScenarioReport("Overlap/AllToAll+Gemm", {{"first", first}}).runs().back().schedule;
    EXPECT_EQ(schedule.steps()[0].name, "comm");
    if (first == std::string("none"))
      EXPECT_FALSE(schedule.leader.has_value());
    else
      EXPECT_EQ(schedule.leader, schedule.steps()[schedule.StepNamed(first)].lane) << first;
  }
}

// ---- Priority

// Work of 1 and a load of 8 alone. Beside the load the work takes 6, and `work_ms` with the row's
// priority, from 0.5 on.
Timings Prioritized(double work_ms) {
  return {{"work", Took(1)},
          {"load", Took(8)},
          {"equal", Ran({{"work", {0, 6}}, {"load", {0, 9}}})},
          {"prioritized", Ran({{"work", {0.5, 0.5 + work_ms}}, {"load", {0, 10}}})}};
}

Reported ReportPriority(const std::string& pair, const std::string& priority, double work_ms) {
  return ScenarioReport("Priority/" + pair, {{"priority", priority}}).Report(Prioritized(work_ms));
}
Reported ReportBlocks(const std::string& priority, double work_ms) {
  return ReportPriority("ShortBlocks+ShortBlocks", priority, work_ms);
}

TEST(PriorityReport, TellsWhatPriorityGainsAndWhatItCostsTheLoad) {
  const Reported row = ReportBlocks("high", 2);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  ExpectCounters(row, {{"latency_alone_ms", 1},
                       {"latency_equal_ms", 6},
                       {"latency_ms", 2},
                       {"gain", 3},
                       {"work_slowdown", 2},
                       {"work_slowdown_equal", 6},
                       {"load_alone_ms", 8},
                       {"load_slowdown", 1.25},
                       {"load_slowdown_equal", 1.125}});
}

TEST(PriorityReport, AControlWithoutGainSaysSo) {
  const Reported row = ReportBlocks("equal", 6);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "control: equal priorities, no gain");
}

TEST(PriorityReport, AControlThatShowsAGainOrALossIsAFault) {
  const Reported gain = ReportBlocks("equal", 4);
  EXPECT_EQ(gain.state, RowState::kInvalid);
  EXPECT_EQ(gain.reason, "the negative control shows a gain of 1.5");
  const Reported loss = ReportBlocks("equal", 12);
  EXPECT_EQ(loss.state, RowState::kInvalid);
  EXPECT_EQ(loss.reason, "the negative control shows a gain of 0.5");
}

TEST(PriorityReport, BlocksThatRunAreNotPreempted) {
  for (const char* pair : {"ShortBlocks+ShortBlocks", "ShortBlocks+ResidentGrid"}) {
    const Reported row = ReportPriority(pair, "high", 6);
    EXPECT_EQ(row.state, RowState::kOk);
    EXPECT_EQ(row.reason, "no gain: blocks that run are not preempted") << pair;
  }
}

TEST(PriorityReport, CopiesDoNotHeedPriorityOnEitherSide) {
  for (const char* pair :
       {"ShortBlocks+HostToDevice", "HostToDevice+ShortBlocks", "HostToDevice+HostToDevice"}) {
    EXPECT_EQ(ReportPriority(pair, "high", 6).reason, "no gain: copies do not heed priority")
        << pair;
  }
}

// Within a tenth of 1.
TEST(PriorityReport, ASmallGainIsNone) {
  EXPECT_EQ(ReportBlocks("high", 6 / 1.09).reason, "no gain: blocks that run are not preempted");
  EXPECT_EQ(ReportBlocks("high", 6 / 1.11).reason, "");
}

// The device's streams have three priorities. Whatever is measured beside it has the lowest.
TEST(PriorityRuns, GiveTheLastRunsWorkTheHighestPriorityUnlessItIsAControl) {
  for (const auto& [priority, expected] : {std::pair{"high", 2}, std::pair{"equal", 0}}) {
    const auto runs =
        ScenarioReport("Priority/ShortBlocks+ResidentGrid", {{"priority", priority}}).runs();
    ASSERT_EQ(runs.size(), 4U);
    for (const auto& run : runs) {
      for (const Schedule::Lane& lane : run.schedule.lanes()) {
        const bool is_prioritized = run.name == "prioritized" && lane.name == "work";
        EXPECT_EQ(lane.priority, is_prioritized ? expected : 0) << run.name << " " << lane.name;
      }
    }
    for (const std::size_t run : {2, 3})
      EXPECT_EQ(runs[run].schedule.leader, runs[run].schedule.LaneNamed("load"));
    EXPECT_EQ(runs.back().name, "prioritized");
  }
}

}  // namespace
}  // namespace overlapbench
