// Workload: one operation that can be enqueued on a stream, knows its cost, and can verify its own
// result: a GEMM, an all-reduce, a host-to-device copy. Schedules (fixtures/schedule.h) are made of
// workloads and know nothing else about them.
//
// A `WorkloadSpec` offers a workload: its name, its axes with their default values, what it needs,
// how much memory it takes, and how it is made. A new workload is one file, and one line in
// kernels/kernels.def or comm/comm.def (registry.h). docs/adding-a-workload.md shows one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "workload/axis.h"

namespace overlapbench {

class Ranks;

// The sizes of a matrix product: m × k times k × n.
struct MatrixProduct {
  long m = 0;
  long n = 0;
  long k = 0;
  [[nodiscard]] double flops() const {
    return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// The total cost of one Enqueue.
struct Cost {
  double flops = 0;         // floating-point operations
  double moved_bytes = 0;   // bytes read plus bytes written in this device's memory
  double cached_bytes = 0;  // bytes read from a cache or from shared memory, again and again
  double copied_bytes = 0;  // bytes copied from one memory to another, counted once
  double host_bytes = 0;    // of those, the ones to or from the host's memory
  // Of a communication or copy: approximately what it reads and writes in this device's memory.
  double memory_bytes = 0;
  double wire_bytes = 0;       // a collective's size in bytes, as nccl-tests counts it (algbw)
  double bus_factor = 0;       // busbw = algbw × bus_factor (nccl-tests, doc/PERFORMANCE.md)
  MatrixProduct product = {};  // the largest matrix product; empty if there is none

  // Adds a product that is done so many times.
  void Add(const MatrixProduct& shape, double times = 1) {
    flops += shape.flops() * times;
    if (shape.flops() > product.flops()) product = shape;
  }
};

// What verification found.
struct Verdict {
  double max_rel_err = 0;
  double tolerance = 0;
  std::string fault;  // where the result is wrong; "" if it is right
};

// Part `index` of `count` equal parts.
struct Part {
  long index = 0;
  long count = 1;
};

class Workload {
 public:
  virtual ~Workload() = default;
  // What all ranks do together before anything else, such as making a communicator or memory that
  // others can access. By then every rank has made the workload.
  virtual void Connect() {}
  [[nodiscard]] virtual Cost cost() const = 0;
  // Fills the inputs with random values and poisons the outputs.
  virtual void Reset(Stream& stream) = 0;
  // Poisons the outputs once more, after all works of a run are reset. Needed where a work's Reset
  // fills another work's output, as among works that wait for each other in turn.
  virtual void PoisonResult(Stream& /*stream*/) {}
  // The measured work. It may be called any number of times between Reset and Verify. The result
  // needs to be right after exactly one call.
  virtual void Enqueue(Stream& stream) = 0;
  // Enqueues one of `part.count` equal parts of the work. There are at least two parts; Enqueue
  // does the whole. Workloads that cannot be cut into parts throw Error.
  virtual void EnqueuePart(Stream& stream, const Part& part);
  // Whether Enqueue may wait for earlier work on the device, as a copy of pageable memory does. It
  // must then not be called behind a closed gate.
  [[nodiscard]] virtual bool enqueue_waits() const { return false; }
  // What to do if Enqueue waits behind a closed gate although enqueue_waits() is false: the row is
  // then an error that says so. "": the row is measured without a gate, and says that.
  [[nodiscard]] virtual std::string gate_advice() const { return ""; }
  // Checks the result of exactly one Enqueue after a Reset. Waits for `stream`.
  virtual Verdict Verify(Stream& stream) = 0;
  // A hash of the result, available after Verify. Two workloads have the same fingerprint if their
  // results are bit-identical, and otherwise only with a chance of one in 2^64. nullopt if the
  // workload has no result on the host.
  [[nodiscard]] virtual std::optional<std::uint64_t> Fingerprint() const { return std::nullopt; }
  // Why the workload's knobs did not have the requested effect; "" if they did. Called by all ranks
  // together.
  [[nodiscard]] virtual std::string IneffectiveKnob() { return ""; }
  // The number of SMs that it uses, as found by IneffectiveKnob(); nullopt if unknown.
  [[nodiscard]] virtual std::optional<long> sms() const { return std::nullopt; }
  // A value that it has observed since Reset(), in a unit of its own; nullopt: it observes nothing.
  [[nodiscard]] virtual std::optional<double> Observed() const { return std::nullopt; }
};

// What workloads are made from.
struct Machine {
  Device& device;
  Ranks& ranks;
  // How long a workload may wait for anything.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // Ranks may share a GPU. Their results are right, but their times are meaningless.
  bool shares_gpus = false;
  // How many SMs the library plans the layers' matrix products for; 0: all.
  int sm_target = 0;
};

struct Footprint {
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
};

// The resource that a workload keeps busy. Timelines and profiler ranges show it.
enum class WorkClass : unsigned char { kCompute, kComm, kMemory };
// "COMP", "COMM" or "MEM".
const char* ToString(WorkClass work_class);

struct WorkloadSpec {
  std::string name;  // as in benchmark names: "AllToAll", "Gemm"
  WorkClass work_class = WorkClass::kCompute;
  std::string summary;   // one line for --list_axes
  bool baseline = true;  // whether it is also measured alone, in Compute or Comm
  bool collective = false;
  std::vector<Axis> axes;
  // Of a communication or copy: whether a copy engine moves its data, which takes no SMs. An empty
  // function: none does.
  std::function<bool(const Settings&)> by_copy_engine;
  [[nodiscard]] bool IsByCopyEngine(const Settings& settings) const {
    return by_copy_engine && by_copy_engine(settings);
  }
  // Why this machine cannot run it; "" if it can.
  std::string missing;
  // Why a combination of values does not exist; "" if it does. An empty function: all exist.
  std::function<std::string(const Settings&)> excluded;
  std::function<Footprint(const Settings&)> footprint;
  // May be called by one rank alone; Workload::Connect does what needs the others.
  std::function<std::unique_ptr<Workload>(const Settings&)> make;
};

}  // namespace overlapbench
