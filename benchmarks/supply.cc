// Supply: a device fed with batches by producer threads on the host, from starving to saturated.
//
// A producer takes `make_us` for a batch. Most of the time it works or sleeps (source:work,
// source:wait; comm/supplied_batches.h). The device copies a batch in and computes on it, and the
// host waits for it, as in a training step that reads its loss. Each worker may be `prefetch`
// batches ahead. With no worker the consumer makes each batch itself.
//
// As a schedule, batch b is made on the host lane b mod workers, behind the consumption of batch
// b - workers · prefetch, and consumed on the device's lane:
//
//   worker 0   make 0        make 2 …
//   worker 1      make 1          make 3 …
//   device            use 0  use 1  use 2 …
//
// Its bound is the prediction. With w workers, n batches of p ms to make and c ms to consume, and
// enough prefetch, it comes to max(p + n · c, t · p + (n - (t - 1) · w) · c), where t = ⌈n / w⌉ is
// the number of the workers' turns: either the device always has a batch and waits only for the
// first, or it waits for the workers and then consumes the batches of their last turn.
//
// The host is part of the measurement, so samples are not gated. Every batch must arrive exactly
// once and intact.
#include "benchmarks/supply.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "workload/steps.h"

namespace overlapbench {

SupplyWorks::SupplyWorks(const Machine& machine, const Settings& settings)
    : machine_(machine),
      shape_{.batches = settings.Integer("supply_batches"),
             .elements = settings.Integer("batch_bytes") / static_cast<long>(sizeof(float)),
             .steps = static_cast<int>(settings.Integer("intensity")),
             .make_time = std::chrono::microseconds(settings.Integer("make_us")),
             .works = settings.Text("source") == "work"},
      made_(std::make_shared<std::weak_ptr<SuppliedBatches>>()) {}

Work SupplyWorks::Of(SupplyStage stage) const {
  using enum SupplyStage;
  static constexpr const char* kNames[] = {"make", "copy", "compute", "consume"};
  const bool moves = stage == kMake || stage == kCopy;
  WorkPlan plan{.name = kNames[static_cast<std::size_t>(stage)],
                .work_class = moves ? WorkClass::kMemory : WorkClass::kCompute};
  if (stage == kMake) plan.footprint = {shape_.all_bytes(), 2 * shape_.all_bytes()};
  plan.make = [machine = machine_, shape = shape_, shared = made_, stage] {
    std::shared_ptr<SuppliedBatches> batches = shared->lock();
    if (batches == nullptr) *shared = batches = std::make_shared<SuppliedBatches>(machine, shape);
    return SuppliedBatches::MakeStage(std::move(batches), stage);
  };
  return std::make_shared<const WorkPlan>(std::move(plan));
}

Producers::Producers(Schedule& schedule, Work make, const Settings& settings)
    : schedule_(schedule), make_(std::move(make)), batches_(settings.Integer("supply_batches")) {
  const long workers = settings.Integer("workers");
  for (long i = 0; i < std::max(workers, 1L); ++i)
    lanes_.push_back(schedule.AddLane({.name = fmt::format("worker {}", i), .on_host = true}));
  const long ahead = workers == 0 ? 1 : workers * settings.Integer("prefetch");
  for (long batch = 0; batch < std::min(ahead, batches_); ++batch) Add({});
}

void Producers::Free(std::size_t step) {
  if (std::ssize(made_) < batches_) Add({step});
}

void Producers::Add(std::vector<std::size_t> after) {
  const long batch = std::ssize(made_);
  made_.push_back(schedule_.Add(lanes_[batch % std::ssize(lanes_)], make_,
                                {.part = {batch, batches_}, .after = std::move(after)}));
}

std::vector<Counter> SupplyCounters() {
  using enum Better;
  return {
      {"batches_per_s", "1/s", kHigher, Range::kNotNegative, "batches", "batches / T"},
      {"device_idle_share", "", kLower, Range::kAtMostOne, "idle share",
       "1 - (consuming all batches alone) / T"},
      {"bound_by_workers", "bool", kNeither, Range::kFlag, "bound by workers",
       "whether most of the bound's path is making, not consuming"},
  };
}

Remark ReportSupplied(const Measurement& measurement, Counters& counters,
                      const Series& consumed_ms) {
  constexpr double kMillisecondsInSecond = 1000;
  const Run& own = measurement.own();
  const long parts = measurement.settings().Integer("supply_batches");
  const Series measured_ms = measurement.Total_ms();
  const Bound bound = measurement.MedianBound();
  // The device waits for the workers if making takes most of the longest path, not consuming.
  double made_ms = 0;
  for (const std::size_t step : bound.path) {
    const Work& work = own.schedule.steps()[step].work;
    if (work->name == "make") made_ms += measurement.StepAlone_ms(work, parts).median();
  }
  const bool by_workers = made_ms > bound.total_ms / 2;
  Report(counters, "batches_per_s",
         static_cast<double>(parts) * kMillisecondsInSecond / measured_ms);
  Report(counters, "device_idle_share", (measured_ms - consumed_ms) / measured_ms);
  counters["bound_by_workers"] = by_workers ? 1 : 0;
  return Remark::Finding(by_workers ? "bound by the producers" : "bound by the device");
}

std::vector<Axis> SupplyAxes(bool on_host) {
  return {IntegerAxis("workers", "producer threads; 0: the consumer makes its batches", 0, 256,
                      "0,1,2,4,8"),
          IntegerAxis("prefetch", "batches that a worker may be ahead", 1, 64, "2"),
          IntegerAxis("make_us", "what a batch takes to make, in microseconds", 1, 10'000'000,
                      on_host ? "4000" : "2000"),
          ChoiceAxis("source", "a worker works on a batch, or waits for it", {"work", "wait"},
                     on_host ? "wait" : "work"),
          BytesAxis("batch_bytes", "size of a batch", on_host ? "256K" : "4M"),
          IntegerAxis("supply_batches", "batches of a sample", 1, 4096, "32"),
          IntegerAxis("intensity", "multiply-adds for each value", 1, kMostSteps,
                      on_host ? "8" : "16384")};
}

std::string ExcludedSupply(const Settings& settings) {
  return settings.Integer("batch_bytes") % 4 == 0 ? "" : "batch_bytes must be a multiple of 4";
}

namespace families {
namespace {

// Adds the batches in turn, each after the host knows that the one before is consumed.
void AddConsumption(Schedule& schedule, const Work& consume, long batches, Producers* producers) {
  const std::size_t device = schedule.AddLane({"device"});
  std::optional<std::size_t> used;
  for (long batch = 0; batch < batches; ++batch) {
    Schedule::StepOptions options{.part = {batch, batches}};
    if (producers != nullptr) options.after.push_back(producers->Made(batch));
    if (used.has_value()) options.host_after.push_back(*used);
    used = schedule.Add(device, consume, std::move(options));
    if (producers != nullptr) producers->Free(*used);
  }
}

std::vector<Run> SupplyRuns(const Machine& machine, const Settings& settings) {
  const SupplyWorks works(machine, settings);
  const Work consume = works.Of(SupplyStage::kConsume);
  const long batches = settings.Integer("supply_batches");
  Run run{.name = "supply", .gated = false};
  Producers producers(run.schedule, works.Of(SupplyStage::kMake), settings);
  AddConsumption(run.schedule, consume, batches, &producers);
  std::vector<Run> runs = WithSoloRuns(std::move(run));
  // In the run alone, too, the host waits for each batch.
  Run& alone = runs.at(1);
  alone.schedule = {};
  AddConsumption(alone.schedule, consume, batches, nullptr);
  return runs;
}

Remark ReportSupply(const Measurement& measurement, Counters& counters) {
  constexpr double kMillisecondsInSecond = 1000;
  constexpr double kPercent = 100;
  const long parts = measurement.settings().Integer("supply_batches");
  const Series measured_ms = measurement.Total_ms();
  const Series bound_ms = ReportBound(measurement, counters);
  for (const Work& work : measurement.own().schedule.works())
    Report(counters, work->name + "_ms", measurement.StepAlone_ms(work, parts));
  Report(counters, "predicted_batches_per_s",
         static_cast<double>(parts) * kMillisecondsInSecond / bound_ms);
  Report(counters, "prediction_error_pct", kPercent * ((bound_ms - measured_ms) / measured_ms));
  return ReportSupplied(measurement, counters, measurement.Total_ms("consume"));
}

Scenario BatchesScenario(const Catalog& catalog, const Values& values) {
  Scenario scenario{.name = "Supply/Batches", .axes = SupplyAxes(catalog.on_host())};
  SetValues(scenario.axes, values);
  scenario.excluded = ExcludedSupply;
  scenario.runs = std::bind_front(SupplyRuns, catalog.machine);
  scenario.report = ReportSupply;
  return scenario;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  return {BatchesScenario(catalog, {}),
          BatchesScenario(catalog, {{"workers", "4"}, {"prefetch", "1,2,8"}})};
}

}  // namespace

Family Supply() {
  using enum Better;
  Family family{.name = "Supply",
                .about =
                    "Host threads that feed a device, against what making and consuming alone "
                    "predict.",
                .lead = {"batches_per_s", "predicted_batches_per_s", "prediction_error_pct",
                         "device_idle_share"}};
  family.counters = {
      {"make_ms", "ms", kLower, Range::kPositive, "make", "a batch made by one worker, alone"},
      {"consume_ms", "ms", kLower, Range::kPositive, "consume",
       "a batch consumed by the device, alone"},
      {"predicted_batches_per_s", "1/s", kHigher, Range::kNotNegative, "predicted",
       "batches / bound"},
      {"prediction_error_pct", "%", kNeither, Range::kSigned, "prediction error",
       "100 x (bound / T - 1)"},
  };
  family.scenarios = &Scenarios;
  return family;
}

}  // namespace families
}  // namespace overlapbench
