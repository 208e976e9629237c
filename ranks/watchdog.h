// Watchdog: nothing hangs, and nothing that was measured is lost.
//
// A thread of every rank that ends the whole job
//   - when this rank's progress (progress.h) has stood still for longer than a limit, which is
//   above
//     the time-out of every single wait: the backstop for calls that have none, such as MPI_Init,
//     MPI_Finalize or freeing memory that hung work still uses;
//   - when SIGINT, SIGTERM or SIGHUP arrives.
// The main thread ends the job through it too (`End`) when an error is fatal, because the stack
// must not be unwound then: destructors would wait for what hangs.
//
// Ending is, in this order: one line on stderr; what was registered by AtEnd (keep the results,
// abort NCCL); MPI_Abort; the process's end. Should one of these hang, the process ends after
// kPatience all the same.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "ranks/progress.h"

namespace overlapbench {

inline constexpr int kFailed = 1;  // exit status: a row or the job failed

class Watchdog {
 public:
  // What is added to the time-out of single waits, so that their better messages come first.
  static constexpr std::chrono::milliseconds kMargin = std::chrono::seconds(5);
  // How long ending may take.
  static constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(4);

  // Takes over the signals from here on: make it in the main thread, before any other thread.
  Watchdog(const Progress& progress, std::chrono::milliseconds timeout);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  using Task = std::function<void(const std::string& reason)>;
  // Withdraws its task when it goes out of scope.
  class Registration {
   public:
    Registration() = default;
    Registration(Watchdog& watchdog, std::list<Task>::iterator task)
        : watchdog_(&watchdog), task_(task) {}
    Registration(Registration&& other) noexcept { *this = std::move(other); }
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    Watchdog* watchdog_ = nullptr;
    std::list<Task>::iterator task_;
  };
  // `task` is done, by whichever thread ends the job, before the process ends early; what was
  // registered last is done first.
  [[nodiscard]] Registration AtEnd(Task task);

  // Ends all ranks with `status`; `reason` is shown if `show`. A second caller waits for the end.
  [[noreturn]] void End(int status, const std::string& reason, bool show);

 private:
  void Watch();
  void EndBySignal(int signal);

  const Progress& progress_;
  std::chrono::milliseconds limit_;
  std::mutex tasks_mutex_;
  std::list<Task> tasks_;
  std::mutex ending_;  // held by whoever ends the job, for ever
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace overlapbench
