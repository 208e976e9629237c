// What held steps back: waits and gates, derived where they were not recorded, and the causes of
// idle time. The tools that read the files must find the same causes (tests/data/idle, which
// tests/tools/test_trace_idle.py reads).
#include "fixtures/row_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fixtures/row_breakdown.h"
#include "fixtures/trace_faults.h"
#include "report/trace_file.h"
#include "report/trace_json.h"

namespace overlapbench {
namespace {

Work Named(const std::string& name, WorkClass work_class) {
  return std::make_shared<const WorkPlan>(WorkPlan{.name = name, .work_class = work_class});
}

const Work& Product() {
  static const Work work = Named("product", WorkClass::kCompute);
  return work;
}
const Work& Sum() {
  static const Work work = Named("sum", WorkClass::kComm);
  return work;
}

// One sample that is behind a gate, which opened after 3 ms.
class Made {
 public:
  Made(const std::string& name, Backend backend) {
    trace.row = "Idle/" + name;
    trace.run.name = "run";
    trace.backend = backend;
    TracedSample& sample = trace.samples.emplace_back();
    sample.moments = {.begin_ms = 1, .enqueue = {1.5, 2}, .met_ms = 3, .end_ms = 20};
    sample.begin_ms = 3;
  }
  std::size_t Lane(const std::string& name, std::optional<int> rank = {}) {
    return trace.run.schedule.AddLane({.name = name, .rank = rank});
  }
  std::size_t Step(std::size_t lane, const Work& work, StepOptions options = {}) {
    trace.step_bytes.emplace_back();
    return trace.run.schedule.Add(lane, work, std::move(options));
  }
  // Two lanes with a step each; the second waits for the first.
  std::pair<std::size_t, std::size_t> SumAfterProduct() {
    const std::size_t product = Step(Lane("comp"), Product());
    return {product, Step(Lane("comm"), Sum(), {.after = {product}})};
  }
  // Adds the work of a step, which the host had enqueued at `called_ms`.
  void Ran(std::size_t step, double called_ms, double begin_ms, double end_ms) {
    const std::uint64_t lane = trace.run.schedule.steps()[step].lane;
    sample().enqueues.push_back({step, called_ms - 0.1, called_ms});
    sample().activities.push_back({.mark = step + 1,
                                   .stream = 10 + lane,
                                   .correlation = ++calls_,
                                   .call_ms = called_ms - 0.05,
                                   .enqueued_ms = called_ms,
                                   .begin_ms = begin_ms,
                                   .end_ms = end_ms});
    sample().end_ms = std::max(sample().end_ms, end_ms);
  }
  // Adds a wait as the host backend's streams record it.
  void Waited(ActivityKind kind, std::uint64_t mark, std::uint64_t stream, double begin_ms,
              double end_ms) {
    sample().activities.push_back({.kind = kind,
                                   .mark = mark,
                                   .stream = stream,
                                   .call_ms = 1.6,
                                   .begin_ms = begin_ms,
                                   .end_ms = end_ms});
  }
  // Its idle time by cause. All ranks had begun at `all_began_ms`.
  std::array<double, 5> Idle_ms(double all_began_ms = 3) {
    EXPECT_EQ(FaultOf(trace, 0), "");
    if (trace.backend == Backend::kCuda) DeriveWaits(trace, sample());
    sample().all_began_ms = all_began_ms;
    BreakDown(trace);
    return trace.breakdown.idle_ms;
  }
  TracedSample& sample() { return trace.samples.front(); }

  RowTrace trace;

