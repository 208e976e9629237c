#include "device/device.h"

#include <array>
#include <cstdio>

namespace overlapbench {

std::string ToString(Backend backend) { return backend == Backend::kCuda ? "cuda" : "host"; }

std::string FormatBytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", bytes, kUnits.at(unit));
  return text.data();
}

void RequireFree(std::size_t needed_bytes, const Memory& memory, const std::string& what) {
  if (needed_bytes <= memory.free_bytes) return;
  throw Error(what + " needs " + FormatBytes(static_cast<double>(needed_bytes)) + " but " +
              FormatBytes(static_cast<double>(memory.free_bytes)) +
              " are free: choose a smaller size");
}

}  // namespace overlapbench
