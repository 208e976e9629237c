#include "ranks/watchdog.h"

#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <utility>

namespace overlapbench {
namespace {

constexpr int kSignalled = 128;  // plus the signal's number, as shells have it

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// MPI tells its launcher, which ends the other ranks.
void AbortMpi(int status) {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started != 0 && ended == 0) MPI_Abort(MPI_COMM_WORLD, status);
}

}  // namespace

Watchdog::Watchdog(const Progress& progress, std::chrono::milliseconds timeout)
    : progress_(progress), limit_(timeout + kMargin) {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A full disk and a closed pipe are errors of the call, not ends of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { Watch(); });
}

Watchdog::~Watchdog() {
  stopping_ = true;
  thread_.join();
}

void Watchdog::Watch() {
  constexpr timespec kLook = {0, 50'000'000};  // 50 ms
  const sigset_t signals = WatchedSignals();
  while (!stopping_) {
    const int signal = sigtimedwait(&signals, nullptr, &kLook);
    if (signal > 0) EndBySignal(signal);
    if (progress_.Unchanged() < limit_) continue;
    End(kFailed,
        "nothing has gone on for " + std::to_string(limit_.count() / 1000) + " s at " +
            progress_.Where() + "; something hangs there, or --timeout_s is too short for it",
        true);
  }
}

// The launcher sends SIGTERM to all ranks, so that one line is enough.
void Watchdog::EndBySignal(int signal) {
  End(kSignalled + signal,
      std::string("ended by SIG") + sigabbrev_np(signal) + " at " + progress_.Where() +
          (signal == SIGTERM
               ? "; the launcher sends it when a rank or host is lost, or it is told to end"
               : ""),
      progress_.rank() == 0);
}

Watchdog::Registration& Watchdog::Registration::operator=(Registration&& other) noexcept {
  std::swap(watchdog_, other.watchdog_);
  std::swap(task_, other.task_);
  return *this;
}

Watchdog::Registration::~Registration() {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->tasks_mutex_);
  watchdog_->tasks_.erase(task_);
}

Watchdog::Registration Watchdog::AtEnd(Task task) {
  const std::lock_guard lock(tasks_mutex_);
  return {*this, tasks_.insert(tasks_.begin(), std::move(task))};
}

void Watchdog::End(int status, const std::string& reason, bool show) {
  ending_.lock();  // and never unlocked: the process ends here
  std::thread([status] {
    std::this_thread::sleep_for(kPatience);
    _exit(status);
  }).detach();
  std::cout.flush();
  if (show) std::cerr << "overlapbench: " << reason << "\n" << std::flush;
  const std::lock_guard lock(tasks_mutex_);
  for (const auto& task : tasks_) {
    try {
      task(reason);
    } catch (const std::exception& error) {
      std::cerr << "overlapbench: while ending: " << error.what() << "\n" << std::flush;
    }
  }
  AbortMpi(status);
  _exit(status);
}

}  // namespace overlapbench
