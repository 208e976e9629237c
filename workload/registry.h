// The registry: every workload that this build knows, by name.
//
// benchmarks/catalog.cc fills it from two lists, kernels/kernels.def and comm/comm.def. There, a
// line WORKLOAD(Thing) calls `std::vector<WorkloadSpec> Thing(Machine&)`, which one file defines.
// CUDA_WORKLOAD(Thing, "Name", work_class, baseline) is for a workload that exists on the cuda
// backend only; other builds list it as "not available".
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "workload/workload.h"

namespace overlapbench {

class Registry {
 public:
  void Add(WorkloadSpec spec) { specs_.push_back(std::move(spec)); }
  void Add(std::vector<WorkloadSpec> specs);
  [[nodiscard]] const std::vector<WorkloadSpec>& specs() const { return specs_; }
  [[nodiscard]] const WorkloadSpec& Find(std::string_view name) const;

 private:
  std::vector<WorkloadSpec> specs_;
};

// The `make` of a workload that is made from the machine and the settings.
template <class Made>
auto MakerOf(const Machine& machine) {
  return [machine](const Settings& settings) { return std::make_unique<Made>(machine, settings); };
}

// A spec that only gives the reason why `name` cannot run here.
WorkloadSpec Unavailable(std::string_view name, WorkClass work_class, std::string reason,
                         bool baseline = true);

}  // namespace overlapbench
