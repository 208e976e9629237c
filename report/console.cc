#include "report/console.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <utility>

#include "report/overlap_table.h"

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kIndent = 8;
constexpr const char* kClearLine = "\r\033[K";

Colour ColourOf(RowState state) {
  if (state == RowState::kControl) return Colour::kGreen;
  const bool bad = state == RowState::kError || state == RowState::kInvalid;
  return bad ? Colour::kRed : Colour::kYellow;
}

// "serialized: communication waited", "" for a plain row.
std::string RemarkOf(const Screen& screen, const Row& row) {
  if (row.state == RowState::kOk) return row.reason;
  const std::string state = Painted(screen, ColourOf(row.state), ToString(row.state));
  return row.reason.empty() ? state : state + ": " + row.reason;
}

// "" if no row is noisy.
std::string CountOfNoisy(const std::vector<Row>& rows, const Screen& screen) {
  const auto noisy = std::ranges::count(rows, RowState::kNoisy, &Row::state);
  if (noisy == 0) return "";
  const std::string text = fmt::format(
      "{} of {} rows are noisy and say why: measure on an idle machine, or raise --budget_ms",
      noisy, rows.size());
  return "\n" + Wrapped(text, screen.columns, 0) + "\n";
}

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

// "12.3 ms" without its unit.
std::string WithoutUnit(std::string text, const std::string& unit) {
  if (!unit.empty() && text.ends_with(" " + unit)) text.resize(text.size() - unit.size() - 1);
  return text;
}

}  // namespace

Console::Console(const CounterTable& table, ConsoleOptions options)
    : table_(table), options_(std::move(options)) {
  if (!options_.screen.is_terminal) return;
  shows_progress_ = true;
  thread_ = std::thread([this] {
    constexpr auto kRenew = std::chrono::seconds(1);
    std::unique_lock lock(mutex_);
    while (shows_progress_) {
      Renew();
      ended_.wait_for(lock, kRenew);
    }
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
  const Screen& screen = options_.screen;
  Print(Wrapped(line, screen.columns, 0) + "\n");
  if (warning.empty()) return;
  Print(Painted(screen, Colour::kYellow, Wrapped("warning: " + warning, screen.columns, 0)) + "\n");
}

void Console::ShowPlan() {
  const std::lock_guard lock(mutex_);
  start_ = last_end_ = Clock::now();
  const std::string repeated =
      options_.repetitions > 1 ? fmt::format(", {} repetitions each", options_.repetitions) : "";
  Print(Wrapped(fmt::format("{} benchmarks{}; times are medians, the maximum over the ranks",
                            options_.planned, repeated),
                options_.screen.columns, 0) +
        "\n");
}

void Console::Begin(const std::string& name) {
  const std::lock_guard lock(mutex_);
  running_ = name;
  repetitions_ = 0;
  if (shows_progress_) Renew();
}

void Console::EndRepetition() {
  const std::lock_guard lock(mutex_);
  ++repetitions_;
  last_end_ = Clock::now();
}

void Console::Show(const Row& row, long repetition) {
  const std::lock_guard lock(mutex_);
  if (repetition == 1) {
    ++shown_;
    running_.clear();
    last_end_ = Clock::now();
  }
  Print(Lines(row, repetition));
}

void Console::ShowTables(const std::vector<Row>& rows) {
  const std::lock_guard lock(mutex_);
  Print(OverlapTables(rows, options_.screen, options_.unit) + CountOfNoisy(rows, options_.screen));
}

void Console::HideProgress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !shows_progress_) return;
  shows_progress_ = false;
  std::cout << kClearLine << std::flush;
}

// The first few counters that the row's family leads with.
std::string Console::Highlights(const Row& row) const {
  constexpr std::size_t kMost = 3;
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : table_.LeadOf(row.name)) {
    const Counter* counter = table_.Find(name);
    if (counter == nullptr || !row.counters.contains(name) || shown == kMost) continue;
    text += fmt::format("{}{} {}", shown++ == 0 ? "" : ", ", counter->title,
                        ShownCounter(row, *counter, options_.unit));
  }
  if (row.counters.contains("slowest_rank"))
    text += fmt::format(", slowest rank {:.0f}", row.Counter("slowest_rank"));
  return text;
}

