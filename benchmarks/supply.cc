// Supply: a device fed with batches by producer threads on the host, from starving to saturated.
//
// A producer makes a batch by copying it from a data set into page-locked memory, which takes
// `make_us` in all: what the copy leaves of it is spent working (source:work: decoding, augmenting)
// or sleeping (source:wait: storage, network). The device copies a batch in, computes on it, and
// the host waits for it, as a training step does that needs its loss. Each worker may be `prefetch`
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
// the number of the workers' turns: either the device always has a batch and waits for the first
// only, or it waits for the workers, and consumes what their last turn has made.
//
// The host is part of what is measured, so samples are not gated. Every batch must have arrived
// once and whole.
#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "benchmarks/scenario.h"
#include "device/host/host_stream.h"
#include "kernels/steps.h"
#include "workload/data.h"

namespace overlapbench::families {
namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  explicit Shape(const Settings& settings)
      : workers(settings.Integer("workers")),
        prefetch(settings.Integer("prefetch")),
        batches(settings.Integer("supply_batches")),
        elements(settings.Integer("batch_bytes") / static_cast<long>(sizeof(float))),
        steps(static_cast<int>(settings.Integer("intensity"))),
        make_time(settings.Integer("make_us")),
        works(settings.Text("source") == "work") {}
  [[nodiscard]] std::size_t batch_bytes() const { return elements * sizeof(float); }
  [[nodiscard]] std::size_t all_bytes() const { return batches * batch_bytes(); }
  // How many batches may be made ahead of their consumption.
  [[nodiscard]] long ahead() const { return workers == 0 ? 1 : workers * prefetch; }

  long workers;
  long prefetch;
  long batches;
  long elements;  // float32 values of a batch
  int steps;
  std::chrono::microseconds make_time;
  bool works;
};

// The memory that making and consuming share.
struct Batches {
  Batches(const Machine& machine, const Shape& shape)
      : data_set(machine.device.Allocate(shape.all_bytes(), MemoryKind::kPageable)),
        made(machine.device.Allocate(shape.all_bytes(), MemoryKind::kPinned)),
        results(machine.device.Allocate(shape.all_bytes(), MemoryKind::kDevice)) {}
  Buffer data_set;
  Buffer made;
  Buffer results;
};

class SupplyWorkload : public Workload {
 public:
  SupplyWorkload(const Machine& machine, const Shape& shape, std::shared_ptr<Batches> batches)
      : machine_(machine), shape_(shape), batches_(std::move(batches)) {}

  void Enqueue(Stream& stream) override {
    for (long batch = 0; batch < shape_.batches; ++batch)
      EnqueuePart(stream, {batch, shape_.batches});
  }

 protected:
  float* At(const Buffer& buffer, long batch) const {
    return static_cast<float*>(buffer.data()) + batch * shape_.elements;
  }
  // Leaves in `buffer`, on the host, what the data set has.
  void FillFromDevice(Stream& stream, const Buffer& buffer) const {
    FillSteps(stream, At(batches_->results, 0), 0, shape_.batches * shape_.elements);
    stream.Copy(buffer.data(), batches_->results.data(), shape_.all_bytes());
    stream.Synchronize(machine_.timeout, "filling the data set");
  }
  [[nodiscard]] Verdict VerdictOnResults(Stream& stream, int steps) const {
    return FindFaultInSteps(machine_, stream, At(batches_->results, 0), 0,
                            shape_.batches * shape_.elements, steps);
  }

  Machine machine_;
  Shape shape_;
  std::shared_ptr<Batches> batches_;
};

class MakeWorkload : public SupplyWorkload {
 public:
  using SupplyWorkload::SupplyWorkload;
  [[nodiscard]] Cost cost() const override { return {}; }
  void Reset(Stream& stream) override {
    FillFromDevice(stream, batches_->data_set);
    std::memset(batches_->made.data(), 0xFF, shape_.all_bytes());
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    stream.host()->Enqueue([this, batch = part.index] { Make(batch); });
  }
  Verdict Verify(Stream& stream) override {
    Poison(stream, batches_->results.data(), shape_.all_bytes());
    stream.Copy(batches_->results.data(), batches_->made.data(), shape_.all_bytes());
    return VerdictOnResults(stream, 0);
  }

