#include "comm/supplied_batches.h"

#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "workload/data.h"
#include "workload/steps.h"

namespace overlapbench {

using Clock = std::chrono::steady_clock;

class SuppliedBatches::StageWorkload : public Workload {
 public:
  explicit StageWorkload(std::shared_ptr<SuppliedBatches> batches) : batches_(std::move(batches)) {}

  void Enqueue(Stream& stream) override {
    for (long batch = 0; batch < shape().batches; ++batch)
      EnqueuePart(stream, {batch, shape().batches});
  }

 protected:
  [[nodiscard]] const SupplyShape& shape() const { return batches_->shape_; }
  [[nodiscard]] float* results() const { return batches_->At(batches_->results_, 0); }
  void FillResults(Stream& stream) const {
    FillSteps(stream, results(), 0, shape().batches * shape().elements);
  }
  void PoisonAll(Stream& stream) const { Poison(stream, results(), shape().all_bytes()); }
  // Fills `buffer`, on the host, with the data set's contents.
  void FillFromDevice(Stream& stream, const Buffer& buffer) const {
    FillResults(stream);
    stream.Copy(buffer.data(), results(), shape().all_bytes());
    stream.Synchronize(batches_->machine_.timeout, "filling the data set");
  }
  [[nodiscard]] Verdict VerdictOnResults(Stream& stream, int steps) const {
    return FindFaultInSteps(batches_->machine_, stream, results(), 0,
                            shape().batches * shape().elements, steps);
  }

  std::shared_ptr<SuppliedBatches> batches_;
};

class SuppliedBatches::MakeWorkload : public StageWorkload {
 public:
  using StageWorkload::StageWorkload;
  [[nodiscard]] Cost cost() const override { return {}; }
  void Reset(Stream& stream) override {
    FillFromDevice(stream, batches_->data_set_);
    std::memset(batches_->made_.data(), 0xFF, shape().all_bytes());
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    stream.Enqueue([this, batch = part.index] { Make(batch); });
  }
  Verdict Verify(Stream& stream) override {
    PoisonAll(stream);
    stream.Copy(results(), batches_->made_.data(), shape().all_bytes());
    return VerdictOnResults(stream, 0);
  }

 private:
  void Make(long batch) const {
    const auto done = Clock::now() + shape().make_time;
    std::memcpy(batches_->At(batches_->made_, batch), batches_->At(batches_->data_set_, batch),
                shape().batch_bytes());
    if (!shape().works) std::this_thread::sleep_until(done);
    while (Clock::now() < done) {
    }
  }
};

// Copies, computes, or both.
class SuppliedBatches::DeviceWorkload : public StageWorkload {
 public:
  DeviceWorkload(std::shared_ptr<SuppliedBatches> batches, SupplyStage stage)
      : StageWorkload(std::move(batches)),
        copies_(stage != SupplyStage::kCompute),
        computes_(stage != SupplyStage::kCopy) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    if (copies_) cost.copied_bytes = cost.host_bytes = static_cast<double>(shape().all_bytes());
    return cost;
  }
  void Reset(Stream& stream) override {
    if (!copies_) return FillResults(stream);
    FillFromDevice(stream, batches_->made_);
    PoisonResult(stream);
  }
  // Reset makes the data set in the results' memory, so poison that afterwards.
  void PoisonResult(Stream& stream) override {
    if (copies_) PoisonAll(stream);
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    float* const result = batches_->At(batches_->results_, part.index);
    if (copies_)
      stream.Copy(result, batches_->At(batches_->made_, part.index), shape().batch_bytes());
    if (computes_)
      EnqueueSteps(batches_->machine_.device, stream, result, result, shape().elements,
                   shape().steps);
  }
  Verdict Verify(Stream& stream) override {
    fingerprint_ = FingerprintOnDevice(batches_->machine_.device, stream, results(),
                                       shape().all_bytes(), 0, batches_->machine_.timeout);
    return VerdictOnResults(stream, computes_ ? shape().steps : 0);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 private:
  bool copies_;
  bool computes_;
  std::optional<std::uint64_t> fingerprint_;
};

SuppliedBatches::SuppliedBatches(const Machine& machine, const SupplyShape& shape)
    : machine_(machine),
      shape_(shape),
      data_set_(machine.device.Allocate(shape.all_bytes(), MemoryKind::kPageable)),
      made_(machine.device.Allocate(shape.all_bytes(), MemoryKind::kPinned)),
      results_(machine.device.Allocate(shape.all_bytes(), MemoryKind::kDevice)) {}

std::unique_ptr<Workload> SuppliedBatches::MakeStage(std::shared_ptr<SuppliedBatches> batches,
                                                     SupplyStage stage) {
  if (stage == SupplyStage::kMake) return std::make_unique<MakeWorkload>(std::move(batches));
  return std::make_unique<DeviceWorkload>(std::move(batches), stage);
}

}  // namespace overlapbench