 private:
  std::uint64_t calls_ = 0;
};

void ExpectNear(const std::array<double, 5>& found, const std::array<double, 5>& expected) {
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found.at(i), expected.at(i), 1e-9) << ToString(static_cast<IdleCause>(i));
}

// The files are committed, for the test of the tools.
void ExpectFile(const RowTrace& trace) {
  const std::string name = TraceFileName(trace.row, trace.rank);
  std::ifstream file(std::string(TEST_DATA) + "/idle/" + name);
  std::stringstream text;
  text << file.rdbuf();
  const std::string made = testing::TempDir() + name;
  std::ofstream(made) << TraceJson(trace);
  EXPECT_EQ(text.str(), TraceJson(trace)) << "if it should be so, copy " << made;
}

TEST(IdleCauses, ALateLaunchInTheMiddle) {
  Made made("launch", Backend::kCuda);
  const auto lane = made.Lane("comp");
  made.Ran(made.Step(lane, Product()), 1.8, 3.25, 4);
  made.Ran(made.Step(lane, Product(), {.name = "next"}), 5.5, 6, 7);
  ExpectNear(made.Idle_ms(), {0, 0.25, 1.5, 0, 0.5});
  ExpectFile(made.trace);
}

TEST(IdleCauses, WaitsForAnotherLaneAndForAnotherRank) {
  Made made("dependency", Backend::kCuda);
  made.trace.ranks = 3;
  const auto comp = made.Lane("comp");
  const auto comm = made.Lane("comm");
  const auto first = made.Step(comp, Product());
  const auto sum = made.Step(comm, Sum(), {.after = {first}});
  const auto elsewhere = made.Step(made.Lane("out", 1), Sum(), {.name = "send"});
  const auto received = made.Step(made.Lane("in", 0), Sum(), {.after = {elsewhere}, .name = "in"});
  made.Ran(first, 1.8, 3, 5);
  made.Ran(sum, 1.9, 5.25, 6);
  made.Ran(received, 6.5, 8, 9);
  // What follows work of its own lane waits for nothing else.
  made.Ran(made.Step(comm, Sum(), {.name = "last"}), 2, 9.5, 10);
  ExpectNear(made.Idle_ms(), {0, 0, 0.5, 0.25 + 1.5, 0.5});
  ExpectFile(made.trace);
}

// Its gate opened at 3 ms.
TEST(IdleCauses, AFirstWorkThatComesAfterItsGateAwaitsNone) {
  Made made("after", Backend::kCuda);
  made.Ran(made.Step(made.Lane("comp"), Product()), 4, 4.5, 5);
  ExpectNear(made.Idle_ms(), {0, 0, 1, 0, 0.5});
}

// The other lane waits as well, but does not end the gap.
TEST(IdleCauses, OfTheWorkThatEndsTheGap) {
  Made made("whose", Backend::kCuda);
  const auto comp = made.Lane("comp");
  const auto comm = made.Lane("comm");
  const auto first = made.Step(comp, Product());
  const auto late = made.Step(comp, Product(), {.name = "late"});
  const auto sum = made.Step(comm, Sum(), {.after = {late}});
  made.Ran(first, 1.8, 3, 4);
  made.Ran(late, 5, 5, 6);
  made.Ran(sum, 1.9, 6, 7);
  ExpectNear(made.Idle_ms(), {0, 0, 1, 0, 0});
  ExpectFile(made.trace);
}

// Rank 1's clock is 0.5 ms behind, and its sample begins 0.5 ms later.
TEST(IdleCauses, TheLastRankToBegin) {
  for (const int rank : {0, 1}) {
    Made made("skew", Backend::kCuda);
    made.trace.rank = rank;
    made.trace.ranks = 2;
    made.trace.clock_offset_ms = rank == 0 ? 10 : 10.5;
    made.Ran(made.Step(made.Lane("comp"), Product()), 1.8, rank == 0 ? 4 : 3.25, 5);
    const std::array<double, 5> late = {0, 0.25, 0, 0, 0};
    ExpectNear(made.Idle_ms(rank == 0 ? 3.5 : 3),
               rank == 0 ? std::array{0.5, 0.5, 0., 0., 0.} : late);
    ExpectFile(made.trace);
  }
}

// The leader's work ends before the other lane may begin.
TEST(IdleCauses, AGateOfALaneThatAnotherOneLeads) {
  for (const Backend backend : {Backend::kCuda, Backend::kHost}) {
    Made made(backend == Backend::kCuda ? "gate" : "gate_host", backend);
    const auto comp = made.Lane("comp");
    const auto comm = made.Lane("comm");
    made.trace.run.schedule.leader = comm;
    made.sample().moments.followers_ms = 3.5;
    const auto sum = made.Step(comm, Sum());
    const auto product = made.Step(comp, Product());
    if (backend == Backend::kHost) {
      made.Waited(ActivityKind::kGate, 0, 9, 1.7, 3);
      made.Waited(ActivityKind::kWait, 0, 9, 3, 5);  // the fork's, for all lanes
      made.Waited(ActivityKind::kGate, product + 1, 10, 3, 3.5);
    }
    made.Ran(sum, 1.8, 3, 3.25);
    made.Ran(product, 1.9, 3.75, 5);
    ExpectNear(made.Idle_ms(), {0, 0.25 + 0.25, 0, 0, 0});
    ExpectFile(made.trace);
  }
}

// It was enqueued after its gate had opened.
TEST(IdleCauses, AGateIsTheCauseUntilItOpens) {
  Made made("opened", Backend::kHost);
  const auto comp = made.Lane("comp");
  const auto comm = made.Lane("comm");
  made.trace.run.schedule.leader = comm;
  made.sample().moments.followers_ms = 3.5;
  const auto sum = made.Step(comm, Sum());
  const auto product = made.Step(comp, Product());
  made.Waited(ActivityKind::kGate, 0, 9, 1.7, 3);
  made.Waited(ActivityKind::kGate, product + 1, 10, 3, 3.5);
  made.Ran(sum, 1.8, 3, 3.25);
  made.Ran(product, 3.625, 3.75, 5);
  ExpectNear(made.Idle_ms(), {0, 0.25, 0.125, 0, 0.125});
}

// They meet on the streams of two phases, and between them. Its kernel takes part. With one rank
// there is nobody to meet.
TEST(IdleCauses, CopiesOfACommunicationMeetTheOtherRanks) {
  for (const int ranks : {1, 2}) {
    Made made("meeting", Backend::kCuda);
    made.trace.ranks = ranks;
    const auto product = made.Step(made.Lane("comp"), Product());
    const auto sum = made.Step(made.Lane("comm"), Sum());
    made.Ran(product, 1.7, 3, 4);
    made.Ran(sum, 1.8, 4.5, 5);
    Activity copy = made.sample().activities.back();
    copy.kind = ActivityKind::kCopy;
    copy.by_copy_engine = true;
    copy.peer = 1;
    copy.stream = 20;
    copy.begin_ms = 5.75;
    copy.end_ms = made.sample().end_ms = 6;
    made.sample().activities.push_back(copy);
    ExpectNear(made.Idle_ms(), ranks == 2 ? std::array{0.5 + 0.75, 0., 0., 0., 0.}
                                          : std::array{0., 0.5, 0., 0., 0.75});
    if (ranks == 2) ExpectFile(made.trace);
  }
}

// ---- What is derived

using Spans = std::vector<std::tuple<ActivityKind, std::uint64_t, double, double>>;

Spans DerivedOf(Made& made) {
  DeriveWaits(made.trace, made.sample());
  Spans spans;
  for (const Activity& one : made.sample().activities)
    if (one.is_derived) spans.emplace_back(one.kind, one.mark, one.begin_ms, one.end_ms);
  return spans;
}

TEST(DerivedWaits, TheGateIsFromTheFlushToItsOpening) {
  Made made("gate", Backend::kCuda);
  made.Ran(made.Step(made.Lane("comp"), Product()), 1.8, 3.1, 4);
  made.sample().flush = {{.stream = 9, .call_ms = 1.2, .begin_ms = 1.3, .end_ms = 2.5}};
  EXPECT_EQ(DerivedOf(made), (Spans{{ActivityKind::kGate, 0, 2.5, 3}}));
}

// The host takes the time after it has opened the gate. By then, the lane may be at work.
TEST(DerivedWaits, AGateEndsBeforeTheWorkThatItHeld) {
  Made made("held", Backend::kCuda);
  const auto comp = made.Lane("comp");
  made.trace.run.schedule.leader = made.Lane("comm");
  made.sample().moments.followers_ms = 3.5;
  const auto product = made.Step(comp, Product());
  made.Ran(product, 1.9, 3.25, 5);
  EXPECT_EQ(DerivedOf(made),
            (Spans{{ActivityKind::kGate, 0, 1.5, 3}, {ActivityKind::kGate, product + 1, 3, 3.25}}));
}

TEST(DerivedWaits, WithoutAGateThereIsNone) {
  Made made("open", Backend::kCuda);
  made.sample().moments.enqueue = {3, 3.5};
  made.Ran(made.Step(made.Lane("comp"), Product()), 3.2, 3.3, 4);
  EXPECT_EQ(DerivedOf(made), Spans{});
}

// The derived waits of a sum that waits for a product until 6 ms, behind a step of its lane.
Spans DerivedBehind(double before_end_ms, std::uint64_t before_stream) {
  Made made("wait", Backend::kCuda);
  const auto comp = made.Lane("comp");
  const auto comm = made.Lane("comm");
  const auto before = made.Step(comm, Sum(), {.name = "before"});
  const auto product = made.Step(comp, Product());
  const auto sum = made.Step(comm, Sum(), {.after = {product}});
  made.sample().moments.enqueue = {3, 3.5};
  made.Ran(before, 3.1, 3.5, before_end_ms);
  made.sample().activities.back().stream = before_stream;
  made.Ran(product, 3.2, 3.5, 6);
  made.Ran(sum, 3.3, 6.25, 7);
  return DerivedOf(made);
}
constexpr std::uint64_t kMarkOfSum = 3;
constexpr std::uint64_t kStreamOfSum = 11;

// It begins when its stream became idle, but not before the host enqueued the wait.
TEST(DerivedWaits, AWaitEndsWithWhatIsWaitedFor) {
  EXPECT_EQ(DerivedBehind(4, kStreamOfSum), (Spans{{ActivityKind::kWait, kMarkOfSum, 4, 6}}));
}

// On any stream of its lane: the lane's steps are spans of one track.
TEST(DerivedWaits, AWaitBeginsBehindTheStepBeforeIt) {
  EXPECT_EQ(DerivedBehind(5, kStreamOfSum + 1), (Spans{{ActivityKind::kWait, kMarkOfSum, 5, 6}}));
}

TEST(DerivedWaits, WhatHadEndedIsNotWaitedFor) {
  Made made("passed", Backend::kCuda);
  const auto [product, sum] = made.SumAfterProduct();
  made.sample().moments.enqueue = {3, 6};
  made.Ran(product, 3.1, 3.5, 4);
  made.Ran(sum, 5.5, 5.6, 6);
  EXPECT_EQ(DerivedOf(made), Spans{});
}

TEST(DerivedWaits, WhatEndsJustThenIsNotWaitedFor) {
  EXPECT_EQ(DerivedBehind(6, kStreamOfSum), Spans{});
}

// On the stream of the first of its works. The gate is on none of the lanes' streams.
TEST(DerivedWaits, AreOnTheStreamThatWaits) {
  Made made("streams", Backend::kCuda);
  const auto [product, sum] = made.SumAfterProduct();
  made.Ran(product, 1.7, 3, 4);
  made.Ran(sum, 1.8, 4.5, 5);
  Activity more = made.sample().activities.back();
  more.stream = 20;
  made.sample().activities.push_back(more);
  DeriveWaits(made.trace, made.sample());
  for (const Activity& one : made.sample().activities) {
    if (!one.is_derived) continue;
    EXPECT_EQ(one.stream, one.kind == ActivityKind::kWait ? kStreamOfSum : 0U);
  }
}

// ---- What works await

Awaited AwaitedIn(const Made& made) {
  const TracedSample& sample = made.trace.samples.front();
  return AwaitedBy(made.trace, sample, RunsOf(made.trace.run.schedule, sample));
}

// The gate opens at 3 ms, and for the lanes that another one leads at 3.5 ms.
TEST(AwaitedWorks, AwaitTheGateIfTheyWereEnqueuedBeforeItOpened) {
  struct Case {
    bool leads;
    double called_ms;
    bool awaits;
  };
  for (const auto& [leads, called_ms, awaits] :
       {Case{true, 3, true}, {true, 3.25, false}, {false, 3.5, true}, {false, 3.75, false}}) {
    Made made("gated", Backend::kCuda);
    const auto lane = made.Lane("one");
    const auto other = made.Lane("other");
    made.trace.run.schedule.leader = leads ? lane : other;
    made.sample().moments.followers_ms = 3.5;
    made.sample().activities.push_back({.mark = 0, .stream = 9, .begin_ms = 1, .end_ms = 2});
    made.Ran(made.Step(lane, Product()), called_ms, 4, 5);
    const Awaited awaited = AwaitedIn(made);
    ASSERT_EQ(awaited.size(), awaits ? 1U : 0U) << called_ms;
    for (const auto& [work, cause] : awaited) EXPECT_EQ(cause, IdleCause::kGate);
  }
}

TEST(AwaitedWorks, AwaitNoGateWhereThereIsNone) {
  Made made("ungated", Backend::kCuda);
  made.sample().moments.enqueue = {3, 3.5};
  made.Ran(made.Step(made.Lane("comp"), Product()), 2.5, 3.25, 4);
  EXPECT_TRUE(AwaitedIn(made).empty());
}

// ---- Runs of steps

TEST(StepRuns, AWorkCalledBeforeItsStepHasNoTimeOfEnqueueing) {
  Made made("early", Backend::kCuda);
  const auto product = made.Step(made.Lane("comp"), Product());
  made.Ran(product, 1.8, 3, 4);
  made.sample().activities[0].call_ms = made.sample().activities[0].enqueued_ms = 1.5;
  const StepRuns runs = RunsOf(made.trace.run.schedule, made.sample());
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs.begin()->first, (std::pair<std::size_t, std::ptrdiff_t>(product, 0)));
  EXPECT_EQ(runs.begin()->second.enqueued_ms, 0);
}

