// Prefetch: how much of the input time does copying the next batch ahead of time hide?
//
// The producers are those of Supply (benchmarks/supply.cc): `workers` threads, each of which may be
// `prefetch` batches ahead, make batches in page-locked memory. One stream copies them in, and
// another one computes, as in a training loop that copies the next batch while the current one is
// used. The device has room for two: a copy waits for the computation of the batch before the last.
//
//   worker 0   make 0         make 2         …
//   worker 1      make 1         make 3      …
//   copy             in 0     in 1     in 2
//   compute                use 0    use 1    …
//
// The plain form has the same producers, and one stream that copies and computes in turn. As the
// number of workers grows, the device goes from starving to saturated. With few, making the batches
// determines T, and copying ahead gains nothing; with enough, computing does. The host is part of
// the measurement, so samples are not gated.
#include <functional>

#include "benchmarks/supply.h"
#include "benchmarks/training.h"

namespace overlapbench::families {
namespace {

std::vector<Run> PrefetchRuns(const Machine& machine, const Settings& settings) {
  const SupplyWorks works(machine, settings);
  const Work make = works.Of(SupplyStage::kMake);
  const Work copy = works.Of(SupplyStage::kCopy);
  const Work compute = works.Of(SupplyStage::kCompute);
  const long batches = settings.Integer("supply_batches");
  const auto schedule_on = [&](bool one_stream) {
    constexpr long kRoom = 2;  // batches on the device
    Schedule schedule;
    Producers producers(schedule, make, settings);
    const std::size_t copies = schedule.AddLane({.name = one_stream ? "device" : "copy"});
    const std::size_t computes = one_stream ? copies : schedule.AddLane({.name = "compute"});
    std::vector<std::size_t> used;
    for (long batch = 0; batch < batches; ++batch) {
      const Part part{batch, batches};
      StepOptions in{.part = part, .after = {producers.Made(batch)}};
      if (batch >= kRoom) in.after.push_back(used[batch - kRoom]);
      const std::size_t copied = schedule.Add(copies, copy, std::move(in));
      used.push_back(schedule.Add(computes, compute, {.part = part, .after = {copied}}));
      producers.Free(copied);
    }
    return schedule;
  };
  std::vector<Run> runs = TrainingRuns(schedule_on(true), schedule_on(false));
  for (Run& run : runs) run.gated = false;
  return runs;
}

Remark ReportPrefetch(const Measurement& measurement, Counters& counters) {
  const Remark remark = ReportTraining(measurement, counters);
  const Remark finding = ReportSupplied(measurement, counters, measurement.Total_ms("computation"));
  return remark.state == RowState::kOk ? finding : remark;
}

Scenario Batches(const Catalog& catalog) {
  Scenario scenario{.name = "Prefetch/Batches", .axes = SupplyAxes(catalog.on_host())};
  SetValues(scenario.axes, {{"workers", "1,2,4,8"}});
  if (catalog.on_host())
    SetValues(
        scenario.axes,
        {{"make_us", "2000"}, {"batch_bytes", "1M"}, {"supply_batches", "8"}, {"intensity", "16"}});
  else  // a copy takes about half of what computing does
    SetValues(scenario.axes, {{"make_us", "4000"},
                              {"batch_bytes", "16M"},
                              {"supply_batches", "16"},
                              {"intensity", "4096"}});
  scenario.excluded = [](const Settings& settings) -> std::string {
    if (settings.Integer("workers") == 0) return "workers must be at least 1; Supply accepts 0";
    return ExcludedSupply(settings);
  };
  scenario.runs = std::bind_front(PrefetchRuns, catalog.machine);
  scenario.report = ReportPrefetch;
  return scenario;
}

}  // namespace

Family Prefetch() {
  return {
      .name = "Prefetch",
      .about = "The next batch is copied in while the present one is used, fed by producers.",
      .lead = {"batches_per_s", "speedup", "pct_of_bound", "exposed_comm_ms", "device_idle_share"},
      .scenarios = [](const Catalog& catalog) { return std::vector{Batches(catalog)}; }};
}

}  // namespace overlapbench::families
