#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>

namespace overlapbench {
namespace {

// Those that mean something (supervisor.cc), and the end of a child. All others are held up for
// ever.
constexpr std::array<int, 5> kAwaited = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
// A fault of this process itself.
constexpr std::array<int, 5> kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

constexpr std::array<int, 10> kIgnoredByBench = {SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGVTALRM,
                                                 SIGPROF, SIGXCPU, SIGXFSZ, SIGIO,   SIGPWR};

bool IsIgnored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigset_t held;
  sigfillset(&held);
  for (const int fault : kFaults) sigdelset(&held, fault);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int signal : kAwaited) {
    if (!IsIgnored(signal) || signal == SIGCHLD) sigaddset(&awaited, signal);
  }
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe fails the call
  queue_ = Descriptor(signalfd(-1, &awaited, SFD_NONBLOCK | SFD_CLOEXEC));
}

int Signals::Next() {
  signalfd_siginfo one{};
  [[maybe_unused]] const ssize_t size = read(queue_.get(), &one, sizeof(one));  // or 0 stays
  return static_cast<int>(one.ssi_signo);
}

// The script that called the launcher ignores some signals itself.
void Signals::RestoreInChild() const {
  for (const int signal : kIgnoredByBench) std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace overlapbench
