// How the console shows a figure: the number, as exactly as it is known, and its interval.
//
// The number ends at the first digit of the larger reach of its interval: "1.45" and "±0.03".
//
// A figure whose interval says nothing is shown as "?". It says nothing if it reaches, on either
// side, farther than half of
// - 1 for a signed ratio (efficiency: 1 is perfect overlap, 0 none), 100 for a signed percentage,
// - the row's time for another signed figure, which is a difference of times,
// - the figure itself if it is never negative; 1 for a ratio below 1, 100 for a percentage below.
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

struct ShownFigure {
  std::string number;  // "" if the row does not have it, "?" if its interval says nothing
  std::string reach;   // "±0.03"; "" without an interval
};
// A counter of the row, or its time ("time").
ShownFigure Shown(const Row& row, const Counter& counter, const TimeUnit& unit);
// "GB/s"; "" for a ratio or a number of things.
std::string ShownUnit(const Counter& counter, const TimeUnit& unit);
bool SaysNothing(const Row& row, const Counter& counter);

}  // namespace overlapbench
