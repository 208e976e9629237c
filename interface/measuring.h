// Measuring: the counterpart of the program's main() for a process that continues afterwards. It
// starts the ranks, opens the device and runs the self-test once. It then measures rows on request,
// through the same fixtures, and reports them in the same JSON as ./bench.
//
// A FatalError does not end the process. The row becomes an error, and its session is destroyed on
// a thread of its own, since that may wait for hung work. With several ranks the measuring ends,
// and all later calls throw, unless all ranks know of the error and none hangs. If only one rank
// knows of the error, it notifies the others.
//
// The watchdog (ranks/watchdog.h) would take over the program's signals, and end it. Here it
// watches nothing, and ends the process only as a last resort: when a callable does not return to
// the measuring thread. Streams, gates and ranks all have timeouts; a call has none. Measuring
// gives it up instead: it notifies the other ranks, and the program's signal interrupts the call,
// so that the row becomes an error. If the call still does not return, the process ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/poller.h"
#include "fixtures/timed_fixture.h"
#include "interface/own_rows.h"
#include "interface/user_rows.h"
#include "ranks/progress.h"
#include "ranks/watchdog.h"

namespace overlapbench {

// The number of a rank's GPU. If one is visible, the launcher has given each rank its own.
int DeviceNumber(int visible_gpus, int local_rank);

class Measuring {
 public:
  // `flags` as for ParseOptions.
  explicit Measuring(const std::vector<std::string>& flags);
  ~Measuring();
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

  [[nodiscard]] Ranks& ranks() { return *ranks_; }
  [[nodiscard]] overlapbench_place place() const;
  // Adds flags to the constructor's for the next rows, and forgets those that it added before.
  // Throws UsageError for a flag that only the start can set. A row is an error if the ranks' flags
  // differ.
  void Configure(const std::vector<std::string>& flags);
  // The row as a JSON document. Throws UsageError if there is no such row, and Error if the
  // measuring has ended.
  std::string Measure(const UserRow& row);
  // The same for one of the suite's own rows (own_rows.h).
  std::string Measure(const std::string& name);
  // Sets the signal for a thread whose call is given up; 0, the default: none.
  void InterruptWith(int signal) { interrupt_ = signal; }
  // The samples of the last row, as lines of --samples_out.
  [[nodiscard]] const std::string& samples() const { return samples_; }
  // Why it cannot continue; "" if it can.
  [[nodiscard]] const std::string& ended() const { return ended_; }

 private:
  void Prepare();
  std::string Measure(const std::function<Benchmark()>& find);
  std::string Outlive(const FatalError& error);
  [[nodiscard]] bool AllAreQuiet(bool here);
  void LookAtCalls();

  std::vector<std::string> at_start_;
  Options options_;
  std::vector<std::string> flags_;  // passed to Google Benchmark
  Progress progress_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<Device> device_;
  CounterTable table_;
  // Never destroyed, since work left running may still use it.
  CallLog& calls_;
  std::unique_ptr<Suite> suite_;
  // Keeps its rows' communicators for later rows.
  std::unique_ptr<OwnRows> own_rows_;
  std::string samples_;
  std::string ended_;
  bool is_measuring_ = false;
  bool leaves_something_ = false;  // a failed row's work has not ended
  std::atomic<int> interrupt_ = 0;
  Watchdog watchdog_;
  Poller watch_;  // the last, since it uses all others
};

}  // namespace overlapbench
