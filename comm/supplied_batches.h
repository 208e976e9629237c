// SuppliedBatches: batches that host threads make, and that the device copies in and computes on.
//
// A producer makes a batch by copying it from a data set into page-locked memory. This takes
// `make_time` in total: after the copy, the producer works (decoding, augmenting) or sleeps
// (storage, network) for the rest of it. Computing adds a number of steps to each value
// (workload/steps.h). Each stage is a workload whose parts are the batches. Every batch has memory
// of its own on the host and on the device, so that all can be checked: each must have arrived once
// and whole.
#pragma once

#include <chrono>
#include <memory>

#include "workload/workload.h"

namespace overlapbench {

struct SupplyShape {
  long batches = 1;
  long elements = 0;  // float32 values of a batch
  int steps = 0;
  std::chrono::microseconds make_time = {};
  bool works = false;  // true: works after the copy; false: sleeps

  [[nodiscard]] std::size_t batch_bytes() const { return elements * sizeof(float); }
  [[nodiscard]] std::size_t all_bytes() const { return batches * batch_bytes(); }
};

// kConsume copies and computes.
enum class SupplyStage : unsigned char { kMake, kCopy, kCompute, kConsume };

class SuppliedBatches {
 public:
  SuppliedBatches(const Machine& machine, const SupplyShape& shape);

  // The stage as a workload, which keeps the batches alive. kMake runs on a host stream.
  static std::unique_ptr<Workload> MakeStage(std::shared_ptr<SuppliedBatches> batches,
                                             SupplyStage stage);

 private:
  class StageWorkload;
  class MakeWorkload;
  class DeviceWorkload;

  [[nodiscard]] float* At(const Buffer& buffer, long batch) const {
    return static_cast<float*>(buffer.data()) + batch * shape_.elements;
  }

  Machine machine_;
  SupplyShape shape_;
  Buffer data_set_;
  Buffer made_;
  Buffer results_;  // on the device
};

}  // namespace overlapbench
