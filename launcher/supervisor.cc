#include "launcher/supervisor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <utility>

#include "device/error.h"
#include "device/wait.h"
#include "launcher/messages.h"
#include "launcher/mpirun_output.h"
#include "launcher/pipe.h"
#include "launcher/processes.h"
#include "launcher/relay.h"
#include "ranks/watchdog.h"
#include "report/result_file.h"

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Ends that are asked for: within 5 s.
constexpr milliseconds kPolite(3000);  // until mpirun is told to end its ranks
constexpr milliseconds kBrief(1300);   // from then until everything is killed
constexpr milliseconds kAgain(200);    // between two signals to mpirun
// mpirun after the end of its ranks. It waits a few seconds for those that it has killed.
constexpr seconds kRanksEnded(15);  // since one said so
constexpr seconds kStopped(15);     // by SIGSTOP
constexpr seconds kRanksGone(5);    // since none is left
// Ranks without mpirun save their rows, and end (Watchdog::kPatience).
constexpr seconds kOrphans(5);
constexpr seconds kKilled(10);  // until a killed process is gone; a GPU's memory takes seconds
constexpr milliseconds kDrain(500);
constexpr int kSignalled = 128;  // plus the signal's number, as in shells
constexpr int kCannotStart = 127;

// Why the job is ended from outside.
struct Stop {
  int signal;        // that the launcher received; 0: none
  const char* name;  // "": the end is quiet
  int forwarded;     // to mpirun, for the ranks
  int status;
};
constexpr auto kStops = std::to_array<Stop>({
    {SIGINT, "Ctrl-C", Watchdog::kInterrupted, kSignalled + SIGINT},
    {SIGTERM, "SIGTERM", Watchdog::kTerminated, kSignalled + SIGTERM},
    {SIGHUP, "SIGHUP", Watchdog::kTerminated, kSignalled + SIGHUP},
    {SIGQUIT, "SIGQUIT", Watchdog::kTerminated, kSignalled + SIGQUIT},
});
constexpr Stop kReaderHasGone = {0, "", Watchdog::kReaderIsGone, kSignalled + SIGPIPE};
constexpr Stop kCallerHasGone = {0, "the end of its caller, which was killed",
                                 Watchdog::kTerminated, kSignalled + SIGTERM};

const Stop& StopOf(int signal) { return *std::ranges::find(kStops, signal, &Stop::signal); }

std::string EndedBy(const Stop& stop, bool has_started) {
  return fmt::format("ended by {}{}", stop.name,
                     has_started ? "" : ", before the ranks had started");
}

class Supervisor {
 public:
  Supervisor(const Job& job, Signals& signals) : Supervisor(job, signals, MakePipe(), MakePipe()) {}

  int Run() {
    while (!IsOver()) {
      Wait();
      HandleSignals();
      out_.Pass();
      PassMessages();
      Look();
    }
    return Conclude();
  }

 private:
  Supervisor(const Job& job, Signals& signals, Pipe out, Pipe err)
      : job_(job),
        signals_(signals),
        mpirun_(Start(out.writing.get(), err.writing.get())),
        out_(std::move(out.reading), STDOUT_FILENO, [](auto bytes) { return std::string(bytes); }),
        err_(std::move(err.reading), STDERR_FILENO,
             [this](auto bytes) { return messages_.Take(bytes); }) {}

  [[nodiscard]] pid_t Start(int out, int err) const;
  [[noreturn]] void BecomeMpirun(int out, int err, pid_t supervisor) const;

  void Wait();
  void HandleSignals();
  void PassMessages();
  void Look();
  void LookForHang(Clock::time_point now);
  void LookForStop();
  void EndAsked(Clock::time_point now);
  void KillIfDue(Clock::time_point now);

  void StopFor(const Stop& stop);
  // mpirun hangs: ends it. What it and its ranks then write comes before the reason.
  void GiveUp(const std::string& why);
  void Say(const std::string& line) { err_.Add(fmt::format("{}: {}\n", job_.caller, line)); }

