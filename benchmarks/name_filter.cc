#include "benchmarks/name_filter.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "device/error.h"
#include "device/text.h"
#include "workload/size.h"

namespace overlapbench {

NameFilter::NameFilter(const std::string& flag, std::string text) {
  negative_ = text.starts_with('-');
  if (negative_) text.erase(0, 1);
  try {
    expression_.assign(WithSizesInDigits(text), std::regex::extended | std::regex::nosubs);
  } catch (const std::regex_error& error) {
    const bool is_large = error.code() == std::regex_constants::error_space;
    throw UsageError(fmt::format("{}: '{}' is {}", flag, ShownFilter(text),
                                 is_large ? "too large; simplify it" : "not a regular expression"));
  }
}

void RequireUsableFilter(const std::string& flag, const std::string& text,
                         const std::function<std::vector<std::string>()>& names) {
  constexpr std::string_view kOfHarmless =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:/_.-^$";
  constexpr std::size_t kShort = 1000;
  constexpr rlim_t kMost_s = 2;
  if (text.size() < kShort && text.find_first_not_of(kOfHarmless) == std::string::npos) return;
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    const rlimit time{kMost_s, kMost_s};
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_CORE, &no_core);
    try {
      const NameFilter filter(flag, text);
      for (const std::string& name : names()) static_cast<void>(filter.Matches(name));
    } catch (const std::exception&) {
      _exit(0);  // who uses the filter will report it
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFSIGNALED(status)) return;
  const bool is_slow = WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL;
  throw UsageError(fmt::format("{}: '{}' {}; simplify it", flag, ShownFilter(text),
                               is_slow ? fmt::format("takes more than {} s to match", kMost_s)
                                       : "is too long or too deeply nested"));
}

std::string ShownFilter(const std::string& text) {
  constexpr std::size_t kMost = 300;
  constexpr std::size_t kShown = 60;
  if (text.size() <= kMost) return text;
  return fmt::format("{}… ({} characters)", WithinBytes(text, kShown), text.size());
}

std::string WithPlusEscaped(const std::string& text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') escaped += '\\';
    escaped += text[i];
    if (text[i] == '\\' && i + 1 < text.size()) escaped += text[++i];
  }
  return escaped;
}

}  // namespace overlapbench
