// A child process that runs a function in place of a program's main(), and what it writes.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include "device/descriptor.h"

namespace overlapbench {

// As a terminal starts it. A shell lets its background jobs ignore some signals, and nohup another.
inline const bool kHasSignals = [] {
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) std::signal(signal, SIG_DFL);
  return true;
}();

class Child {
 public:
  // Standard output goes to `out`, or to a file of its own if that is empty.
  explicit Child(const std::function<int()>& main, Descriptor out = {})
      : out_(out.empty() ? OwnFile() : std::move(out)), err_(OwnFile()) {
    std::fflush(nullptr);
    id_ = fork();
    if (id_ > 0) return;
    dup2(out_.get(), STDOUT_FILENO);
    dup2(err_.get(), STDERR_FILENO);
    const int status = main();
    std::cout.flush();
    std::fflush(nullptr);
    _exit(status);
  }
  Child(Child&& other) noexcept
      : out_(std::move(other.out_)),
        err_(std::move(other.err_)),
        id_(std::exchange(other.id_, 0)),
        start_(other.start_) {}
  ~Child() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  [[nodiscard]] std::string Out() const { return TextOf(out_); }
  [[nodiscard]] std::string Err() const { return TextOf(err_); }
  // Whether standard output, or error, has the text within some seconds.
  [[nodiscard]] bool Writes(const std::string& text) const {
    return Within(kPatience, [&] { return (Out() + Err()).find(text) != std::string::npos; });
  }

  // Its exit status, or 128 and the number of the signal that ended it; -1 if it lasts too long.
  int End(std::chrono::milliseconds limit = kPatience) {
    int status = 0;
    if (!Within(limit, [&] { return waitpid(id_, &status, WNOHANG) != 0; })) return -1;
    id_ = 0;
    seconds_ = std::chrono::steady_clock::now() - start_;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // How long it has taken, once it has ended.
  [[nodiscard]] double seconds() const { return seconds_.count(); }

 private:
  static constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(15);

  static Descriptor OwnFile() {
    return Descriptor(open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
  }
  static std::string TextOf(const Descriptor& file) {
    std::string text;
    std::array<char, 1 << 14> part{};
    ssize_t size = 0;
    while ((size = pread(file.get(), part.data(), part.size(), std::ssize(text))) > 0)
      text.append(part.data(), size);
    return text;
  }
  static bool Within(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  Descriptor out_;
  Descriptor err_;
  pid_t id_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::duration<double> seconds_{};
};

}  // namespace overlapbench
