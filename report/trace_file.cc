#include "report/trace_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "device/descriptor.h"
#include "report/result_file.h"
#include "report/trace_json.h"

namespace overlapbench {
namespace {

// FNV-1a.
std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

std::string TraceFileName(const std::string& row, int rank) {
  constexpr std::size_t kMostCharacters = 200;  // of the 255 that file systems allow
  constexpr std::string_view kAsTheyAre = "+-._";
  std::string name;
  bool is_ordinary = !row.empty() && row.size() <= kMostCharacters && !row.starts_with('.');
  for (const char c : row.substr(0, kMostCharacters)) {
    const bool keeps = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kAsTheyAre.find(c) != std::string_view::npos;
    is_ordinary = is_ordinary && (keeps || c == '/' || c == ':');
    name += keeps ? c : c == '/' ? ',' : c == ':' ? '=' : '_';
  }
  if (name.starts_with('.')) name.front() = '_';
  if (!is_ordinary) name += fmt::format("-{:016x}", HashOf(row));
  return fmt::format("{}.rank{}.json", name, rank);
}

TraceFiles::TraceFiles(std::string folder) : folder_(std::move(folder)) {
  std::error_code ignored;  // the trial says why
  std::filesystem::create_directories(folder_, ignored);
  // Ranks of one machine may try this at the same time.
  std::string trial = folder_ + "/.trial.XXXXXX";
  const Descriptor made(mkstemp(trial.data()));
  if (made.empty())
    throw UsageError("cannot write to the folder " + folder_ + ": " + std::strerror(errno));
  unlink(trial.c_str());
}

void TraceFiles::Write(const RowTrace& trace) {
  const std::string text = TraceJson(trace);
  const std::lock_guard lock(mutex_);
  if (abandoned_) return;
  ResultFile file(folder_ + "/" + TraceFileName(trace.row, trace.rank));
  file.Append(text, "");
  file.Finish();
}

void TraceFiles::Abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

}  // namespace overlapbench
