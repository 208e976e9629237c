#include "device/activity.h"

#include <array>

namespace overlapbench {

const char* ToString(ActivityKind kind) {
  constexpr std::array<const char*, 6> kNames = {"kernel", "copy", "fill", "wait", "gate", "call"};
  return kNames.at(static_cast<std::size_t>(kind));
}

bool IsWork(ActivityKind kind) { return kind <= ActivityKind::kFill; }

}  // namespace overlapbench
