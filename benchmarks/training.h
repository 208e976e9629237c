// Training: what the families of training steps share.
//
// A row is one pattern of a step: chunks in a pipeline, gradients in buckets, micro-batches in
// turn. Its runs are sampled in turn:
//
//   each work alone    for the bound, and each lane alone on which works take turns
//   "computation"      C: the computation of the plain form
//   "communication"    M: its communication and copies
//   "chunks"           the pattern's computation: what cutting it into parts costs
//   "sequential"       the plain form: one step after the other
//   "pattern"          T: the row's own
//
// A family makes two schedules, the plain form and the pattern; everything else is derived from
// them. Their results are the same bit for bit, wherever the arithmetic allows it.
//
// The bound counts each part of a work as its share of the time that its lane takes alone
// (fixtures/benchmark.h). It therefore includes the chunking cost: the extra time of the
// computation's chunks alone over the plain form's computation. Interference is T - bound: the
// slowdown of the sides beside each other, and the cost of starting and synchronizing steps.
//
// The classical estimate ignores both. Computation that runs beside communication hides it: total =
// computation + max(0, communication - overlappable), and the efficiency is min(communication,
// overlappable) / communication. A row reports its error too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/scenario.h"
#include "comm/tensor_collective.h"
#include "kernels/block_sum.h"
#include "kernels/linear.h"

namespace overlapbench {

// A scenario over `transport`, with these axes, the transport's and, on GPUs, sm_target. It is
// missing on one rank, and where `collective` or the transport is.
Scenario TrainingScenario(const Catalog& catalog, const std::string& name,
                          const std::string& collective, const std::string& transport,
                          std::vector<Axis> axes);
// The axis `width` of equal linear layers. Its default is one that the ranks can share.
Axis WidthAxis(const Catalog& catalog);
// Adds the axis comm_priority, the priority of the lanes that only communicate.
void AddCommPriority(const Catalog& catalog, Scenario& scenario);
// The machine with the sm_target of these settings: a step's products are made on it.
Machine Planned(Machine machine, const Settings& settings);
// A scenario for each form and each of these transports, with comm_priority; on the host by MPI
// alone. All of them share their communicators.
using MakeOver =
    std::function<Scenario(const std::string& transport, const std::shared_ptr<Transports>&)>;
std::vector<Scenario> OverTransports(const Catalog& catalog, const std::vector<MakeOver>& forms,
                                     const std::vector<std::string>& on_gpus = {"nccl", "copy"});

// The sizes of transformer layers: those of Llama 3 (A. Grattafiori et al., The Llama 3 Herd of
// Models, 2024), and one for the host backend.
struct Model {
  const char* name;
  long hidden;
  long ffn;
  long heads;  // of kAttentionDim columns each, whatever `hidden` is
};
// The axis `model`, and one for each of its sizes that the scenario uses: "hidden", "ffn", "heads".
// Each replaces that size; at its standing value, `model`, it is the model's.
std::vector<Axis> ModelAxes(const Catalog& catalog, std::string_view defaults_on_gpus,
                            const std::vector<std::string>& sizes);
Model ModelOf(const Settings& settings);
// Why the ranks cannot share these sizes; "" if they can.
std::string ExcludedModel(const Settings& settings, int ranks);

// Makes the tensors of a step, with the layers' element type, and the works on them.
class TensorWorks {
 public:
  TensorWorks(const Machine& machine, SharedLaneCommunicator communicator, std::uint32_t seed)
      : machine_(machine), communicator_(std::move(communicator)), seed_(seed) {}

  [[nodiscard]] TensorShape Shape(long rows, long columns) const {
    return {.element = LayerElement(machine_.device), .rows = rows, .columns = columns};
  }
  // A tensor in memory of its own, or in memory that collectives reach.
  [[nodiscard]] SharedTensor Own(const TensorShape& shape) const {
    return MakeTensor(machine_.device, shape);
  }
  [[nodiscard]] SharedTensor Reached(const TensorShape& shape) const {
    return MakeTensor(communicator_, shape);
  }
  // `is_result`: WorkPlan::is_result.
  [[nodiscard]] Work Multiply(const std::string& name, std::vector<LinearProblem> problems,
                              bool is_result = false) const;
  [[nodiscard]] Work Move(const std::string& name, const std::vector<TensorCall>& calls,
                          bool is_result = false) const;
  [[nodiscard]] Work Add(const std::string& name, BlockSum sum) const;

 private:
  Machine machine_;
  SharedLaneCommunicator communicator_;
  std::uint32_t seed_;
};

// The device memory that a work of a step uses.
struct WorkMemory {
  std::vector<SharedTensor> tensors = {};  // which other works may use too
  std::size_t own_bytes = 0;
};
Work WorkOf(std::string name, WorkClass work_class, const WorkMemory& memory,
            std::function<std::unique_ptr<Workload>()> make, bool is_result = false);
// A collective: the communication of `calls`, which are of one operation.
Work CollectiveOf(std::string name, const std::vector<TensorCall>& calls, const WorkMemory& memory,
                  std::function<std::unique_ptr<Workload>()> make, bool is_result = false);

std::vector<Run> TrainingRuns(Schedule sequential, Schedule pattern);

// Whether a row whose result differs from the plain form's is invalid. It is not if the two add in
// different orders or kernels; the counter `identical` then reports it.
enum class Identity : std::uint8_t { kRequired, kReported };

std::vector<Counter> TrainingCounters();
// `tokens`: how many one step processes on all ranks together; 0: not applicable.
Remark ReportTraining(const Measurement& measurement, Counters& counters, double tokens = 0,
                      Identity identity = Identity::kRequired);

// hidden_comm: the share of the plain form's communication that the row's own computation hides. It
// excludes the cost of cutting that computation, which is chunking_cost_ms.
void ReportHidden(const Measurement& measurement, Counters& counters);

struct ClassicalEstimate {
  double total_ms = 0;
  double efficiency = 0;  // 0 without communication
  double speedup = 0;     // against one after the other
};
ClassicalEstimate EstimateClassically(double computation_ms, double communication_ms,
                                      double overlappable_ms);

}  // namespace overlapbench
