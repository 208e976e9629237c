// For tests of watches, which look at a source from a thread of their own (device/poller.h): a
// source's looks, and how a watch ends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backends.h"

namespace overlapbench {

// So long that a watch looks at its begin and at its end alone.
inline constexpr std::chrono::hours kNever(1);

// Shows the looks one by one, and then always the last.
template <class Look>
class ShownLooks {
 public:
  explicit ShownLooks(std::vector<Look> looks) : shown_(std::move(looks)) {}

  Look Next() {
    const std::lock_guard lock(mutex_);
    return shown_.at(std::min(looks_++, shown_.size() - 1));
  }
  [[nodiscard]] std::size_t looks() const {
    const std::lock_guard lock(mutex_);
    return looks_;
  }

 private:
  mutable std::mutex mutex_;
  std::size_t looks_ = 0;
  std::vector<Look> shown_;
};

// A source must not be read after its watch ended, nor destroyed before.
template <class Watch, class Source>
void ExpectEndsAtOnceAndLetsItsSourceGo(std::shared_ptr<Source> source) {
  const std::weak_ptr<Source> observed = source;
  const auto start = std::chrono::steady_clock::now();
  {
    const Watch watch(std::move(source), kNever);
    EXPECT_FALSE(observed.expired());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread waits by now
  }
  EXPECT_TRUE(observed.expired());
  EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience);
}

}  // namespace overlapbench
