// The sides of Lab/Matrix, which Lab/Attribution has too.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/scenario.h"

namespace overlapbench {

struct PairSide {
  std::string workload;
  Values values;  // of its axes
};

// Each bound by something else.
std::vector<PairSide> MatrixComputations(const Catalog& catalog);
std::vector<PairSide> MatrixCommunications(const Catalog& catalog);

}  // namespace overlapbench
