// Prepared runs: what is enqueued on which stream, in which order and behind which waits, and what
// a run as a graph enqueues.
#include "fixtures/prepared_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/sampler.h"
#include "prepared_runs.h"
#include "workload/steps.h"

namespace overlapbench {
namespace {

INSTANTIATE_ON_EACH_BACKEND(PreparedRunTest);

// ---- Order

TEST_P(PreparedRunTest, ALaneOpensAtItsFirstStepAndClosesAfterItsLast) {
  const auto [a, b] = AddTwoLanes();
  schedule().Add(a, Fake("1"));
  schedule().Add(b, Fake("2"));
  schedule().Add(a, Fake("3"));
  PrepareAndRun();
  EXPECT_EQ(log_, (Log{"C times",                          // start
                       "A waits for C", "1",               //
                       "B waits for C", "2", "B records",  //
                       "3", "A records",                   //
                       "C waits for A", "C waits for B"}));
}

// A run that reads no lane times must not include their cost in its total.
TEST_P(PreparedRunTest, OnlyTimedLanesRecordTheirBeginAndEnd) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Fake("1"));
  schedule().Add(b, Fake("2"), {.after = {first}});
  AddLane("idle");
  EXPECT_EQ(Events(), (LoggingDevice::Events{.timed = 0, .untimed = 3}));
  run_.timed = Timed::kLanes;
  EXPECT_EQ(Events(), (LoggingDevice::Events{.timed = 6, .untimed = 0}));
  PrepareAndRun();
  EXPECT_EQ(log_, (Log{"D times",                                                    //
                       "C waits for D", "C times", "C times",                        //
                       "A waits for D", "A times", "1", "A times",                   //
                       "B waits for D", "B times", "B waits for A", "2", "B times",  //
                       "D waits for A", "D waits for B", "D waits for C"}));
}

TEST_P(PreparedRunTest, ALaneWithoutStepsIsOpenedAndJoined) {
  const std::size_t a = AddLane("a");
  AddLane("idle");
  schedule().Add(a, Fake("1"));
  PrepareAndRun();
  EXPECT_EQ(log_, (Log{"C times",                          //
                       "B waits for C", "B records",       //
                       "A waits for C", "1", "A records",  //
                       "C waits for A", "C waits for B"}));
}

TEST_P(PreparedRunTest, AStepWaitsForEachStepOnAnotherLane) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t c = AddLane("c");
  const std::size_t first = schedule().Add(a, Fake("1"));
  const std::size_t second = schedule().Add(b, Fake("2"), {.after = {first}});
  const std::size_t third = schedule().Add(a, Fake("3"), {.after = {first}});
  schedule().Add(c, Fake("4"), {.after = {second, third}});
  PrepareAndRun();
  EXPECT_EQ(log_, (Log{"D times",  //
                       "A waits for D", "1",
                       "A records",  // awaited
                       "B waits for D", "B waits for A", "2",
                       "B records",  // awaited, and the lane's end
                       "3",
                       "A records",  // likewise
                       "C waits for D", "C waits for B", "C waits for A", "4",
                       "C records",  //
                       "D waits for A", "D waits for B", "D waits for C"}));
}

// The order of the lanes says nothing of the order of the steps.
TEST_P(PreparedRunTest, AStepWaitsForOneOnALaterLane) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(b, Fake("1"));
  schedule().Add(a, Fake("2"), {.after = {first}});
  PrepareAndRun();
  EXPECT_EQ(log_, (Log{"C times",                                           //
                       "B waits for C", "1", "B records",                   //
                       "A waits for C", "A waits for B", "2", "A records",  //
                       "C waits for A", "C waits for B"}));
}

TEST_P(PreparedRunTest, AWaitOnItsOwnLaneCostsNoEvent) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Fake("1"));
  schedule().Add(a, Fake("2"), {.after = {first}});
  schedule().Add(b, Fake("3"));
  EXPECT_EQ(Events().untimed, 2);  // the end of each lane
  schedule().Add(b, Fake("4"), {.after = {first}});
  EXPECT_EQ(Events().untimed, 3);
  schedule().Add(b, Fake("5"), {.after = {first}, .host_after = {first}});
  EXPECT_EQ(Events(), (LoggingDevice::Events{.timed = 0, .untimed = 3}));
}

