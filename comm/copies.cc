// Copies: HostToDevice, DeviceToHost, and DeviceCopy within this device's memory.
//
// Page-locked host memory is copied at the full rate of the bus, whether it was allocated
// page-locked (memory:pinned) or locked afterwards (memory:registered). Pageable memory goes
// through the driver's staging buffer, and the enqueueing thread waits (CUDA C++ Programming Guide,
// "Asynchronous Concurrent Execution"). On the host backend all of them are plain memory copies.
//
// engine:copy leaves the choice to the device. It uses a copy engine for copies over the bus, and
// SMs for copies in its own memory. engine:sm is the suite's own kernel. Results are compared
// exactly, on the device.

#include <algorithm>

#include "comm/sm_copy.h"
#include "comm/staged_array.h"
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
                    : settings.Has("memory")      ? MemoryKindNamed(settings.Text("memory"))
                                                  : MemoryKind::kPinned),
        by_sm_(settings.Has("engine") && settings.Text("engine") == "sm"),
        bytes_(settings.Integer("bytes")),
        device_(machine.device.Allocate(bytes_, MemoryKind::kDevice)),
        other_(machine.device.Allocate(bytes_, other_kind_)) {}

  // A copy within device memory both reads and writes that memory.
  [[nodiscard]] Cost cost() const override {
    Cost cost;
    if (route_ == Route::kWithinDevice)
      cost.moved_bytes = 2 * static_cast<double>(bytes_);
    else
      cost.memory_bytes = cost.copied_bytes = cost.host_bytes = static_cast<double>(bytes_);
    return cost;
  }

  [[nodiscard]] bool enqueue_waits() const override { return other_kind_ == MemoryKind::kPageable; }

  // The device generates the data. If the source is elsewhere, the data is first copied there.
  void Reset(Stream& stream) override {
    FillIntegers(stream, device_.data(), count(), Element::kInt32, kSeed, kMost);
    if (route_ == Route::kHostToDevice) {
      stream.Copy(other_.data(), device_.data(), bytes_);
      Poison(stream, device_.data(), bytes_);
    } else if (route_ == Route::kWithinDevice) {
      Poison(stream, other_.data(), bytes_);
    } else {
      stream.Synchronize(machine_.timeout, "filling a copy's source");
      std::fill_n(static_cast<unsigned char*>(other_.data()), bytes_, 0xFF);
    }
  }

  void Enqueue(Stream& stream) override { EnqueuePart(stream, {}); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    const CopyPiece piece = PieceOf(part);
    if (by_sm_)
      EnqueueSmCopy(machine_.device, stream, piece.destination, piece.source, piece.bytes);
    else
      stream.Copy(piece.destination, piece.source, piece.bytes);
  }

  Verdict Verify(Stream& stream) override {
    if (route_ != Route::kHostToDevice) {
      Poison(stream, device_.data(), bytes_);
      stream.Copy(device_.data(), other_.data(), bytes_);
    }
    const ExpectedSegments expected{.segment_count = count(), .most = kMost, .seed = kSeed};
    return FindFault(machine_, stream, device_.data(), count(), Element::kInt32, expected);
  }

 protected:
  [[nodiscard]] Device& device() const { return machine_.device; }
  [[nodiscard]] CopyPiece PieceOf(const Part& part) const {
    const bool to_device = route_ == Route::kHostToDevice;
    const long piece_bytes = bytes_ / part.count;
    const long offset = part.index * piece_bytes;
    const Buffer& destination = to_device ? device_ : other_;
    const Buffer& source = to_device ? other_ : device_;
    return {static_cast<std::byte*>(destination.data()) + offset,
            static_cast<const std::byte*>(source.data()) + offset,
            static_cast<std::size_t>(piece_bytes)};
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

// Many copies in one call.
class BatchCopyWorkload : public CopyWorkload {
 public:
  BatchCopyWorkload(const Machine& machine, const Settings& settings)
      : CopyWorkload(machine, settings, Route::kHostToDevice) {
    const long fragments = settings.Integer("fragments");
    for (long i = 0; i < fragments; ++i) pieces_.push_back(PieceOf({i, fragments}));
  }
  void Enqueue(Stream& stream) override { device().CopyBatch(stream, pieces_); }

 private:
  std::vector<CopyPiece> pieces_;
};

std::string Excluded(const Device& device, const Settings& settings) {
  if (settings.Integer("bytes") % 4 != 0) return "bytes must be a multiple of 4";
  if (settings.Text("engine") == "sm" && settings.Has("memory") &&
      settings.Text("memory") == "pageable")
    return "a kernel cannot access pageable memory";
  return NoSuchMemory(device, settings);
}

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary, Route route) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.work_class = WorkClass::kMemory;
  spec.summary = summary;
  spec.axes = {BytesAxis("bytes", "size of the copy", host ? "1M,16M" : "1M,64M,1G")};
  if (route != Route::kWithinDevice)
    spec.axes.push_back(ChoiceAxis("memory", "kind of host memory",
                                   {"pinned", "registered", "pageable"}, "pinned", "pinned"));
  spec.axes.push_back(ChoiceAxis("engine", "what copies: the device's choice, or a kernel",
                                 {"copy", "sm"}, "copy", "copy"));
  spec.by_copy_engine = [route](const Settings& settings) {
    return route != Route::kWithinDevice && settings.Text("engine") == "copy";
  };
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

WorkloadSpec BatchSpec(const Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "BatchCopy";
  spec.work_class = WorkClass::kMemory;
  spec.summary = "copy from host memory to this device in fragments, by one call for all";
  spec.baseline = false;
  spec.axes = {BytesAxis("bytes", "total size of the copies", host ? "16M" : "64M"),
               IntegerAxis("fragments", "number of copies", 1, 1 << 20, "1,16,256,4096")};
  spec.by_copy_engine = [](const Settings&) { return true; };
  spec.excluded = [&device = machine.device](const Settings& settings) -> std::string {
    if (settings.Integer("bytes") % (4 * settings.Integer("fragments")) != 0)
      return "bytes must be a multiple of 4 * fragments";
    return device.info().no_batch_copy;
  };
  spec.footprint = [](const Settings& settings) {
    const auto bytes = static_cast<std::size_t>(settings.Integer("bytes"));
    return Footprint{bytes, bytes};
  };
  spec.make = MakerOf<BatchCopyWorkload>(machine);
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Copies(Machine& machine) {
  return {
      SpecOf(machine, "HostToDevice", "copy from host memory to this device", Route::kHostToDevice),
      SpecOf(machine, "DeviceToHost", "copy from this device to host memory", Route::kDeviceToHost),
      SpecOf(machine, "DeviceCopy", "copy within this device's memory", Route::kWithinDevice),
      BatchSpec(machine)};
}

}  // namespace overlapbench
