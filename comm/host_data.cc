#include "comm/host_data.h"

#include <algorithm>

#include "workload/data.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 4000;
constexpr int kMost = 256;

}  // namespace

MemoryKind MemoryKindNamed(std::string_view name) {
  if (name == "pageable") return MemoryKind::kPageable;
  return name == "registered" ? MemoryKind::kRegistered : MemoryKind::kPinned;
}

std::string NoSuchMemory(const Device& device, const Settings& settings) {
  if (device.backend() == Backend::kCuda || !settings.Has("memory")) return "";
  if (settings.Text("memory") == "pinned") return "";
  return "all memory is alike on the host backend, where memory:pinned stands for it";
}

void FillAsHostData(Stream& stream, float* data, long count) {
  FillIntegers(stream, data, count, Element::kFloat32, kSeed, kMost);
}

std::string FindFaultInSteps(const Machine& machine, Stream& stream, const float* data, long count,
                             int steps) {
  const ExpectedSegments expected{count, 0, 0, 1, kMost, kSeed, static_cast<double>(steps)};
  return FindFault(machine.device, stream, data, count, Element::kFloat32, expected,
                   machine.ranks.timeout());
}

HostData::HostData(const Machine& machine, long count, MemoryKind kind)
    : machine_(machine),
      count_(count),
      result_(machine.device.Allocate(bytes(), kind)),
      input_(machine.device.Allocate(bytes(), kind)) {}

void HostData::Reset(Stream& stream) {
  const Buffer filled = machine_.device.Allocate(bytes(), MemoryKind::kDevice);
  FillAsHostData(stream, static_cast<float*>(filled.data()), count_);
  stream.Copy(input_.data(), filled.data(), bytes());
  stream.Synchronize(machine_.ranks.timeout(), "filling the host's input");
  std::fill_n(static_cast<unsigned char*>(result_.data()), bytes(), 0xFF);
}

Verdict HostData::Verify(Stream& stream, int steps) {
  const Buffer compared = machine_.device.Allocate(bytes(), MemoryKind::kDevice);
  Poison(stream, compared.data(), bytes());
  stream.Copy(compared.data(), result_.data(), bytes());
  const std::string fault =
      FindFaultInSteps(machine_, stream, static_cast<const float*>(compared.data()), count_, steps);
  return {fault.empty() ? 0.0 : 1.0, 0, fault};
}

std::uint64_t HostData::Fingerprint() const { return FingerprintOf(result_.data(), bytes()); }

}  // namespace overlapbench
