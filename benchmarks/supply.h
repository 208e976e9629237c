// Supply: what the families Supply and Prefetch share. In both, producers on the host feed a
// device.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/scenario.h"
#include "comm/supplied_batches.h"

namespace overlapbench {

std::vector<Axis> SupplyAxes(bool on_host);
std::string ExcludedSupply(const Settings& settings);

// The stages of the batches that the settings describe, as works.
class SupplyWorks {
 public:
  SupplyWorks(const Machine& machine, const Settings& settings);
  [[nodiscard]] Work Of(SupplyStage stage) const;

 private:
  Machine machine_;
  SupplyShape shape_;
  std::shared_ptr<std::weak_ptr<SuppliedBatches>> made_;  // with the first workload
};

// Producer threads in a schedule: a host lane each. They take the batches in turn, and none is made
// before there is room for it.
class Producers {
 public:
  // Adds the lanes, and the batches that have room from the start.
  Producers(Schedule& schedule, Work make, const Settings& settings);
  // The step that makes it.
  [[nodiscard]] std::size_t Made(long batch) const { return made_.at(batch); }
  // What the next batch waits for whose place was used until now.
  void Free(std::size_t step);

 private:
  void Add(std::vector<std::size_t> after);

  Schedule& schedule_;
  Work make_;
  long batches_;
  std::vector<std::size_t> lanes_;
  std::vector<std::size_t> made_;
};

// Which side bounds the row, and the counters that tell.
std::vector<Counter> SupplyCounters();
// `consumed_ms`: what the device takes for all batches alone.
Remark ReportSupplied(const Measurement& measurement, benchmark::UserCounters& counters,
                      const Series& consumed_ms);

}  // namespace overlapbench
