// Copies between this device's memory and the host's: HostToDevice and DeviceToHost.
//
// Pinned host memory is copied by a copy engine at the full rate of the bus; pageable memory goes
// through the driver's staging buffer and makes the enqueueing thread wait (CUDA C++ Programming
// Guide, "Asynchronous Concurrent Execution"). On the host backend both are plain memory copies.
// Results are compared exactly, on the device.

#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 2000;
constexpr int kMost = 256;

class CopyWorkload : public Workload {
 public:
  CopyWorkload(const Machine& machine, const Settings& settings, bool to_device)
      : machine_(machine),
        to_device_(to_device),
        pageable_(settings.Text("memory") == "pageable"),
        bytes_(settings.Integer("bytes")),
        device_(machine.device.Allocate(bytes_, MemoryKind::kDevice)),
        host_(machine.device.Allocate(bytes_,
                                      pageable_ ? MemoryKind::kPageable : MemoryKind::kPinned)) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.copied_bytes = static_cast<double>(bytes_);
    return cost;
  }

  [[nodiscard]] bool enqueue_waits() const override { return pageable_; }

  // The device makes the data; what is to come from the host is first brought there.
  void Reset(Stream& stream) override {
    FillIntegers(stream, device_.data(), count(), Element::kInt32, kSeed, kMost);
    if (to_device_) {
      stream.Copy(host_.data(), device_.data(), bytes_);
      Poison(stream, device_.data(), bytes_);
    } else {
      stream.Synchronize(machine_.ranks.timeout(), "filling a copy's source");
      std::fill_n(static_cast<unsigned char*>(host_.data()), bytes_, 0xFF);
    }
  }

  void Enqueue(Stream& stream) override {
    void* destination = to_device_ ? device_.data() : host_.data();
    stream.Copy(destination, to_device_ ? host_.data() : device_.data(), bytes_);
  }

  Verdict Verify(Stream& stream) override {
    if (!to_device_) {
      Poison(stream, device_.data(), bytes_);
      stream.Copy(device_.data(), host_.data(), bytes_);
    }
    const ExpectedSegments expected{count(), 0, 0, 1, kMost, kSeed};
    const std::string fault = FindFault(machine_.device, stream, device_.data(), count(),
                                        Element::kInt32, expected, machine_.ranks.timeout());
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  [[nodiscard]] long count() const { return bytes_ / static_cast<long>(sizeof(std::int32_t)); }

  Machine machine_;
  bool to_device_;
  bool pageable_;
  long bytes_;
  Buffer device_;
  Buffer host_;
};

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary, bool to_device) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kMemory;
  spec.summary = summary;
  spec.axes = {
      BytesAxis("bytes", "size of the copy", host ? "1M,16M" : "1M,64M,1G"),
      ChoiceAxis("memory", "kind of host memory", {"pinned", "pageable"}, "pinned", "pinned")};
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("bytes") % 4 == 0 ? "" : "bytes must be a multiple of 4";
  };
  spec.footprint = [](const Settings& settings) {
    const auto bytes = static_cast<std::size_t>(settings.Integer("bytes"));
    return Footprint{bytes, bytes};
  };
  spec.make = [machine, to_device](const Settings& settings) {
    return std::make_unique<CopyWorkload>(machine, settings, to_device);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Copies(Machine& machine) {
  return {SpecOf(machine, "HostToDevice", "copy from host memory to this device", true),
          SpecOf(machine, "DeviceToHost", "copy from this device to host memory", false)};
}

}  // namespace overlapbench
