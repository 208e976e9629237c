// HalfCopy: a computation that needs the first half of a copy hides the second half.
//
//   copies    first half   second half
//   kernels                compute
//
// The worked example of docs/internals/adding-a-scenario.md: two lanes, three steps, a counter of
// its own, and a bound.
#include "benchmarks/scenario.h"

namespace overlapbench::families {
namespace {

std::vector<Run> HalfCopyRuns(const WorkloadSpec& copy_spec, const WorkloadSpec& kernel_spec,
                              const Settings& settings) {
  const Work copy = MakeWork(copy_spec, settings, "copy");
  const Work compute = MakeWork(kernel_spec, settings, "compute");
  Run run{.name = "half copy"};
  const std::size_t copies = run.schedule.AddLane({"copies"});
  const std::size_t kernels = run.schedule.AddLane({"kernels"});
  const std::size_t first_half = run.schedule.Add(copies, copy, {.part = {0, 2}});
  run.schedule.Add(copies, copy, {.part = {1, 2}});
  run.schedule.Add(kernels, compute, {.after = {first_half}});
  return WithSoloRuns(run);
}

Remark ReportHalfCopy(const Measurement& measurement, Counters& counters) {
  const Series copy_ms = measurement.Total_ms("copy");
  const Series alone_ms = copy_ms + measurement.Total_ms("compute");
  ReportBound(measurement, counters);
  Report(counters, "hidden_copy", (alone_ms - measurement.Total_ms()) / copy_ms);
  return {};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const WorkloadSpec& copy = catalog.workloads.Find("HostToDevice");
  const WorkloadSpec& kernel = catalog.workloads.Find("StreamKernel");
  Scenario scenario = ScenarioOf("HalfCopy/HostToDevice+StreamKernel", {&copy, &kernel},
                                 {{"bytes", "16M"}, {"array_bytes", "16M"}, {"blocks", "4"}});
  scenario.runs = [&copy, &kernel](const Settings& settings) {
    return HalfCopyRuns(copy, kernel, settings);
  };
  scenario.report = ReportHalfCopy;
  return {scenario};
}

}  // namespace

Family HalfCopy() {
  Family family{.name = "HalfCopy",
                .about = "A computation beside the second half of a copy.",
                .lead = {"pct_of_bound", "hidden_copy"}};
  family.counters = {{"hidden_copy", "", Better::kHigher, Range::kSigned, "hidden",
                      "(copy + compute - T) / copy: the share of the copy that costs no time"}};
  family.scenarios = &Scenarios;
  return family;
}

}  // namespace overlapbench::families