  [[nodiscard]] bool HasEnded() const { return has_ended_; }
  [[nodiscard]] bool IsOver();
  int Conclude();
  [[nodiscard]] std::string LastLine() const;
  [[nodiscard]] std::string WhereRowsAre() const;

  const Job& job_;
  Signals& signals_;
  const Clock::time_point start_ = Clock::now();
  const std::time_t start_time_ = std::time(nullptr);
  pid_t mpirun_;
  MpirunOutput messages_;
  Relay out_;
  Relay err_;
  int status_ = 0;  // of mpirun, as waitpid returns it, once it has ended
  bool has_ended_ = false;
  const Stop* stop_ = nullptr;
  std::string gave_up_;  // why; "" if it did not
  bool cannot_write_ = false;
  bool had_ranks_ = false;
  Clock::time_point seen_ranks_ = start_;         // when there was one last
  std::optional<Clock::time_point> ranks_ended_;  // when one said so
  Clock::time_point last_alive_;           // when something of the job was, once mpirun has ended
  Clock::time_point mpirun_ran_ = start_;  // when it was last seen not to be stopped
  std::optional<Clock::time_point> held_;  // since when messages_ holds something back
  Clock::time_point next_signal_ = start_;
  Clock::time_point next_look_ = start_;
  Clock::time_point terminate_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
  std::optional<Clock::time_point> killed_;  // when everything was killed first
};

pid_t Supervisor::Start(int out, int err) const {
  AdoptOrphans();
  const pid_t supervisor = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("cannot start mpirun: {}", std::strerror(errno)));
  if (child == 0) BecomeMpirun(out, err, supervisor);
  setpgid(child, child);
  return child;
}

// A process group of its own: Ctrl-C on the terminal does not reach it.
void Supervisor::BecomeMpirun(int out, int err, pid_t supervisor) const {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != supervisor) _exit(kCannotStart);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : job_.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  signals_.RestoreInChild();
  execvp(words[0], words.data());
  const std::string why =
      fmt::format("{}: cannot start {}: {}\n", job_.caller, words[0], std::strerror(errno));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, why.data(), why.size());
  _exit(kCannotStart);
}

// Looks rarely while the ranks measure, since that takes time from them.
void Supervisor::Wait() {
  const bool is_calm = messages_.Has(Sign::kStarted) && stop_ == nullptr && !HasEnded() &&
                       !ranks_ended_ && !held_ && gave_up_.empty();
  std::array<pollfd, 5> all = {{{signals_.descriptor(), POLLIN, 0},
                                out_.Reading(),
                                out_.Writing(),
                                err_.Reading(),
                                err_.Writing()}};
  poll(all.data(), all.size(), is_calm ? 1000 : 50);
}

void Supervisor::HandleSignals() {
  while (const int signal = signals_.Next()) {
    if (signal == SIGCHLD) continue;
    StopFor(StopOf(signal));
  }
  int status = 0;
  for (pid_t child = 0; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (child != mpirun_) continue;
    status_ = status;
    has_ended_ = true;
    last_alive_ = Clock::now();
    kill_at_ = std::min(kill_at_, last_alive_ + kOrphans);
  }
}

void Supervisor::PassMessages() {
  err_.Pass();
  if (!messages_.IsHolding()) {
    held_.reset();
  } else if (!held_) {
    held_ = Clock::now();
  } else if (Clock::now() - *held_ > seconds(1) || err_.HasEnded()) {
    err_.Add(messages_.Flush());
  }
}

void Supervisor::Look() {
  const auto now = Clock::now();
  LookForStop();
  if (!HasEnded() && stop_ == nullptr && gave_up_.empty()) LookForHang(now);
  if (stop_ != nullptr) EndAsked(now);
  KillIfDue(now);
}

