// The parts of a row's name, for tables.
#pragma once

#include <string>
#include <vector>

namespace overlapbench {

// A name in two parts: "Overlap/AllToAll+Gemm" and "/bytes:1/grid:2x2". The axes begin where the
// first colon is, since a family may have a slash: "Lab/Link/Broadcast" and "/bytes:1".
struct SplitName {
  std::string scenario;
  std::string axes;
};
SplitName Split(const std::string& name);

struct NamedValue {
  std::string axis;
  std::string value;  // for people: "64 MiB"
};
// "/bytes:67108864/grid:2x2" as bytes 64 MiB and grid 2x2.
std::vector<NamedValue> ReadableAxes(const std::string& axes);

}  // namespace overlapbench
