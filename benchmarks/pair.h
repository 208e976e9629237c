// Pair: a computation beside one or two communications or copies, the scenario of Overlap and of
// the laboratory's families.
//
// Three runs are sampled in turn: the computation alone (C), the communication alone (M), and both
// on two lanes (T). Rates are the communication's, while overlapped. fixtures/coverage.h has
// the arithmetic. With two communications, M is their sum, and any two of the three sides are
// measured as well: if the slowdowns that two sides cause a third alone multiply where both are
// beside it, T follows from these (product_slowdown).
//
// Every pair has knobs that are off by default: how many SMs the computation may use, the sides'
// priorities, and the process's hardware queues. A side uses the same lane alone and beside the
// other side. With comp_sms, a slowdown is therefore pure interference; to see the cost of the
// partition itself, compare comp_ms with the row without it. cuBLASLt receives the size of the
// partition, so that it chooses a matching grid. All SMs, and equal priorities, are negative
// controls: their rows must agree with those without the axis.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/scenario.h"

namespace overlapbench {

// The scenario "FAMILY/COMMUNICATION+COMPUTATION", or "FAMILY/COMMUNICATION+SECOND+COMPUTATION".
Scenario PairScenario(const Catalog& catalog, const std::string& family,
                      const std::vector<std::string>& workloads, const Values& values);

// The scenario that Overlap has, or would have, for "A+B" or "A+B+C", as --pair names it
// (overlap.cc). In its name communications and copies stand first, in whatever order they are
// given. "Gelu" and "Softmax" stand for their fused kernels. Throws UsageError if there is no such
// workload, or if one is named twice.
Scenario OverlapPair(const Catalog& catalog, const std::string& names);

// A side of Lab/Matrix (lab_matrix.cc) and Lab/Attribution. Each has a different bottleneck.
struct PairSide {
  std::string workload;
  Values values;  // of its axes
};
std::vector<PairSide> MatrixComputations(const Catalog& catalog);
std::vector<PairSide> MatrixCommunications(const Catalog& catalog);

// The runs "comp", "comm" and "overlap" of the works "comm" and "comp", and with a work "second"
// between them also "second" and those of two sides each.
std::vector<Run> PairRuns(const std::vector<Work>& sides, const Settings& settings);
// One work alone on the lane that it has in a pair, and several beside each other. All steps are
// timed.
Run AloneRun(const Work& work, const Settings& settings);
Run BesideRun(const std::string& name, const std::vector<Work>& sides, const Settings& settings);

// The counters of these runs, and whether the sides ran together.
std::vector<Counter> PairCounters();
Remark ReportPair(const Measurement& measurement, Counters& counters);

}  // namespace overlapbench