void Supervisor::LookForStop() {
  if (job_.parent != 0 && getppid() != job_.parent) StopFor(kCallerHasGone);
  if (out_.Error() == EPIPE) StopFor(kReaderHasGone);
  if (out_.Error() == 0 || out_.Error() == EPIPE || cannot_write_) return;
  cannot_write_ = true;
  Say(fmt::format("cannot write to standard output: {}", std::strerror(out_.Error())));
}

void Supervisor::StopFor(const Stop& stop) {
  if (stop_ != nullptr) return;
  stop_ = &stop;
  const auto now = Clock::now();
  terminate_at_ = std::min(terminate_at_, now + kPolite);
  kill_at_ = std::min(kill_at_, now + kPolite + kBrief);
}

void Supervisor::GiveUp(const std::string& why) {
  gave_up_ = why + "; it is killed";
  terminate_at_ = Clock::now();
  kill_at_ = Clock::now() + kBrief;
}

void Supervisor::LookForHang(Clock::time_point now) {
  const bool has_started = messages_.Has(Sign::kStarted);
  const bool have_ended = messages_.Has(Sign::kEnded) || messages_.Has(Sign::kSignalled);
  if (have_ended && !ranks_ended_) ranks_ended_ = now;
  if (ranks_ended_ && now - *ranks_ended_ > kRanksEnded)
    return GiveUp(fmt::format("mpirun hangs: the ranks ended {} s ago{}", kRanksEnded.count(),
                              job_.is_on_one_machine ? "" : " (is a machine down or cut off?)"));
  if (!IsStopped(mpirun_)) mpirun_ran_ = now;
  if (now - mpirun_ran_ > kStopped)
    return GiveUp(fmt::format("mpirun hangs: SIGSTOP came {} s ago", kStopped.count()));
  if (!has_started && now - start_ > job_.start_limit)
    return GiveUp(
        fmt::format("mpirun hangs: it has not started the ranks within {} (is TMPDIR "
                    "full? is a machine down or behind a firewall? --timeout_s changes the limit)",
                    InSeconds(job_.start_limit)));
  if (!job_.is_on_one_machine || now < next_look_) return;
  next_look_ = now + milliseconds(has_started ? 1000 : 100);
  if (!LivingDescendants(mpirun_).empty()) {
    had_ranks_ = true;
    seen_ranks_ = now;
  }
  if (had_ranks_ && now - seen_ranks_ > kRanksGone)
    GiveUp(fmt::format("mpirun hangs: its ranks have been gone for {} s{}", kRanksGone.count(),
                       has_started ? "" : ", and had not started MPI (is TMPDIR full?)"));
}

void Supervisor::EndAsked(Clock::time_point now) {
  if (HasEnded() || now < next_signal_) return;
  next_signal_ = now + kAgain;
  kill(mpirun_, stop_->forwarded);
}

void Supervisor::KillIfDue(Clock::time_point now) {
  if (now >= terminate_at_ && !HasEnded()) {
    kill(mpirun_, SIGTERM);
    kill(mpirun_, SIGCONT);  // it may have been stopped
    terminate_at_ = Clock::time_point::max();
  }
  if (now < kill_at_) return;
  kill_at_ = now + kAgain;
  if (!killed_) killed_ = now;
  for (const pid_t one : LivingDescendants(getpid())) kill(one, SIGKILL);
}

// Others may hold the pipes open, such as a daemon that ssh has started.
bool Supervisor::IsOver() {
  if (!HasEnded()) return false;
  const auto now = Clock::now();
  const bool has_left = killed_ && now - *killed_ > kKilled;
  if (!LivingDescendants(getpid()).empty() && !has_left) {
    last_alive_ = now;
    return false;
  }
  const bool has_passed = out_.HasEnded() && out_.IsIdle() && err_.HasEnded() && err_.IsIdle() &&
                          !messages_.IsHolding();
  const bool may_wait = stop_ == nullptr && !(out_.IsIdle() && err_.IsIdle());
  return has_passed || (!may_wait && now - last_alive_ > kDrain);
}