 private:
  void Make(long batch) const {
    const auto done = Clock::now() + shape_.make_time;
    std::memcpy(At(batches_->made, batch), At(batches_->data_set, batch), shape_.batch_bytes());
    if (!shape_.works) std::this_thread::sleep_until(done);
    while (Clock::now() < done) {
    }
  }
};

class ConsumeWorkload : public SupplyWorkload {
 public:
  using SupplyWorkload::SupplyWorkload;
  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.copied_bytes = static_cast<double>(shape_.all_bytes());
    return cost;
  }
  void Reset(Stream& stream) override {
    FillFromDevice(stream, batches_->made);
    Poison(stream, batches_->results.data(), shape_.all_bytes());
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    float* result = At(batches_->results, part.index);
    stream.Copy(result, At(batches_->made, part.index), shape_.batch_bytes());
    EnqueueSteps(machine_.device, stream, result, result, shape_.elements, shape_.steps);
  }
  Verdict Verify(Stream& stream) override { return VerdictOnResults(stream, shape_.steps); }
};

template <class Type>
Work WorkOf(const char* name, WorkClass work_class, const Footprint& footprint,
            const Machine& machine, const Shape& shape,
            const std::shared_ptr<std::weak_ptr<Batches>>& shared) {
  WorkPlan plan{.name = name, .work_class = work_class, .footprint = footprint};
  plan.make = [machine, shape, shared] {
    std::shared_ptr<Batches> batches = shared->lock();
    if (batches == nullptr) *shared = batches = std::make_shared<Batches>(machine, shape);
    return std::make_unique<Type>(machine, shape, std::move(batches));
  };
  return std::make_shared<const WorkPlan>(std::move(plan));
}

// Lays out the supply: batch by batch, each made before it is used, and no worker too far ahead.
Run Supplied(const Work& make, const Work& consume, const Shape& shape) {
  Run run{.name = "supply", .gated = false};
  std::vector<std::size_t> workers;
  for (long i = 0; i < std::max(shape.workers, 1L); ++i)
    workers.push_back(run.schedule.AddLane({.name = fmt::format("worker {}", i), .on_host = true}));
  const std::size_t device = run.schedule.AddLane({"device"});
  std::vector<std::size_t> made;
  std::vector<std::size_t> used;
  const auto add_made = [&](long batch) {
    Schedule::StepOptions options{.part = {batch, shape.batches}};
    if (batch >= shape.ahead()) options.after.push_back(used.at(batch - shape.ahead()));
    made.push_back(
        run.schedule.Add(workers[batch % std::ssize(workers)], make, std::move(options)));
  };
  for (long batch = 0; batch < std::min(shape.ahead(), shape.batches); ++batch) add_made(batch);
  for (long batch = 0; batch < shape.batches; ++batch) {
    Schedule::StepOptions options{.part = {batch, shape.batches}};
    options.after.push_back(made.at(batch));
    if (batch > 0) options.host_after.push_back(used.back());
    used.push_back(run.schedule.Add(device, consume, std::move(options)));
    if (std::ssize(made) < shape.batches) add_made(std::ssize(made));
  }
  return run;
}

std::vector<Run> SupplyRuns(const Machine& machine, const Settings& settings) {
  const Shape shape(settings);
  const auto shared = std::make_shared<std::weak_ptr<Batches>>();
  const Work make =
      WorkOf<MakeWorkload>("make", WorkClass::kMemory, {shape.all_bytes(), 2 * shape.all_bytes()},
                           machine, shape, shared);
  const Work consume =
      WorkOf<ConsumeWorkload>("consume", WorkClass::kCompute, {}, machine, shape, shared);
  std::vector<Run> runs = WithSoloRuns(Supplied(make, consume, shape));
  // Alone too, the host waits for each batch.
  Run& alone = runs.at(1);
  alone.schedule = {};
  const std::size_t device = alone.schedule.AddLane({"device"});
  for (long batch = 0; batch < shape.batches; ++batch) {
    Schedule::StepOptions options{.part = {batch, shape.batches}};
    if (batch > 0) options.host_after.push_back(static_cast<std::size_t>(batch - 1));
    alone.schedule.Add(device, consume, std::move(options));
  }
  return runs;
}

