// The pool of cores runs every block exactly once, whatever the numbers of cores, blocks and
// callers, and whatever the blocks throw.
#include "device/host/core_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace overlapbench {
namespace {

// Runs `blocks` blocks and checks that each was run once, and before Run returned.
void ExpectEachOnce(CorePool& pool, int blocks) {
  std::vector<std::atomic<int>> runs(blocks);
  pool.Run(blocks, [&](int block) { ++runs.at(block); });
  for (int block = 0; block < blocks; ++block) {
    ASSERT_EQ(runs[block], 1) << "block " << block << " of " << blocks << " on " << pool.cores();
  }
}

TEST(CorePool, RunsEveryBlockOnceForEveryShape) {
  for (const int cores : {1, 2, 3, 8}) {
    CorePool pool(cores);
    ASSERT_EQ(pool.cores(), cores);
    for (const int blocks : {0, 1, 2, 3, 7, 64, 1000}) ExpectEachOnce(pool, blocks);
  }
}

// Short jobs in quick succession: a helper that wakes up late must not touch a job that has ended.
TEST(CorePool, SurvivesRapidSuccession) {
  CorePool pool(4);
  for (int i = 0; i < 100'000; ++i) ExpectEachOnce(pool, 1 + i % 5);
}

TEST(CorePool, ServesSeveralCallersAtOnce) {
  CorePool pool(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&pool] {
      for (int i = 0; i < 10'000; ++i) ExpectEachOnce(pool, 1 + i % 17);
    });
  }
  for (auto& caller : callers) caller.join();
}

// The caller runs out of blocks while helpers are still at theirs.
TEST(CorePool, ReturnsAfterTheLastBlockHasEnded) {
  CorePool pool(4);
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> ended = 0;
    pool.Run(7, [&](int block) {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * block));
      ++ended;
    });
    ASSERT_EQ(ended, 7);
  }
}

// Two blocks that wait for each other can only end on two cores.
TEST(CorePool, RunsBlocksConcurrently) {
  CorePool pool(2);
  std::atomic<int> arrived = 0;
  pool.Run(2, [&](int /*block*/) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(CorePool, RunsAllBlocksAndRethrowsTheErrorOfOne) {
  for (const int cores : {1, 2, 4}) {
    CorePool pool(cores);
    for (int culprit = 0; culprit < 9; ++culprit) {
      std::vector<std::atomic<int>> runs(9);
      std::string thrown;
      try {
        pool.Run(9, [&](int block) {
          ++runs.at(block);
          if (block == culprit) throw std::runtime_error("block " + std::to_string(block));
        });
      } catch (const std::runtime_error& error) {
        thrown = error.what();
      }
      EXPECT_EQ(thrown, "block " + std::to_string(culprit));
      for (const auto& count : runs) EXPECT_EQ(count, 1);
      ExpectEachOnce(pool, 9);
    }
  }
}

// Both blocks run when they throw: one on the caller's thread, one on the helper's.
TEST(CorePool, ThrowsOnceWhenSeveralThreadsThrow) {
  CorePool pool(2);
  for (int i = 0; i < 1000; ++i) {
    std::atomic<int> arrived = 0;
    EXPECT_THROW(pool.Run(2,
                          [&](int block) {
                            ++arrived;
                            while (arrived < 2) std::this_thread::yield();
                            throw std::runtime_error("block " + std::to_string(block));
                          }),
                 std::runtime_error);
    ExpectEachOnce(pool, 2);
  }
}

// The number of threads that run slow blocks: slow, so that every available thread takes one.
std::size_t ThreadsOf(CorePool& pool, int most_cores) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.Run(
      40,
      [&](int /*block*/) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      },
      most_cores);
  return threads.size();
}

TEST(CorePool, UsesTheRequestedNumberOfCores) {
  CorePool pool(4);
  for (const std::size_t cores : {1, 2, 3, 4})
    EXPECT_EQ(ThreadsOf(pool, static_cast<int>(cores)), cores);
  EXPECT_EQ(ThreadsOf(pool, 5), 4U);
}

// The other core is left for another caller.
TEST(CorePool, UsesNoHelpersForACallerThatRequestsOneCore) {
  CorePool pool(2);
  std::atomic<bool> began = false;
  std::atomic<bool> ended = false;
  std::thread other([&] {
    pool.Run(
        2,
        [&](int /*block*/) {
          began = true;
          while (!ended) std::this_thread::yield();
        },
        1);
  });
  while (!began) std::this_thread::yield();
  EXPECT_EQ(ThreadsOf(pool, 2), 2U);
  ended = true;
  other.join();
}

TEST(CorePool, WithOneCoreUsesOnlyTheCaller) {
  CorePool pool(1);
  pool.Run(8, [caller = std::this_thread::get_id()](int /*block*/) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

}  // namespace
}  // namespace overlapbench
