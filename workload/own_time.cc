#include "workload/own_time.h"

#include <algorithm>
#include <limits>

namespace overlapbench {

double ShortestTime_us(const Machine& machine, Stream& stream, int runs, const std::string& what,
                       const std::function<void()>& enqueue) {
  const auto begin = machine.device.CreateEvent();
  const auto end = machine.device.CreateEvent();
  double shortest_ms = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    enqueue();
    stream.Record(*begin);
    enqueue();
    stream.Record(*end);
    stream.Synchronize(machine.timeout, "timing " + what);
    shortest_ms = std::min(shortest_ms, machine.device.ElapsedMs(*begin, *end));
  }
  return 1000 * shortest_ms;
}

}  // namespace overlapbench
