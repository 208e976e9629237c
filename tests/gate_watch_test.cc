// The watched gate opens on every way out, and when enqueueing takes too long, which it reports.
#include "fixtures/gate_watch.h"

#include <stdexcept>
#include <thread>

#include "backends.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kShort = 150ms;

class GateWatchTest : public OnEachBackend {
 protected:
  void ExpectFree() { EXPECT_NO_THROW(stream().Synchronize(kPatience, "a free stream")); }
};
INSTANTIATE_ON_EACH_BACKEND(GateWatchTest);

TEST_P(GateWatchTest, HoldsUntilItIsOpened) {
  const auto event = device().CreateEvent();
  GateWatch watch(device());
  GateWatch::Hold hold(watch, stream(), kPatience);
  stream().Record(*event);
  std::this_thread::sleep_for(kShort);
  EXPECT_FALSE(event->Done());
  EXPECT_TRUE(hold.Enqueued());
  hold.Open();
  ExpectFree();
}

TEST_P(GateWatchTest, OpensWhenItsScopeIsLeft) {
  GateWatch watch(device());
  {
    const GateWatch::Hold hold(watch, stream(), kPatience);
  }
  ExpectFree();
}

TEST_P(GateWatchTest, OpensWhenAnExceptionLeavesItsScope) {
  GateWatch watch(device());
  const auto enqueue = [&] {
    const GateWatch::Hold hold(watch, stream(), kPatience);
    throw std::runtime_error("enqueueing failed");
  };
  EXPECT_THROW(enqueue(), std::runtime_error);
  ExpectFree();
}

// As if an enqueueing call needed the work behind the gate.
TEST_P(GateWatchTest, OpensWhenEnqueueingTakesTooLongAndReportsIt) {
  GateWatch watch(device());
  GateWatch::Hold hold(watch, stream(), kShort);
  ExpectFree();
  EXPECT_FALSE(hold.Enqueued());
}

// Ranks may wait for each other for longer than enqueueing may take.
TEST_P(GateWatchTest, StaysClosedOnceEverythingIsEnqueued) {
  const auto event = device().CreateEvent();
  GateWatch watch(device());
  GateWatch::Hold hold(watch, stream(), kShort);
  stream().Record(*event);
  EXPECT_TRUE(hold.Enqueued());
  std::this_thread::sleep_for(3 * kShort);
  EXPECT_FALSE(event->Done());
}

TEST_P(GateWatchTest, CanBeClosedAgainAfterItOpenedEarly) {
  GateWatch watch(device());
  {
    const GateWatch::Hold hold(watch, stream(), kShort);
    ExpectFree();
  }
  GateWatch::Hold hold(watch, stream(), kPatience);
  EXPECT_TRUE(hold.Enqueued());
  hold.Open();
  ExpectFree();
}

TEST_P(GateWatchTest, CountsFromTheLastClosing) {
  GateWatch watch(device());
  for (int i = 0; i < 6; ++i) {
    GateWatch::Hold hold(watch, stream(), kShort);
    std::this_thread::sleep_for(kShort / 3);
    EXPECT_TRUE(hold.Enqueued());
  }
  ExpectFree();
}

}  // namespace
}  // namespace overlapbench
