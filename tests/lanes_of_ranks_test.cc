// Schedules whose lanes belong to single ranks, without a device: what may wait for another rank,
// who computes and who communicates, and what of it overlaps.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_workload.h"
#include "fixtures/schedule.h"
#include "schedules.h"

namespace overlapbench {
namespace {

// A computation on rank 0, a transfer of its result to rank 1, and a computation there on it.
struct TwoRanks {
  Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  Work transfer = WorkOfClass(WorkClass::kComm, "transfer");
  Schedule schedule;

  TwoRanks() {
    for (const int rank : {0, 1}) {
      schedule.AddLane({.name = "comp " + std::to_string(rank), .rank = rank});
      schedule.AddLane({.name = "comm " + std::to_string(rank), .rank = rank});
    }
    const std::size_t made = schedule.Add(0, compute, {.engine = "sms"});
    const std::size_t sent = schedule.Add(1, transfer, {.after = {made}, .name = "send"});
    const std::size_t received =
        schedule.Add(3, transfer, {.after = {made}, .other_end = sent, .name = "receive"});
    schedule.Add(2, compute, {.after = {received}, .engine = "sms"});
  }
};

TEST(LanesOfRanks, OnlyCommunicationWaitsForAnotherRank) {
  const std::string refusal =
      "step 4 ('x') waits for another rank, which only a communication on the device can";
  const auto refusal_of = [](std::size_t lane, const Schedule::StepOptions& options) {
    try {
      TwoRanks().schedule.Add(lane, WorkNamed("x"), options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal_of(0, {.after = {0, 1}}), "");
  EXPECT_EQ(refusal_of(0, {.after = {3}}), refusal);
  EXPECT_EQ(refusal_of(0, {.host_after = {0}}), refusal);
  Schedule schedule = TwoRanks().schedule;
  const std::size_t everywhere = schedule.AddLane({.name = "everywhere"});
  EXPECT_NO_THROW(schedule.Add(everywhere, TwoRanks().transfer, {.after = {0}}));
  EXPECT_NO_THROW(schedule.Add(0, WorkNamed("x"), {.after = {4}})) << "its rank has that one too";
  EXPECT_THROW(schedule.Add(everywhere, WorkNamed("x"), {.after = {0}}), Error);
  EXPECT_THROW(schedule.Add(everywhere, WorkNamed("x"), {.host_after = {0}}), Error);
  EXPECT_THROW(schedule.AddLane({.name = "thread", .on_host = true, .rank = 0}), Error);
}

TEST(LanesOfRanks, ARankHasTheWorksOfItsLanes) {
  Schedule schedule;
  const Work own = WorkNamed("own");
  const Work all = WorkNamed("all");
  schedule.Add(schedule.AddLane({.name = "1", .rank = 1}), own);
  schedule.Add(schedule.AddLane({.name = "all"}), all);
  EXPECT_FALSE(schedule.Has(own, 0));
  EXPECT_TRUE(schedule.Has(own, 1));
  EXPECT_TRUE(schedule.Has(all, 0));
}

// Its lanes stay with their ranks, which have engines of their own.
TEST(LanesOfRanks, AWorkAloneRunsOnAllItsRanksAtOnce) {
  const TwoRanks ranks;
  const Schedule alone = ranks.schedule.Alone(ranks.compute);
  ASSERT_EQ(alone.lanes().size(), 2U);
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(alone.lanes()[rank].rank, rank);
    EXPECT_EQ(alone.lanes()[rank].name, ranks.schedule.lanes()[2 * rank].name);
  }
  EXPECT_EQ(alone.longest_lane(), 1);
}

TEST(LanesOfRanks, TheirOwnerComputesButAllCommunicate) {
  const TwoRanks ranks;
  const std::vector<Schedule::Step>& steps = ranks.schedule.steps();
  EXPECT_EQ(ranks.schedule.ComputerOf(steps.front()), 0);
  EXPECT_EQ(ranks.schedule.ComputerOf(steps.back()), 1);
  EXPECT_EQ(ranks.schedule.ComputerOf(steps[1]), std::nullopt) << "it sends";
  Schedule schedule;
  const std::size_t everywhere = schedule.AddLane({.name = "everywhere"});
  schedule.Add(everywhere, WorkNamed("x"));
  EXPECT_FALSE(schedule.has_lanes_of_ranks());
  EXPECT_EQ(schedule.ComputerOf(schedule.steps().front()), std::nullopt);
  const std::size_t own = schedule.AddLane({.name = "own", .rank = 1});
  EXPECT_TRUE(schedule.has_lanes_of_ranks());
  for (int i = 0; i < 2; ++i) schedule.Add(own, WorkNamed("x"));
  EXPECT_EQ(schedule.longest_lane(0), 1);
  EXPECT_EQ(schedule.longest_lane(1), 2);
}

TEST(LanesOfRanks, WithoutCommunicationNothingCarriesAWait) {
  const TwoRanks ranks;
  const Schedule comp = ranks.schedule.Only({WorkClass::kCompute});
  ASSERT_EQ(comp.steps().size(), 2U);
  EXPECT_TRUE(comp.steps()[1].options.after.empty());
  const Schedule both = ranks.schedule.Only({WorkClass::kCompute, WorkClass::kComm});
  EXPECT_EQ(both.steps()[2].options.after, std::vector<std::size_t>{0});
}

TEST(LanesOfRanks, ASendAndItsReceiveAreOneCommunication) {
  const TwoRanks ranks;
  const Schedule& schedule = ranks.schedule;
  for (const auto& [step, communication] : {std::pair(0, 0), {1, 1}, {2, 1}, {3, 3}})
    EXPECT_EQ(schedule.CommunicationOf(step), communication);
  const Schedule comm = schedule.Only({WorkClass::kComm});
  EXPECT_EQ(comm.CommunicationOf(1), 0) << "the places of steps have changed";
  EXPECT_NO_THROW(schedule.Only({WorkClass::kCompute}));
}

TEST(LanesOfRanks, BothEndsOfACommunicationKnowTheOther) {
  const TwoRanks ranks;
  EXPECT_EQ(ranks.schedule.OtherEndOf(0), std::nullopt);
  EXPECT_EQ(ranks.schedule.OtherEndOf(1), 1);
  EXPECT_EQ(ranks.schedule.OtherEndOf(2), 0);
  EXPECT_EQ(ranks.schedule.OtherEndOf(3), std::nullopt);
}

TEST(LanesOfRanks, OnlyCommunicationsOfDifferentRanksMeet) {
  const auto meets = [](std::size_t lane, WorkClass work_class, std::size_t step) {
    TwoRanks ranks;
    ranks.schedule.AddLane({.name = "everywhere"});
    ranks.schedule.Add(lane, WorkOfClass(work_class, "x"), {.other_end = step});
  };
  EXPECT_NO_THROW(meets(3, WorkClass::kComm, 1));
  EXPECT_THROW(meets(3, WorkClass::kComm, 0), Error) << "meets a computation";
  EXPECT_THROW(meets(3, WorkClass::kComm, 2), Error) << "meets a step of its rank";
  EXPECT_THROW(meets(3, WorkClass::kComm, 4), Error) << "meets a step that is not there";
  EXPECT_THROW(meets(3, WorkClass::kCompute, 1), Error);
  EXPECT_THROW(meets(4, WorkClass::kComm, 1), Error) << "of every rank";
}

TEST(LanesOfRanks, ComputationRunsBesideCommunicationOfItsOwnRank) {
  Schedule schedule;
  const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  const Work transfer = WorkOfClass(WorkClass::kComm, "transfer");
  for (const auto& [name, rank] : {std::pair("a", 0), {"b", 1}, {"c", 1}, {"d", 2}, {"e", 2}})
    schedule.AddLane({.name = name, .rank = rank});
  for (const std::size_t lane : {0U, 1U, 3U}) schedule.Add(lane, compute);
  for (const std::size_t lane : {2U, 4U}) schedule.Add(lane, transfer);
  const std::vector<double> step_ms = {100, 20, 3, 1, 1};
  EXPECT_EQ(Overlappable_ms(schedule, step_ms), 20) << "on rank 1, where it is longest";
  schedule.Add(schedule.AddLane({.name = "everywhere"}), compute);
  EXPECT_EQ(Overlappable_ms(schedule, std::vector<double>{100, 20, 3, 1, 1, 7}), 27);
}

}  // namespace
}  // namespace overlapbench
