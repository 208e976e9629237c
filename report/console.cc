#include "report/console.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kClearLine = "\r\033[K";

// "0:05", "1:02:00".
std::string ClockText(double seconds) {
  constexpr long kSixty = 60;
  const long all = std::max(0L, std::lround(seconds));
  const long hours = all / kSixty / kSixty;
  const std::string minutes = hours > 0 ? fmt::format("{}:{:02}", hours, all / kSixty % kSixty)
                                        : fmt::format("{}", all / kSixty);
  return fmt::format("{}:{:02}", minutes, all % kSixty);
}

double SecondsSince(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

Console::Console(const CounterTable& counters, RowTableOptions options)
    : screen_(options.screen),
      planned_(static_cast<long>(options.planned.size())),
      repetitions_(options.repetitions),
      table_(counters, std::move(options)) {
  if (!screen_.is_terminal) return;
  shows_progress_ = true;
  thread_ = std::thread([this] {
    constexpr auto kRenew = std::chrono::seconds(1);
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kRenew, [this] { return !shows_progress_; })) Renew();
  });
}

Console::~Console() {
  {
    const std::lock_guard lock(mutex_);
    shows_progress_ = false;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Console::ShowContext(const std::string& line, const std::string& warning) {
  const std::lock_guard lock(mutex_);
  Print(Wrapped(line, screen_.columns, 0) + "\n");
  if (warning.empty()) return;
  const std::string text = Wrapped("warning: " + warning, screen_.columns, 0);
  Print(Painted(screen_, Colour::kYellow, text) + "\n");
}

void Console::ShowPlan() {
  const std::lock_guard lock(mutex_);
  start_ = last_end_ = Clock::now();
  const std::string repeated =
      repetitions_ > 1 ? fmt::format(", {} repetitions each", repetitions_) : "";
  const std::string text = fmt::format(
      "{} benchmark{}{}; times are medians, the maximum over the ranks; ± reaches to the farther "
      "end of the 95 % interval",
      planned_, planned_ == 1 ? "" : "s", repeated);
  Print(Wrapped(text, screen_.columns, 0) + "\n");
}

void Console::Begin(const std::string& name) {
  const std::lock_guard lock(mutex_);
  running_ = table_.LabelOf(name);
  ended_repetitions_ = 0;
  if (shows_progress_) Renew();
}

void Console::EndRepetition() {
  const std::lock_guard lock(mutex_);
  ++ended_repetitions_;
  last_end_ = Clock::now();
}

void Console::Show(const Row& row, long repetition) {
  const std::lock_guard lock(mutex_);
  if (repetition == 1) {
    ++shown_;
    running_.clear();
    last_end_ = Clock::now();
  }
  Print(table_.LinesOf(row, repetition));
}

void Console::ShowEnd(const std::vector<Row>& rows) {
  const std::lock_guard lock(mutex_);
  Print(table_.End(rows));
}

void Console::HideProgress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !shows_progress_) return;
  shows_progress_ = false;
  std::cout << kClearLine << std::flush;
}

std::string Console::ProgressLine() const {
  const long all = planned_ * repetitions_;
  const long done = std::min(shown_ * repetitions_ + ended_repetitions_, all);
  std::string state =
      repetitions_ > 1
          ? fmt::format("  {} of {}", std::min(ended_repetitions_ + 1, repetitions_), repetitions_)
          : "";
  state += fmt::format("  {} %", all > 0 ? 100 * done / all : 0);
  if (done > 0) {
    const double each_s =
        std::chrono::duration<double>(last_end_ - start_).count() / static_cast<double>(done);
    // Part of the running one's time has passed.
    const double paid_s = std::min(SecondsSince(last_end_), each_s);
    state += fmt::format("  {} left", ClockText(each_s * static_cast<double>(all - done) - paid_s));
  }
  const std::string head = fmt::format("[{}/{}] ", shown_ + 1, planned_);
  const std::size_t taken = WidthOf(head) + WidthOf(state) + 1;
  const std::size_t room = screen_.columns - std::min(screen_.columns, taken);
  return head + Shortened(running_, std::max<std::size_t>(room, 3)) + state;
}

// Replaces the progress line.
void Console::Print(const std::string& text) {
  if (shows_progress_) std::cout << kClearLine;
  std::cout << text << std::flush;
  if (shows_progress_) Renew();
}

// The cursor stays at the beginning, so that another program's output replaces the line.
void Console::Renew() {
  if (running_.empty()) return;
  std::cout << kClearLine << Painted(screen_, Colour::kDim, ProgressLine()) << "\r" << std::flush;
}

}  // namespace overlapbench
