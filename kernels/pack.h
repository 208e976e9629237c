// Pack: 16 bytes of a matrix, as floats, for kernels that are bound by memory.
//
//   ForElement(element, [&]<Element kElement>() {
//     Launch(stream, blocks, MyBody<kElement>{…});   // reads PacksOf<kElement>(data)[i].Get(lane)
//   });
//
// A thread reads and writes a pack at once, and computes in float32. The number of columns must be
// a multiple of kLanes: 4 of float32, 8 of the 16-bit types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/error.h"
#include "workload/element.h"

namespace overlapbench {

template <Element kElement>
using StorageOf = std::conditional_t<kElement == Element::kFloat32, float, std::uint16_t>;

template <Element kElement>
struct alignas(16) Pack {
  static constexpr int kLanes = 16 / sizeof(StorageOf<kElement>);
  StorageOf<kElement> values[kLanes];

  [[nodiscard]] OVERLAPBENCH_BODY float Get(int lane) const {
    return LoadFloat(values, lane, kElement);
  }
  OVERLAPBENCH_BODY void Set(int lane, float value) { Store(values, lane, kElement, value); }
};

template <Element kElement>
OVERLAPBENCH_BODY const Pack<kElement>* PacksOf(const void* data) {
  return static_cast<const Pack<kElement>*>(data);
}
template <Element kElement>
OVERLAPBENCH_BODY Pack<kElement>* PacksOf(void* data) {
  return static_cast<Pack<kElement>*>(data);
}

// Calls launch.operator()<kElement>().
template <class Launcher>
void ForElement(Element element, const Launcher& launch) {
  switch (element) {
    case Element::kFloat32:
      return launch.template operator()<Element::kFloat32>();
    case Element::kFloat16:
      return launch.template operator()<Element::kFloat16>();
    case Element::kBfloat16:
      return launch.template operator()<Element::kBfloat16>();
    default:
      throw Error("these kernels have no elements of type " + ToString(element));
  }
}

}  // namespace overlapbench