Remark ReportSupply(const Measurement& measurement, benchmark::UserCounters& counters) {
  constexpr double kMillisecondsInSecond = 1000;
  constexpr double kPercent = 100;
  const Schedule& schedule = measurement.own().schedule;
  const long parts = measurement.settings().Integer("supply_batches");
  const auto batches = static_cast<double>(parts);
  const Series measured_ms = measurement.Total_ms();
  const Series bound_ms = measurement.Bound_ms("supply");
  const Bound bound = measurement.BoundOf("supply");
  // The device waits for the workers if most of the longest path is made, not consumed.
  double made_ms = 0;
  for (const std::size_t step : bound.path) {
    const Work& work = schedule.steps()[step].work;
    if (work->name == "make") made_ms += measurement.StepAlone_ms(work, parts).median();
  }
  const bool by_workers = made_ms > bound.total_ms / 2;
  ReportBound(measurement, counters);
  for (const Work& work : schedule.works())
    Report(counters, work->name + "_ms", measurement.StepAlone_ms(work, parts));
  Report(counters, "batches_per_s", batches * kMillisecondsInSecond / measured_ms);
  Report(counters, "predicted_batches_per_s", batches * kMillisecondsInSecond / bound_ms);
  Report(counters, "prediction_error_pct", kPercent * ((bound_ms - measured_ms) / measured_ms));
  Report(counters, "device_idle_share",
         (measured_ms - measurement.Total_ms("consume")) / measured_ms);
  counters["bound_by_workers"] = by_workers ? 1 : 0;
  return Remark::Finding(by_workers ? "bound by the producers" : "bound by the device");
}

Scenario BatchesScenario(const Catalog& catalog, const Values& values) {
  const bool host = catalog.on_host();
  Scenario scenario{.name = "Supply/Batches"};
  scenario.axes = {IntegerAxis("workers", "producer threads; 0: the consumer makes its batches", 0,
                               256, "0,1,2,4,8"),
                   IntegerAxis("prefetch", "batches that a worker may be ahead", 1, 64, "2"),
                   IntegerAxis("make_us", "what a batch takes to make, in microseconds", 1,
                               10'000'000, host ? "4000" : "2000"),
                   ChoiceAxis("source", "a worker works on a batch, or waits for it",
                              {"work", "wait"}, host ? "wait" : "work"),
                   BytesAxis("batch_bytes", "size of a batch", host ? "256K" : "4M"),
                   IntegerAxis("supply_batches", "batches of a sample", 1, 4096, "32"),
                   IntegerAxis("intensity", "multiply-adds for each value", 1, kMostSteps,
                               host ? "8" : "16384")};
  SetValues(scenario.axes, values);
  scenario.excluded = [](const Settings& settings) {
    return settings.Integer("batch_bytes") % 4 == 0 ? "" : "batch_bytes must be a multiple of 4";
  };
  scenario.runs = [machine = catalog.machine](const Settings& settings) {
    return SupplyRuns(machine, settings);
  };
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
      {"batches_per_s", "1/s", kHigher, Range::kNotNegative, "batches", "batches / T"},
      {"predicted_batches_per_s", "1/s", kHigher, Range::kNotNegative, "predicted",
       "batches / bound"},
      {"prediction_error_pct", "%", kNeither, Range::kSigned, "prediction error",
       "100 x (bound / T - 1)"},
      {"device_idle_share", "", kLower, Range::kAtMostOne, "idle share",
       "1 - (consuming all batches alone) / T"},
      {"bound_by_workers", "bool", kNeither, Range::kFlag, "bound by workers",
       "whether most of the bound's path is making, not consuming"},
  };
  family.scenarios = &Scenarios;
  return family;
}

}  // namespace overlapbench::families
