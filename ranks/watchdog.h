// Watchdog: ends a job that hangs or is interrupted, and saves what was measured.
//
// Every rank has a watchdog thread. It ends the whole job
//
// - if this rank's progress (progress.h) has not changed for longer than a limit. The limit exceeds
//   the timeout of every single wait. It is the backstop for calls that have no timeout, such as
//   MPI_Init, MPI_Finalize, or freeing memory that hung work still uses;
// - if SIGINT, SIGTERM or SIGHUP arrives, or one of three signals by which ./bench reports what
//   happened to it. mpirun forwards those unchanged, whereas it would turn SIGINT into SIGTERM.
//
// After a fatal error the main thread also ends the job through the watchdog (EndJob). It must not
// unwind the stack, because destructors would wait for the work that hangs.
//
// Ending a job does, in this order: run what BeforeLines registered (clear the progress line),
// print one line on stderr, run the tasks registered with AtEnd (save the results, abort NCCL),
// call MPI_Abort, and end the process. If one of these hangs, the process still ends after
// kPatience.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "ranks/progress.h"
#include "ranks/ranks.h"

namespace overlapbench {

inline constexpr int kFailed = 1;  // exit status: a row or the job failed

// Whether a write to the descriptor would not wait, as for a reader that is stuck.
bool Accepts(int descriptor);

class Watchdog {
 public:
  // Added to the timeout of single waits, so that their more precise messages come first.
  static constexpr std::chrono::milliseconds kMargin = std::chrono::seconds(5);
  // How long the end of a job may take.
  static constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(4);

  static constexpr int kInterrupted = SIGUSR1;   // Ctrl-C, where ./bench was started
  static constexpr int kReaderIsGone = SIGUSR2;  // of standard output: a quiet end
  static constexpr int kTerminated = SIGALRM;    // SIGTERM or SIGHUP, where ./bench was started

  // Takes over the signals. Create it in the main thread, before any other thread starts.
  Watchdog(const Progress& progress, std::chrono::milliseconds timeout);
  // Handles no signals and watches nothing: it only ends the job on request. For a process that is
  // not the suite's own.
  explicit Watchdog(const Progress& progress) : progress_(progress) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  using Task = std::function<void(const std::string& reason)>;
  // Its task is withdrawn when it goes out of scope.
  class Registration {
   public:
    explicit Registration(std::function<void()> withdraw) : withdraw_(std::move(withdraw)) {}
    ~Registration() { withdraw_(); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    std::function<void()> withdraw_;
  };
  // If the job ends early, the thread that ends it runs `task` before the process ends. Tasks run
  // in reverse order of registration.
  [[nodiscard]] Registration AtEnd(Task task);
  // When SIGTERM arrives, all ranks call `ask`, each in a thread of its own. What it returns within
  // half a second is added to the reason.
  [[nodiscard]] Registration OnTerminated(std::function<std::string()> ask);

  // `task` runs before a line is shown on stderr, in any thread, and must not wait. nullptr: none.
  void BeforeLines(std::function<void()> task);
  // Shows a line on stderr, unless writing it would wait.
  void Show(const std::string& reason) { Show(reason, ""); }

  // Ends all ranks with `status`. Prints `reason` if `show`. A second caller waits for the end.
  [[noreturn]] void End(int status, const std::string& reason, bool show);

 private:
  void Watch();
  void EndBySignal(int signal, bool is_own);
  // The line and the sign (signs.h) in one call: the launcher may kill this rank after it.
  void Show(const std::string& reason, const std::string& sign);
  std::string Ask();

  const Progress& progress_;
  std::chrono::milliseconds limit_{};
  std::mutex tasks_mutex_;
  std::list<Task> tasks_;
  std::function<std::string()> ask_;
  std::mutex line_mutex_;
  std::function<void()> before_lines_;
  std::mutex ending_;  // locked by the thread that ends the job, and never unlocked
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Ends all ranks after an error from which they cannot recover together. The error is printed once
// (FatalError::Audience). If one rank alone knows of it, that rank prints it with its place and
// notifies the others. If all ranks know of it, rank 0 prints it. `ranks` is nullptr before MPI has
// started.
[[noreturn]] void EndJob(Watchdog& watchdog, const Progress& progress, Ranks* ranks,
                         const std::exception& error);

}  // namespace overlapbench
