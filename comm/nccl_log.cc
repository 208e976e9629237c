#include "comm/nccl_log.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace overlapbench {
namespace {

constexpr std::array kVariables = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};

}  // namespace

NcclLog::NcclLog() {
  for (const char* name : kVariables)
    if (std::getenv(name) != nullptr) return;
  file_ = memfd_create("nccl-log", MFD_CLOEXEC);
  if (file_ < 0) return;
  constexpr int kReplaces = 1;
  setenv("NCCL_DEBUG", "INFO", kReplaces);
  setenv("NCCL_DEBUG_SUBSYS", "INIT", kReplaces);
  setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", file_).c_str(), kReplaces);
}

NcclLog::~NcclLog() {
  if (file_ < 0) return;
  for (const char* name : kVariables) unsetenv(name);
  close(file_);
}

std::string NcclLog::text() const {
  struct stat status{};
  if (file_ < 0 || fstat(file_, &status) != 0) return "";
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t read = pread(file_, text.data(), text.size(), 0);
  text.resize(read < 0 ? 0 : static_cast<std::size_t>(read));
  return text;
}

std::string NetworkIn(const std::string& log) {
  const std::string before = "Using network ";
  const std::size_t found = log.find(before);
  if (found == std::string::npos) return "";
  const std::size_t begin = found + before.size();
  return log.substr(begin, log.find_first_of("\r\n", begin) - begin);
}

}  // namespace overlapbench
