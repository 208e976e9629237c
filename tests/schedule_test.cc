// Schedules, without a device: what they refuse, and what follows from their structure.
#include "fixtures/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "schedules.h"

namespace overlapbench {
namespace {

std::vector<std::string> NamesOf(const std::vector<Work>& works) {
  std::vector<std::string> names;
  for (const Work& work : works) names.push_back(work->name);
  return names;
}
using Names = std::vector<std::string>;

// What Add says of a third step, behind one on each of two lanes.
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

TEST(Schedule, RefusesStepsOnLanesAndAfterStepsThatAreNotThere) {
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

TEST(Schedule, SharedWorkTakesItsMemoryOnce) {
  const Work a = WorkNamed("a", {.device_bytes = 1, .host_bytes = 20});
  const Work b = WorkNamed("b", {.device_bytes = 300, .host_bytes = 4000});
  const Footprint sum = FootprintOf(std::array{a, b, a});
  EXPECT_EQ(sum.device_bytes, 301U);
  EXPECT_EQ(sum.host_bytes, 4020U);
  EXPECT_EQ(FootprintOf({}).device_bytes, 0U);
}

TEST(Sinks, AreTheWorksThatNobodyWaitsFor) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  built.Add("b", {.after = {a}});
  built.Add("c", {.host_after = {a}});
  built.Add("d");
  EXPECT_EQ(NamesOf(built.schedule.sinks()), (Names{"b", "c", "d"}));
}

TEST(Sinks, AWorkThatWaitsForItselfIsOne) {
  ScheduleBuilder built;
  const std::size_t a = built.Add("a");
  built.Add("a", {.after = {a}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"a"});
}

TEST(Sinks, OneLaneAloneHidesNothing) {
  ScheduleBuilder built;
  built.Add("a", {}, "lane");
  built.Add("b", {}, "lane");
  EXPECT_EQ(NamesOf(built.schedule.sinks()), (Names{"a", "b"}));
}

TEST(Sinks, OfWorksThatWaitForEachOtherTheLastToRunShows) {
  ScheduleBuilder built;
  const std::size_t make = built.Add("make");
  const std::size_t use = built.Add("use", {.after = {make}});
  const std::size_t next = built.Add("make", {.after = {use}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"make"});
  built.Add("use", {.after = {next}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"use"});
}

// The one that stands apart says nothing of them.
TEST(Sinks, WorksThatWaitForEachOtherShowBesideOneThatDoesNot) {
  ScheduleBuilder built;
  built.Add("apart");
  const std::size_t before = built.Add("before");
  const std::size_t make = built.Add("make", {.after = {before}});
  const std::size_t use = built.Add("use", {.after = {make}});
  const std::size_t again = built.Add("make", {.after = {use}});
  built.Add("use", {.host_after = {again}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), (Names{"apart", "use"}));
}

TEST(Sinks, WorksThatWaitForEachOtherAreShownByOneBehindThem) {
  ScheduleBuilder built;
  const std::size_t make = built.Add("make");
  const std::size_t use = built.Add("use", {.after = {make}});
  const std::size_t again = built.Add("make", {.after = {use}});
  built.Add("behind", {.after = {again}});
  EXPECT_EQ(NamesOf(built.schedule.sinks()), Names{"behind"});
}

TEST(Alone, AWorkKeepsItsPartsAndNamesButNeitherOthersNorWaits) {
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

TEST(Schedule, TheLongestLaneHasMostToDo) {
  ScheduleBuilder built;
  EXPECT_EQ(built.schedule.longest_lane(), 0);
  for (const char* lane : {"x", "y", "x", "y", "x"}) built.Add("work", {}, lane);
  EXPECT_EQ(built.schedule.longest_lane(), 3);
  for (long i = 0; i < 6; ++i) built.Add("parted", {.part = {i, 4}}, "y");
  EXPECT_EQ(built.schedule.longest_lane(), 3.5);
}

TEST(Schedule, WithAnotherWorkNothingElseChanges) {
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

TEST(Schedule, TheHostWaitsForHostLanesAndWhereItIsTold) {
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
