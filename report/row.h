// Row: one finished benchmark as the reporters show it, made from Google Benchmark's Run.
#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <string>

#include "fixtures/benchmark.h"

namespace overlapbench {

struct Row {
  std::string name;
  RowState state = RowState::kOk;
  std::string reason;  // why it has this state; for a good row a finding, or ""
  double time_ms = 0;
  std::map<std::string, double> counters;

  [[nodiscard]] double Counter(const std::string& counter) const;
  [[nodiscard]] bool measured() const { return state != RowState::kError; }
};

Row MakeRow(const benchmark::BenchmarkReporter::Run& run);

// A name in two parts: "Overlap/AllToAll+Gemm" and "/bytes:1/grid:2x2". The axes begin where the
// first colon is, since a family may have a slash: "Lab/Link/Broadcast" and "/bytes:1".
struct SplitName {
  std::string scenario;
  std::string axes;
};
SplitName Split(const std::string& name);
// The value of an axis in a name, "" if the name lacks it; and a name's axes without that axis.
std::string AxisValue(const std::string& name, const std::string& axis);
std::string WithoutAxis(const std::string& axes, const std::string& axis);
// "/bytes:67108864/grid:2x2" as "bytes:64M grid:2x2".
std::string ReadableAxes(const std::string& axes);

}  // namespace overlapbench
