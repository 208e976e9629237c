// Console: the human-readable output of a run: the plan, and the table of rows (row_table.h).
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
#include "report/row_table.h"

namespace overlapbench {

class Console : public RowObserver {
 public:
  // `counters` must outlive this.
  Console(const CounterTable& counters, RowTableOptions options);
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
  // What is below the rows.
  void ShowEnd(const std::vector<Row>& rows);
  // Removes the progress line for good. May be called from any thread, and waits for none.
  void HideProgress();

 private:
  [[nodiscard]] std::string ProgressLine() const;
  void Print(const std::string& text);
  void Renew();

  Screen screen_;
  long planned_;      // rows
  long repetitions_;  // of each row
  std::mutex mutex_;  // guards what follows, and standard output
  std::condition_variable ended_;
  RowTable table_;
  bool shows_progress_ = false;
  std::string running_;
  long shown_ = 0;              // rows, without their repetitions
  long ended_repetitions_ = 0;  // of the running row
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_end_ = start_;
  std::thread thread_;  // on a terminal only
};

}  // namespace overlapbench
