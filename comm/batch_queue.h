// BatchQueue: hands batches from producers to a consumer through a bounded number of slots.
//
// A slot is free, being filled, or ready. Producers take a ticket (which batch to make) together
// with a free slot, and wait while there is none: that is the prefetch depth. All waits end with
// Error after the time-out, or when the queue is closed because somebody failed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace overlapbench {

class BatchQueue {
 public:
  struct Batch {
    long index = 0;
    int slot = 0;
  };

  BatchQueue(long batches, int slots, std::chrono::milliseconds timeout);

  // The next batch to make and where to put it; nothing when all have been taken.
  std::optional<Batch> TakeTicket();
  // A batch has been made.
  void Put(const Batch& batch);
  // A batch that is ready, whichever was ready first.
  Batch Take();
  // Its slot can be filled again.
  void Release(const Batch& batch);
  // Ends everybody's waiting with an Error that gives the reason; the first one counts.
  void Close(const std::string& reason);

 private:
  template <class Condition>
  void Wait(std::unique_lock<std::mutex>& lock, const char* what, const Condition& condition);

  std::mutex mutex_;
  std::condition_variable changed_;
  long batches_;
  long taken_ = 0;
  std::deque<int> free_;
  std::deque<Batch> ready_;
  std::optional<std::string> closed_;
  std::chrono::milliseconds timeout_;
};

}  // namespace overlapbench
