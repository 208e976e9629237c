// CallableWorkload: a workload made of callbacks of the program that loads the library
// (overlapbench.h).
//
// On a CUDA stream, Enqueue calls `enqueue`. On a host stream, `enqueue` is the work itself, and
// the stream's thread calls it. If a callback fails, the workload throws Error with its text.
#pragma once

#include <pthread.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "interface/overlapbench.h"
#include "workload/workload.h"

namespace overlapbench {

// Logs the calls that callables are in, so that after a timeout the message can name the callable.
// It can also give up a call in which the measuring thread hangs.
class CallLog {
 public:
  // From now on the calling thread is the measuring thread.
  void Begin();
  // This thread enters and leaves a call of `name`. If the call was given up, Leave throws GiveUp's
  // text as FatalError, marked as printed.
  void Enter(const std::string& name);
  void Leave();

  // "'comp' has not returned for 54.0 s", if the measuring thread has been in a call for longer
  // than `limit`; else "". Overdue and GiveUp may be called from any thread.
  [[nodiscard]] std::string Overdue(std::chrono::milliseconds limit) const;
  // Gives that call up, once, if it has lasted nine tenths of `timeout`, and sends its thread
  // `signal`; 0 sends none. Returns `prefix` and what is wrong; "" if there is nothing to give up.
  std::string GiveUp(std::chrono::milliseconds timeout, const std::string& prefix, int signal);

  // The callable that has not returned for nine tenths of `timeout`, as the end of a message; "" if
  // there is none.
  [[nodiscard]] std::string Blame(std::chrono::milliseconds timeout) const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Running {
    std::string name;
    TimePoint since;
    std::string given_up;  // why; "" if not given up
    [[nodiscard]] bool IsOver(std::chrono::milliseconds limit) const;
  };

  // The measuring thread's call, if it takes longer than `limit`. `mutex_` must be locked.
  [[nodiscard]] const Running* FindOverdue(std::chrono::milliseconds limit) const;

  mutable std::mutex mutex_;
  std::map<pthread_t, Running> running_;
  pthread_t measuring_ = pthread_self();
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
  // `log` must outlive the workload, and all work that it has enqueued.
  CallableWorkload(Callable callable, CallLog& log) : callable_(std::move(callable)), log_(log) {}

  [[nodiscard]] Cost cost() const override { return {}; }
  void Reset(Stream& stream) override;
  void Enqueue(Stream& stream) override;
  [[nodiscard]] bool enqueue_waits() const override { return callable_.waits; }
  [[nodiscard]] std::string gate_advice() const override {
    return "let it return without waiting, or measure without a gate (gated=False)";
  }
  Verdict Verify(Stream& stream) override;

 private:
  overlapbench_answer Ask(overlapbench_callback callback, void* stream) const;

  Callable callable_;
  CallLog& log_;
};

}  // namespace overlapbench
