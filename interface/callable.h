// CallableWorkload: a workload whose work is somebody else's: callbacks of the program that loads
// the library (overlapbench.h).
//
// On a CUDA stream `enqueue` is called where a workload enqueues. On a host stream it is the work
// itself, and the stream's thread calls it. A callback that fails throws Error here, with its text.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "interface/overlapbench.h"
#include "workload/workload.h"

namespace overlapbench {

// Which callable a wait was for: after a timeout, nothing else could say so.
class CallLog {
 public:
  // Notes a call for as long as it lives.
  class Call {
   public:
    Call(CallLog& log, const std::string& name);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallLog& log_;
  };

  void Forget();
  // The callable that has not returned for `timeout`, or took as long, as the end of a message; ""
  // if there is none.
  [[nodiscard]] std::string Blame(std::chrono::milliseconds timeout) const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Running {
    std::string name;
    TimePoint since;
  };
  struct Ended {
    std::string name;
    std::chrono::steady_clock::duration took{};
  };

  mutable std::mutex mutex_;
  std::map<std::thread::id, Running> running_;
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
