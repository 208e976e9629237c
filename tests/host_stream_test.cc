// The host backend's stream: order, what a task throws, and that enqueueing does not wait.
#include "device/host/host_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <vector>

namespace overlapbench {
namespace {

using std::chrono_literals::operator""s;

class HostStreamTest : public testing::Test {
 protected:
  // What Synchronize throws, as text; "" when it does not.
  std::string Failure() {
    try {
      stream_.Synchronize(20s, "the test");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  HostStream stream_{std::make_shared<CorePool>(2)};
};

TEST_F(HostStreamTest, RunsTasksInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) stream_.Enqueue([&order, i] { order.push_back(i); });
  EXPECT_EQ(Failure(), "");
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[i], i);
}

TEST_F(HostStreamTest, RunsABlockAfterEveryBlockBeforeIt) {
  std::atomic<int> first = 0;
  std::atomic<int> early = 0;
  stream_.EnqueueBlocks(64, [&](int /*block*/) { ++first; });
  stream_.EnqueueBlocks(64, [&](int /*block*/) { early += first != 64; });
  EXPECT_EQ(Failure(), "");
  EXPECT_EQ(early, 0);
}

TEST_F(HostStreamTest, DoesNotMakeTheCallerWait) {
  std::promise<void> go;
  stream_.Enqueue([&] { go.get_future().wait(); });
  stream_.Enqueue([] {});  // would never return if enqueueing waited for the task before
  go.set_value();
  EXPECT_EQ(Failure(), "");
}

TEST_F(HostStreamTest, ThrowsOnceWhatATaskThrew) {
  stream_.Enqueue([] { throw std::runtime_error("a bad task"); });
  EXPECT_EQ(Failure(), "a bad task");
  EXPECT_EQ(Failure(), "");
}

TEST_F(HostStreamTest, ThrowsOnceWhatABlockThrew) {
  std::atomic<int> ran = 0;
  stream_.EnqueueBlocks(64, [&](int block) {
    ++ran;
    if (block == 40) throw std::runtime_error("a bad block");
  });
  EXPECT_EQ(Failure(), "a bad block");
  EXPECT_EQ(Failure(), "");
  EXPECT_EQ(ran, 64);
}

TEST_F(HostStreamTest, KeepsTheFirstOfSeveralFailures) {
  stream_.Enqueue([] { throw std::runtime_error("the first"); });
  stream_.Enqueue([] { throw std::runtime_error("the second"); });
  EXPECT_EQ(Failure(), "the first");
  EXPECT_EQ(Failure(), "");
}

// Otherwise a stream that waits for the event would wait for ever.
TEST_F(HostStreamTest, PassesEventsBehindAFailure) {
  HostEvent event;
  bool ran = false;
  stream_.Enqueue([] { throw std::runtime_error("a bad task"); });
  stream_.Record(event);
  stream_.Enqueue([&] { ran = true; });
  EXPECT_EQ(Failure(), "a bad task");
  EXPECT_TRUE(event.Done());
  EXPECT_TRUE(ran);
}

TEST(HostStream, FinishesItsTasksBeforeItEnds) {
  int ran = 0;
  {
    HostStream stream(std::make_shared<CorePool>(1));
    for (int i = 0; i < 100; ++i) stream.Enqueue([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace overlapbench
