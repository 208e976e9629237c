// Waiting with a deadline: what ended in time is never reported as timed out.
#include "device/wait.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace overlapbench {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;

constexpr auto kTimeout = 10ms;
constexpr auto kLongerThanTheTimeout = 3 * kTimeout;

TEST(WaitUntil, ReturnsAtOnceWhenDone) {
  EXPECT_TRUE(WaitUntil([] { return true; }, 1h));
}

TEST(WaitUntil, ChecksOnceWithoutAnyTime) {
  EXPECT_TRUE(WaitUntil([] { return true; }, 0ms));
  EXPECT_FALSE(WaitUntil([] { return false; }, 0ms));
}

TEST(WaitUntil, AcceptsACheckDuringWhichTheDeadlinePassed) {
  const auto slow_look = [] {
    std::this_thread::sleep_for(kLongerThanTheTimeout);
    return true;
  };
  EXPECT_TRUE(WaitUntil(slow_look, kTimeout));
}

// The work ended after the last look, but before the deadline was checked.
TEST(WaitUntil, ChecksOnceMoreAfterTheDeadline) {
  int looks = 0;
  const auto ends_behind_a_slow_look = [&] {
    if (++looks > 1) return true;
    std::this_thread::sleep_for(kLongerThanTheTimeout);
    return false;
  };
  EXPECT_TRUE(WaitUntil(ends_behind_a_slow_look, kTimeout));
  EXPECT_EQ(looks, 2);
}

TEST(WaitUntil, GivesUpAfterTheTimeout) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(WaitUntil([] { return false; }, kTimeout));
  EXPECT_GE(std::chrono::steady_clock::now() - start, kTimeout);
}

TEST(WaitUntil, PropagatesExceptionsOfTheCheck) {
  const auto fails = []() -> bool { throw std::runtime_error("a lost link"); };
  EXPECT_THROW((void)WaitUntil(fails, kTimeout), std::runtime_error);
}

}  // namespace
}  // namespace overlapbench
