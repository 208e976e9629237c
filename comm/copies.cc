// Copies: HostToDevice, DeviceToHost, and DeviceCopy within this device's memory.
//
// Page-locked host memory is copied at the full rate of the bus; it makes no difference whether it
// was allocated so (pinned) or locked afterwards (registered). Pageable memory goes through the
// driver's staging buffer and makes the enqueueing thread wait (CUDA C++ Programming Guide,
// "Asynchronous Concurrent Execution"). On the host backend all are plain memory copies.
// engine:copy leaves the choice to the device, which takes a copy engine for copies over the bus
// and SMs for copies in its own memory; engine:sm is a kernel of ours. Results are compared
// exactly, on the device.

#include "comm/host_data.h"
#include "comm/sm_copy.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 2000;
constexpr int kMost = 256;

enum class Route : std::uint8_t { kHostToDevice, kDeviceToHost, kWithinDevice };

class CopyWorkload : public Workload {
 public:
  CopyWorkload(const Machine& machine, const Settings& settings, Route route)
      : machine_(machine),
        route_(route),
        other_kind_(route == Route::kWithinDevice ? MemoryKind::kDevice
                                                  : MemoryKindNamed(settings.Text("memory"))),
        by_sm_(settings.Text("engine") == "sm"),
        bytes_(settings.Integer("bytes")),
        device_(machine.device.Allocate(bytes_, MemoryKind::kDevice)),
        other_(machine.device.Allocate(bytes_, other_kind_)) {}

  // A copy within the device's memory both reads and writes it.
  [[nodiscard]] Cost cost() const override {
    Cost cost;
    if (route_ == Route::kWithinDevice)
      cost.moved_bytes = 2 * static_cast<double>(bytes_);
    else
      cost.copied_bytes = static_cast<double>(bytes_);
    return cost;
  }

  [[nodiscard]] bool enqueue_waits() const override { return other_kind_ == MemoryKind::kPageable; }

  // The device makes the data; what is to come from elsewhere is first brought there.
  void Reset(Stream& stream) override {
    FillIntegers(stream, device_.data(), count(), Element::kInt32, kSeed, kMost);
    if (route_ == Route::kHostToDevice) {
      stream.Copy(other_.data(), device_.data(), bytes_);
      Poison(stream, device_.data(), bytes_);
    } else if (route_ == Route::kWithinDevice) {
      Poison(stream, other_.data(), bytes_);
    } else {
      stream.Synchronize(machine_.ranks.timeout(), "filling a copy's source");
      std::fill_n(static_cast<unsigned char*>(other_.data()), bytes_, 0xFF);
    }
  }

  void Enqueue(Stream& stream) override {
    const bool to_device = route_ == Route::kHostToDevice;
    void* destination = to_device ? device_.data() : other_.data();
    const void* source = to_device ? other_.data() : device_.data();
    if (by_sm_)
      EnqueueSmCopy(machine_.device, stream, destination, source, bytes_);
    else
      stream.Copy(destination, source, bytes_);
  }

  Verdict Verify(Stream& stream) override {
    if (route_ != Route::kHostToDevice) {
      Poison(stream, device_.data(), bytes_);
      stream.Copy(device_.data(), other_.data(), bytes_);
    }
    const ExpectedSegments expected{count(), 0, 0, 1, kMost, kSeed};
    const std::string fault = FindFault(machine_.device, stream, device_.data(), count(),
                                        Element::kInt32, expected, machine_.ranks.timeout());
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  [[nodiscard]] long count() const { return bytes_ / static_cast<long>(sizeof(std::int32_t)); }

  Machine machine_;
  Route route_;
  MemoryKind other_kind_;
  bool by_sm_;
  long bytes_;
  Buffer device_;
  Buffer other_;
};

std::string Excluded(const Device& device, const Settings& settings) {
  if (settings.Integer("bytes") % 4 != 0) return "bytes must be a multiple of 4";
  if (settings.Text("engine") == "sm" && settings.Has("memory") &&
      settings.Text("memory") == "pageable")
    return "an SM cannot reach pageable memory";
  return NoSuchMemory(device, settings);
}

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary, Route route) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kMemory;
  spec.summary = summary;
  spec.axes = {BytesAxis("bytes", "size of the copy", host ? "1M,16M" : "1M,64M,1G")};
  if (route != Route::kWithinDevice)
    spec.axes.push_back(ChoiceAxis("memory", "kind of host memory",
                                   {"pinned", "registered", "pageable"}, "pinned", "pinned"));
  spec.axes.push_back(ChoiceAxis("engine", "who copies: the device's choice, or a kernel",
                                 {"copy", "sm"}, "copy", "copy"));
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return Excluded(device, settings);
  };
  spec.footprint = [route](const Settings& settings) {
    const auto bytes = static_cast<std::size_t>(settings.Integer("bytes"));
    return route == Route::kWithinDevice ? Footprint{2 * bytes, 0} : Footprint{bytes, bytes};
  };
  spec.make = [machine, route](const Settings& settings) {
    return std::make_unique<CopyWorkload>(machine, settings, route);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Copies(Machine& machine) {
  return {
      SpecOf(machine, "HostToDevice", "copy from host memory to this device", Route::kHostToDevice),
      SpecOf(machine, "DeviceToHost", "copy from this device to host memory", Route::kDeviceToHost),
      SpecOf(machine, "DeviceCopy", "copy within this device's memory", Route::kWithinDevice)};
}

}  // namespace overlapbench
