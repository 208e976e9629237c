// The host backend's stream: order, what a task throws, and that enqueueing does not wait.
#include "device/host/host_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
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

// Even if there is no work between the two.
TEST_F(HostStreamTest, AnEventBehindAnotherStreamsEventIsNotEarlier) {
  HostStream other(std::make_shared<CorePool>(1));
  HostEvent before;
  HostEvent behind;
  stream_.Enqueue([] { std::this_thread::sleep_for(30ms); });
  stream_.Record(before);
  other.Wait(before);
  other.Record(behind);
  other.Synchronize(20s, "the test");
  EXPECT_GE(HostElapsedMs(before, behind), 0);
}

TEST_F(HostStreamTest, DoesNotMakeTheCallerWait) {
  std::promise<void> go;
  stream_.Enqueue([&] { go.get_future().wait(); });
  stream_.Enqueue([] {});  // would never return if enqueueing waited for the task before
  go.set_value();
  EXPECT_EQ(Failure(), "");
}

TEST_F(HostStreamTest, RethrowsATasksErrorOnce) {
  stream_.Enqueue([] { throw std::runtime_error("a bad task"); });
  EXPECT_EQ(Failure(), "a bad task");
  EXPECT_EQ(Failure(), "");
}

TEST_F(HostStreamTest, RethrowsABlocksErrorOnce) {
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
TEST_F(HostStreamTest, PassesEventsAfterAFailure) {
  HostEvent event;
  bool ran = false;
  stream_.Enqueue([] { throw std::runtime_error("a bad task"); });
  stream_.Record(event);
  stream_.Enqueue([&] { ran = true; });
  EXPECT_EQ(Failure(), "a bad task");
  EXPECT_TRUE(event.Done());
  EXPECT_TRUE(ran);
}

TEST_F(HostStreamTest, RefusesEventsOfOtherBackends) {
  struct OtherEvent : Event {
    [[nodiscard]] bool Done() const override { return true; }
    [[nodiscard]] bool Await(std::chrono::milliseconds /*timeout*/) const override { return true; }
  } other;
  HostEvent event;
  EXPECT_THROW(stream_.Record(other), Error);
  EXPECT_THROW(stream_.Wait(other), Error);
  EXPECT_THROW((void)HostElapsedMs(event, other), Error);
}

// Otherwise the gate that a stream waits for could not go out of scope before the stream.
TEST_F(HostStreamTest, OutlivesItsGate) {
  HostEvent event;
  auto gate = std::make_unique<HostGate>();
  gate->Arm(stream_);
  stream_.Record(event);
  std::this_thread::sleep_for(30ms);  // for a stream that is wrongly let go
  EXPECT_FALSE(event.Done());
  gate->Release();
  gate.reset();
  EXPECT_EQ(Failure(), "");
  EXPECT_TRUE(event.Done());
}

TEST(HostStream, FinishesItsTasksBeforeDestruction) {
  int ran = 0;
  {
    HostStream stream(std::make_shared<CorePool>(1));
    for (int i = 0; i < 100; ++i) stream.Enqueue([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace overlapbench
