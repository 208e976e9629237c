#include "ranks/watchdog.h"

#include <fmt/core.h>
#include <mpi.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <future>
#include <iostream>
#include <utility>

#include "device/wait.h"
#include "ranks/signs.h"

namespace overlapbench {
namespace {

constexpr int kSignalled = 128;  // plus the signal's number, as in shells

// A signal's meaning, and the signal that the exit status names.
struct WatchedSignal {
  int signal;
  const char* meaning;  // "": prints nothing
  int ends_as;
};
constexpr std::array<WatchedSignal, 6> kWatched = {{
    {SIGINT, "Ctrl-C", SIGINT},
    {Watchdog::kInterrupted, "Ctrl-C", SIGINT},
    {Watchdog::kReaderIsGone, "", SIGPIPE},
    {Watchdog::kTerminated, "SIGTERM", SIGTERM},
    {SIGHUP, "SIGHUP", SIGHUP},
    {SIGTERM, "SIGTERM", SIGTERM},
}};

constexpr std::chrono::milliseconds kAskingPatience(500);

// How long rank 0 may take, once it knows of an error, to save the results and end the job.
constexpr std::chrono::seconds kTimeForRoot(2);

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const WatchedSignal& watched : kWatched) sigaddset(&signals, watched.signal);
  return signals;
}

bool MpiHasEnded() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

// MPI notifies the launcher, which ends the other ranks. A single rank has none to end; MPI would
// only print lines of its own.
void AbortMpi(int status) {
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0 || MpiHasEnded()) return;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 1) MPI_Abort(MPI_COMM_WORLD, status);
}

}  // namespace

bool Accepts(int descriptor) {
  pollfd output{.fd = descriptor, .events = POLLOUT, .revents = {}};
  return poll(&output, 1, 0) > 0 && (output.revents & POLLOUT) != 0;
}

Watchdog::Watchdog(const Progress& progress, std::chrono::milliseconds timeout)
    : progress_(progress), limit_(timeout + kMargin) {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // An ignored signal never arrives, and a shell may start its children with signals ignored.
  for (const int signal : {kInterrupted, kReaderIsGone, kTerminated}) std::signal(signal, SIG_DFL);
  // A full disk or a closed pipe fails the call instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { Watch(); });
}

Watchdog::~Watchdog() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Watchdog::Watch() {
  constexpr timespec kLook = {0, 50'000'000};  // 50 ms
  const sigset_t signals = WatchedSignals();
  while (!stopping_) {
    siginfo_t info{};
    const int signal = sigtimedwait(&signals, &info, &kLook);
    if (signal > 0) EndBySignal(signal, info.si_pid == getpid());
    if (progress_.Unchanged() < limit_) continue;
    End(kFailed,
        fmt::format("no progress for {} at {}; it hangs there, or --timeout_s is too short",
                    InSeconds(limit_), progress_.Where()),
        true);
  }
}

// All ranks receive it, so only rank 0 prints a line. After MPI has ended there is nothing to
// report: a launcher sends SIGTERM to the ranks that exit after the first with a nonzero status.
void Watchdog::EndBySignal(int signal, bool is_own) {
  const auto& watched = *std::ranges::find(kWatched, signal, &WatchedSignal::signal);
  const bool is_meant = is_own || std::getenv(kSignsVariable) != nullptr;
  const std::string meaning = signal == kReaderIsGone && !is_meant ? "SIGUSR2" : watched.meaning;
  std::string reason = "standard output was closed";
  if (!meaning.empty()) reason = fmt::format("ended by {} at {}", meaning, progress_.Where());
  // Launchers send it when they are terminated, and when a rank or a host is lost.
  if (signal == SIGTERM) reason += Ask();
  End(kSignalled + watched.ends_as, reason,
      progress_.rank() == 0 && !meaning.empty() && !MpiHasEnded());
}

void Watchdog::BeforeLines(std::function<void()> task) {
  const std::lock_guard lock(line_mutex_);
  before_lines_ = std::move(task);
}

void Watchdog::Show(const std::string& reason, const std::string& sign) {
  std::cerr.tie(nullptr);  // it would flush standard output, which may be stuck
  if (Accepts(STDOUT_FILENO)) {
    const std::lock_guard lock(line_mutex_);
    if (before_lines_) before_lines_();
    std::cout.flush();
  }
  if (Accepts(STDERR_FILENO)) std::cerr << "overlapbench: " + reason + "\n" + sign << std::flush;
}

Watchdog::Registration Watchdog::AtEnd(Task task) {
  const std::lock_guard lock(tasks_mutex_);
  return Registration([this, place = tasks_.insert(tasks_.begin(), std::move(task))] {
    const std::lock_guard lock(tasks_mutex_);
    tasks_.erase(place);
  });
}

Watchdog::Registration Watchdog::OnTerminated(std::function<std::string()> ask) {
  const auto set = [this](std::function<std::string()> now) {
    const std::lock_guard lock(tasks_mutex_);
    ask_ = std::move(now);
  };
  set(std::move(ask));
  return Registration([set] { set(nullptr); });
}

// In another thread, since MPI may hang once a rank is gone.
std::string Watchdog::Ask() {
  std::unique_lock lock(tasks_mutex_);  // it must not be withdrawn meanwhile
  if (!ask_) return "";
  std::packaged_task<std::string()> task(ask_);
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  return answer.wait_for(kAskingPatience) == std::future_status::ready ? answer.get() : "";
}

void Watchdog::End(int status, const std::string& reason, bool show) {
  ending_.lock();  // never unlocked: the process ends here
  progress_.Freeze();
  std::thread([status] {
    std::this_thread::sleep_for(kPatience);
    _exit(status);
  }).detach();
  const Sign sign = status > kSignalled ? Sign::kSignalled : Sign::kEnded;
  if (show) Show(reason, TextOf(sign));
  if (!show && sign == Sign::kEnded) Give(sign);
  std::cerr.tie(nullptr);
  const std::lock_guard lock(tasks_mutex_);
  for (const auto& task : tasks_) {
    try {
      task(reason);
    } catch (const std::exception& error) {
      std::cerr << "overlapbench: while ending: " << error.what() << "\n" << std::flush;
    }
  }
  // After Ctrl-C, which all ranks receive, rank 0 prints what was measured. The first rank to exit
  // ends the job.
  if (status == kSignalled + SIGINT && progress_.rank() != 0)
    std::this_thread::sleep_for(kTimeForRoot);
  AbortMpi(status);
  _exit(status);
}

void EndJob(Watchdog& watchdog, const Progress& progress, Ranks* ranks,
            const std::exception& error) {
  const auto* fatal = dynamic_cast<const FatalError*>(&error);
  const auto audience = fatal == nullptr ? FatalError::kThisRank : fatal->audience();
  const bool is_root = progress.rank() == 0;
  std::string reason = error.what();
  if (audience == FatalError::kThisRank) reason += fmt::format(" [{}]", progress.Where());
  if (audience == FatalError::kThisRank || (audience == FatalError::kKnownToAll && is_root)) {
    watchdog.Show(reason);
  }
  // The others print nothing, so this process must print the line before it notifies them.
  if (ranks != nullptr && audience == FatalError::kThisRank) ranks->TellOthers(reason);
  if (ranks != nullptr && !is_root) std::this_thread::sleep_for(kTimeForRoot);
  watchdog.End(kFailed, reason, false);
}

}  // namespace overlapbench
