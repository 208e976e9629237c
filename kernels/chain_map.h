// The map that ChainKernel's chains follow, and the map that makes many of their steps at once.
#pragma once

#include <cstdint>

#include "device/body.h"

namespace overlapbench {

// place → factor · place + added, modulo 2^32 and so modulo any smaller power of two.
struct AffineMap {
  std::uint32_t factor = 1;
  std::uint32_t added = 0;

  [[nodiscard]] OVERLAPBENCH_BODY constexpr std::uint32_t At(std::uint32_t place) const {
    return factor * place + added;
  }
  // The map that applies this one, and then `next`.
  [[nodiscard]] constexpr AffineMap Then(const AffineMap& next) const {
    return {next.factor * factor, next.At(added)};
  }
};

// From D. Knuth and H. Lewis, in Press et al., "Numerical Recipes in C" (1992), section 7.1.
inline constexpr AffineMap kChainMap{1664525, 1013904223};

// The map that applies `map` `steps` times.
[[nodiscard]] constexpr AffineMap Repeated(AffineMap map, long steps) {
  AffineMap all;
  for (; steps > 0; steps /= 2) {
    if (steps % 2 != 0) all = all.Then(map);
    map = map.Then(map);
  }
  return all;
}

}  // namespace overlapbench
