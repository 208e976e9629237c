#include "device/host/core_pool.h"

#include <algorithm>

namespace overlapbench {

CorePool::CorePool(int cores) {
  for (int i = 1; i < cores; ++i) helpers_.emplace_back([this] { Help(); });
}

CorePool::~CorePool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (auto& helper : helpers_) helper.join();
}

void CorePool::Job::Drain() {
  for (int index = next++; index < blocks; index = next++) {
    try {
      block(index);
    } catch (...) {
      if (!failed.test_and_set()) failure = std::current_exception();
    }
  }
}

void CorePool::Run(int blocks, const std::function<void(int)>& block, int most_cores) {
  Job job{block, blocks, std::min(most_cores, cores()) - 1};
  std::unique_lock helpers_lock(taken_, std::defer_lock);
  if (job.most_helpers > 0 && blocks > 1 && helpers_lock.try_lock()) {
    DrainWithHelpers(job);
  } else {
    job.Drain();
  }
  if (job.failure != nullptr) std::rethrow_exception(job.failure);
}

void CorePool::DrainWithHelpers(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    changed_.notify_all();
  }
  job.Drain();
  std::unique_lock lock(mutex_);
  job_ = nullptr;
  changed_.wait(lock, [this] { return helping_ == 0; });
}

// A helper stays until no block is left, so no more than `most_helpers` threads ever help a job.
bool CorePool::NeedsHelp() const {
  return job_ != nullptr && job_->next < job_->blocks && helping_ < job_->most_helpers;
}

void CorePool::Help() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || NeedsHelp(); });
    if (stopping_) return;
    Job* job = job_;
    ++helping_;
    lock.unlock();
    job->Drain();
    lock.lock();
    --helping_;
    changed_.notify_all();
  }
}

}  // namespace overlapbench
