#include "launcher/relay.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

namespace overlapbench {
namespace {

constexpr std::size_t kMostWaiting = 1 << 16;
constexpr std::size_t kAtOnce = PIPE_BUF;

mode_t TypeOf(int target) {
  struct stat status{};
  return fstat(target, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

// O_NONBLOCK belongs to the open description, which the target shares with the user's shell. So the
// relay opens the terminal or pipe again.
int OpenAgain(int target) {
  const mode_t type = TypeOf(target);
  if (type != S_IFIFO && type != S_IFCHR) return -1;
  const std::string path = fmt::format("/proc/self/fd/{}", target);
  return open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

}  // namespace

Relay::Relay(Descriptor source, int target, Filter filter)
    : source_(std::move(source)),
      own_(OpenAgain(target)),
      target_(own_.empty() ? target : own_.get()),
      type_(TypeOf(target)),
      filter_(std::move(filter)) {}

pollfd Relay::Reading() const {
  return {waiting_.size() < kMostWaiting ? source_.get() : -1, POLLIN, {}};
}

pollfd Relay::Writing() const { return {waiting_.empty() ? -1 : target_, POLLOUT, {}}; }

// A pipe that may be written takes PIPE_BUF bytes at once; a socket can be told not to wait.
ssize_t Relay::Write() const {
  if (type_ == S_IFSOCK)
    return send(target_, waiting_.data(), waiting_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  const bool may_wait = own_.empty() && type_ != S_IFREG;
  return write(target_, waiting_.data(),
               may_wait ? std::min(waiting_.size(), kAtOnce) : waiting_.size());
}

void Relay::Pass() {
  pollfd reading = Reading();
  std::array<char, 1 << 14> bytes;
  if (poll(&reading, 1, 0) > 0) {
    const ssize_t count = read(source_.get(), bytes.data(), bytes.size());
    if (count > 0) waiting_ += filter_({bytes.data(), static_cast<std::size_t>(count)});
    if (count == 0) source_ = Descriptor();
  }
  if (error_ != 0) waiting_.clear();
  pollfd writing = Writing();
  if (poll(&writing, 1, 0) <= 0) return;
  const ssize_t count = Write();
  if (count > 0) waiting_.erase(0, count);
  if (count < 0 && errno != EAGAIN && errno != EINTR) error_ = errno;
}

}  // namespace overlapbench
