// A workload that does what a test tells it to, and how to make a benchmark of two such.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "workload/registry.h"

namespace overlapbench {

struct Behaviour {
  std::function<void()> make = [] {};
  std::function<void(Stream&)> enqueue = [](Stream&) {};
  std::function<std::string()> fault = [] { return ""; };  // what Verify finds
  Cost cost;
  std::optional<std::uint64_t> fingerprint;
  bool enqueue_waits = false;
  std::string knob_fault;
  Footprint footprint;
};

class FakeWorkload : public Workload {
 public:
  explicit FakeWorkload(const Behaviour& behaviour) : behaviour_(behaviour) { behaviour_.make(); }
  [[nodiscard]] Cost cost() const override { return behaviour_.cost; }
  void Reset(Stream& /*stream*/) override {}
  void Enqueue(Stream& stream) override { behaviour_.enqueue(stream); }
  [[nodiscard]] bool enqueue_waits() const override { return behaviour_.enqueue_waits; }
  Verdict Verify(Stream& /*stream*/) override { return {0, 0, behaviour_.fault()}; }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return behaviour_.fingerprint;
  }
  std::string IneffectiveKnob() override { return behaviour_.knob_fault; }

 private:
  const Behaviour& behaviour_;
};

// `behaviour` must outlive the spec.
inline WorkloadSpec FakeSpec(const std::string& name, Side side, const Behaviour& behaviour) {
  WorkloadSpec spec;
  spec.name = name;
  spec.side = side;
  spec.footprint = [&behaviour](const Settings&) { return behaviour.footprint; };
  spec.make = [&behaviour](const Settings&) { return std::make_unique<FakeWorkload>(behaviour); };
  return spec;
}

}  // namespace overlapbench
