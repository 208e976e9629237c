#include "comm/batch_queue.h"

#include "device/error.h"

namespace overlapbench {

BatchQueue::BatchQueue(long batches, int slots, std::chrono::milliseconds timeout)
    : batches_(batches), timeout_(timeout) {
  for (int slot = 0; slot < slots; ++slot) free_.push_back(slot);
}

template <class Condition>
void BatchQueue::Wait(std::unique_lock<std::mutex>& lock, const char* what,
                      const Condition& condition) {
  const bool done =
      changed_.wait_for(lock, timeout_, [&] { return closed_.has_value() || condition(); });
  if (closed_) throw Error(*closed_);
  if (!done) {
    throw Error(std::string(what) + " did not come within " + std::to_string(timeout_.count()) +
                " ms");
  }
}

std::optional<BatchQueue::Batch> BatchQueue::TakeTicket() {
  std::unique_lock lock(mutex_);
  if (taken_ == batches_) return std::nullopt;
  const long index = taken_++;
  Wait(lock, "a free slot for a batch", [this] { return !free_.empty(); });
  const int slot = free_.front();
  free_.pop_front();
  return Batch{index, slot};
}

void BatchQueue::Put(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  ready_.push_back(batch);
  changed_.notify_all();
}

BatchQueue::Batch BatchQueue::Take() {
  std::unique_lock lock(mutex_);
  Wait(lock, "a batch from the producers", [this] { return !ready_.empty(); });
  const Batch batch = ready_.front();
  ready_.pop_front();
  return batch;
}

void BatchQueue::Release(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  free_.push_back(batch.slot);
  changed_.notify_all();
}

void BatchQueue::Close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = reason;
  changed_.notify_all();
}

}  // namespace overlapbench
