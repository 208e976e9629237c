// Workloads for tests: a fake whose behaviour a test defines, and a delay of known length; and
// functions that make works of them, for schedules.
//
// A test whose delays stand behind a closed gate calls LoadDelay first: a kernel that first appears
// there is never loaded.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "benchmarks/catalog.h"
#include "fixtures/schedule.h"
#include "workload/registry.h"

namespace overlapbench {

struct Behaviour {
  std::function<void()> make = [] {};
  std::function<void()> connect = [] {};
  std::function<void()> reset = [] {};
  std::function<void()> poison = [] {};  // what PoisonResult does
  std::function<void(Stream&)> enqueue = [](Stream&) {};
  std::function<void(const Part&)> part = [](const Part&) {};  // called before `enqueue`
  std::function<std::string()> fault = [] { return ""; };      // what Verify finds
  double max_rel_err = 0;
  Cost cost;
  std::optional<std::uint64_t> fingerprint;
  bool enqueue_waits = false;
  std::string gate_advice;
  std::string knob_fault;
  std::optional<long> sms;
  Footprint footprint;
};

class FakeWorkload : public Workload {
 public:
  explicit FakeWorkload(const Behaviour& behaviour) : behaviour_(behaviour) { behaviour_.make(); }
  void Connect() override { behaviour_.connect(); }
  [[nodiscard]] Cost cost() const override { return behaviour_.cost; }
  void Reset(Stream& /*stream*/) override { behaviour_.reset(); }
  void PoisonResult(Stream& /*stream*/) override { behaviour_.poison(); }
  void Enqueue(Stream& stream) override { behaviour_.enqueue(stream); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    behaviour_.part(part);
    Enqueue(stream);
  }
  [[nodiscard]] bool enqueue_waits() const override { return behaviour_.enqueue_waits; }
  [[nodiscard]] std::string gate_advice() const override { return behaviour_.gate_advice; }
  Verdict Verify(Stream& /*stream*/) override {
    return {behaviour_.max_rel_err, 0, behaviour_.fault()};
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return behaviour_.fingerprint;
  }
  std::string IneffectiveKnob() override { return behaviour_.knob_fault; }
  [[nodiscard]] std::optional<long> sms() const override { return behaviour_.sms; }

 private:
  const Behaviour& behaviour_;
};

// `behaviour` must outlive the spec.
inline WorkloadSpec FakeSpec(const std::string& name, WorkClass work_class,
                             const Behaviour& behaviour) {
  WorkloadSpec spec;
  spec.name = name;
  spec.work_class = work_class;
  spec.footprint = [&behaviour](const Settings&) { return behaviour.footprint; };
  spec.make = [&behaviour](const Settings&) { return std::make_unique<FakeWorkload>(behaviour); };
  return spec;
}

// `behaviour` must outlive the work.
inline Work FakeWork(const std::string& name, WorkClass work_class, const Behaviour& behaviour) {
  return MakeWork(FakeSpec(name, work_class, behaviour), {});
}

// The workload Delay (kernels/delay.cu).
inline Work DelayWork(Machine& machine, const std::string& name, std::chrono::microseconds delay) {
  Registry registry;
  FillRegistry(registry, machine);
  const WorkloadSpec& spec = registry.Find("Delay");
  return MakeWork(spec, SettingsOf(spec.axes, {{"delay_us", std::to_string(delay.count())}}), name);
}

// Runs a delay once, which loads its kernel.
inline void LoadDelay(Machine& machine) {
  const auto stream = machine.device.CreateStream();
  const auto delay = DelayWork(machine, "load", std::chrono::microseconds(1))->make();
  delay->Enqueue(*stream);
  stream->Synchronize(machine.timeout, "loading the delay's kernel");
}

}  // namespace overlapbench