// Only that rank has the lane's stream, events and work.
TEST_P(PreparedRunTest, ALaneOfAnotherRankUsesNoResourcesHere) {
  run_.timed = Timed::kSteps;
  const std::size_t other = schedule().AddLane({.name = "other", .rank = 1});
  const std::size_t own = schedule().AddLane({.name = "own", .rank = 0});
  schedule().AddLane({.name = "idle", .rank = 1});
  const std::size_t there = schedule().Add(other, Fake("1"));
  const std::size_t receive = schedule().Add(own, FakeComm("2"), {.after = {there}});
  schedule().Add(other, FakeComm("3"), {.after = {receive}});
  EXPECT_EQ(Events(), (LoggingDevice::Events{.timed = 3, .untimed = 0}));
  PrepareAndRun();
  EXPECT_EQ(log_, (Log{"B times",                                              //
                       "A waits for B", "A times", "A times", "2", "A times",  //
                       "B waits for A"}));
  EXPECT_FALSE(prepared_->IsOwn(other));
  EXPECT_EQ(StepTimes(there).end_ms, 0);
  EXPECT_EQ(LaneTimes(other).end_ms, 0);
  EXPECT_GT(StepTimes(receive).end_ms, 0);
  EXPECT_NO_THROW(prepared_->AwaitLane(other));
}

// The lane's events tell of the first step's begin and the last step's end.
TEST_P(PreparedRunTest, TimingEachStepReusesTheLanesEvents) {
  const auto [a, b] = AddTwoLanes();
  run_.timed = Timed::kSteps;
  const std::size_t first = schedule().Add(a, Fake("1"));
  EXPECT_EQ(Events().timed, 4);
  schedule().Add(a, Fake("2"));
  EXPECT_EQ(Events().timed, 6);  // end of the first, begin of the second
  schedule().Add(b, Fake("3"), {.after = {first}});
  EXPECT_EQ(Events().timed, 7);  // its begin, since its lane opens before the wait
  EXPECT_EQ(Events().untimed, 0);
}

TEST_P(PreparedRunTest, ABatchOpensAndClosesItsLanesOnce) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Fake("1"));
  schedule().Add(b, Fake("2"), {.after = {first}});
  PrepareAndRun(2);
  EXPECT_EQ(log_, (Log{"C times",                              //
                       "A waits for C", "1", "A records",      //
                       "B waits for C", "B waits for A", "2",  //
                       "1", "A records",                       //
                       "B waits for A", "2", "B records",      //
                       "C waits for A", "C waits for B"}));
}

TEST_P(PreparedRunTest, FollowersAreHeldBehindTheStartAndTheLeaderIsNot) {
  for (const char* lane : {"a", "b", "c"})
    schedule().Add(AddLane(lane), Fake(fmt::format("on {}", lane)));
  schedule().leader = 1;
  Prepare();
  std::vector<Stream*> held;
  Run(1, [&](Stream& stream) {
    log_.emplace_back("held");
    held.push_back(&stream);
  });
  EXPECT_EQ(held, (std::vector{&prepared_->stream(0), &prepared_->stream(2)}));
  EXPECT_EQ(log_, (Log{"D times",                                     //
                       "A waits for D", "held", "on a", "A records",  //
                       "B waits for D", "on b", "B records",          //
                       "C waits for D", "held", "on c", "C records",  //
                       "D waits for A", "D waits for B", "D waits for C"}));
}

TEST_P(PreparedRunTest, WithoutALeaderNoLaneIsHeld) {
  for (const char* lane : {"a", "b"}) schedule().Add(AddLane(lane), Fake(lane));
  PrepareAndRun(1, [&](Stream& /*stream*/) { FAIL() << "held"; });
}

TEST_P(PreparedRunTest, TheFirstRunHasNeitherStartNorJoinNorHold) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Fake("1"));
  schedule().Add(b, Fake("2"), {.after = {first}});
  schedule().leader = 1;
  Prepare().EnqueueOnce();
  EXPECT_EQ(log_, (Log{"1", "A records", "B waits for A", "2", "B records"}));
}

