// Ddp/Batch: what do many small all-reduces cost, and what does batching them save?
//
// `tensors` gradients of `bytes` each are summed over the ranks beside an independent product of
// `tokens` rows, as a backward pass continues beside the sums of its gradients. `batch` says how:
//
//   single      one all-reduce for each, one after the other
//   grouped     all of them in one NCCL group, which the library may carry by one kernel
//   coalesced   one all-reduce of a buffer: all are copied in before it, and out after it
//
//   comp   multiply
//   comm   pack   sum packed   unpack
//
// The plain form is the product, and then one all-reduce after another. The gradients lie in layer
// order; the buffer starts with the last layer's. Copying takes one kernel each way.
#include <functional>

#include "benchmarks/training.h"
#include "kernels/reversed_rows.h"

namespace overlapbench::families {
namespace {

// The tensors and works of a row.
struct Batch {
  Batch(const TensorWorks& tensor_works, const Settings& settings)
      : works(tensor_works),
        tensors(settings.Integer("tensors")),
        shape(works.Shape(tensors, settings.Integer("bytes") /
                                       static_cast<long>(SizeOf(works.Shape(1, 1).element)))),
        gradients(works.Reached(shape)),
        sums(works.Reached(shape)) {}

  // Sums all rows in `calls` calls of equally many rows.
  [[nodiscard]] Work Sum(const char* name, const SharedTensor& from, const SharedTensor& to,
                         long calls, CallOrder order = CallOrder::kInTurn) const {
    std::vector<TensorCall> all;
    const long rows = tensors / calls;
    for (long call = 0; call < calls; ++call)
      all.push_back({Operation::kAllReduce, from, to, call * rows, call * rows, rows});
    return works.Move(name, all, false, order);
  }
  [[nodiscard]] Work Copy(const char* name, const SharedTensor& from,
                          const SharedTensor& to) const {
    return WorkOf(name, WorkClass::kMemory, {.tensors = {from, to}},
                  [machine = works.machine(), from, to, seed = works.seed()] {
                    return MakeReversedRows(machine, from, to, seed);
                  });
  }

