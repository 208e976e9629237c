// Schedules, without a device: what they refuse, and what follows from their structure.
#include "fixtures/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "fake_workload.h"
#include "schedules.h"

namespace overlapbench {
namespace {

std::vector<std::string> NamesOf(const std::vector<Work>& works) {
  std::vector<std::string> names;
  for (const Work& work : works) names.push_back(work->name);
  return names;
}
using Names = std::vector<std::string>;

// Add's refusal of a third step, after one on each of two lanes.
std::string RefusalOf(std::size_t lane, const Schedule::StepOptions& options) {
  Schedule schedule;
  for (const char* name : {"a", "b"})
    schedule.Add(schedule.AddLane({.name = name}), WorkNamed(name));
  try {
    schedule.Add(lane, WorkNamed("third"), options);
  } catch (const Error& error) {
    EXPECT_EQ(schedule.steps().size(), 2U) << "refused, but added";
    return error.what();
  }
  return "";
}

TEST(Schedule, RefusesUnknownLanesAndPrerequisites) {
  const std::string refusal =
      "step 2 ('third') needs an existing lane, and waits for earlier steps";
  EXPECT_EQ(RefusalOf(1, {.after = {0, 1}, .host_after = {0, 1}}), "");
  EXPECT_EQ(RefusalOf(2, {}), refusal);
  EXPECT_EQ(RefusalOf(1, {.after = {0, 2}}), refusal);
  EXPECT_EQ(RefusalOf(1, {.host_after = {0, 2}}), refusal);
}

TEST(Schedule, FindsStepsAndLanesByName) {
  Schedule schedule;
  const std::size_t idle = schedule.AddLane({.name = "idle"});
  const std::size_t busy = schedule.AddLane({.name = "busy"});
  const Work work = WorkNamed("work");
  EXPECT_EQ(schedule.Add(busy, work, {.name = "other"}), 0U);
  EXPECT_EQ(schedule.Add(busy, work), 1U);
  EXPECT_EQ(schedule.Add(busy, work), 2U);
  EXPECT_EQ(schedule.LaneNamed("idle"), idle);
  EXPECT_EQ(schedule.LaneNamed("busy"), busy);
  EXPECT_EQ(schedule.StepNamed("other"), 0U);
  EXPECT_EQ(schedule.StepNamed("work"), 1U);  // the first of them
  EXPECT_THROW(static_cast<void>(schedule.StepNamed("busy")), Error);
  EXPECT_THROW(static_cast<void>(schedule.LaneNamed("work")), Error);
}

TEST(Schedule, ListsEachWorkOnceInTheOrderOfItsFirstStep) {
  Schedule schedule;
  const std::size_t lane = schedule.AddLane({.name = "lane"});
  const Work a = WorkNamed("a");
  const Work b = WorkNamed("b");
  for (const Work& work : {b, a, b, a}) schedule.Add(lane, work);
  EXPECT_EQ(schedule.works(), (std::vector<Work>{b, a}));
}

TEST(Schedule, AWorkIsMadeFromWhatASpecOffers) {
  Behaviour behaviour;
  WorkloadSpec spec;
  spec.name = "Lamp";
  spec.work_class = WorkClass::kMemory;
  spec.footprint = [](const Settings& settings) -> Footprint {
    return {.device_bytes = static_cast<std::size_t>(settings.Integer("watts"))};
  };
  spec.make = [&](const Settings& settings) {
    behaviour.cost.flops = static_cast<double>(settings.Integer("watts"));
    return std::make_unique<FakeWorkload>(behaviour);
  };
  const Settings settings = Settings().With("watts", "60");
  const Work own = MakeWork(spec, settings);
  EXPECT_EQ(own->name, "Lamp");
  EXPECT_EQ(own->work_class, WorkClass::kMemory);
  EXPECT_EQ(own->footprint.device_bytes, 60U);
  EXPECT_EQ(own->make()->cost().flops, 60);
  EXPECT_EQ(MakeWork(spec, settings, "left")->name, "left");
}

TEST(Schedule, SharedWorkTakesItsMemoryOnce) {
  const Work a = WorkNamed("a", {.device_bytes = 1, .host_bytes = 20});
  const Work b = WorkNamed("b", {.device_bytes = 300, .host_bytes = 4000});
  const Footprint sum = FootprintOf(std::array{a, b, a});
  EXPECT_EQ(sum.device_bytes, 301U);
  EXPECT_EQ(sum.host_bytes, 4020U);
  EXPECT_EQ(FootprintOf({}).device_bytes, 0U);
}

TEST(Schedule, MemoryThatWorksShareIsCountedOnce) {
  const int one = 0;
  const int other = 0;
  const auto sharing = [](const char* name, std::vector<UsedMemory> shared) {
    return std::make_shared<const WorkPlan>(
        WorkPlan{.name = name, .footprint = {.device_bytes = 1}, .shared = std::move(shared)});
  };
  const Work a = sharing("a", {{&one, 20}, {&one, 20}});
  const Work b = sharing("b", {{&one, 20}, {&other, 300}});
  EXPECT_EQ(FootprintOf(std::array{a}).device_bytes, 21U);
  EXPECT_EQ(FootprintOf(std::array{a, b}).device_bytes, 322U);
}

TEST(Sinks, AreTheWorksThatNothingWaitsFor) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  built.Add("b", {.after = {a}});
  built.Add("c", {.host_after = {a}});
  built.Add("d");
  EXPECT_EQ(NamesOf(built.schedule.sinks()), (Names{"b", "c", "d"}));
}

TEST(Sinks, AWorkThatOnlyWaitsForItselfIsASink) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  built.Add("a", {.after = {a}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"a"});
}

