#include "report/run_reporter.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <utility>

#include "ranks/watchdog.h"
#include "report/csv.h"

namespace overlapbench {
namespace {

// Whether nobody reads standard output any more, as after `| head` has ended.
bool ReaderIsGone() {
  pollfd output = {STDOUT_FILENO, 0, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

void RequireOutput() {
  if (OutputFailed()) throw Error("cannot write the result to standard output");
}

constexpr std::chrono::milliseconds kPatience(200);

}  // namespace

bool OutputFailed() { return !std::cout.flush() && !ReaderIsGone(); }

RunReporter::RunReporter(Progress& progress, FinishedRows& finished, const CounterTable& table,
                         Options options, std::unique_ptr<ResultFile> file)
    : progress_(progress),
      finished_(finished),
      table_(table),
      options_(std::move(options)),
      is_root_(progress.rank() == 0),
      file_(std::move(file)),
      json_(table) {
  if (is_root_ && options_.format == ConsoleFormat::kText)
    console_ = std::make_unique<Console>(table_, options_.console);
}

// Never returns false: its rank would then run nothing, and the others would wait for it.
bool RunReporter::ReportContext(const Context& context) {
  if (!is_root_) return true;
  const std::lock_guard lock(showing_);
  if (stopped_) return true;
  const std::string text = json_.Begin(context);
  if (file_ != nullptr) file_->Begin(text);
  if (options_.format == ConsoleFormat::kJson) std::cout << text << std::flush;
  if (console_ != nullptr) console_->ShowPlan();
  return true;
}

void RunReporter::ReportRuns(const std::vector<Run>& report) {
  const std::vector<Row> rows = finished_.Take(report);
  if (!is_root_) return;
  const Progress::Scope scope(progress_, Phase::kWrite);
  const std::lock_guard lock(showing_);
  if (stopped_) return;
  const std::string text = json_.Runs(report, rows);
  if (file_ != nullptr) file_->Append(text, ResultJson::Incomplete(kStillRunning));
  kept_rows_ += rows.size();
  if (options_.format == ConsoleFormat::kJson) std::cout << text << std::flush;
  long repetition = 0;
  for (const Row& row : rows)
    if (console_ != nullptr) console_->Show(row, ++repetition);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  // Nobody will see the rest, and nothing keeps it.
  if (KeepsFile()) return;
  if (ReaderIsGone()) kill(getpid(), Watchdog::kReaderIsGone);
  RequireOutput();
}

void RunReporter::Finalize() {
  if (!is_root_) return;
  const Progress::Scope scope(progress_, Phase::kWrite);
  const std::lock_guard lock(showing_);
  if (stopped_) return;
  const std::string text = ResultJson::End();  // ends the document
  if (file_ != nullptr) {
    file_->Append(text, "");
    file_->Finish();
  }
  if (options_.format == ConsoleFormat::kJson) std::cout << text;
  ShowTheEnd();
  if (console_ != nullptr && KeepsFile()) std::cout << "\nwritten: " << file_->path() << "\n";
  RequireOutput();
}

// Shows what is below the rows.
void RunReporter::ShowTheEnd() {
  if (console_ != nullptr) {
    console_->HideProgress();
    console_->ShowEnd(rows_);
  }
  if (options_.format == ConsoleFormat::kCsv)
    std::cout << Csv(table_, rows_, options_.console.unit) << std::flush;
}

// Gives up if the main thread holds the lock because standard output is stuck.
void RunReporter::Stop() {
  stopped_ = true;
  const std::unique_lock lock(showing_, kPatience);
}

void RunReporter::Abandon(const std::string& reason) {
  if (!is_root_) return;
  // The file comes first, and waits for nothing that shows.
  if (file_ != nullptr && file_->Abandon(ResultJson::Incomplete(reason)) && KeepsFile() &&
      Accepts(STDERR_FILENO)) {
    std::cerr << fmt::format("overlapbench: kept {} finished rows, marked incomplete: {}\n",
                             kept_rows_.load(), file_->path())
              << std::flush;
  }
  const std::unique_lock lock(showing_, kPatience);
  if (!lock || !Accepts(STDOUT_FILENO)) return;
  if (options_.format == ConsoleFormat::kJson)
    std::cout << ResultJson::Incomplete(reason) << std::flush;
  if (rows_.empty()) return;
  ShowTheEnd();
  if (options_.format == ConsoleFormat::kCsv)
    std::cout << "# incomplete: " << reason << "\n" << std::flush;
}

}  // namespace overlapbench
