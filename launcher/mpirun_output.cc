#include "launcher/mpirun_output.h"

#include <algorithm>
#include <utility>

namespace overlapbench {
namespace {

// A line of a frame. The same length in all messages of OpenMPI, and in no line of ours.
const std::string& Dashes() {
  constexpr std::size_t kLength = 74;
  static const std::string dashes = std::string(kLength, '-') + "\n";
  return dashes;
}

// Whether `text` may continue to `whole`.
bool MayBecome(std::string_view text, std::string_view whole) { return whole.starts_with(text); }

// Whether a line that begins so may be OpenMPI's.
bool MayBeMpis(std::string_view line) {
  constexpr std::string_view kMpirun = "mpirun: ";
  return line.starts_with('[') || line.starts_with("***") || MayBecome(line, "***") ||
         line.starts_with(kMpirun) || MayBecome(line, kMpirun);
}

}  // namespace

std::string MpirunOutput::Take(std::string_view bytes) {
  held_ += bytes;
  TakeSigns();
  std::string shown;
  while (!held_.empty() && TakeNext(shown)) {
  }
  return shown;
}

std::string MpirunOutput::Flush() {
  at_line_start_ = !held_.empty() ? held_.back() == '\n' : at_line_start_;
  return std::exchange(held_, "");
}

void MpirunOutput::TakeSigns() {
  for (std::size_t sign = 0; sign < kSigns.size(); ++sign) {
    const std::string_view text = kSigns[sign];
    for (auto at = held_.find(text); at != std::string::npos; at = held_.find(text, at)) {
      held_.erase(at, text.size());
      seen_[sign] = true;
    }
  }
}

bool MpirunOutput::TakeNext(std::string& shown) {
  if (held_.starts_with(Dashes())) return TakeFrame(shown);
  if (MayBecome(held_, Dashes())) return false;
  if (held_[0] == kSigns[0][0]) {
    const bool wait =
        std::ranges::any_of(kSigns, [&](auto sign) { return MayBecome(held_, sign); });
    if (wait) return false;
  }
  return TakeLine(shown);
}

bool MpirunOutput::TakeFrame(std::string& shown) {
  const auto end = held_.find(Dashes(), Dashes().size());
  if (end == std::string::npos) return false;
  const std::string text = held_.substr(Dashes().size(), end - Dashes().size());
  held_.erase(0, end + Dashes().size());
  at_line_start_ = true;
  if (const auto message = Understand(text)) {
    messages_.push_back(*message);
  } else {
    shown += text;
  }
  return true;
}

// A line that may be OpenMPI's is taken as a whole. Of others, what is there, up to a frame or sign
// that may begin within: a progress line has no end.
bool MpirunOutput::TakeLine(std::string& shown) {
  const auto end = held_.find('\n');
  if (at_line_start_ && MayBeMpis(held_)) {
    if (end == std::string::npos) return false;
    if (const auto message = UnderstandLine(held_.substr(0, end))) {
      // Once the ranks have started, its errors follow from another.
      if (!Has(Sign::kStarted)) messages_.push_back(*message);
      held_.erase(0, end + 1);
      return true;
    }
  }
  auto size = end == std::string::npos ? held_.size() : end + 1;
  size = std::min({size, held_.find(kSigns[0][0], 1), held_.find(Dashes())});
  if (end == std::string::npos) {
    // The frame may have begun at the end.
    const auto last = held_.find_last_not_of('-');
    if (last != std::string::npos) size = std::min(size, last + 1);
  }
  shown += held_.substr(0, size);
  at_line_start_ = held_[size - 1] == '\n';
  held_.erase(0, size);
  return true;
}

}  // namespace overlapbench