TEST(Sinks, IndependentWorksOnOneLaneAreAllSinks) {
  ScheduleBuilder built;
  built.Add("a", {}, "lane");
  built.Add("b", {}, "lane");
  EXPECT_EQ(NamesOf(built.schedule.sinks()), (Names{"a", "b"}));
}

TEST(Sinks, CycleIsVerifiedByItsLastWork) {
  ScheduleBuilder built;
  const std::size_t make = built.Add("make");
  const std::size_t use = built.Add("use", {.after = {make}});
  const std::size_t next = built.Add("make", {.after = {use}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"make"});
  built.Add("use", {.after = {next}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"use"});
}

// The independent work does not determine the others' sink.
TEST(Sinks, CycleIsASinkBesideAnIndependentWork) {
  ScheduleBuilder built;
  built.Add("apart");
  const std::size_t before = built.Add("before");
  const std::size_t make = built.Add("make", {.after = {before}});
  const std::size_t use = built.Add("use", {.after = {make}});
  const std::size_t again = built.Add("make", {.after = {use}});
  built.Add("use", {.host_after = {again}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), (Names{"apart", "use"}));
}

TEST(Sinks, AResultIsASinkEvenIfSomethingWaitsForIt) {
  Schedule schedule;
  const std::size_t lane = schedule.AddLane({.name = "lane"});
  const Work kept = std::make_shared<const WorkPlan>(WorkPlan{.name = "kept", .is_result = true});
  const std::size_t first = schedule.Add(lane, kept);
  schedule.Add(lane, WorkNamed("next"),
               {.after = {schedule.Add(lane, WorkNamed("read"), {.after = {first}})}});
  EXPECT_EQ(NamesOf(schedule.sinks()), (Names{"kept", "next"}));
}

TEST(Sinks, CycleIsVerifiedByItsSuccessor) {
  ScheduleBuilder built;
  const std::size_t make = built.Add("make");
  const std::size_t use = built.Add("use", {.after = {make}});
  const std::size_t again = built.Add("make", {.after = {use}});
  built.Add("behind", {.after = {again}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"behind"});
}

TEST(Alone, AWorkKeepsItsPartsAndNamesButNoOtherWorkOrWaits) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  const std::size_t b =
      built.Add("b", {.part = {0, 2}, .after = {a}, .host_after = {a}, .name = "first"}, "b");
  built.Add("b", {.part = {1, 2}, .after = {b}, .name = "second"}, "b");
  built.schedule.leader = 0;
  const Schedule alone = built.schedule.Alone(built.work("b"));
  EXPECT_EQ(alone.works(), std::vector<Work>{built.work("b")});
  ASSERT_EQ(alone.steps().size(), 2U);
  ASSERT_EQ(alone.lanes().size(), 1U);
  EXPECT_EQ(alone.lanes()[0].name, "b");
  EXPECT_FALSE(alone.leader.has_value());
  EXPECT_FALSE(alone.host_waits());
  for (long i = 0; i < 2; ++i) {
    const Schedule::Step& step = alone.steps()[i];
    EXPECT_EQ(step.name, i == 0 ? "first" : "second");
    EXPECT_EQ(step.options.part.index, i);
    EXPECT_EQ(step.options.part.count, 2);
    EXPECT_TRUE(step.options.after.empty());
  }
}

