// The faults that are found in a trace's records, and what its counters say of tracing itself: on
// records made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fake_workload.h"
#include "fixtures/row_breakdown.h"
#include "fixtures/trace_faults.h"

namespace overlapbench {
namespace {

TEST(RowTraceCost, IsTheMedianOverPairsOfATracedAndAnUntracedSample) {
  RowTrace trace;
  trace.untraced_ms = {1, 2, 4};
  for (const double events_ms : {1.5, 2.2, 4.0}) trace.samples.emplace_back().events_ms = events_ms;
  trace.row_breakdown.sets_ms = {1};
  Counters counters;
  ReportBreakdown(trace, counters);
  EXPECT_NEAR(counters.at("trace_cost_pct").value, 10, 1e-9);
  EXPECT_NEAR(counters.at("untraced_events_ms").value, 7.0 / 3, 1e-9);
}

TEST(RowTraceCounters, AreSharesOfTheRowsTime) {
  RowTrace trace;
  trace.operations = 4;
  trace.traced_ms = 10;
  trace.untraced_ms = {2};
  trace.samples.emplace_back().events_ms = 3;
  trace.row_breakdown.sets_ms = {10, 20, 30, 40, 50, 60, 70, 120};
  trace.row_breakdown.idle_ms = {1, 2, 3, 4, 0};
  trace.row_breakdown.named_overlap_ms = 1;
  trace.row_breakdown.named_comm_ms = 4;
  Counters counters;
  ReportBreakdown(trace, counters);
  const std::vector<std::pair<const char*, double>> expected = {
      {"breakdown_valid", 1},         {"traced_ms", 2.5},         {"traced_events_ms", 3},
      {"untraced_events_ms", 2},      {"trace_cost_pct", 50},     {"idle_pct", 2.5},
      {"only_comp_pct", 5},           {"only_comm_pct", 7.5},     {"comp_comm_pct", 10},
      {"only_mem_pct", 12.5},         {"comp_mem_pct", 15},       {"comm_mem_pct", 17.5},
      {"comp_comm_mem_pct", 30},      {"idle_ranks_pct", 0.25},   {"idle_gate_pct", 0.5},
      {"idle_host_pct", 0.75},        {"idle_dependency_pct", 1}, {"idle_other_pct", 0},
      {"overlap_pct", 16000.0 / 260}, {"overlap_by_name_pct", 25}};
  EXPECT_EQ(counters.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_DOUBLE_EQ(counters.at(name), value) << name;
}

TEST(RowTraceCounters, HaveNoOverlapWithoutCommunication) {
  RowTrace trace;
  trace.untraced_ms = {1};
  trace.samples.emplace_back().events_ms = 1;
  trace.row_breakdown.sets_ms = {0, 1};
  Counters counters;
  ReportBreakdown(trace, counters);
  EXPECT_FALSE(counters.contains("overlap_pct"));
  EXPECT_FALSE(counters.contains("overlap_by_name_pct"));
}

TEST(RowTraceCounters, OfAFaultyTraceSayJustThat) {
  RowTrace trace;
  trace.fault = "3 records were lost";
  Counters counters;
  ReportBreakdown(trace, counters);
  EXPECT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters.at("breakdown_valid"), 0);
}

// ---- Faults of records that are made up

class FaultTest : public testing::Test {
 protected:
  FaultTest() {
    const auto lane = trace_.run.schedule.AddLane({"lane"});
    trace_.run.schedule.Add(lane, FakeWork("first", WorkClass::kCompute, behaviour_));
    trace_.run.schedule.Add(lane, FakeWork("second", WorkClass::kComm, behaviour_));
    trace_.samples = {
        {.moments = {}, .begin_ms = 0, .end_ms = 0, .enqueues = {}, .activities = {}}};
    first() = {.mark = 1, .correlation = 1, .call_ms = 1, .begin_ms = 2, .end_ms = 3};
    second() = {.mark = 2, .correlation = 2, .call_ms = 1, .begin_ms = 3, .end_ms = 4};
  }
  Activity& first() { return At(0); }
  Activity& second() { return At(1); }
  Activity& At(std::size_t place) {
    auto& activities = trace_.samples[0].activities;
    activities.resize(std::max(activities.size(), place + 1));
    return activities[place];
  }
  [[nodiscard]] std::string Fault(long dropped = 0) const { return FaultOf(trace_, dropped); }

