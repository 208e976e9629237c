// The orders of pipelines, compared with tables written by hand or published, and checked for what
// holds for all of them.
#include "benchmarks/pipeline_order.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

using enum PipelineOrder;
using Lines = std::vector<std::string>;

Lines TableOf(PipelineOrder order, const PipelineShape& shape) {
  Lines lines;
  for (const Actions& actions : ActionTable(order, shape)) lines.push_back(ToString(actions));
  return lines;
}

// ---- Tables

TEST(GPipe, RunsAllForwardsBeforeTheFirstBackward) {
  EXPECT_EQ(TableOf(kGPipe, {.ranks = 3, .microbatches = 3}), (Lines{
                                                                  "0F0 0F1 0F2 0B0 0B1 0B2",
                                                                  "1F0 1F1 1F2 1B0 1B1 1B2",
                                                                  "2F0 2F1 2F2 2B0 2B1 2B2",
                                                              }));
}

TEST(OneFOneB, RunsBackwardAsSoonAsPossible) {
  EXPECT_EQ(TableOf(kOneFOneB, {.ranks = 4, .microbatches = 6}),
            (Lines{
                "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0B3 0B4 0B5",
                "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5",
                "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2B5",
                "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5",
            }));
}

TEST(OneFOneB, EqualsGPipeOnTheFirstRanksForFewMicroBatches) {
  EXPECT_EQ(TableOf(kOneFOneB, {.ranks = 4, .microbatches = 2}), (Lines{
                                                                     "0F0 0F1 0B0 0B1",
                                                                     "1F0 1F1 1B0 1B1",
                                                                     "2F0 2F1 2B0 2B1",
                                                                     "3F0 3B0 3F1 3B1",
                                                                 }));
}

// The order of PyTorch's ScheduleInterleaved1F1B, without the slots in which a rank waits.
TEST(Interleaved, IsThePublishedOrder) {
  EXPECT_EQ(TableOf(kInterleaved, {.ranks = 2, .chunks = 2, .microbatches = 4}),
            (Lines{
                "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
                "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3",
            }));
  EXPECT_EQ(TableOf(kInterleaved, {.ranks = 4, .chunks = 2, .microbatches = 4}),
            (Lines{
                "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 4B0 4B1 4B2 4B3 0B0 0B1 0B2 0B3",
                "1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 5B0 5B1 5B2 5B3 1B0 1B1 1B2 1B3",
                "2F0 2F1 2F2 2F3 6F0 6F1 6F2 6B0 6F3 6B1 6B2 6B3 2B0 2B1 2B2 2B3",
                "3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3B0 3B1 3B2 3B3",
            }));
  EXPECT_EQ(TableOf(kInterleaved, {.ranks = 2, .chunks = 3, .microbatches = 2}),
            (Lines{
                "0F0 0F1 2F0 2F1 4F0 4F1 4B0 4B1 2B0 2B1 0B0 0B1",
                "1F0 1F1 3F0 3F1 5F0 5B0 5F1 5B1 3B0 3B1 1B0 1B1",
            }));
}

// What PyTorch's schedules of the same names do (tests/data/record_torch_pipelines.py).
TEST(AllOrders, MatchPyTorch) {
  const std::map<std::string, PipelineOrder> orders = {
      {"GPipe", kGPipe}, {"OneFOneB", kOneFOneB}, {"Interleaved", kInterleaved}};
  std::ifstream recorded(TEST_DATA "/torch_pipelines.txt");
  std::map<PipelineOrder, int> tables;
  for (std::string line; std::getline(recorded, line);) {
    if (line.starts_with('#')) continue;
    SCOPED_TRACE(line);
    std::istringstream head(line);
    std::string order;
    PipelineShape shape;
    head >> order >> shape.ranks >> shape.chunks >> shape.microbatches;
    ASSERT_TRUE(head && orders.contains(order));
    Lines lines(shape.ranks);
    for (std::string& actions : lines) ASSERT_TRUE(std::getline(recorded, actions));
    EXPECT_EQ(TableOf(orders.at(order), shape), lines);
    ++tables[orders.at(order)];
  }
  EXPECT_EQ(tables, (std::map<PipelineOrder, int>{{kGPipe, 5}, {kOneFOneB, 5}, {kInterleaved, 6}}));
}

TEST(OneAfterTheOther, FinishesAMicroBatchBeforeTheNext) {
  EXPECT_EQ(ToString(OneAfterTheOther({.ranks = 2, .chunks = 2, .microbatches = 2})),
            "0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0 0F1 1F1 2F1 3F1 3B1 2B1 1B1 0B1");
}

