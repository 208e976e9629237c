// ForwardingWorkload: passes every call on to another workload. What wraps a workload derives from
// it and overrides what it changes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "workload/workload.h"

namespace overlapbench {

class ForwardingWorkload : public Workload {
 public:
  explicit ForwardingWorkload(std::unique_ptr<Workload> workload)
      : workload_(std::move(workload)) {}

  void Connect() override { workload_->Connect(); }
  [[nodiscard]] Cost cost() const override { return workload_->cost(); }
  void Reset(Stream& stream) override { workload_->Reset(stream); }
  void PoisonResult(Stream& stream) override { workload_->PoisonResult(stream); }
  void Enqueue(Stream& stream) override { workload_->Enqueue(stream); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    workload_->EnqueuePart(stream, part);
  }
  [[nodiscard]] bool enqueue_waits() const override { return workload_->enqueue_waits(); }
  [[nodiscard]] std::string gate_advice() const override { return workload_->gate_advice(); }
  Verdict Verify(Stream& stream) override { return workload_->Verify(stream); }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return workload_->Fingerprint();
  }
  [[nodiscard]] std::string IneffectiveKnob() override { return workload_->IneffectiveKnob(); }
  [[nodiscard]] std::optional<long> sms() const override { return workload_->sms(); }
  [[nodiscard]] std::optional<double> Observed() const override { return workload_->Observed(); }

 private:
  std::unique_ptr<Workload> workload_;
};

}  // namespace overlapbench
