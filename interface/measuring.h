// Measuring: what the program's main() is to ./bench, this is to a process that goes on afterwards.
// It starts the ranks, opens the device and tests itself, once; then it measures a row whenever it
// is asked to, through the same fixtures and the same reporter's text.
//
// A FatalError does not end the process. The row becomes an error, and its session is destroyed on
// a thread of its own, since that may wait for what hangs. With several ranks the measuring ends
// unless all of them know of the error and none hangs: a rank that is alone with it has told the
// others, and all later calls throw.
//
// There is no watchdog (ranks/watchdog.h): it would take the program's signals, and end it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fixtures/timed_fixture.h"
#include "interface/own_rows.h"
#include "interface/user_rows.h"
#include "ranks/progress.h"

namespace overlapbench {

class Measuring {
 public:
  // `flags` as ParseOptions takes them.
  explicit Measuring(const std::vector<std::string>& flags);
  ~Measuring();
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

  [[nodiscard]] Ranks& ranks() { return *ranks_; }
  [[nodiscard]] overlapbench_place place() const;
  // The row as a JSON document. Throws UsageError where there is no such row, and Error if the
  // measuring has ended.
  std::string Measure(const UserRow& row);
  // The same of a row of the suite's own (own_rows.h).
  std::string Measure(const std::string& name);
  // Why it cannot go on; "" if it can.
  [[nodiscard]] const std::string& ended() const { return ended_; }

 private:
  void Prepare();
  std::string Measure(const std::function<Benchmark()>& find);
  std::string Outlive(const FatalError& error);
  [[nodiscard]] bool AllAreQuiet(bool here);

  Options options_;
  std::vector<std::string> flags_;  // that Google Benchmark was given
  Progress progress_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<Device> device_;
  CounterTable table_;
  // Whatever is left running may still use it, so it is never destroyed.
  CallLog& calls_;
  std::unique_ptr<Suite> suite_;
  // Keeps what its rows have connected for the next ones.
  std::unique_ptr<OwnRows> own_rows_;
  std::string ended_;
  bool is_measuring_ = false;
  bool leaves_something_ = false;  // that a failed row has started, and that has not ended
};

}  // namespace overlapbench