  Behaviour behaviour_;
  RowTrace trace_{.row = "Family/Row", .run = {.name = "run"}};
};

TEST_F(FaultTest, AcceptsGoodRecords) { EXPECT_EQ(Fault(), ""); }

TEST_F(FaultTest, RejectsLostRecords) { EXPECT_EQ(Fault(3), "3 records were lost"); }

TEST_F(FaultTest, RejectsAnEndBeforeItsBegin) {
  second().end_ms = 2.5;
  EXPECT_EQ(Fault(), "kernel of step 'second' ended before it began");
}

TEST_F(FaultTest, RejectsABeginBeforeItsCall) {
  second().call_ms = 3.5;
  EXPECT_EQ(Fault(), "kernel of step 'second' began before it was enqueued");
}

TEST_F(FaultTest, RejectsWorkBeforeItsSample) {
  trace_.samples[0].begin_ms = 2.04;  // within what two clocks may differ
  EXPECT_EQ(Fault(), "");
  trace_.samples[0].begin_ms = 2.1;
  EXPECT_EQ(Fault(), "kernel of step 'first' began before its sample");
}

TEST_F(FaultTest, RejectsARecordWhoseCallWasLost) {
  second().call_ms = 0;
  EXPECT_EQ(Fault(), "kernel of step 'second' has no record of its call");
}

TEST_F(FaultTest, RejectsOverlappingRecordsOnOneStream) {
  first().end_ms = 3.002;
  EXPECT_EQ(Fault(),
            "kernel of step 'second' began before kernel of step 'first' had ended, on one stream");
  second().stream = 1;
  EXPECT_EQ(Fault(), "");
  second().stream = 0;
  second().correlation = first().correlation;  // as the copies of a batch
  EXPECT_EQ(Fault(), "");
}

TEST_F(FaultTest, RejectsTwoRecordsInsideALongOne) {
  first().end_ms = 9;
  first().correlation = second().correlation = 7;
  At(2) = {.mark = 2, .correlation = 8, .call_ms = 1, .begin_ms = 5, .end_ms = 6};
  EXPECT_NE(Fault(), "");
}

TEST_F(FaultTest, TwoClocksOfOneGpuMayDisagreeByAMicrosecond) {
  first().end_ms = 3.0005;
  EXPECT_EQ(Fault(), "");
}

TEST_F(FaultTest, TimesMayBeJustWithinTheirTolerances) {
  first() = {.mark = 1, .correlation = 1, .call_ms = 0.05, .begin_ms = 0, .end_ms = 1e-3};
  second() = {.mark = 2, .correlation = 2, .call_ms = 0.05, .begin_ms = 0, .end_ms = 0};
  trace_.samples[0].begin_ms = 0.05;
  EXPECT_EQ(Fault(), "");
}

// The host's own calls are on no stream.
TEST_F(FaultTest, AcceptsCallsBesideTheWork) {
  At(2) = {.kind = ActivityKind::kCall, .mark = 1, .begin_ms = 2.5, .end_ms = 3.5};
  EXPECT_EQ(Fault(), "");
}

TEST_F(FaultTest, RejectsWorkOfNoStep) {
  At(2) = {.name = "stray", .mark = 0, .correlation = 3, .call_ms = 1, .begin_ms = 5, .end_ms = 6};
  EXPECT_EQ(Fault(), "kernel 'stray' outside the steps belongs to no step");
  At(2).kind = ActivityKind::kWait;
  EXPECT_EQ(Fault(), "");
}

TEST_F(FaultTest, ChecksTheFlushToo) {
  trace_.samples[0].flush = {{.name = "flush", .call_ms = 1, .begin_ms = 1.5, .end_ms = 1.25}};
  EXPECT_EQ(Fault(), "kernel 'flush' outside the steps ended before it began");
}

TEST_F(FaultTest, RejectsASampleWithFewerRecordsThanAnother) {
  trace_.samples.push_back(trace_.samples[0]);
  EXPECT_EQ(Fault(), "");
  At(2) = {.mark = 1, .correlation = 3, .call_ms = 1, .begin_ms = 5, .end_ms = 6};
  EXPECT_EQ(Fault(), "step 'first' has 2 records in one sample and 1 in another");
  At(2).kind = ActivityKind::kWait;
  EXPECT_EQ(Fault(), "");
}

TEST_F(FaultTest, RejectsAStepWithoutARecord) {
  second().mark = 1;
  EXPECT_EQ(Fault(), "step 'second' has no record");
  trace_.run.as_graph = true;
  EXPECT_EQ(Fault(), "");
}

TEST_F(FaultTest, RejectsAStepThatOnlyWaited) {
  second().kind = ActivityKind::kWait;
  EXPECT_EQ(Fault(), "step 'second' has no record");
}

TEST_F(FaultTest, OnGpusACommunicationMayOnlyWait) {
  trace_.backend = Backend::kCuda;
  trace_.samples[0].activities.pop_back();
  EXPECT_EQ(Fault(), "");
  trace_.samples[0].activities.clear();
  EXPECT_EQ(Fault(), "step 'first' has no record");
}

TEST_F(FaultTest, TwoClocksMayDisagreeABit) {
  second().call_ms = 3.04;
  EXPECT_EQ(Fault(), "");
  second().call_ms = 3.06;
  EXPECT_EQ(Fault(), "kernel of step 'second' began before it was enqueued");
}

TEST_F(FaultTest, StepsOfOtherRanksNeedNoRecord) {
  const auto elsewhere = trace_.run.schedule.AddLane({.name = "elsewhere", .rank = 1});
  trace_.run.schedule.Add(elsewhere, FakeWork("third", WorkClass::kComm, behaviour_));
  EXPECT_EQ(Fault(), "");
  trace_.rank = 1;
  EXPECT_EQ(Fault(), "step 'third' has no record");
}

}  // namespace
}  // namespace overlapbench