// Parts on lanes of their own run side by side, but those of one engine one after the other.
TEST(Alone, AWorkHasALaneForEachOfItsEngines) {
  ScheduleBuilder built;
  for (const char* lane : {"0", "1", "2"}) {
    built.Add("copy", {.engine = "bus"}, lane);
    built.Add("compute", {}, lane);
  }
  const Schedule copy = built.schedule.Alone(built.work("copy"));
  ASSERT_EQ(copy.lanes().size(), 1U);
  EXPECT_EQ(copy.lanes()[0].name, "bus");
  EXPECT_EQ(copy.longest_lane(), 3);
  const Schedule compute = built.schedule.Alone(built.work("compute"));
  ASSERT_EQ(compute.lanes().size(), 3U);
  EXPECT_EQ(compute.lanes()[2].name, "2");
  EXPECT_EQ(compute.longest_lane(), 1);
}

TEST(Alone, WorkInAPartitionStaysThere) {
  Schedule schedule;
  const Work work = WorkNamed("work");
  schedule.Add(schedule.AddLane({.name = "limited", .sms = 64}), work);
  EXPECT_EQ(schedule.Alone(work).lanes().at(0).sms, 64);
}

TEST(Alone, WorkOnAHostThreadStaysThere) {
  Schedule schedule;
  const Work work = WorkNamed("work");
  schedule.Add(schedule.AddLane({.name = "lane", .on_host = true}), work);
  EXPECT_TRUE(schedule.Alone(work).lanes().at(0).on_host);
}

TEST(Schedule, TheLongestLaneHasTheMostWork) {
  ScheduleBuilder built;
  EXPECT_EQ(built.schedule.longest_lane(), 0);
  for (const char* lane : {"x", "y", "x", "y", "x"}) built.Add("work", {}, lane);
  EXPECT_EQ(built.schedule.longest_lane(), 3);
  for (long i = 0; i < 6; ++i) built.Add("parted", {.part = {i, 4}}, "y");
  EXPECT_EQ(built.schedule.longest_lane(), 3.5);
}

// Layers of a step: each gathers and computes, and waits for both of the previous layer.
Schedule Layers(int count) {
  Schedule schedule;
  const Work gather = WorkOfClass(WorkClass::kComm, "gather");
  const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  const std::size_t comm = schedule.AddLane({.name = "comm"});
  const std::size_t comp = schedule.AddLane({.name = "comp", .priority = 1});
  for (long i = 0; i < count; ++i) {
    const Part part{i, count};
    const std::size_t gathered = schedule.Add(comm, gather, {.part = part});
    schedule.Add(comp, compute, {.part = part, .after = {gathered}, .name = "layer"});
  }
  schedule.leader = comp;
  return schedule;
}

TEST(Prioritize, AppliesOnlyToLanesOfOneClass) {
  Schedule schedule;
  const Work gemm = WorkOfClass(WorkClass::kCompute, "gemm");
  const Work sum = WorkOfClass(WorkClass::kComm, "sum");
  const auto comp = schedule.AddLane({.name = "comp"});
  const auto comm = schedule.AddLane({.name = "comm"});
  const auto both = schedule.AddLane({.name = "both"});
  const auto empty = schedule.AddLane({.name = "empty"});
  schedule.Add(comp, gemm);
  schedule.Add(comm, sum);
  schedule.Add(both, gemm);
  schedule.Add(both, sum);
  schedule.Prioritize(WorkClass::kComm, 3);
  EXPECT_EQ(schedule.lanes()[comp].priority, 0);
  EXPECT_EQ(schedule.lanes()[comm].priority, 3);
  EXPECT_EQ(schedule.lanes()[both].priority, 0);
  EXPECT_EQ(schedule.lanes()[empty].priority, 0);
  schedule.Prioritize(WorkClass::kCompute, 2);
  EXPECT_EQ(schedule.lanes()[comp].priority, 2);
  EXPECT_EQ(schedule.lanes()[comm].priority, 3);
}

TEST(Only, StepsOfAClassKeepTheirLanesPartsAndNames) {
  const Schedule only = Layers(3).Only({WorkClass::kCompute});
  ASSERT_EQ(only.steps().size(), 3U);
  ASSERT_EQ(only.lanes().size(), 2U);
  EXPECT_EQ(only.leader, 1U);
  for (long i = 0; i < 3; ++i) {
    const Schedule::Step& step = only.steps()[i];
    EXPECT_EQ(step.lane, 1U);
    EXPECT_EQ(step.options.part.index, i);
    EXPECT_EQ(step.name, "layer");
    EXPECT_TRUE(step.options.after.empty());
  }
  EXPECT_EQ(Layers(3).Only({WorkClass::kCompute, WorkClass::kComm}).steps().size(), 6U);
  EXPECT_TRUE(Layers(3).Only({WorkClass::kMemory}).steps().empty());
}