// D is the sampler's stream, which records the end of each of so few repetitions. Of more it
// records a sixteenth, or one in 256 steps.
TEST_P(PreparedRunTest, RepetitionsJoinBeforeTheNextOneAndFollowersAreHeldByAKernel) {
  for (const char* lane : {"a", "b"})
    schedule().Add(AddLane(lane), Fake(fmt::format("on {}", lane)));
  schedule().leader = 1;
  PreparedRun& prepared = Prepare();
  Sampler sampler(*machine_, {.gate = false, .cold = false});
  device_->logs_kernels = true;
  log_.clear();
  const TimeSpan span = sampler.Repeat(prepared, 2);
  EXPECT_GE(span.own_ms(), 0.02) << "two leads";
  Log expected;
  for (int i = 0; i < 2; ++i) {
    for (const char* line :
         {"D times", "A waits for D", "A runs a kernel", "on a", "A records", "B waits for D",
          "on b", "B records", "D waits for A", "D waits for B", "D records"})
      expected.emplace_back(line);
  }
  expected.emplace_back("D times");
  if (GetParam() == Backend::kCuda) std::erase(expected, "A runs a kernel");  // not logged
  EXPECT_EQ(log_, expected);
  for (const auto& [batch, records] : {std::pair{1, 16}, {64, 32}}) {
    Sampler another(*machine_, {.gate = false, .cold = false, .batch = batch});
    log_.clear();
    static_cast<void>(another.Repeat(prepared, 64));
    const std::string itself = log_.back().substr(0, 1);  // as D above
    EXPECT_EQ(std::ranges::count(log_, itself + " records"), records) << batch;
  }
}

TEST_P(PreparedRunTest, AStepEnqueuesItsPart) {
  std::vector<long> parts;
  const Work work = Fake("work");
  behaviours_["work"].part = [&](const Part& part) {
    EXPECT_EQ(part.count, 3);
    parts.push_back(part.index);
  };
  const std::size_t lane = AddLane("a");
  for (const long index : {2, 0, 1}) schedule().Add(lane, work, {.part = {index, 3}});
  PrepareAndRun();
  EXPECT_EQ(parts, (std::vector<long>{2, 0, 1}));
}

// The first kind of bytes that a work has, and a part's share of them.
TEST(StepBytes, AreThoseOfTheStepsPart) {
  const auto bytes = [](const Cost& cost, const Part& part) {
    Behaviour behaviour;
    behaviour.cost = cost;
    const FakeWorkload workload(behaviour);
    Schedule::Step step;
    step.options.part = part;
    return StepBytes(workload, step);
  };
  const Cost all{.moved_bytes = 300, .copied_bytes = 200, .memory_bytes = 400, .wire_bytes = 100};
  EXPECT_EQ(bytes(all, {}), 100U);
  EXPECT_EQ(bytes({.moved_bytes = 300, .copied_bytes = 200, .memory_bytes = 400}, {1, 2}), 100U);
  EXPECT_EQ(bytes({.moved_bytes = 300, .memory_bytes = 400}, {}), 300U);
  EXPECT_EQ(bytes({.memory_bytes = 5}, {0, 2}), 3U) << "rounded";
  EXPECT_EQ(bytes({}, {}), std::nullopt);
}

TEST_P(PreparedRunTest, LanesOfOneKindShareTheirStreamsBetweenRuns) {
  const Stream* const first = &streams_->Get(0, {"a"});
  EXPECT_EQ(&streams_->Get(0, {"b"}), first);
  EXPECT_NE(&streams_->Get(1, {"a"}), first);
  EXPECT_NE(&streams_->Get(0, {"a", 1}), first);
  EXPECT_NE(&streams_->Get(0, {"a", 0, true}), first);
  EXPECT_EQ(streams_->Get(0, {"a", 0, true}).native(), nullptr);
}

// ---- Graphs

TEST_P(PreparedRunTest, WhatNoGraphCanDoIsRefused) {
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"takes no part in the host's work, and the host waits for none of its steps",
       [&] { AddLane("host", true); }},
      {"starts all of its lanes at once", [&] { schedule().leader = 0; }},
      {"has every lane on every rank", [&] { schedule().AddLane({.name = "c", .rank = 0}); }},
      {"is timed as a whole", [&] { run_.timed = Timed::kLanes; }},
  };
  for (const auto& [why, change] : cases) {
    run_ = {.name = "run", .as_graph = true};
    for (const char* lane : {"a", "b"}) schedule().Add(AddLane(lane), Fake(lane));
    change();
    EXPECT_EQ(Thrown<Error>([&] { Prepare(); }), "run 'run': a graph " + why);
  }
}

