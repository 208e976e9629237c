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
#include "kernels/block_half.h"
#include "kernels/block_sum.h"
#include "kernels/linear.h"

namespace overlapbench {

// Adds the axis comm_priority, the priority of the lanes that only communicate.
void AddCommPriority(const Catalog& catalog, Scenario& scenario);

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

// The axes of equal linear layers: `layers`, up to `most`; `width`, whose default is one that the
// ranks can share; and `tokens`, those of one rank.
std::vector<Axis> LinearAxes(const Catalog& catalog, long most, std::string_view layers);
std::string ExcludedWidth(const Settings& settings);
// The elements of a layer's weight.
long LayerCount(const Settings& settings);
// Why the transport of these settings cannot carry the operations on so many elements of the
// layers' type; "" if it can. `place`: as of collectives.
std::string ExcludedTransport(const Machine& machine, const std::vector<Operation>& operations,
                              const Settings& settings, long elements, const char* place,
                              bool own_stays = false);

// Makes the tensors of a step, with the layers' element type, and the works on them. The machine
// has the row's sm_target.
class TensorWorks {
 public:
  TensorWorks(const Machine& machine, SharedLaneCommunicator communicator, std::uint32_t seed)
      : machine_(machine), communicator_(std::move(communicator)), seed_(seed) {}

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] std::uint32_t seed() const { return seed_; }
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
                          bool is_result = false, CallOrder order = CallOrder::kInTurn) const;
  [[nodiscard]] Work Add(const std::string& name, BlockSum sum) const;
  // A step of a chain (workload/tensor_step.h), and the sum over the ranks in one.
  [[nodiscard]] Work Step(const std::string& name, const StepTensors& tensors,
                          std::function<std::unique_ptr<Workload>()> make) const;
  [[nodiscard]] Work Sum(const std::string& name, const SharedTensor& from,
                         const SharedTensor& to) const;

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

// The lanes of a step, which are one in its plain form.
struct StepLanes {
  std::size_t comp = 0;
  std::size_t comm = 0;
};
StepLanes AddLanes(Schedule& schedule, bool is_plain);

std::vector<Run> TrainingRuns(Schedule sequential, Schedule pattern);

// A form of a step, and the transports that it has a scenario for; on the host, MPI alone.
struct TrainingForm {
  // Without its runs. Its axes are followed by the transport's, and on GPUs by sm_target.
  Scenario scenario;
  const char* collective = nullptr;  // which it cannot do without
  std::uint32_t seed = 0;            // of its tensors
  std::function<std::vector<Run>(const TensorWorks&, const Settings&)> runs = {};
  std::vector<Axis> later_axes = {};
  std::vector<std::string> on_gpus = {"nccl", "copy"};
};
// The scenarios of these forms, which share their communicators and have comm_priority. They are
// missing on one rank, and where a collective or a transport is.
std::vector<Scenario> OverTransports(const Catalog& catalog,
                                     const std::vector<TrainingForm>& forms);

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
