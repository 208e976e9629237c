// Ddp/Buckets: how much of a data-parallel step's gradient exchange is exposed, and which bucket
// size hides it best?
//
// A step goes forward and backward through `layers` equal layers of `width`². The gradients are
// summed over the ranks in buckets, as data-parallel frameworks do (S. Li et al., PyTorch
// Distributed: Experiences on Accelerating Data Parallel Training, 2020): whole layers go into a
// bucket, in the order in which the backward pass computes their gradients, until it holds
// `bucket_bytes` or more. The first one holds `first_bucket`, so that communication starts early.
//
//   comp   forward …   backward L   backward L-1   backward L-2   …
//   comm                            bucket 1       bucket 2   …
//
// An optimizer's update follows all sums. The plain form sums after the whole backward pass.
// Nothing is left to run beside the sum of the last bucket, which holds the first layers, so at
// least that sum is exposed.
#include <fmt/core.h>

#include <algorithm>

#include "benchmarks/training.h"
#include "kernels/layer_stack.h"

namespace overlapbench::families {
namespace {

// How many layers each bucket holds.
std::vector<long> BucketsOf(long layers, long layer_bytes, long first_bytes, long bucket_bytes) {
  const auto layers_of = [&](long bytes) {
    return std::max(1L, (bytes + layer_bytes - 1) / layer_bytes);
  };
  std::vector<long> buckets;
  for (long left = layers; left > 0; left -= buckets.back())
    buckets.push_back(std::min(left, layers_of(buckets.empty() ? first_bytes : bucket_bytes)));
  return buckets;
}

// The tensors of a step, and the works on them.
struct Step {
  Step(const TensorWorks& tensor_works, const Settings& settings)
      : works(tensor_works),
        gradients(works.Reached(works.Shape(settings.Integer("layers") * settings.Integer("width"),
                                            settings.Integer("width")))),
        sums(gradients->Alias()),
        stack(std::make_shared<LayerStack>(works.machine().device, settings.Integer("layers"),
                                           settings.Integer("width"), settings.Integer("tokens"),
                                           gradients)) {}

  [[nodiscard]] Work Update() const {
    return WorkOf("update", WorkClass::kCompute, {{stack->weights, sums, stack->updated}},
                  [machine = works.machine(), stack = stack, sums = sums, seed = works.seed()] {
                    return MakeUpdate(machine, *stack, sums, seed);
                  });
  }
  // Sums the gradients of `pieces` times `count` layers over the ranks, beginning at layer `first`.
  [[nodiscard]] Work Sum(const std::string& name, long first, long count, long pieces) const {
    std::vector<TensorCall> calls;
    for (long piece = 0; piece < pieces; ++piece) {
      const long row = (first + piece * count) * stack->width;
      calls.push_back({Operation::kAllReduce, gradients, sums, row, row, count * stack->width});
    }
    return works.Move(name, calls);
  }

  const TensorWorks& works;
  SharedTensor gradients;
  SharedTensor sums;
  std::shared_ptr<LayerStack> stack;
};

std::vector<Run> BucketRuns(const Step& step, const std::vector<long>& buckets) {
  const long layers = step.stack->layers;
  const Work forward = step.works.Multiply("forward", step.stack->Forward());
  const Work backward = step.works.Multiply("backward", step.stack->Backward());
  const Work update = step.Update();

  Schedule sequential;
  const std::size_t lane = sequential.AddLane({.name = "lane"});
  sequential.Add(lane, forward);
  const std::size_t done = sequential.Add(lane, backward);
  const std::size_t summed =
      sequential.Add(lane, step.Sum("sum of all", 0, layers, 1), {.after = {done}});
  sequential.Add(lane, update, {.after = {summed}});

  Schedule pattern;
  const auto [comp, comm] = AddLanes(pattern, false);
  pattern.Add(comp, forward);
  std::vector<std::size_t> made;
  for (long i = 0; i < layers; ++i)
    made.push_back(pattern.Add(comp, backward, {.part = {i, layers}}));
  // Buckets of one size are parts of one work.
  std::vector<std::size_t> sums;
  long first = 0;
  for (std::size_t i = 0; i < buckets.size();) {
    const auto next = std::find_if(buckets.begin() + static_cast<long>(i), buckets.end(),
                                   [&](long size) { return size != buckets[i]; });
    const long pieces = next - buckets.begin() - static_cast<long>(i);
    const Work sum = step.Sum(fmt::format("sum from layer {}", first), first, buckets[i], pieces);
    for (long piece = 0; piece < pieces; ++piece) {
      first += buckets[i];
      sums.push_back(pattern.Add(comm, sum, {.part = {piece, pieces}, .after = {made[first - 1]}}));
    }
    i += static_cast<std::size_t>(pieces);
  }
  pattern.Add(comp, update, {.after = sums});
  return TrainingRuns(std::move(sequential), std::move(pattern));
}

Remark ReportBuckets(const Measurement& measurement, Counters& counters) {
  constexpr double kPercent = 100;
  const double ranks = measurement.ranks();
  const Remark remark = ReportTraining(
      measurement, counters, ranks * static_cast<double>(measurement.settings().Integer("tokens")),
      ranks == 2 ? Identity::kRequired : Identity::kReported);
  const Series computation_ms = measurement.Total_ms("computation");
  Report(counters, "step_overhead_pct",
         kPercent * (measurement.Total_ms() - computation_ms) / computation_ms);
  return remark;
}

TrainingForm Buckets(const Catalog& catalog) {
  const bool host = catalog.on_host();
  std::vector<Axis> axes = LinearAxes(catalog, 1024, host ? "8" : "24");
  AppendAxes(axes, {BytesAxis("bucket_bytes", "gradients that are summed together",
                              host ? "64K,256K" : "25M,64M,256M"),
                    BytesAxis("first_bucket", "the same of the first bucket", "1M", "1M")});
  const auto excluded = [machine = catalog.machine](const Settings& settings) {
    const std::string why = ExcludedWidth(settings);
    return why.empty() ? ExcludedTransport(machine, {Operation::kAllReduce}, settings,
                                           LayerCount(settings), "in")
                       : why;
  };
  const long element_bytes = static_cast<long>(SizeOf(LayerElement(catalog.device)));
  return {.scenario = {.name = "Ddp/Buckets",
                       .axes = std::move(axes),
                       .excluded = excluded,
                       .report = ReportBuckets},
          .collective = "AllReduce",
          .seed = 700,
          .runs = [element_bytes](const TensorWorks& works, const Settings& settings) {
            return BucketRuns(
                Step(works, settings),
                BucketsOf(settings.Integer("layers"), LayerCount(settings) * element_bytes,
                          settings.Integer("first_bucket"), settings.Integer("bucket_bytes")));
          }};
}

}  // namespace

Family DdpBuckets() {
  using enum Better;
  return {.name = "Ddp",
          .about = "A data-parallel step whose gradients are summed in buckets beside it.",
          .lead = {"step_overhead_pct", "time", "speedup", "pct_of_bound", "exposed_comm_ms",
                   "interference_ms"},
          .counters = {{"step_overhead_pct", "%", kLower, Range::kSigned, "overhead",
                        "100 x (T / its computation alone - 1)"}},
          .scenarios = [](const Catalog& catalog) {
            return OverTransports(catalog, {Buckets(catalog)});
          }};
}

}  // namespace overlapbench::families
