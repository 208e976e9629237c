// CallableWorkload: a workload whose work is somebody else's: callbacks of the program that loads
// the library (overlapbench.h).
//
// On a CUDA stream `enqueue` is called where a workload enqueues. On a host stream it is the work
// itself, and the stream's thread calls it. A callback that fails throws Error here, with its text.
#pragma once

#include <pthread.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "interface/overlapbench.h"
#include "workload/workload.h"

namespace overlapbench {

// Which callable a wait was for: after a timeout, nothing else could say so. And it gives up a call
// in which the thread that measures hangs.
class CallLog {
 public:
  // Forgets earlier calls. From now on the calling thread is the one that measures.
  void Begin();
  // This thread calls `name`, and has returned from it. If that call was given up, it throws what
  // GiveUp returned, marked as printed.
  void Enter(const std::string& name);
  void Leave();

  // "'comp' has not returned for 54.0 s": the call in which the thread that measures has been for
  // longer than `limit`; "" if there is none. It and GiveUp may be called from any thread.
  [[nodiscard]] std::string Overdue(std::chrono::milliseconds limit) const;
  // Gives that call up, once, and sends its thread `signal`; 0 is none. Returns `prefix` and what
  // is wrong; "" if there is nothing to give up.
  std::string GiveUp(std::chrono::milliseconds limit, const std::string& prefix, int signal);

  // The callable that has not returned for `timeout`, or took as long, as the end of a message; ""
  // if there is none.
  [[nodiscard]] std::string Blame(std::chrono::milliseconds timeout) const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Running {
    std::string name;
    TimePoint since;
    std::string given_up;  // why; "" if it is not
  };
  struct Ended {
    std::string name;
    std::chrono::steady_clock::duration took{};
  };

  // The call of the thread that measures, if it takes longer than `limit`. `mutex_` is locked.
  [[nodiscard]] const Running* FindOverdue(std::chrono::milliseconds limit) const;

  mutable std::mutex mutex_;
  std::map<pthread_t, Running> running_;
  pthread_t measuring_ = pthread_self();
  Ended longest_;
};

struct Callable {
  std::string name;  // in messages
  WorkClass work_class = WorkClass::kCompute;
  bool waits = false;
  overlapbench_callbacks callbacks{};
  void* context = nullptr;
};

class CallableWorkload : public Workload {
 public:
  // `log` must outlive this, and whatever it has enqueued.
  CallableWorkload(Callable callable, CallLog& log) : callable_(std::move(callable)), log_(log) {}

  [[nodiscard]] Cost cost() const override { return {}; }
  void Reset(Stream& stream) override;
  void Enqueue(Stream& stream) override;
  [[nodiscard]] bool enqueue_waits() const override { return callable_.waits; }
  Verdict Verify(Stream& stream) override;

 private:
  overlapbench_answer Ask(overlapbench_callback callback, void* stream) const;

  Callable callable_;
  CallLog& log_;
};

}  // namespace overlapbench
