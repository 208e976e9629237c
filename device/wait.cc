#include "device/wait.h"

#include <fmt/core.h>

namespace overlapbench {

std::string InSeconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

}  // namespace overlapbench