TEST(Only, DependenciesPassThroughRemovedSteps) {
  Schedule schedule;
  const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  const Work send = WorkOfClass(WorkClass::kComm, "send");
  for (const char* name : {"a", "b", "c"}) schedule.AddLane({.name = name});
  const std::size_t first = schedule.Add(0, compute);
  const std::size_t other = schedule.Add(0, compute);
  const std::size_t sent = schedule.Add(1, send, {.after = {first}});
  const std::size_t again = schedule.Add(1, send, {.after = {other}});
  schedule.Add(2, compute, {.after = {again}, .host_after = {sent}});
  const Schedule only = schedule.Only({WorkClass::kCompute});
  ASSERT_EQ(only.steps().size(), 3U);
  // The second send follows the first on its lane, and so hands on what that one waited for.
  EXPECT_EQ(only.steps()[2].options.after, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(only.steps()[2].options.host_after, std::vector<std::size_t>{0});
}

TEST(Overlappable, IsTheComputationIndependentOfSomeCommunication) {
  const std::vector<double> step_ms = {1, 10, 2, 20, 4, 40};
  // Computation 0 may run beside the gathers 1 and 2, computation 1 beside gather 2, the last
  // beside none.
  EXPECT_EQ(Overlappable_ms(Layers(3), step_ms), 30);
  EXPECT_EQ(Overlappable_ms(Layers(1), std::vector<double>{1, 10}), 0);
  EXPECT_EQ(Overlappable_ms(Schedule{}, {}), 0);
}

// Steps are counted in words of 64.
TEST(Overlappable, OfManySteps) {
  const auto ones = [](int count) { return std::vector<double>(count, 1.0); };
  for (const int count : {1, 31, 32, 33, 100})
    EXPECT_EQ(Overlappable_ms(Layers(count), ones(2 * count)), count - 1) << count;
  for (const int count : {63, 64, 65, 66, 127, 128, 129, 200}) {
    Schedule chain;
    for (const char* name : {"comp", "comm"}) chain.AddLane({.name = name});
    const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
    const Work send = WorkOfClass(WorkClass::kComm, "send");
    std::vector<std::size_t> after;
    for (int i = 0; i < count; ++i)
      after = {chain.Add(i % 2, i % 2 == 0 ? compute : send, {.after = after})};
    EXPECT_EQ(Overlappable_ms(chain, ones(count)), 0) << count;
  }
}

TEST(Overlappable, TheFirstStepCounts) {
  Schedule schedule;
  for (const char* name : {"comp", "comm"}) schedule.AddLane({.name = name});
  schedule.Add(0, WorkOfClass(WorkClass::kCompute, "compute"));
  schedule.Add(1, WorkOfClass(WorkClass::kComm, "send"));
  EXPECT_EQ(Overlappable_ms(schedule, std::vector<double>{5, 3}), 5);
}

TEST(Overlappable, NothingOverlapsAHostWait) {
  Schedule schedule;
  for (const char* name : {"comm", "comp"}) schedule.AddLane({.name = name});
  const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  const Work copy = WorkOfClass(WorkClass::kMemory, "copy");
  const std::size_t copied = schedule.Add(0, copy);
  schedule.Add(1, compute, {.host_after = {copied}});
  schedule.Add(1, compute);
  EXPECT_EQ(Overlappable_ms(schedule, std::vector<double>{1, 2, 4}), 0);
}

// As IsTheComputationIndependentOfSomeCommunication, by works; the communication comes first.
TEST(WorksBeside, AreThoseWithStepsInNoOrder) {
  const auto pairs = [](const Schedule& schedule) {
    Names names;
    for (const auto& [one, other] : WorksBeside(schedule))
      names.push_back(one->name + " beside " + other->name);
    return names;
  };
  EXPECT_EQ(pairs(Layers(3)), Names{"gather beside compute"});
  EXPECT_EQ(pairs(Layers(1)), Names{});
  Schedule free;
  for (const char* name : {"comp", "comm", "mem"}) free.AddLane({.name = name});
  free.Add(0, WorkOfClass(WorkClass::kCompute, "compute"));
  free.Add(0, WorkOfClass(WorkClass::kCompute, "more"));
  const std::size_t sent = free.Add(1, WorkOfClass(WorkClass::kComm, "send"));
  free.Add(2, WorkOfClass(WorkClass::kMemory, "copy"), {.after = {sent}});
  EXPECT_EQ(pairs(free), (Names{"send beside compute", "send beside more", "copy beside compute",
                                "copy beside more"}));
}

TEST(Beside, BothKeepTheirLanesPartsAndWaits) {
  const Schedule one = Layers(1);
  Schedule other;
  other.AddLane({.name = "own"});
  const Work work = WorkNamed("work");
  const std::size_t first = other.Add(0, work, {.part = {0, 2}});
  other.Add(0, work, {.part = {1, 2}, .after = {first}, .name = "second"});
  const Schedule both = one.Beside(other);
  const std::size_t before = one.steps().size();
  ASSERT_EQ(both.steps().size(), before + 2);
  EXPECT_EQ(both.lanes().size(), one.lanes().size() + 1);
  EXPECT_EQ(both.steps().back().lane, one.lanes().size());
  EXPECT_EQ(both.steps().back().options.after, std::vector<std::size_t>{before});
  EXPECT_EQ(both.steps().back().options.part.count, 2);
  EXPECT_EQ(both.steps().back().name, "second");
}

TEST(Beside, ATransferKeepsItsOtherEnd) {
  Schedule transfer;
  for (const int rank : {0, 1}) transfer.AddLane({.name = std::to_string(rank), .rank = rank});
  const Work send = WorkOfClass(WorkClass::kComm, "send");
  transfer.Add(1, send, {.other_end = transfer.Add(0, send)});
  const Schedule both = transfer.Beside(transfer);
  EXPECT_EQ(both.steps()[1].options.other_end, 0U);
  EXPECT_EQ(both.steps()[3].options.other_end, 2U);
}

TEST(Schedule, ReplacingAWorkChangesNothingElse) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  built.Add("b", {.after = {a}});
  built.Add("a", {.part = {1, 2}});
  built.schedule.leader = 1;
  const Work other = WorkNamed("other");
  const Schedule changed = built.schedule.With(built.work("a"), other);
  EXPECT_EQ(changed.works(), (std::vector<Work>{other, built.work("b")}));
  EXPECT_EQ(changed.steps()[1].options.after, std::vector<std::size_t>{a});
  EXPECT_EQ(changed.steps()[2].work, other);
  EXPECT_EQ(changed.steps()[2].options.part.index, 1);
  EXPECT_EQ(changed.leader, 1U);
  EXPECT_EQ(built.schedule.steps()[0].work, built.work("a"));
}

