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
#include <algorithm>
#include <functional>

#include "benchmarks/training.h"
#include "comm/tensor_collective.h"
#include "kernels/linear.h"
#include "kernels/reversed_rows.h"

namespace overlapbench::families {
namespace {

constexpr std::uint32_t kSeed = 800;

// The tensors and works of a row.
struct Batch {
  Batch(const Catalog& catalog, const std::shared_ptr<Transports>& transports,
        const Settings& settings)
      : machine(Planned(catalog.machine, settings)),
        communicator(std::make_shared<LaneCommunicator>(transports, settings)),
        element(LayerElement(machine.device)),
        tensors(settings.Integer("tensors")),
        width(settings.Integer("width")),
        tokens(settings.Integer("tokens")),
        shape{.element = element,
              .rows = tensors,
              .columns = settings.Integer("bytes") / static_cast<long>(SizeOf(element))},
        gradients(MakeTensor(communicator, shape)),
        sums(MakeTensor(communicator, shape)) {}

  [[nodiscard]] Work Multiply() const {
    const auto make = [&](long rows) {
      return MakeTensor(machine.device, {.element = element, .rows = rows, .columns = width});
    };
    const LinearProblem problem{
        .a = make(tokens), .w = make(width), .d = make(tokens), .seed = kSeed};
    return WorkOf("multiply", WorkClass::kCompute,
                  {.tensors = {problem.a, problem.w, problem.d},
                   .own_bytes = ProductWorkspaceBytes(machine.device)},
                  [machine = machine, problem] { return MakeLinear(machine, {problem}); });
  }
  // Sums all rows in `calls` calls of equally many rows.
  [[nodiscard]] Work Sum(const char* name, const SharedTensor& from, const SharedTensor& to,
                         long calls, CallOrder order = CallOrder::kInTurn) const {
    std::vector<TensorCall> all;
    const long rows = tensors / calls;
    for (long call = 0; call < calls; ++call)
      all.push_back({Operation::kAllReduce, from, to, call * rows, call * rows, rows});
    return CollectiveOf(name, all, {.tensors = {from, to}},
                        [machine = machine, communicator = communicator, all, order] {
                          return MakeTensorCollective(machine, communicator, all, kSeed, order);
                        });
  }
  [[nodiscard]] Work Copy(const char* name, const SharedTensor& from,
                          const SharedTensor& to) const {
    return WorkOf(name, WorkClass::kMemory, {.tensors = {from, to}}, [machine = machine, from, to] {
      return MakeReversedRows(machine, from, to, kSeed);
    });
  }

  Machine machine;
  SharedLaneCommunicator communicator;
  Element element;
  long tensors;
  long width;
  long tokens;
  TensorShape shape;  // a row is one tensor
  SharedTensor gradients;
  SharedTensor sums;
};

void AddSingle(Schedule& schedule, std::size_t lane, const Work& sum, long tensors) {
  for (long i = 0; i < tensors; ++i) schedule.Add(lane, sum, {.part = {i, tensors}});
}

void AddCoalesced(Schedule& schedule, std::size_t lane, const Batch& batch) {
  const SharedTensor packed = MakeTensor(batch.communicator, batch.shape);
  const SharedTensor packed_sums = MakeTensor(batch.communicator, batch.shape);
  const std::size_t in = schedule.Add(lane, batch.Copy("pack", batch.gradients, packed));
  const std::size_t summed =
      schedule.Add(lane, batch.Sum("sum packed", packed, packed_sums, 1), {.after = {in}});
  schedule.Add(lane, batch.Copy("unpack", packed_sums, batch.sums), {.after = {summed}});
}

std::vector<Run> BatchRuns(const Batch& batch, const std::string& how) {
  const Work multiply = batch.Multiply();
  const Work sum = batch.Sum("sum", batch.gradients, batch.sums, batch.tensors);

  Schedule sequential;
  const std::size_t lane = sequential.AddLane({.name = "lane"});
  sequential.Add(lane, multiply);
  AddSingle(sequential, lane, sum, batch.tensors);

  Schedule pattern;
  const std::size_t comp = pattern.AddLane({.name = "comp"});
  const std::size_t comm = pattern.AddLane({.name = "comm"});
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

std::string Excluded(const Catalog& catalog, const Settings& settings) {
  constexpr long kWordBytes = 16;  // the unit of copying
  constexpr long kMostQueued = 10;
  const std::string& transport = settings.Text("transport");
  if (settings.Integer("width") % 16 != 0) return "width must be a multiple of 16";
  if (settings.Integer("bytes") % kWordBytes != 0) return "bytes must be a multiple of 16";
  // NCCL 2.28.3 corrupts the results of symmetric kernels in groups.
  if (settings.Text("batch") == "grouped" && transport != "nccl" && transport != "mpi")
    return transport + " does not support grouped calls; use nccl";
  // Each takes a hundred operations, and the driver queues only so many behind a closed gate.
  if (transport == "copy" && settings.Integer("tensors") > kMostQueued)
    return "transport:copy supports at most 10 tensors";
  return NoTransport(catalog.machine, {Operation::kAllReduce}, settings.With("place", "out"));
}

Scenario Batches(const Catalog& catalog, const std::string& transport,
                 const std::shared_ptr<Transports>& transports) {
  const bool host = catalog.on_host();
  Scenario scenario = TrainingScenario(
      catalog, "Ddp/Batch/AllReduce", "AllReduce", transport,
      {IntegerAxis("tensors", "gradients that are summed", 2, 512, host ? "16" : "64"),
       BytesAxis("bytes", "of each, a multiple of 16", host ? "4K,64K" : "16K,256K,1M"),
       ChoiceAxis("batch", "one call each, all calls together, or one call for all of them",
                  {"single", "grouped", "coalesced"}, "single,grouped,coalesced"),
       IntegerAxis("width", "of the product beside them, a multiple of 16", 16, 1 << 16,
                   host ? "128" : "4096"),
       IntegerAxis("tokens", "rows of the product on one rank", 1, 1L << 24,
                   host ? "256" : "8192")});
  scenario.excluded = std::bind_front(Excluded, catalog);
  scenario.runs = [catalog, transports](const Settings& settings) {
    return BatchRuns(Batch(catalog, transports, settings), settings.Text("batch"));
  };
  scenario.report = ReportBatch;
  return scenario;
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
        const auto transports = std::make_shared<Transports>(catalog.machine);
        Scenario batches = Batches(catalog, catalog.on_host() ? "mpi" : "nccl", transports);
        AddCommPriority(catalog, batches);
        return std::vector{batches};
      }};
}

}  // namespace overlapbench::families
