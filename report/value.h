// How the console shows a number: with its unit and its interval.
#pragma once

#include <string>

#include "fixtures/row.h"
#include "report/counters.h"

namespace overlapbench {

// The unit in which times are shown (--benchmark_time_unit): "ns", "us", "ms" or "s".
struct TimeUnit {
  std::string name = "ms";
  [[nodiscard]] double of_ms(double ms) const;
};

// "1.45 ±0.01", "312.4 -1.2 +9.8 GB/s": a counter of the row and how far its interval reaches, if
// it has one. One side may reach up to half as far again as the other before both are shown.
std::string ShownCounter(const Row& row, const Counter& counter, const TimeUnit& unit);
// The same, times `factor`, with `decimals` decimals and without its unit.
std::string ShownNumber(const Row& row, const std::string& name, int decimals, double factor = 1);
// The row's own time.
std::string ShownTime(const Row& row, const TimeUnit& unit);

}  // namespace overlapbench
