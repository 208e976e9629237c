// BusyCores: threads that never rest, until it goes out of scope.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace overlapbench {

class BusyCores {
 public:
  explicit BusyCores(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.emplace_back([this] {
        while (!stop_) {
        }
      });
    }
  }
  ~BusyCores() {
    stop_ = true;
    for (auto& thread : threads_) thread.join();
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace overlapbench
