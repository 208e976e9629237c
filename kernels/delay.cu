// Delay: takes a known time and does nothing else, the ground truth of the method's own tests.
//
// On a GPU one thread watches the nanosecond clock %globaltimer (PTX ISA, "Special Registers"); on
// the host the worker sleeps and watches the clock for the last stretch. It occupies one SM, or
// hardly any core, so that two delays on two streams must overlap perfectly, and on one stream not
// at all. It verifies itself: the clock it saw at its end must be at least the delay after its
// start.

#include <array>
#include <chrono>
#include <thread>

#include "device/cuda/gpu_clock.h"
#include "device/launch.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

#ifndef __CUDA_ARCH__
using Clock = std::chrono::steady_clock;

long NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// Sleeping is exact to some tens of microseconds only, on virtual machines to a few hundred, so the
// last stretch is watched.
void HostSleep(long duration_ns) {
  constexpr std::chrono::microseconds kWatched(400);
  const auto end = Clock::now() + std::chrono::nanoseconds(duration_ns);
  std::this_thread::sleep_until(end - kWatched);
  while (Clock::now() < end) {
  }
}
#endif

struct DelayBody {
  static constexpr int kThreads = 1;
  long duration_ns;
  long* elapsed_ns;

  OVERLAPBENCH_BODY void operator()(const Block& /*block*/) const {
#ifdef __CUDA_ARCH__
    const auto start = static_cast<long>(GpuNow_ns());
    long now = start;
    while (now - start < duration_ns) now = static_cast<long>(GpuNow_ns());
    *elapsed_ns = now - start;
#else
    const long start = NowNs();
    HostSleep(duration_ns);
    *elapsed_ns = NowNs() - start;
#endif
  }
};

class DelayWorkload : public Workload {
 public:
  DelayWorkload(Machine& machine, const Settings& settings, const std::string& axis)
      : machine_(machine),
        duration_ns_(settings.Integer(axis) * 1000),
        elapsed_ns_(machine.device.Allocate(sizeof(long), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override { return {}; }

  void Reset(Stream& stream) override { stream.Copy(elapsed_ns_.data(), &kUnset, sizeof(long)); }

  void Enqueue(Stream& stream) override {
    Launch(stream, 1, DelayBody{duration_ns_, static_cast<long*>(elapsed_ns_.data())});
  }

  Verdict Verify(Stream& stream) override {
    long elapsed_ns = kUnset;
    stream.Copy(&elapsed_ns, elapsed_ns_.data(), sizeof(long));
    stream.Synchronize(machine_.timeout, "verifying Delay");
    if (elapsed_ns >= duration_ns_) return {};
    return {1, 0,
            "the delay took " + std::to_string(elapsed_ns) + " ns, expected at least " +
                std::to_string(duration_ns_)};
  }

 private:
  static constexpr long kUnset = -1;
  Machine machine_;
  long duration_ns_;
  Buffer elapsed_ns_;
};

WorkloadSpec DelaySpec(Machine& machine, const std::string& name, WorkClass work_class,
                       const std::string& axis, const std::string& default_us) {
  WorkloadSpec spec;
  spec.name = name;
  spec.work_class = work_class;
  spec.summary = "runs for a known time: the ground truth for testing the method";
  spec.axes = {IntegerAxis(axis, "microseconds", 1, 60'000'000, default_us)};
  spec.footprint = [](const Settings&) { return Footprint{sizeof(long), 0}; };
  spec.make = [machine, axis](const Settings& settings) mutable {
    return std::make_unique<DelayWorkload>(machine, settings, axis);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Delays(Machine& machine) {
  const auto delay = DelaySpec(machine, "Delay", WorkClass::kCompute, "delay_us", "4000");
  // The same for the communication side of a pair, with an axis of its own.
  auto second = DelaySpec(machine, "SecondDelay", WorkClass::kComm, "second_delay_us", "2000");
  second.baseline = false;
  return {delay, second};
}

}  // namespace overlapbench
