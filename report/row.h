// Row: what the reporters show of one finished benchmark, taken from Google Benchmark's Run.
#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <string>

namespace overlapbench {

struct Row {
  std::string name;
  std::string error;  // "" when it was measured
  std::string label;  // why it is invalid, if it is
  double time_ms = 0;
  std::map<std::string, double> counters;

  [[nodiscard]] double Counter(const std::string& counter) const;
  [[nodiscard]] bool valid() const { return error.empty() && Counter("valid") != 0; }
};

Row MakeRow(const benchmark::BenchmarkReporter::Run& run);

// "Family/Pair" and the rest of a name: "Overlap/AllToAll+Gemm", "/bytes:1/grid:2x2".
struct SplitName {
  std::string scenario;
  std::string axes;
};
SplitName Split(const std::string& name);
// The value of an axis in a name, "" when it is not there; and the name's axes without that axis.
std::string AxisValue(const std::string& name, const std::string& axis);
std::string WithoutAxis(const std::string& axes, const std::string& axis);
// "/bytes:67108864/grid:2x2" as "bytes:64M grid:2x2".
std::string ReadableAxes(const std::string& axes);

}  // namespace overlapbench
