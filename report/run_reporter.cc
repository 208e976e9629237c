#include "report/run_reporter.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <utility>

#include "ranks/watchdog.h"
#include "report/csv.h"

namespace overlapbench {
namespace {

constexpr const char* kStillRunning = "the run is still going, or was killed";

// Whether nobody reads standard output any more, as after `| head` has ended.
bool ReaderIsGone() {
  pollfd output = {STDOUT_FILENO, 0, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

}  // namespace

RunReporter::RunReporter(Progress& progress, const CounterTable& table, Options options,
                         std::unique_ptr<ResultFile> file)
    : progress_(progress),
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
  json_text_ = json_.Begin(context);
  const std::lock_guard lock(ending_);
  if (stopped_) return true;
  WriteJson(ResultJson::Incomplete(kStillRunning));
  if (console_ != nullptr) console_->ShowPlan();
  return true;
}

void RunReporter::ReportRuns(const std::vector<Run>& report) {
  if (!is_root_) return;
  const Progress::Scope scope(progress_, Phase::kWrite);
  const std::lock_guard lock(ending_);
  if (stopped_) return;
  for (const Run& run : report) json_text_ += json_.Row(run);
  WriteJson(ResultJson::Incomplete(kStillRunning));
  for (const Run& run : report) {
    if (run.run_type != Run::RT_Iteration) continue;
    rows_.push_back(MakeRow(run));
    if (console_ != nullptr)
      console_->Show(rows_.back(), std::max<long>(run.repetition_index, 0) + 1);
  }
  // Nobody will see the rest, and nothing keeps it.
  if (file_ == nullptr && ReaderIsGone()) kill(getpid(), Watchdog::kReaderIsGone);
}

void RunReporter::Finalize() {
  if (!is_root_) return;
  const Progress::Scope scope(progress_, Phase::kWrite);
  const std::lock_guard lock(ending_);
  if (stopped_) return;
  json_text_ += json_.End();
  WriteJson("");  // its own text ends the document
  if (file_ != nullptr) file_->Finish();
  ShowTheEnd();
  if (console_ == nullptr && !std::cout && !ReaderIsGone())
    throw Error("cannot write the result to standard output");
  if (console_ != nullptr && file_ != nullptr) std::cout << "\nwritten: " << file_->path() << "\n";
  std::cout.flush();
}

// Shows the tables of what was measured.
void RunReporter::ShowTheEnd() {
  if (console_ != nullptr) {
    console_->HideProgress();
    console_->ShowTables(rows_);
  }
  if (options_.format == ConsoleFormat::kCsv)
    std::cout << Csv(table_, rows_, options_.console.unit) << std::flush;
}

void RunReporter::Stop() {
  const std::lock_guard lock(ending_);
  stopped_ = true;
}

void RunReporter::Abandon(const std::string& reason) {
  if (!is_root_) return;
  const std::lock_guard lock(ending_);
  // The file comes first: standard output may be stuck.
  if (file_ != nullptr && file_->Abandon(ResultJson::Incomplete(reason), !rows_.empty())) {
    std::cerr << fmt::format("overlapbench: kept {} finished rows, marked incomplete: {}\n",
                             rows_.size(), file_->path())
              << std::flush;
  }
  if (options_.format == ConsoleFormat::kJson)
    std::cout << ResultJson::Incomplete(reason) << std::flush;
  if (rows_.empty()) return;
  ShowTheEnd();
  if (options_.format == ConsoleFormat::kCsv)
    std::cout << "# incomplete: " << reason << "\n" << std::flush;
}

void RunReporter::WriteJson(const std::string& ending) {
  const std::string text = std::exchange(json_text_, "");
  if (file_ != nullptr) file_->Append(text, ending);
  if (options_.format == ConsoleFormat::kJson) std::cout << text << std::flush;
}

}  // namespace overlapbench
