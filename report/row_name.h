// The parts of a row's name, for the tables at the end of a run.
#pragma once

#include <string>

namespace overlapbench {

// A name in two parts: "Overlap/AllToAll+Gemm" and "/bytes:1/grid:2x2". The axes begin where the
// first colon is, since a family may have a slash: "Lab/Link/Broadcast" and "/bytes:1".
struct SplitName {
  std::string scenario;
  std::string axes;
};
SplitName Split(const std::string& name);
// A name's axes without this one.
std::string WithoutAxis(const std::string& axes, const std::string& axis);
// "/bytes:67108864/grid:2x2" as "bytes:64M grid:2x2".
std::string ReadableAxes(const std::string& axes);

}  // namespace overlapbench
