// Sums of the 16-byte words of peer moves, in every type that collectives add.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "comm/cuda/peer_move.h"
#include "device/error.h"
#include "workload/element.h"

namespace overlapbench {

// Sums of a word's elements, in float for 16-bit formats, rounded once at the end.
template <class Type>
struct Sum {
  static constexpr int kElements = sizeof(uint4) / sizeof(Type);
  using Wide = std::conditional_t<sizeof(Type) == 2, float, Type>;
  Wide element[kElements];

  __device__ explicit Sum(uint4 word) {
    const Type* values = reinterpret_cast<const Type*>(&word);
    for (int i = 0; i < kElements; ++i) element[i] = static_cast<Wide>(values[i]);
  }
  __device__ void Add(uint4 word) {
    const Type* values = reinterpret_cast<const Type*>(&word);
    for (int i = 0; i < kElements; ++i) element[i] += static_cast<Wide>(values[i]);
  }
  [[nodiscard]] __device__ uint4 Rounded() const {
    uint4 word;
    Type* values = reinterpret_cast<Type*>(&word);
    for (int i = 0; i < kElements; ++i) values[i] = static_cast<Type>(element[i]);
    return word;
  }
};

// Calls run<kSources>() with the fewest sources, of 2, 4 and kMostPeers, that are enough.
template <class Run>
void ForSources(int sources, const Run& run) {
  if (sources <= 2)
    run.template operator()<2>();
  else if (sources <= 4)
    run.template operator()<4>();
  else
    run.template operator()<kMostPeers>();
}

// Calls run<Type>() with the type of the elements. Throws Error for types without sums.
template <class Run>
void ForSummedType(Element element, const Run& run) {
  switch (element) {
    case Element::kFloat32:
      return run.template operator()<float>();
    case Element::kFloat16:
      return run.template operator()<__half>();
    case Element::kBfloat16:
      return run.template operator()<__nv_bfloat16>();
    case Element::kFloat64:
      return run.template operator()<double>();
    case Element::kInt32:
      return run.template operator()<std::int32_t>();
    default:
      throw Error("peer moves add no elements of type " + ToString(element));
  }
}

}  // namespace overlapbench