// Each of two repetitions waits for its own product.
TEST(StepRuns, EachRepetitionWaits) {
  Made made("streaming", Backend::kCuda);
  const auto [product, sum] = made.SumAfterProduct();
  made.Ran(product, 1.6, 3, 4);
  made.Ran(sum, 1.7, 4.5, 5);
  made.Ran(product, 1.8, 6, 7);
  made.Ran(sum, 1.9, 7.5, 8);
  made.sample().activities[2].call_ms = made.sample().enqueues[2].begin_ms - 0.01;  // clocks
  const StepRuns runs = RunsOf(made.trace.run.schedule, made.sample());
  EXPECT_EQ(runs.size(), 4U);
  const Awaited awaited = AwaitedBy(made.trace, made.sample(), runs);
  const auto dependent = [](const auto& one) { return one.second == IdleCause::kDependency; };
  EXPECT_EQ(std::ranges::count_if(awaited, dependent), 2);
  ExpectNear(made.Idle_ms(), {0, 0, 0, 0.5 + 0.5, 1});
}

// The first work on each of the step's streams waits.
TEST(StepRuns, TheFirstWorkOfAStepWaits) {
  Made made("parts", Backend::kCuda);
  const auto [product, sum] = made.SumAfterProduct();
  made.Ran(product, 1.6, 3, 4);
  made.Ran(sum, 1.9, 4.5, 5);
  Activity more = made.sample().activities.back();
  for (const double begin_ms : {6., 8.}) {
    more.begin_ms = begin_ms;
    more.end_ms = begin_ms + 1;
    made.sample().activities.push_back(more);
    more.stream = 12;
  }
  made.sample().end_ms = 9;
  EXPECT_EQ(RunsOf(made.trace.run.schedule, made.sample()).size(), 2U);
  ExpectNear(made.Idle_ms(), {0, 0, 0, 0.5 + 1, 1});
}

