// Console: the human-readable output of a run: the plan, every row, and the tables at the end.
//
// A terminal also has a progress line below the rows: the running row, the share done, and the
// estimated remaining time. A separate thread refreshes it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fixtures/row.h"
#include "report/counters.h"
#include "report/screen.h"
#include "report/value.h"

namespace overlapbench {

struct ConsoleOptions {
  Screen screen = {};
  TimeUnit unit = {};
  bool tabular = false;  // counters in columns
  int planned = 0;       // rows to come
  long repetitions = 1;  // of each row
};

class Console : public RowObserver {
 public:
  // `table` must outlive this.
  Console(const CounterTable& table, ConsoleOptions options);
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Shows where the rows are measured, and what makes them doubtful from the start, if anything.
  void ShowContext(const std::string& line, const std::string& warning);
  void ShowPlan();
  // For the progress line.
  void Begin(const std::string& name) override;
  void EndRepetition() override;
  // `repetition`: from 1.
  void Show(const Row& row, long repetition);
  void ShowTables(const std::vector<Row>& rows);
  // Removes the progress line for good. May be called from any thread, and waits for none.
  void HideProgress();

 private:
  [[nodiscard]] std::string Highlights(const Row& row) const;
  [[nodiscard]] std::string InColumns(const Row& row);
  [[nodiscard]] std::string Lines(const Row& row, long repetition);
  [[nodiscard]] std::string ProgressLine() const;
  void Print(const std::string& text);
  void Renew();

  const CounterTable& table_;
  ConsoleOptions options_;
  std::mutex mutex_;  // guards what follows, and standard output
  std::condition_variable ended_;
  bool shows_progress_ = false;
  std::string running_;
  std::string last_titles_;
  long shown_ = 0;        // rows, without their repetitions
  long repetitions_ = 0;  // of the running row that have ended
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_end_ = start_;
  std::thread thread_;  // on a terminal only
};

}  // namespace overlapbench
