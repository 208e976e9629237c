// WaitUntil: polling with a deadline. InSeconds: a timeout in messages.
//
// A thread can lose its core between a poll and the check of the clock, and a poll can itself take
// long. Work that ended in the meantime is not late, so WaitUntil gives up only after a poll that
// began after the deadline.
//
//   if (!WaitUntil([&] { return event.Done(); }, std::chrono::seconds(10))) throw ...
#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace overlapbench {

// Calls `done` until it returns true, at least once. Returns false if it still returned false after
// `timeout`. Exceptions of `done` propagate.
template <class Done>
[[nodiscard]] bool WaitUntil(const Done& done, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return done();
    std::this_thread::yield();
  }
  return true;
}

// "60 s", "0.4 s".
std::string InSeconds(std::chrono::milliseconds time);

}  // namespace overlapbench
