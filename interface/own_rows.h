// OwnRows: the suite's own rows, by name, for programs that measure them beside their own
// callables.
//
// Names are those that `./bench --benchmark_list_tests` prints. Axes may also have other values
// than the defaults, as with --axis, and may be left out if only one row then matches:
//
//   Tp/ColumnParallel/model:llama8b/tokens:4096/chunks:4/transport:copy
#pragma once

#include <string>
#include <vector>

#include "benchmarks/catalog.h"

namespace overlapbench {

class OwnRows {
 public:
  // Called by all ranks together. The machine must outlive it.
  explicit OwnRows(Machine& machine);
  OwnRows(const OwnRows&) = delete;
  OwnRows& operator=(const OwnRows&) = delete;

  [[nodiscard]] const Catalog& catalog() const { return catalog_; }
  // The row of that name. Throws UsageError, with the nearest names, if no row or several rows
  // match.
  [[nodiscard]] Benchmark Find(const std::string& name) const;

 private:
  [[nodiscard]] std::string ScenarioOf(const std::string& name) const;

  Registry registry_;
  Catalog catalog_;
  std::vector<Scenario> scenarios_;
};

}  // namespace overlapbench
