// The Workload: the one idea that carries the suite.
//
// A workload is something that can be enqueued on a stream, that knows its cost and that can verify
// its own result: a GEMM, an all-reduce, a host-to-device copy. Fixtures time one workload (a
// baseline) or two on two streams (an overlap) and know nothing else about it.
//
// A `WorkloadSpec` is how a workload is offered: its name, its axes with their default values, what
// it needs, how much memory it takes, and how it is made. Writing one is writing one file;
// registering it is one line in kernels/kernels.def or comm/comm.def (registry.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "ranks/ranks.h"
#include "workload/axis.h"

namespace overlapbench {

// What one Enqueue costs, in all.
struct Cost {
  double flops = 0;         // floating-point operations
  double moved_bytes = 0;   // bytes read plus bytes written in this device's memory
  double copied_bytes = 0;  // bytes of a copy from one memory to another, counted once
  double wire_bytes = 0;    // a collective's size in bytes, as nccl-tests counts it (algbw)
  double bus_factor = 0;    // busbw = algbw × bus_factor (nccl-tests, doc/PERFORMANCE.md)
};

// What verification found.
struct Verdict {
  double max_rel_err = 0;
  double tolerance = 0;
  std::string fault;  // "" when the result is right; else where it first differs
};

class Workload {
 public:
  virtual ~Workload() = default;
  [[nodiscard]] virtual Cost cost() const = 0;
  // Fills the inputs with random values and poisons the outputs.
  virtual void Reset(Stream& stream) = 0;
  // The measured work. May be called any number of times between Reset and Verify, and need not
  // leave a right result after more than one call.
  virtual void Enqueue(Stream& stream) = 0;
  // Whether Enqueue may wait for work enqueued before it, so that it must not be called behind a
  // closed gate: a copy of pageable memory, for one.
  [[nodiscard]] virtual bool enqueue_waits() const { return false; }
  // Checks the result of exactly one Enqueue after a Reset. Waits for `stream`.
  virtual Verdict Verify(Stream& stream) = 0;
  // A number that two workloads share, after Verify, exactly if their results are the same to the
  // bit (but for the chance of one in 2^64); nothing where the workload has no result on the host.
  [[nodiscard]] virtual std::optional<std::uint64_t> Fingerprint() const { return std::nullopt; }
  // Why the workload's knobs did not have the effect that was asked for; "" when they did.
  [[nodiscard]] virtual std::string IneffectiveKnob() { return ""; }
};

// What workloads are made from.
struct Machine {
  Device& device;
  Ranks& ranks;
};

struct Footprint {
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
};

enum class Side : unsigned char { kCompute, kComm, kMemory };

struct WorkloadSpec {
  std::string name;  // as in benchmark names: "AllToAll", "Gemm"
  Side side = Side::kCompute;
  std::string summary;   // one line for --list_axes
  bool baseline = true;  // whether it also stands alone, in Compute or Comm
  std::vector<Axis> axes;
  // What this machine lacks to run it, with the reason; "" when nothing.
  std::string missing;
  // Why a combination of values does not exist; "" when it does. May be empty: all exist.
  std::function<std::string(const Settings&)> excluded;
  std::function<Footprint(const Settings&)> footprint;
  // What all ranks do together before it can be made, such as a communicator. May be empty. Apart
  // from `make`, so that a rank that fails to make it leaves nobody waiting.
  std::function<void()> connect;
  std::function<std::unique_ptr<Workload>(const Settings&)> make;
};

}  // namespace overlapbench
