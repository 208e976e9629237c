// CorePool: the bounded number of cores on which the host backend runs kernels.
//
// Run(blocks, block) calls block(0) … block(blocks − 1) on the calling thread and on up to cores −
// 1 helper threads, or fewer if the caller requests fewer cores, and returns when all have ended.
// One caller at a time has the helpers; a caller that finds them busy runs its blocks alone, like a
// kernel that finds the SMs busy. If a block throws, the others still run; Run rethrows the first
// exception when all have ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace overlapbench {

class CorePool {
 public:
  explicit CorePool(int cores);
  ~CorePool();
  CorePool(const CorePool&) = delete;
  CorePool& operator=(const CorePool&) = delete;

  [[nodiscard]] int cores() const { return static_cast<int>(helpers_.size()) + 1; }
  void Run(int blocks, const std::function<void(int)>& block) { Run(blocks, block, cores()); }
  // On at most `most_cores` cores.
  void Run(int blocks, const std::function<void(int)>& block, int most_cores);

 private:
  struct Job {
    const std::function<void(int)>& block;
    int blocks;
    int most_helpers;
    std::atomic<int> next{0};
    std::atomic_flag failed{};
    // Written by whoever set `failed`, read when all blocks have ended.
    std::exception_ptr failure{};
    void Drain();
  };
  void DrainWithHelpers(Job& job);
  [[nodiscard]] bool NeedsHelp() const;
  void Help();

  std::mutex taken_;  // held by the caller whose job the helpers are on
  std::mutex mutex_;
  std::condition_variable changed_;
  Job* job_ = nullptr;
  int helping_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace overlapbench
