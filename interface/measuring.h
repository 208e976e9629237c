// Measuring: what the program's main() is to ./bench, this is to a process that goes on afterwards.
// It starts the ranks, opens the device and tests itself, once; then it measures a row whenever it
// is asked to, through the same fixtures and the same reporter's text.
//
// A FatalError does not end the process. The row becomes an error, and its session is destroyed on
// a thread of its own, since that may wait for what hangs. With several ranks the measuring ends
// unless all of them know of the error and none hangs: a rank that is alone with it has told the
// others, and all later calls throw.
//
// The watchdog (ranks/watchdog.h) would take the program's signals, and end it. Here it watches
// nothing, and is asked to end the process where nothing else is left: a callable does not return
// to the thread that measures. Streams, gates and ranks all have timeouts; a call has none. It is
// given up instead: the other ranks are told, and the program's signal interrupts it, so that the
// row becomes an error. If it still does not return, the process ends.
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
  // `signal` is sent to a thread whose call is given up; 0, as at first: none.
  void InterruptWith(int signal) { interrupt_ = signal; }
  // Why it cannot go on; "" if it can.
  [[nodiscard]] const std::string& ended() const { return ended_; }

 private:
  void Prepare();
  std::string Measure(const std::function<Benchmark()>& find);
  std::string Outlive(const FatalError& error);
  [[nodiscard]] bool AllAreQuiet(bool here);
  void LookAtCalls();

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
  std::atomic<int> interrupt_ = 0;
  Watchdog watchdog_;
  Poller watch_;  // the last, since it uses all others
};

}  // namespace overlapbench