int Supervisor::Conclude() {
  const auto left = LivingDescendants(getpid());
  const int status = WIFEXITED(status_) ? WEXITSTATUS(status_) : kSignalled + WTERMSIG(status_);
  if (status != 0 || stop_ != nullptr) {
    RemoveLeftovers(mpirun_);
    if (!job_.result.empty()) RemovePartial(job_.result);
  }
  const std::string remains = left.empty() ? "" : fmt::format("process {} does not end", left[0]);
  for (const std::string& line : {remains, gave_up_, LastLine()})
    if (!line.empty()) Say(line);
  for (int tries = 0; tries < 10 && !err_.IsIdle() && err_.Error() == 0; ++tries) {
    err_.Pass();
    pollfd writing = err_.Writing();
    poll(&writing, 1, 100);
  }
  if (stop_ != nullptr) return stop_->status;
  if (status == 0) return !gave_up_.empty() || cannot_write_ || !left.empty() ? kFailed : 0;
  // Statuses above 128 are those of signals; mpirun uses some for its own reasons.
  const bool has_killed = std::ranges::any_of(messages_.messages(), [](const Message& message) {
    return message.weight == Weight::kDeath;
  });
  const bool by_signal = has_killed || WIFSIGNALED(status_) || messages_.Has(Sign::kSignalled) ||
                         status == kReaderHasGone.status;
  if (!gave_up_.empty() || (status > kSignalled && !by_signal && !messages_.messages().empty()))
    return kFailed;
  // A signal to mpirun itself: its ranks get SIGTERM, and its status does not always say so. They
  // also get one after a rank has ended by itself.
  if (status == kFailed && messages_.Has(Sign::kSignalled) && !messages_.Has(Sign::kEnded))
    return kSignalled + SIGTERM;
  return status;
}

std::string Supervisor::LastLine() const {
  const bool has_started = messages_.Has(Sign::kStarted);
  if (stop_ != nullptr) {
    if (*stop_->name == '\0' || messages_.Has(Sign::kSignalled)) return "";
    return EndedBy(*stop_, has_started);
  }
  if (WIFSIGNALED(status_) && gave_up_.empty())
    return fmt::format("mpirun was killed by {}{}", NameSignal(WTERMSIG(status_)), WhereRowsAre());
  const int status = WIFEXITED(status_) ? WEXITSTATUS(status_) : 0;
  if (status == 0 || (status == kCannotStart && messages_.messages().empty())) return "";
  if (status == kReaderHasGone.status)
    return "ended by SIGUSR2, which something sent to the ranks" + WhereRowsAre();
  const Told told = messages_.Has(Sign::kEnded)       ? Told::kReason
                    : messages_.Has(Sign::kSignalled) ? Told::kSignal
                                                      : Told::kNothing;
  std::string line = CauseOf(messages_.messages(), status, told);
  const bool has_said_why = std::ranges::any_of(
      messages_.messages(), [](const Message& message) { return message.weight > Weight::kNone; });
  if (line.empty() || (!gave_up_.empty() && !has_said_why)) return "";
  if (has_started) return line + WhereRowsAre();
  return line + (job_.settings.empty() ? "" : "; set here: " + job_.settings);
}

// The file that has been written since the start.
std::string Supervisor::WhereRowsAre() const {
  struct stat found{};
  const bool is_new = !job_.result.empty() && stat(job_.result.c_str(), &found) == 0 &&
                      found.st_mtime >= start_time_;
  return is_new ? fmt::format("; rows so far are in {}", job_.result) : "";
}

}  // namespace

int Supervise(const Job& job, Signals& signals) { return Supervisor(job, signals).Run(); }

int EndBeforeStart(const std::string& caller, int signal) {
  const Stop& stop = StopOf(signal);
  std::cerr << fmt::format("{}: {}\n", caller, EndedBy(stop, false));
  return stop.status;
}

}  // namespace overlapbench