// ---- What holds for all of them

template <class Check>
void ForManyPipelines(const Check& check) {
  for (const PipelineOrder order : {kGPipe, kOneFOneB, kInterleaved}) {
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 13, 33, 64}) {
      for (int chunks = 1; chunks <= (order == kInterleaved ? 4 : 1); ++chunks) {
        const int step = order == kInterleaved ? ranks : ranks > 8 ? 8 : 1;
        for (int microbatches = step; microbatches <= std::max(32, step); microbatches += step) {
          SCOPED_TRACE(fmt::format("order {} of {} ranks with {} stages, {} micro-batches",
                                   static_cast<int>(order), ranks, chunks, microbatches));
          const PipelineShape shape{ranks, chunks, microbatches};
          check(shape, ActionTable(order, shape));
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(AllOrders, PassEveryMicroBatchThroughEveryStageOnceEachWay) {
  ForManyPipelines([](const PipelineShape& shape, const std::vector<Actions>& table) {
    std::set<Action> seen;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (const Action& action : table[rank]) {
        EXPECT_EQ(shape.RankOf(action.stage), rank);
        EXPECT_LT(action.stage, shape.stages());
        EXPECT_LT(action.microbatch, shape.microbatches);
        EXPECT_TRUE(seen.insert(action).second) << "twice";
      }
    }
    EXPECT_EQ(seen.size(), 2U * shape.stages() * shape.microbatches);
  });
}

// What `action` needs, written out.
std::vector<Action> NeededBy(const Action& action, int stages) {
  const auto [pass, stage, microbatch] = action;
  if (pass == Pass::kForward)
    return stage == 0 ? Actions{} : Actions{{Pass::kForward, stage - 1, microbatch}};
  Actions needed = {{Pass::kForward, stage, microbatch}};
  if (stage < stages - 1) needed.push_back({Pass::kBackward, stage + 1, microbatch});
  return needed;
}

// When played, each action comes after those that it needs, and each rank follows its list. If
// passes take equally long on all stages, the idle time is the formula's: no order adds to it.
TEST(AllOrders, ExecuteWithoutDeadlockAndWithTheFormulasBubbles) {
  ForManyPipelines([](const PipelineShape& shape, const std::vector<Actions>& table) {
    std::vector<Actions> played(shape.ranks);
    std::vector<double> free_at(shape.ranks);
    std::map<Action, double> ended_at;
    for (const Action& action : Play(table, shape)) {
      const int rank = shape.RankOf(action.stage);
      played[rank].push_back(action);
      double start = free_at[rank];
      for (const Action& needed : NeededBy(action, shape.stages())) {
        ASSERT_TRUE(ended_at.contains(needed));
        start = std::max(start, ended_at[needed]);
      }
      free_at[rank] = ended_at[action] = start + (action.pass == Pass::kForward ? 1 : 2);
    }
    EXPECT_EQ(played, table);
    const double busy = 3.0 * shape.chunks * shape.microbatches;
    EXPECT_NEAR(1 - busy / *std::ranges::max_element(free_at), BubbleShare(shape), 1e-12);
  });
}

TEST(Play, FindsADeadlock) {
  const PipelineShape shape{.ranks = 2, .microbatches = 2};
  std::vector<Actions> table = ActionTable(kOneFOneB, shape);
  std::swap(table[1][0], table[1][1]);  // backward before forward
  try {
    Play(table, shape);
    ADD_FAILURE() << "played";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the pipeline's ranks wait for each other after 2 of 8 actions");
  }
}

TEST(BubbleShare, IsThePublishedFormula) {
  EXPECT_DOUBLE_EQ(BubbleShare({.ranks = 4, .microbatches = 8}), 3.0 / 11);
  EXPECT_DOUBLE_EQ(BubbleShare({.ranks = 4, .chunks = 2, .microbatches = 8}), 3.0 / 19);
}

// What 1F1B is for.
TEST(MostInFlight, IsAllMicroBatchesForGPipeAndTheRankCountFor1F1B) {
  const PipelineShape shape{.ranks = 4, .microbatches = 8};
  EXPECT_EQ(MostInFlight(ActionTable(kGPipe, shape)[0]), 8);
  EXPECT_EQ(MostInFlight(ActionTable(kOneFOneB, shape)[0]), 4);
  EXPECT_EQ(MostInFlight(ActionTable(kOneFOneB, shape)[3]), 1);
}

}  // namespace
}  // namespace overlapbench
