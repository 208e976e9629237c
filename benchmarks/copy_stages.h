// Stages: an array, or batches of one, copied in, computed, and copied out (comm/staged_array.h).
// Copy's pipelines are made of these steps. Results must equal those of the sequential run bit for
// bit.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/scenario.h"
#include "comm/staged_array.h"

namespace overlapbench::copy {

struct Stages {
  Work in;
  Work compute;
  Work out;
};

// The stages of one array, which the first stage to be made creates.
Stages StagesOf(const Machine& machine, const StagedShape& shape);

// `elements`: the axis of a part's elements.
StagedShape ShapeOf(const Settings& settings, const char* elements, long parts, long slots);
Axis MemoryAxis();
Axis IntensityAxis(long most, const char* values);

// The engine that each stage uses.
inline constexpr const char* kInEngine = "host to device";
inline constexpr const char* kComputeEngine = "compute";
inline constexpr const char* kOutEngine = "device to host";

// Part `index` through all three stages on one lane.
void AddInTurn(Schedule& schedule, std::size_t lane, const Stages& stages, const Part& part);
// All parts so, one after the other.
Run SequentialRun(const std::string& name, const Stages& stages, long parts);

// Reports what the pipelines share. Returns whether the result is that of the run "sequential".
bool ReportStages(const Measurement& measurement, Counters& counters);
Remark NotIdentical();

}  // namespace overlapbench::copy
