// Launches: what launching costs.
//
// EmptyKernel   a number of kernels that do nothing, by a loop of launches or as one graph.
// Pieces        arithmetic of a fixed amount in a number of kernels one behind the other.
// Whole         the same in one kernel.
// RoundTrip     launch one empty kernel and wait until the host knows that it is done.
//
// An empty kernel has nothing to show, so between Reset and Verify each leaves a mark; the kernels
// that are measured are the same and leave none. Pieces share the work of kernels/step_kernel.h by
// its steps, not by its elements, so that each fills the device as the whole does.

#include <vector>

#include "device/launch.h"
#include "kernels/repeater.h"
#include "kernels/step_kernel.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

// Well below the number of launches that a stream takes behind a closed gate (1,024 on a GPU).
constexpr long kMostLaunches = 900;

struct EmptyBody {
  static constexpr int kThreads = 32;
  int* mark;  // nullptr when measured
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    if (mark != nullptr && block.thread == 0) *mark = 1;
  }
};

class EmptyKernelWorkload : public Workload {
 public:
  EmptyKernelWorkload(const Machine& machine, long launches, bool as_graph, bool waits)
      : machine_(machine),
        launches_(launches),
        waits_(waits),
        marks_(machine.device.Allocate(launches * sizeof(int), MemoryKind::kDevice)),
        measured_(machine.device, as_graph,
                  [this](Stream& stream) { EnqueueLoop(stream, nullptr); }),
        marking_(machine.device, as_graph, [this](Stream& stream) {
          EnqueueLoop(stream, static_cast<int*>(marks_.data()));
        }) {}

  [[nodiscard]] Cost cost() const override { return {}; }
  [[nodiscard]] bool enqueue_waits() const override { return waits_; }

  void Reset(Stream& stream) override {
    Poison(stream, marks_.data(), marks_.bytes());
    verifying_ = true;
  }
  void Enqueue(Stream& stream) override {
    (verifying_ ? marking_ : measured_).Enqueue(stream);
    if (waits_) stream.Synchronize(machine_.ranks.timeout(), "waiting for an empty kernel");
  }
  Verdict Verify(Stream& stream) override {
    verifying_ = false;
    const ExpectedSegments ones{launches_, 0, 0, 1, 1, 0};
    const std::string fault = FindFault(machine_.device, stream, marks_.data(), launches_,
                                        Element::kInt32, ones, machine_.ranks.timeout());
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  void EnqueueLoop(Stream& stream, int* marks) const {
    for (long i = 0; i < launches_; ++i)
      Launch(stream, 1, EmptyBody{marks == nullptr ? nullptr : marks + i});
  }

  Machine machine_;
  long launches_;
  bool waits_;
  bool verifying_ = false;
  Buffer marks_;
  Repeater measured_;
  Repeater marking_;
};

class PiecesWorkload : public Workload {
 public:
  PiecesWorkload(const Machine& machine, const Settings& settings, long launches, bool as_graph)
      : machine_(machine),
        launches_(launches),
        steps_(static_cast<int>(settings.Integer("total_steps"))),
        values_(machine.device.Allocate(count() * sizeof(float), MemoryKind::kDevice)),
        repeater_(machine.device, as_graph, [this](Stream& stream) { EnqueueLoop(stream); }) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.flops = 2.0 * static_cast<double>(count()) * steps_;
    return cost;
  }
  void Reset(Stream& stream) override {
    FillIntegers(stream, values_.data(), count(), Element::kFloat32, kSeed, kMost);
  }
  void Enqueue(Stream& stream) override { repeater_.Enqueue(stream); }
  Verdict Verify(Stream& stream) override {
    const ExpectedSegments expected{count(), 0, 0, 1, kMost, kSeed, static_cast<double>(steps_)};
    const std::string fault = FindFault(machine_.device, stream, values_.data(), count(),
                                        Element::kFloat32, expected, machine_.ranks.timeout());
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  static constexpr std::uint32_t kSeed = 7000;
  static constexpr int kMost = 256;

  void EnqueueLoop(Stream& stream) {
    auto* values = static_cast<float*>(values_.data());
    const int share = steps_ / static_cast<int>(launches_);
    for (long i = 0; i < launches_; ++i)
      EnqueueSteps(machine_.device, stream, values, values, count(), share);
  }
  // Values for every thread that a GPU can hold; few on a core, for which they are done in turn.
  [[nodiscard]] long count() const {
    const bool host = machine_.device.backend() == Backend::kHost;
    return machine_.device.info().multiprocessors * (host ? 8L : 2048L);
  }

  Machine machine_;
  long launches_;
  int steps_;
  Buffer values_;
  Repeater repeater_;
};

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary) {
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kCompute;
  spec.summary = summary;
  spec.baseline = false;
  spec.axes = {
      IntegerAxis("launches", "kernels, one behind the other", 1, kMostLaunches, "1,16,128,512"),
      ChoiceAxis("call", "a launch for each, or one for a recorded graph of them",
                 {"loop", "graph"}, "loop,graph")};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return settings.Text("call") == "graph" ? device.NoGraphs() : "";
  };
  spec.footprint = [](const Settings&) { return Footprint{}; };
  return spec;
}

WorkloadSpec PiecesSpec(const Machine& machine, const char* name, const char* summary) {
  constexpr long kMostSteps = 16'000'000;  // below 2^24, see kernels/step_kernel.h
  WorkloadSpec spec = SpecOf(machine, name, summary);
  spec.axes.push_back(IntegerAxis("total_steps", "multiply-adds for each value, of all together", 1,
                                  kMostSteps, "65536"));
  const auto no_graph = spec.excluded;
  spec.excluded = [no_graph](const Settings& settings) -> std::string {
    if (settings.Integer("total_steps") % settings.Integer("launches") != 0)
      return "total_steps must be a multiple of launches";
    return no_graph(settings);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Launches(Machine& machine) {
  WorkloadSpec empty = SpecOf(machine, "EmptyKernel", "kernels that do nothing");
  empty.make = [machine](const Settings& settings) {
    return std::make_unique<EmptyKernelWorkload>(machine, settings.Integer("launches"),
                                                 settings.Text("call") == "graph", false);
  };
  WorkloadSpec round_trip =
      SpecOf(machine, "RoundTrip", "launch an empty kernel and wait until it is known to be done");
  round_trip.axes.clear();
  round_trip.excluded = nullptr;
  round_trip.make = [machine](const Settings&) {
    return std::make_unique<EmptyKernelWorkload>(machine, 1, false, true);
  };
  WorkloadSpec pieces = PiecesSpec(machine, "Pieces", "a fixed amount of arithmetic in pieces");
  pieces.make = [machine](const Settings& settings) {
    return std::make_unique<PiecesWorkload>(machine, settings, settings.Integer("launches"),
                                            settings.Text("call") == "graph");
  };
  WorkloadSpec whole = PiecesSpec(machine, "Whole", "the same in one kernel");
  whole.make = [machine](const Settings& settings) {
    return std::make_unique<PiecesWorkload>(machine, settings, 1, false);
  };
  return {empty, round_trip, pieces, whole};
}

}  // namespace overlapbench
