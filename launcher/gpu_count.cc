#include "launcher/gpu_count.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "device/device.h"
#include "device/text.h"
#include "device/wait.h"
#include "launcher/messages.h"
#include "launcher/pipe.h"

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Whether the descriptor becomes readable within the limit; -1 never does. Throws Interrupted.
bool Await(int descriptor, Signals& signals, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  std::array<pollfd, 2> all = {{{descriptor, POLLIN, 0}, {signals.descriptor(), POLLIN, 0}}};
  for (milliseconds left = limit; left.count() > 0;) {
    poll(all.data(), all.size(), static_cast<int>(left.count()));
    if (all[0].revents != 0) return true;
    const int signal = signals.Next();
    if (signal != 0 && signal != SIGCHLD) throw Interrupted(signal);
    left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  }
  return false;
}

[[noreturn]] void Answer(int pipe) {
  std::string text;
  try {
    text = std::to_string(VisibleGpus());
  } catch (const std::exception& error) {
    text = error.what();
  }
  _exit(write(pipe, text.data(), text.size()) < 0 ? 1 : 0);
}

// Returns the status as waitpid does. A process in a driver that hangs may outlast SIGKILL; it is
// left to the system.
int End(pid_t process) {
  constexpr milliseconds kPatience(1000);
  int status = 0;
  kill(process, SIGKILL);
  [[maybe_unused]] const bool has_ended =
      WaitUntil([&] { return waitpid(process, &status, WNOHANG) != 0; }, kPatience);
  return status;
}

// The number of GPUs, or why there is no answer.
std::string Ask(Signals& signals, milliseconds limit) {
  Pipe pipe = MakePipe();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) Answer(pipe.writing.get());
  pipe.writing = Descriptor();
  int status = 0;
  std::string text(1 << 10, '\0');
  {
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { status = End(child); });
    if (!Await(pipe.reading.get(), signals, limit))
      return fmt::format("the driver did not answer within {} ({})", InSeconds(limit),
                         kDriverAdvice);
    const ssize_t size = read(pipe.reading.get(), text.data(), text.size());
    text.resize(size > 0 ? size : 0);
  }
  if (!text.empty()) return text;
  const std::string how = WIFSIGNALED(status) ? ": " + NameSignal(WTERMSIG(status)) : "";
  return fmt::format("the driver ended the process that asked it{} ({})", how, kDriverAdvice);
}

}  // namespace

int CountGpus(Signals& signals, const GpuCountLimits& limits) {
  const auto deadline = Clock::now() + limits.again;
  for (;;) {
    const std::string answer = Ask(signals, limits.answer);
    if (const auto count = WholeNumber(answer)) return static_cast<int>(*count);
    if (Clock::now() > deadline)
      throw Error(fmt::format(
          "cannot count the GPUs: {}; --ranks N starts N ranks without counting", answer));
    Await(-1, signals, limits.pause);
  }
}

}  // namespace overlapbench
