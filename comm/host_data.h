// HostData: what comes from the host and goes back to it, in workloads that bring an array of
// float32 to the device, add a number of steps to each element there (kernels/step_kernel.h), and
// bring it back.
#pragma once

#include <cstdint>

#include "workload/workload.h"

namespace overlapbench {

// Of the axis `memory`: pinned, registered or pageable.
MemoryKind MemoryKindNamed(std::string_view name);
// Why `device` has no such memory; "" where it has, or where the settings name none.
std::string NoSuchMemory(const Device& device, const Settings& settings);

class HostData {
 public:
  HostData(const Machine& machine, long count, MemoryKind kind);

  // Random whole numbers as input, a poisoned result. Waits for `stream`.
  void Reset(Stream& stream);
  // Whether the result is the input plus `steps`, to the bit. Waits for `stream`.
  Verdict Verify(Stream& stream, int steps);
  [[nodiscard]] std::uint64_t Fingerprint() const;

  [[nodiscard]] const float* input() const { return static_cast<const float*>(input_.data()); }
  [[nodiscard]] float* result() { return static_cast<float*>(result_.data()); }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(float); }

  Machine machine_;
  long count_;
  Buffer result_;
  Buffer input_;
};

// Fills `data`, on the device, with HostData's input.
void FillAsHostData(Stream& stream, float* data, long count);
// "" or where `data`, on the device, is not HostData's input plus `steps`.
std::string FindFaultInSteps(const Machine& machine, Stream& stream, const float* data, long count,
                             int steps);

}  // namespace overlapbench
