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
#include "kernels/float_io.h"

namespace overlapbench {

template <Element kElement>
using StorageOf = std::conditional_t<kElement == Element::kFloat32, float, std::uint16_t>;

// LoadFloat and StoreRounded; a GPU converts by one instruction.
template <Element kElement>
OVERLAPBENCH_BODY float Read(const StorageOf<kElement>& stored) {
#ifdef __CUDA_ARCH__
  if constexpr (kElement == Element::kFloat16) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(stored));
    return value;
  }
#endif
  return LoadFloat(&stored, 0, kElement);
}
template <Element kElement>
OVERLAPBENCH_BODY void Write(StorageOf<kElement>& stored, float value) {
#ifdef __CUDA_ARCH__
  if constexpr (kElement == Element::kFloat16) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored) : "f"(value));
    return;
  }
  if constexpr (kElement == Element::kBfloat16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored) : "f"(value));
    return;
  }
#endif
  StoreRounded(&stored, 0, kElement, value);
}

template <Element kElement>
struct alignas(16) Pack {
  static constexpr int kLanes = 16 / sizeof(StorageOf<kElement>);
  StorageOf<kElement> values[kLanes];

  [[nodiscard]] OVERLAPBENCH_BODY float Get(int lane) const { return Read<kElement>(values[lane]); }
  OVERLAPBENCH_BODY void Set(int lane, float value) { Write<kElement>(values[lane], value); }
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