  const TensorWorks& works;
  long tensors;
  TensorShape shape;  // a row is one tensor
  SharedTensor gradients;
  SharedTensor sums;
};

Work Multiply(const TensorWorks& works, long tokens, long width) {
  const auto make = [&](long rows) { return works.Own(works.Shape(rows, width)); };
  return works.Multiply("multiply", {{.a = make(tokens), .w = make(width), .d = make(tokens)}});
}

void AddSingle(Schedule& schedule, std::size_t lane, const Work& sum, long tensors) {
  for (long i = 0; i < tensors; ++i) schedule.Add(lane, sum, {.part = {i, tensors}});
}

void AddCoalesced(Schedule& schedule, std::size_t lane, const Batch& batch) {
  const SharedTensor packed = batch.works.Reached(batch.shape);
  const SharedTensor packed_sums = batch.works.Reached(batch.shape);
  const std::size_t in = schedule.Add(lane, batch.Copy("pack", batch.gradients, packed));
  const std::size_t summed =
      schedule.Add(lane, batch.Sum("sum packed", packed, packed_sums, 1), {.after = {in}});
  schedule.Add(lane, batch.Copy("unpack", packed_sums, batch.sums), {.after = {summed}});
}

std::vector<Run> BatchRuns(const TensorWorks& works, const Settings& settings) {
  const Batch batch(works, settings);
  const std::string& how = settings.Text("batch");
  const Work multiply = Multiply(works, settings.Integer("tokens"), settings.Integer("width"));
  const Work sum = batch.Sum("sum", batch.gradients, batch.sums, batch.tensors);

  Schedule sequential;
  const std::size_t lane = sequential.AddLane({.name = "lane"});
  sequential.Add(lane, multiply);
  AddSingle(sequential, lane, sum, batch.tensors);

  Schedule pattern;
  const auto [comp, comm] = AddLanes(pattern, false);
  pattern.Add(comp, multiply);
  if (how == "single")
    AddSingle(pattern, comm, sum, batch.tensors);
  else if (how == "grouped")
    pattern.Add(comm, batch.Sum("sum together", batch.gradients, batch.sums, batch.tensors,
                                CallOrder::kTogether));
  else
    AddCoalesced(pattern, comm, batch);
  return TrainingRuns(std::move(sequential), std::move(pattern));
}

Remark ReportBatch(const Measurement& measurement, Counters& counters) {
  Series batch_ms(std::vector<double>(measurement.groups().size()));
  for (const Work& work : measurement.own().schedule.works())
    if (work->work_class != WorkClass::kCompute)
      batch_ms = batch_ms + measurement.Total_ms(work->name);
  Report(counters, "batch_ms", batch_ms);
  Report(counters, "batch_speedup", measurement.Total_ms("communication") / batch_ms);
  const double ranks = measurement.ranks();
  return ReportTraining(measurement, counters,
                        ranks * static_cast<double>(measurement.settings().Integer("tokens")),
                        ranks == 2 ? Identity::kRequired : Identity::kReported);
}

std::string Excluded(const Machine& machine, const Settings& settings) {
  constexpr long kWordBytes = 16;  // the unit of copying
  constexpr long kMostQueued = 10;
  const std::string& transport = settings.Text("transport");
  if (std::string why = ExcludedWidth(settings); !why.empty()) return why;
  if (settings.Integer("bytes") % kWordBytes != 0) return "bytes must be a multiple of 16";
  // NCCL 2.28.3 corrupts the results of symmetric kernels in groups.
  if (settings.Text("batch") == "grouped" && transport != "nccl" && transport != "mpi")
    return transport + " does not support grouped calls; use nccl";
  // Each takes a hundred operations, and the driver queues only so many behind a closed gate.
  if (transport == "copy" && settings.Integer("tensors") > kMostQueued)
    return "transport:copy supports at most 10 tensors";
  return NoTransport(machine, {Operation::kAllReduce}, settings.With("place", "out"));
}

TrainingForm Batches(const Catalog& catalog) {
  const bool host = catalog.on_host();
  return {
      .scenario =
          {.name = "Ddp/Batch/AllReduce",
           .axes = {IntegerAxis("tensors", "gradients that are summed", 2, 512, host ? "16" : "64"),
                    BytesAxis("bytes", "of each, a multiple of 16",
                              host ? "4K,64K" : "16K,256K,1M"),
                    ChoiceAxis("batch",
                               "one call each, all calls together, or one call for all of them",
                               {"single", "grouped", "coalesced"}, "single,grouped,coalesced"),
                    IntegerAxis("width", "of the product beside them, a multiple of 16", 16,
                                1 << 16, host ? "128" : "4096"),
                    IntegerAxis("tokens", "rows of the product on one rank", 1, 1L << 24,
                                host ? "256" : "8192")},
           .excluded = std::bind_front(Excluded, catalog.machine),
           .report = ReportBatch},
      .collective = "AllReduce",
      .seed = 800,
      .runs = BatchRuns,
      .on_gpus = {"nccl"}};
}

}  // namespace

Family DdpBatch() {
  using enum Better;
  return {
      .name = "Ddp/Batch",
      .about = "Many small all-reduces: one by one, in a group, or coalesced into one.",
      .lead = {"batch_speedup", "batch_ms", "time", "speedup", "pct_of_bound", "exposed_comm_ms"},
      .counters = {{"batch_ms", "ms", kLower, Range::kPositive, "batch",
                    "the sums alone as the row makes them, copies included"},
                   {"batch_speedup", "", kHigher, Range::kPositive, "batch speedup",
                    "the sums alone one by one / batch_ms"}},
      .scenarios = [](const Catalog& catalog) {
        return OverTransports(catalog, {Batches(catalog)});
      }};
}

}  // namespace overlapbench::families
