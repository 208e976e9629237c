#include "comm/staged_array.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "workload/data.h"
#include "workload/steps.h"

namespace overlapbench {

Footprint StagedShape::footprint() const {
  const auto bytes = [](long elements) {
    return static_cast<std::size_t>(elements) * sizeof(float);
  };
  return {bytes(slots * part_elements), 2 * bytes(elements())};
}

MemoryKind MemoryKindNamed(std::string_view name) {
  if (name == "pageable") return MemoryKind::kPageable;
  return name == "registered" ? MemoryKind::kRegistered : MemoryKind::kPinned;
}

std::string NoSuchMemory(const Device& device, const Settings& settings) {
  if (device.backend() == Backend::kCuda || !settings.Has("memory")) return "";
  if (settings.Text("memory") == "pinned") return "";
  return "the host backend has one kind of memory: use memory:pinned";
}

StagedArray::StagedArray(const Machine& machine, const StagedShape& shape)
    : machine_(machine),
      shape_(shape),
      input_(machine.device.Allocate(shape.footprint().host_bytes / 2, shape.memory)),
      result_(machine.device.Allocate(shape.footprint().host_bytes / 2, shape.memory)),
      slots_(machine.device.Allocate(shape.footprint().device_bytes, MemoryKind::kDevice)) {}

float* StagedArray::slot(long part) const {
  return static_cast<float*>(slots_.data()) + part % shape_.slots * shape_.part_elements;
}

class StagedArray::StageWorkload : public Workload {
 public:
  StageWorkload(std::shared_ptr<StagedArray> array, Stage stage)
      : array_(std::move(array)), stage_(stage), shape_(array_->shape_) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    const auto elements = static_cast<double>(shape_.elements());
    if (stage_ == Stage::kCompute)
      cost.flops = 2 * elements * shape_.steps;
    else
      cost.copied_bytes = cost.host_bytes = elements * sizeof(float);
    return cost;
  }
  [[nodiscard]] bool enqueue_waits() const override {
    return stage_ != Stage::kCompute && shape_.memory == MemoryKind::kPageable;
  }

  // A stage's input is generated on the device, then copied to where the stage reads it.
  void Reset(Stream& stream) override {
    if (stage_ != Stage::kIn) {
      ForEachWindow([&](long first, long count) {
        FillPart(stream, first, count);
        if (stage_ == Stage::kOut)
          EnqueueSteps(device(), stream, slot(first), slot(first), Elements(count), shape_.steps);
      });
      if (stage_ == Stage::kOut) PoisonOnHost(stream);
      return;
    }
    ForEachWindow([&](long first, long count) {
      FillPart(stream, first, count);
      stream.Copy(input(first), slot(first), Bytes(count));
    });
    Poison(stream, slot(0), array_->slots_.bytes());
  }

  void Enqueue(Stream& stream) override { EnqueueParts(stream, 0, shape_.parts); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    EnqueueParts(stream, part.index, 1);
  }

  Verdict Verify(Stream& stream) override {
    Verdict verdict;
    if (stage_ == Stage::kOut) {
      ForEachWindow([&](long first, long count) {
        if (!verdict.fault.empty()) return;
        Poison(stream, slot(first), Bytes(count));
        stream.Copy(slot(first), result(first), Bytes(count));
        verdict = Compare(stream, first, count);
      });
    } else {  // the slots hold the last parts
      for (long part = shape_.parts - shape_.slots; part < shape_.parts; ++part)
        if (verdict.fault.empty()) verdict = Compare(stream, part, 1);
    }
    return verdict;
  }

  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    if (stage_ != Stage::kOut) return std::nullopt;
    return FingerprintOf(array_->result_.data(), array_->result_.bytes());
  }

 private:
  // Visits stretches of parts that have slots at the same time; their slots are contiguous.
  template <class Visit>
  void ForEachWindow(const Visit& visit) {
    for (long first = 0; first < shape_.parts; first += shape_.slots)
      visit(first, std::min(shape_.slots, shape_.parts - first));
  }

  void EnqueueParts(Stream& stream, long first, long count) {
    switch (stage_) {
      case Stage::kIn:
        return stream.Copy(slot(first), input(first), Bytes(count));
      case Stage::kCompute:
        return EnqueueSteps(device(), stream, slot(first), slot(first), Elements(count),
                            shape_.steps);
      case Stage::kOut:
        return stream.Copy(result(first), slot(first), Bytes(count));
    }
  }
  // Fills a part with the same values as in the whole array.
  void FillPart(Stream& stream, long first, long count) {
    FillSteps(stream, slot(first), first * shape_.part_elements, Elements(count));
  }
  void PoisonOnHost(Stream& stream) {
    stream.Synchronize(array_->machine_.timeout, "filling a copy's source");
    std::fill_n(static_cast<unsigned char*>(array_->result_.data()), array_->result_.bytes(), 0xFF);
  }
  Verdict Compare(Stream& stream, long first, long count) {
    return FindFaultInSteps(array_->machine_, stream, slot(first), first * shape_.part_elements,
                            Elements(count), stage_ == Stage::kIn ? 0 : shape_.steps);
  }

  [[nodiscard]] Device& device() const { return array_->machine_.device; }
  [[nodiscard]] long Elements(long parts) const { return parts * shape_.part_elements; }
  [[nodiscard]] std::size_t Bytes(long parts) const { return Elements(parts) * sizeof(float); }
  [[nodiscard]] float* slot(long part) const { return array_->slot(part); }
  [[nodiscard]] float* input(long part) const {
    return static_cast<float*>(array_->input_.data()) + Elements(part);
  }
  [[nodiscard]] float* result(long part) const {
    return static_cast<float*>(array_->result_.data()) + Elements(part);
  }

  std::shared_ptr<StagedArray> array_;
  Stage stage_;
  const StagedShape& shape_;
};

std::unique_ptr<Workload> StagedArray::MakeStage(std::shared_ptr<StagedArray> array, Stage stage) {
  return std::make_unique<StageWorkload>(std::move(array), stage);
}

}  // namespace overlapbench