// All counters that its family leads with, below titles that are shown again when they change.
std::string Console::InColumns(const Row& row) {
  constexpr std::size_t kNumber = 9;
  constexpr std::size_t kNumberWithInterval = 15;
  constexpr std::size_t kNumberWithBothReaches = 22;
  const std::string& time_unit = options_.unit.name;
  std::vector<std::string> titles;
  std::vector<std::string> cells;
  const auto add = [&](const std::string& title, const std::string& unit, const std::string& text) {
    const std::string full = unit.empty() ? title : title + " " + unit;
    const auto has = [&](const char* sign) { return text.find(sign) != std::string::npos; };
    const std::size_t number =
        has(" -") ? kNumberWithBothReaches : (has("±") ? kNumberWithInterval : kNumber);
    const std::size_t width = std::max(WidthOf(full), number) + 2;
    titles.push_back(RightAligned(full, width));
    cells.push_back(RightAligned(WithoutUnit(text, unit), width));
  };
  add("time", time_unit, ShownTime(row, options_.unit));
  for (const std::string& name : table_.LeadOf(row.name)) {
    const Counter* counter = table_.Find(name);
    if (counter == nullptr || !row.counters.contains(name)) continue;
    add(counter->title, counter->unit == "ms" ? time_unit : counter->unit,
        ShownCounter(row, *counter, options_.unit));
  }
  const std::string all_titles = Filled(titles, options_.screen.columns, 0);
  const bool known = all_titles == last_titles_;
  last_titles_ = all_titles;
  return (known ? "" : Painted(options_.screen, Colour::kCyan, all_titles) + "\n") +
         Filled(cells, options_.screen.columns, 0);
}

// Lines are broken on a terminal only: in a pipe, a program may read them.
std::string Console::Lines(const Row& row, long repetition) {
  const Screen& screen = options_.screen;
  const std::size_t columns =
      screen.is_terminal ? screen.columns : std::numeric_limits<std::size_t>::max();
  std::string text;
  if (repetition == 1) {
    std::vector<std::string> parts = SplitBehind(row.name, '/');
    const std::string place = fmt::format("[{}/{}] ", shown_, options_.planned);
    parts.insert(parts.begin(), place);
    const std::string head = Filled(parts, columns, kIndent);
    text = place + Painted(screen, Colour::kGreen, head.substr(place.size())) + "\n";
  }
  const std::string which =
      options_.repetitions > 1 ? fmt::format("{} of {}: ", repetition, options_.repetitions) : "";
  const std::string indent(kIndent, ' ');
  if (!row.measured()) {
    const std::string error = Painted(screen, Colour::kRed, "ERROR");
    return text + Wrapped(indent + which + error + ": " + row.reason, columns, kIndent) + "\n";
  }
  const std::string remark = RemarkOf(screen, row);
  if (options_.tabular) {
    text += InColumns(row) + "\n";
    return remark.empty() ? text : text + Wrapped(indent + remark, columns, kIndent) + "\n";
  }
  const std::string line = indent + which + ShownTime(row, options_.unit) + "  " + Highlights(row) +
                           (remark.empty() ? "" : "  " + remark);
  return text + Wrapped(line, columns, kIndent) + "\n";
}

std::string Console::ProgressLine() const {
  const long all = options_.planned * options_.repetitions;
  const long done = std::min(shown_ * options_.repetitions + repetitions_, all);
  std::string state =
      options_.repetitions > 1
          ? fmt::format("  {} of {}", std::min(repetitions_ + 1, options_.repetitions),
                        options_.repetitions)
          : "";
  state += fmt::format("  {} %", all > 0 ? 100 * done / all : 0);
  if (done > 0) {
    const double each_s =
        std::chrono::duration<double>(last_end_ - start_).count() / static_cast<double>(done);
    // Part of the running one's time has passed.
    const double paid_s = std::min(SecondsSince(last_end_), each_s);
    state += fmt::format("  {} left", ClockText(each_s * static_cast<double>(all - done) - paid_s));
  }
  const std::string head = fmt::format("[{}/{}] ", shown_ + 1, options_.planned);
  const std::size_t taken = WidthOf(head) + WidthOf(state) + 1;
  const std::size_t room = options_.screen.columns - std::min(options_.screen.columns, taken);
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
  std::cout << kClearLine << Painted(options_.screen, Colour::kDim, ProgressLine()) << "\r"
            << std::flush;
}

}  // namespace overlapbench
