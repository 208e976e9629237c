// Copy: the experiments of one family, a file each (copy_bandwidth.cc, ...).
#pragma once

#include <vector>

#include "benchmarks/scenario.h"

namespace overlapbench::copy {

struct Experiment {
  std::vector<Scenario> (*scenarios)(const Catalog&);
  std::vector<Counter> counters = {};  // that it reports first
};

Experiment Bandwidth();
Experiment Sequential();
Experiment Pipelined();
Experiment ComputeTransfer();
Experiment Fragmented();

}  // namespace overlapbench::copy
