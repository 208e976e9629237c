// Launches: work that consists of launching.
//
// EmptyKernel   a number of kernels that do nothing.
// Pieces        arithmetic of a fixed amount, in as many kernels as a schedule cuts it into.
// RoundTrip     launch one empty kernel and wait until the host knows that it is done.
//
// An empty kernel has no result to check, so between Reset and Verify each leaves a mark. The
// kernels that are measured are the same and leave none. Pieces share the work of workload/steps.h
// by its steps, not by its elements, so each fills the device as the whole does.
#include <vector>

#include "device/launch.h"
#include "workload/data.h"
#include "workload/registry.h"
#include "workload/steps.h"

namespace overlapbench {
namespace {

// Well below the number of launches that a stream accepts behind a closed gate (1,024 on a GPU).
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
  EmptyKernelWorkload(const Machine& machine, long launches)
      : machine_(machine),
        launches_(launches),
        marks_(machine.device.Allocate(launches * sizeof(int), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override { return {}; }
  void Reset(Stream& stream) override {
    Poison(stream, marks_.data(), marks_.bytes());
    verifying_ = true;
  }
  void Enqueue(Stream& stream) override {
    for (long i = 0; i < launches_; ++i) LaunchOne(stream, i);
  }
  void EnqueuePart(Stream& stream, const Part& part) override { LaunchOne(stream, part.index); }
  Verdict Verify(Stream& stream) override {
    verifying_ = false;
    const ExpectedSegments ones{launches_, 0, 0, 1, 1, 0};
    return FindFault(machine_, stream, marks_.data(), launches_, Element::kInt32, ones);
  }

 protected:
  [[nodiscard]] const Machine& machine() const { return machine_; }

 private:
  void LaunchOne(Stream& stream, long index) const {
    Launch(stream, 1, EmptyBody{verifying_ ? static_cast<int*>(marks_.data()) + index : nullptr});
  }

  Machine machine_;
  long launches_;
  bool verifying_ = false;
  Buffer marks_;
};

class RoundTripWorkload : public EmptyKernelWorkload {
 public:
  explicit RoundTripWorkload(const Machine& machine) : EmptyKernelWorkload(machine, 1) {}
  [[nodiscard]] bool enqueue_waits() const override { return true; }
  void Enqueue(Stream& stream) override {
    EmptyKernelWorkload::Enqueue(stream);
    stream.Synchronize(machine().timeout, "waiting for an empty kernel");
  }
};

class PiecesWorkload : public Workload {
 public:
  PiecesWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        steps_(static_cast<int>(settings.Integer("total_steps"))),
        values_(machine.device.Allocate(count() * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    return {.flops = 2.0 * static_cast<double>(count()) * steps_};
  }
  void Reset(Stream& stream) override { FillSteps(stream, values(), 0, count()); }
  void Enqueue(Stream& stream) override { EnqueuePart(stream, {}); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    EnqueueSteps(machine_.device, stream, values(), values(), count(),
                 steps_ / static_cast<int>(part.count));
  }
  Verdict Verify(Stream& stream) override {
    return FindFaultInSteps(machine_, stream, values(), 0, count(), steps_);
  }

 private:
  float* values() { return static_cast<float*>(values_.data()); }
  // One value for every thread that a GPU can hold; few for a host core, which computes them in
  // turn.
  [[nodiscard]] long count() const {
    const bool host = machine_.device.backend() == Backend::kHost;
    return machine_.device.info().multiprocessors * (host ? 8L : 2048L);
  }

  Machine machine_;
  int steps_;
  Buffer values_;
};

WorkloadSpec SpecOf(const char* name, const char* summary) {
  WorkloadSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.baseline = false;
  spec.footprint = [](const Settings&) { return Footprint{}; };
  return spec;
}

Axis LaunchesAxis() {
  return IntegerAxis("launches", "kernels, one behind the other", 1, kMostLaunches, "1,16,128,512");
}

}  // namespace

std::vector<WorkloadSpec> Launches(Machine& machine) {
  WorkloadSpec empty = SpecOf("EmptyKernel", "kernels that do nothing");
  empty.axes = {LaunchesAxis()};
  empty.make = [machine](const Settings& settings) {
    return std::make_unique<EmptyKernelWorkload>(machine, settings.Integer("launches"));
  };
  WorkloadSpec round_trip =
      SpecOf("RoundTrip", "launch an empty kernel and wait until it is known to be done");
  round_trip.make = [machine](const Settings&) {
    return std::make_unique<RoundTripWorkload>(machine);
  };
  WorkloadSpec pieces = SpecOf("Pieces", "a fixed amount of arithmetic in pieces");
  pieces.axes = {LaunchesAxis(),
                 IntegerAxis("total_steps", "multiply-adds for each value, of all together", 1,
                             kMostSteps, "65536")};
  pieces.excluded = [](const Settings& settings) {
    return settings.Integer("total_steps") % settings.Integer("launches") == 0
               ? ""
               : "total_steps must be a multiple of launches";
  };
  pieces.make = MakerOf<PiecesWorkload>(machine);
  return {empty, round_trip, pieces};
}

}  // namespace overlapbench
