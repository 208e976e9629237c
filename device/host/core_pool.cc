#include "device/host/core_pool.h"

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

void CorePool::Run(int blocks, const std::function<void(int)>& block) {
  Job job{block, blocks};
  const std::unique_lock helpers_lock(taken_, std::try_to_lock);
  if (helpers_.empty() || blocks == 1 || !helpers_lock.owns_lock()) {
    job.Drain();
  } else {
    DrainWithHelpers(job);
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

void CorePool::Help() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [this] { return stopping_ || (job_ != nullptr && job_->next < job_->blocks); });
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
