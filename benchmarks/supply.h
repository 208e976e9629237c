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
  std::shared_ptr<std::weak_ptr<SuppliedBatches>> made_;  // created with the first workload
};

// Producer threads in a schedule: a host lane each. They make the batches in turn, each only once
// there is room for it.
class Producers {
 public:
  // Adds the lanes, and the batches that have room from the start.
  Producers(Schedule& schedule, Work make, const Settings& settings);
  // The step that makes the batch.
  [[nodiscard]] std::size_t Made(long batch) const { return made_.at(batch); }
  // Adds the next batch, if there is one, which waits for `step` to free its place.
  void Free(std::size_t step);

 private:
  void Add(std::vector<std::size_t> after);

  Schedule& schedule_;
  Work make_;
  long batches_;
  std::vector<std::size_t> lanes_;
  std::vector<std::size_t> made_;
};

// The counters that show which side bounds the row.
std::vector<Counter> SupplyCounters();
// `consumed_ms`: the device's time for all batches alone.
Remark ReportSupplied(const Measurement& measurement, Counters& counters,
                      const Series& consumed_ms);

}  // namespace overlapbench