TEST(StepRuns, OneThatBeginsBeforeWhatItWaitsForIsAFault) {
  Made made("order", Backend::kCuda);
  const auto [product, sum] = made.SumAfterProduct();
  made.Ran(product, 1.6, 3, 4);
  made.Ran(sum, 1.7, 3.9945, 5);
  EXPECT_EQ(FaultOf(made.trace, 0),
            "step 'sum' began before step 'product' had ended, for which it waits");
  made.trace.operations = 2;
  EXPECT_EQ(FaultOf(made.trace, 0), "") << "which of the two is not known";
  made.trace.operations = 1;
  made.sample().activities[1].begin_ms = 3.9995;  // within what the clock may be off
  EXPECT_EQ(FaultOf(made.trace, 0), "");
}

// Two engines' times may disagree by 5 microseconds, and no more.
TEST(StepRuns, OnlyStreamsThatWaitForEachOtherHaveAnOrder) {
  const auto fault_of = [](double ended_ms, bool on_host, bool one_lane) {
    Made made("order", Backend::kCuda);
    const auto comp = made.trace.run.schedule.AddLane({.name = "comp", .on_host = on_host});
    const auto product = made.Step(comp, Product());
    const auto sum = made.Step(one_lane ? comp : made.Lane("comm"), Sum(), {.after = {product}});
    made.Ran(product, 1.6, -1, ended_ms);
    made.Ran(sum, 1.7, 0, 1);
    return FaultOfOrder(made.trace, RunsOf(made.trace.run.schedule, made.sample()));
  };
  EXPECT_EQ(fault_of(5e-3, false, false), "");
  EXPECT_NE(fault_of(6e-3, false, false), "");
  EXPECT_EQ(fault_of(6e-3, true, false), "") << "the host orders them, by its own clock";
  EXPECT_EQ(fault_of(6e-3, false, true), "") << "a lane is in order by itself";
}

}  // namespace
}  // namespace overlapbench
