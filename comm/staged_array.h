// StagedArray: a float32 array that is copied to the device in equal parts, computed on, and copied
// back.
//
// Each of its three stages is a workload:
//
// - kIn copies parts to the device.
// - kCompute adds a number of steps to each value there (workload/steps.h).
// - kOut copies parts back.
//
// Part p is in slot p mod `slots` on the device. With fewer slots than parts, a part overwrites an
// earlier one, and the schedule must order the stages accordingly. A stage verifies its own output:
// kOut the whole result on the host, the others the slots' contents. kIn or kCompute alone
// therefore needs a slot for every part. kOut's fingerprint is that of the result.
#pragma once

#include <memory>

#include "workload/workload.h"

namespace overlapbench {

struct StagedShape {
  long parts = 1;
  long slots = 1;  // at most `parts`
  long part_elements = 0;
  int steps = 0;
  MemoryKind memory = MemoryKind::kPinned;

  [[nodiscard]] long elements() const { return parts * part_elements; }
  [[nodiscard]] Footprint footprint() const;
};

// "pinned", "registered" or "pageable", as in the axis `memory`.
MemoryKind MemoryKindNamed(std::string_view name);
// Why `device` lacks the kind of memory that the settings name; "" if it has it, or if they name
// none.
std::string NoSuchMemory(const Device& device, const Settings& settings);

enum class Stage : unsigned char { kIn, kCompute, kOut };

class StagedArray {
 public:
  StagedArray(const Machine& machine, const StagedShape& shape);

  // The stage as a workload, which keeps the array alive. It is enqueued part by part, as
  // Part{p, shape.parts}, or as a whole if there is a slot for every part.
  static std::unique_ptr<Workload> MakeStage(std::shared_ptr<StagedArray> array, Stage stage);

 private:
  class StageWorkload;
  [[nodiscard]] float* slot(long part) const;

  Machine machine_;
  StagedShape shape_;
  Buffer input_;   // on the host
  Buffer result_;  // on the host
  Buffer slots_;   // on the device
};

}  // namespace overlapbench