// Lanes wait for each other in both directions, as often as the graph is launched. A copy or a step
// out of order would leave another value.
TEST_P(PreparedRunTest, AGraphOfSeveralLanesGivesWhatItsStepsGiveOneByOne) {
  constexpr long kCount = 1 << 16;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  const auto input = device_->Allocate(kBytes, MemoryKind::kPinned);
  const auto output = device_->Allocate(kBytes, MemoryKind::kPinned);
  const auto on_device = device_->Allocate(3 * kBytes, MemoryKind::kDevice);
  const auto part = [&](int i) { return static_cast<float*>(on_device.data()) + i * kCount; };
  const auto copy = [&](void* to, const void* from) {
    return [=](Stream& stream) { stream.Copy(to, from, kBytes); };
  };
  const auto step = [&](const float* from, float* to) {
    return
        [this, from, to](Stream& stream) { EnqueueSteps(*device_, stream, to, from, kCount, 1); };
  };
  const auto [a, b] = AddTwoLanes();
  const std::size_t in = schedule().Add(a, Fake("in", copy(part(0), input.data())));
  const std::size_t there =
      schedule().Add(b, Fake("there", step(part(0), part(1))), {.after = {in}});
  schedule().Add(a, Fake("beside", step(part(0), part(2))));
  const std::size_t back =
      schedule().Add(a, Fake("back", step(part(1), part(0))), {.after = {there}});
  schedule().Add(b, Fake("out", copy(output.data(), part(0))), {.after = {back}});
  const auto run = [&](int times) {
    std::vector<float> results;
    for (const float first : {5.0F, 100.0F}) {
      std::fill_n(static_cast<float*>(input.data()), kCount, first);
      std::fill_n(static_cast<float*>(output.data()), kCount, 0.0F);
      Run(times);
      const auto* values = static_cast<const float*>(output.data());
      results.insert(results.end(), values, values + kCount);
    }
    return results;
  };
  Prepare();
  const std::vector<float> plain = run(1);
  EXPECT_EQ(plain.front(), 5.0F + 2);
  EXPECT_EQ(plain.back(), 100.0F + 2);
  run_.as_graph = true;
  Prepare().RecordGraph();
  EXPECT_EQ(run(1), plain);
  EXPECT_EQ(run(3), plain);
}

// The bound of delays inside a graph: 3 ms, then 5 on the other lane, then 4. The best of several
// runs, because other processes may delay one on the host.
TEST_P(PreparedRunTest, DelaysInAGraphOfSeveralLanesTakeAsLongAsTheirBound) {
  using std::chrono_literals::operator""ms;
  constexpr double kBound_ms = 3 + 5 + 4;
  constexpr double kLaunch_ms = 0.02;
  run_.as_graph = true;
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Delay("3", 3ms));
  const std::size_t longest = schedule().Add(b, Delay("5", 5ms), {.after = {first}});
  schedule().Add(a, Delay("2", 2ms));
  schedule().Add(a, Delay("4", 4ms), {.after = {longest}});
  Prepare().EnqueueOnce();
  const auto stop = device_->CreateEvent({});
  double best_ms = HUGE_VAL;
  for (int i = 0; i < 10; ++i) {
    const auto gate = device_->CreateGate();
    gate->Arm(*fork_);
    fork_->Record(*start_);
    prepared_->Enqueue(*fork_, *start_, 1, {});
    fork_->Record(*stop);
    gate->Release();
    fork_->Synchronize(kPatience, "the run");
    best_ms = std::min(best_ms, device_->ElapsedMs(*start_, *stop));
  }
  EXPECT_GE(best_ms, kBound_ms * 0.999);
  EXPECT_LE(best_ms, kBound_ms * 1.01 + kLaunch_ms);
}

// It is recorded once, with all steps, and then only launched. A new recording replaces it.
TEST_P(PreparedRunTest, AGraphIsRecordedOnceAndLaunchedAsAWhole) {
  run_.as_graph = true;
  run_.timed = Timed::kLanes;
  const std::size_t lane = AddLane("a");
  const auto delay = std::shared_ptr(Delay("delay")->make());
  for (const char* name : {"1", "2"})
    schedule().Add(lane, Fake(name, [delay](Stream& stream) { delay->Enqueue(stream); }));
  const auto works = [this] {
    return std::ranges::count(log_, "1") + 10 * std::ranges::count(log_, "2");
  };
  Prepare().EnqueueOnce();
  prepared_->AwaitLane(lane);
  EXPECT_EQ(works(), 11);
  log_.clear();
  Run();
  EXPECT_EQ(works(), 0);
  EXPECT_GE(LaneTimes(lane).own_ms(), 2 * kDelay_ms);
  EXPECT_LT(LaneTimes(lane).own_ms(), 3 * kDelay_ms);
  log_.clear();
  prepared_->RecordGraph();
  EXPECT_EQ(works(), 11);
}

TEST_P(PreparedRunTest, ARunThatIsNoGraphRecordsNone) {
  schedule().Add(AddLane("a"), Fake("1"));
  Prepare().RecordGraph();
  EXPECT_EQ(log_, Log{});
}

}  // namespace
}  // namespace overlapbench
