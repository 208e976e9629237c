#include "report/run_reporter.h"

#include <cstdio>
#include <iostream>
#include <map>

#include "report/overlap_table.h"

namespace overlapbench {
namespace {

constexpr const char* kStillRunning = "the run goes on, or was ended without a word";

// `text` as JSON has it between quotation marks.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return escaped;
}

// What closes the JSON that JSONReporter has opened, before the run has ended.
std::string Ending(const std::string& reason) {
  return "\n  ],\n  \"incomplete\": \"" + Escaped(reason) + "\"\n}\n";
}

struct Shown {
  const char* counter;
  const char* format;
  const char* unless = "";  // a counter that says more
};
// The counters that tell most, in the order in which they stand behind a row's time.
constexpr Shown kShown[] = {{"slowdown", "slowdown %.2f"},
                            {"efficiency", "efficiency %.2f"},
                            {"gain", "gain %.2f"},
                            {"speedup", "speedup %.2f", "slowdown"},
                            {"pct_of_ideal", "%.0f %% of the ideal"},
                            {"pct_of_copy", "%.0f %% of a copy"},
                            {"batches_per_s", "%.0f batches/s"},
                            {"predicted_batches_per_s", "predicted %.0f"},
                            {"host_us_per_launch", "host %.2f us a launch"},
                            {"device_us_per_launch", "device %.2f us a launch"},
                            {"round_trip_us", "round trip %.1f us"},
                            {"busbw_GBps", "busbw %.1f GB/s"},
                            {"TFLOPs", "%.2f TFLOP/s"},
                            {"GBps", "%.1f GB/s"},
                            {"slowest_rank", "slowest rank %.0f"}};

std::string Highlights(const Row& row) {
  std::string text;
  char piece[64];
  for (const auto& [counter, format, unless] : kShown) {
    if (!row.counters.contains(counter) || row.counters.contains(unless)) continue;
    std::snprintf(piece, sizeof(piece), format, row.Counter(counter));
    text += std::string(text.empty() ? "" : ", ") + piece;
  }
  return text;
}

}  // namespace

RunReporter::RunReporter(Progress& progress, bool json_to_console, int planned,
                         std::unique_ptr<ResultFile> file)
    : progress_(progress),
      is_root_(progress.rank() == 0),
      json_to_console_(json_to_console),
      planned_(planned),
      file_(std::move(file)) {
  json_.SetOutputStream(&json_text_);
  json_.SetErrorStream(&std::cerr);
}

// A reporter that answers false makes its rank run nothing, and the others wait for it.
bool RunReporter::ReportContext(const Context& context) {
  if (!is_root_) return true;
  json_.ReportContext(context);
  WriteJson(Ending(kStillRunning));
  if (!json_to_console_) ShowPlan();
  return true;
}

void RunReporter::ReportRuns(const std::vector<Run>& report) {
  if (!is_root_) return;
  // The names identify configurations; Google Benchmark would append "/iterations:1/manual_time".
  std::vector<Run> runs = report;
  for (auto& run : runs) {
    run.run_name.iterations.clear();
    run.run_name.time_type.clear();
  }
  json_.ReportRuns(runs);
  if (!WriteJson(Ending(kStillRunning), static_cast<int>(runs.size()))) return;
  for (const auto& run : runs) {
    if (run.run_type != Run::RT_Iteration) continue;
    if (run.repetition_index <= 0) ++shown_;
    rows_.push_back(MakeRow(run));
    if (!json_to_console_) ShowRow(rows_.back());
  }
}

void RunReporter::Finalize() {
  if (!is_root_) return;
  json_.Finalize();
  if (!WriteJson("")) return;
  if (file_ != nullptr) file_->Finish();
  if (json_to_console_) {
    if (!std::cout) throw Error("cannot write the result to standard output");
    return;
  }
  std::cout << OverlapTables(rows_);
  if (file_ != nullptr) std::cout << "\nwritten: " << file_->path() << "\n";
  std::cout.flush();
}

void RunReporter::Stop() {
  const std::lock_guard lock(ending_);
  stopped_ = true;
}

void RunReporter::Abandon(const std::string& reason) {
  if (!is_root_) return;
  const std::lock_guard lock(ending_);
  if (json_to_console_) std::cout << Ending(reason) << std::flush;
  if (file_ == nullptr) return;
  if (!file_->Abandon(Ending(reason), finished_rows_ > 0)) return;
  std::cerr << "overlapbench: kept " << finished_rows_
            << " finished rows, marked incomplete: " << file_->path() << "\n"
            << std::flush;
}

void RunReporter::ShowPlan() const {
  std::cout << planned_ << " benchmarks; times are medians, the maximum over the ranks\n"
            << std::flush;
}

void RunReporter::ShowRow(const Row& row) const {
  std::cout << "[" << shown_ << "/" << planned_ << "] " << row.name << "\n        ";
  if (!row.error.empty()) {
    std::cout << "ERROR: " << row.error << "\n" << std::flush;
    return;
  }
  char time[32];
  std::snprintf(time, sizeof(time), "%.4g ms", row.time_ms);
  std::cout << time << "  " << Highlights(row) << (row.label.empty() ? "" : "  ") << row.label
            << "\n"
            << std::flush;
}

bool RunReporter::WriteJson(const std::string& ending, int rows) {
  const Progress::Scope scope(progress_, Phase::kWrite);
  const std::string text = json_text_.str();
  json_text_.str("");
  const std::lock_guard lock(ending_);
  if (stopped_) return false;
  // Finalize's own text ends the document: it takes the ending's place.
  if (file_ != nullptr) file_->Append(text, ending);
  if (json_to_console_) std::cout << text << std::flush;
  finished_rows_ += rows;
  return true;
}

}  // namespace overlapbench