TEST(Schedule, WithoutStepsKeepsItsLanes) {
  Schedule schedule;
  schedule.Add(schedule.AddLane({"device", 2}), WorkNamed("work"));
  schedule.AddLane({"host", 0, true});
  const Schedule empty = schedule.WithoutSteps();
  EXPECT_TRUE(empty.steps().empty());
  ASSERT_EQ(empty.lanes().size(), 2U);
  EXPECT_EQ(empty.lanes()[0].priority, 2);
  EXPECT_TRUE(empty.lanes()[1].on_host);
}

TEST(Schedule, CommunicatesIfOneOfItsWorksDoes) {
  Schedule schedule;
  const std::size_t lane = schedule.AddLane({.name = "lane"});
  for (const WorkClass other : {WorkClass::kCompute, WorkClass::kMemory})
    schedule.Add(lane,
                 std::make_shared<const WorkPlan>(WorkPlan{.name = "alone", .work_class = other}));
  EXPECT_FALSE(schedule.communicates());
  schedule.Add(lane, std::make_shared<const WorkPlan>(
                         WorkPlan{.name = "comm", .work_class = WorkClass::kComm}));
  EXPECT_TRUE(schedule.communicates());
}

TEST(Schedule, TheHostWaitsForHostLanesAndOnRequest) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  built.Add("b", {.after = {a}});
  EXPECT_FALSE(built.schedule.host_waits());
  ScheduleBuilder told = built;
  told.Add("c", {.host_after = {a}});
  EXPECT_TRUE(told.schedule.host_waits());
  built.schedule.AddLane({.name = "host", .on_host = true});
  EXPECT_TRUE(built.schedule.host_waits());
}

TEST(Schedule, TheHostOrdersStepsBetweenItsThreadsAndOtherLanes) {
  Schedule schedule;
  for (const bool on_host : {false, false, true})
    schedule.AddLane({.name = "lane", .on_host = on_host});
  EXPECT_FALSE(schedule.HostOrders(0, 1));
  EXPECT_TRUE(schedule.HostOrders(0, 2));
  EXPECT_TRUE(schedule.HostOrders(2, 1));
  EXPECT_FALSE(schedule.HostOrders(2, 2));
}

}  // namespace
}  // namespace overlapbench
