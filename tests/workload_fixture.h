// WorkloadFixture: the workloads that this build and this machine have, on each backend, and the
// stages of an array as separate workloads, which otherwise only scenarios make.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "comm/staged_array.h"
#include "recording_device.h"
#include "test_ranks.h"

namespace overlapbench {

// Copies a batch piece by piece on the host, whose device has no such call.
class BatchingDevice : public RecordingDevice {
 public:
  explicit BatchingDevice(std::unique_ptr<Device> device)
      : RecordingDevice(std::move(device)), info_(RecordingDevice::info()) {
    info_.no_batch_copy = "";
  }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    if (backend() == Backend::kCuda) return RecordingDevice::CopyBatch(stream, pieces);
    for (const auto& [destination, source, bytes] : pieces) stream.Copy(destination, source, bytes);
  }

 private:
  DeviceInfo info_;
};

inline StagedShape ShapeOf(const Settings& settings) {
  const long parts = settings.Integer("parts");
  return {parts, parts, settings.Integer("part_elements"),
          static_cast<int>(settings.Integer("steps_added")),
          MemoryKindNamed(settings.Text("memory"))};
}

// A stage of an array as a separate workload; otherwise only scenarios make one.
inline WorkloadSpec StageSpec(const Machine& machine, const char* name, Stage stage) {
  WorkloadSpec spec;
  spec.name = name;
  spec.axes = {IntegerAxis("parts", "", 1, 1000, "3"),
               IntegerAxis("part_elements", "", 1, 1L << 20, "1024"),
               IntegerAxis("steps_added", "", 1, 1000, "3"),
               ChoiceAxis("memory", "", {"pinned", "registered", "pageable"}, "pinned")};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return NoSuchMemory(device, settings);
  };
  spec.make = [machine, stage](const Settings& settings) {
    return StagedArray::MakeStage(std::make_shared<StagedArray>(machine, ShapeOf(settings)), stage);
  };
  return spec;
}

class WorkloadFixture : public RanksOnEachBackend {
 protected:
  using Values = std::map<std::string, std::string>;

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    FillRegistry(registry_, machine());
    registry_.Add({StageSpec(machine(), "StageIn", Stage::kIn),
                   StageSpec(machine(), "StageCompute", Stage::kCompute),
                   StageSpec(machine(), "StageOut", Stage::kOut)});
  }
  [[nodiscard]] std::unique_ptr<Device> OpenDevice() const override {
    return std::make_unique<BatchingDevice>(OnEachBackend::OpenDevice());
  }

  [[nodiscard]] const std::vector<WorkloadSpec>& specs() const { return registry_.specs(); }
  const WorkloadSpec& Spec(const std::string& name) { return registry_.Find(name); }
  // At the default value of every axis that `values` does not name.
  Settings SettingsOf(const std::string& name, const Values& values) {
    Settings settings;
    for (const auto& axis : Spec(name).axes) {
      const auto own = values.find(axis.name);
      settings.Set(axis, own == values.end() ? axis.values.front() : axis.canonical(own->second));
    }
    return settings;
  }
  std::unique_ptr<Workload> Make(const std::string& name, const Values& values) {
    auto workload = Spec(name).make(SettingsOf(name, values));
    workload->Connect();
    return workload;
  }
  void Run(Workload& workload) {
    workload.Enqueue(stream());
    Finish();
  }

 private:
  Registry registry_;
};

}  // namespace overlapbench
