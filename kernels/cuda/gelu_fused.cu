// GELU in one launch: two kernels. ElementKernel takes one element per thread. VectorKernel moves
// 16 bytes at a time. Each of its blocks takes a tile of vectors, and each thread loads all its
// vectors before it computes. One more block handles the elements before the output's first 16-byte
// boundary and after its last whole vector, one by one.
//
// A tile is small: 128 threads with one vector of each tensor, or with two in a forward pass of
// 16-bit elements. Accesses take no cache hints. On an H200 larger tiles lose 2 to 7 % of the
// bandwidth of a device copy, and loads that bypass L1 or streaming stores 2 to 5 %. If a forward
// pass comes to three or four vectors for each thread that the GPU can run at once, a tile is 256
// threads with that many vectors: then all tiles start together, and none waits for another to end.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "device/cuda/cuda_check.h"
#include "device/cuda/device_attribute.h"
#include "kernels/cuda/launchers.h"
#include "kernels/gelu_math.h"

namespace overlapbench {
namespace {

using gelu::Accuracy;

template <class T>
struct Convert;

template <>
struct Convert<float> {
  static constexpr Accuracy kAccuracy = Accuracy::kFine;
  __device__ static float ToFloat(float value) { return value; }
  __device__ static float FromFloat(float value) { return value; }
};

template <>
struct Convert<__half> {
  static constexpr Accuracy kAccuracy = Accuracy::kCoarse;
  __device__ static float ToFloat(__half value) { return __half2float(value); }
  __device__ static __half FromFloat(float value) { return __float2half_rn(value); }
  __device__ static float2 Unpack(std::uint32_t pair) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
  }
  __device__ static std::uint32_t Pack(float2 pair) {
    const __half2 packed = __float22half2_rn(pair);
    return reinterpret_cast<const std::uint32_t&>(packed);
  }
};

template <>
struct Convert<__nv_bfloat16> {
  static constexpr Accuracy kAccuracy = Accuracy::kCoarse;
  __device__ static float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
  __device__ static __nv_bfloat16 FromFloat(float value) { return __float2bfloat16_rn(value); }
  __device__ static float2 Unpack(std::uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000U)};
  }
  __device__ static std::uint32_t Pack(float2 pair) {
    const __nv_bfloat162 packed = __float22bfloat162_rn(pair);
    return reinterpret_cast<const std::uint32_t&>(packed);
  }
};

template <class T>
struct Arguments {
  const T* input;
  const T* grad;
  T* output;
  long count;
  long head;     // elements before the first vector
  long vectors;  // of 16 bytes
};

template <class T, GeluForm kForm, GeluDirection kDirection, int kInFlight>
struct Kernel {
  static constexpr bool kBackward = kDirection == GeluDirection::kBackward;
  static constexpr int kThreads = kInFlight > 2 ? 256 : 128;
  static constexpr long kPerVector = sizeof(uint4) / sizeof(T);
  static constexpr long kTile = kThreads * kInFlight;  // vectors

  __device__ static float Apply(float x, float grad) {
    using Function = gelu::Function<kForm, Convert<T>::kAccuracy>;
    if constexpr (kBackward) return grad * Function::Derivative(x);
    return Function::Value(x);
  }

  __device__ static void ApplyElement(const Arguments<T>& arguments, long at) {
    float grad = 0;
    if constexpr (kBackward) grad = Convert<T>::ToFloat(arguments.grad[at]);
    arguments.output[at] =
        Convert<T>::FromFloat(Apply(Convert<T>::ToFloat(arguments.input[at]), grad));
  }

  // Four bytes of each tensor: one float, or two elements of 16 bits.
  __device__ static std::uint32_t ApplyWord(std::uint32_t x, std::uint32_t grad) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return __float_as_uint(Apply(__uint_as_float(x), __uint_as_float(grad)));
    } else {
      const float2 xs = Convert<T>::Unpack(x);
      const float2 grads = Convert<T>::Unpack(grad);
      return Convert<T>::Pack({Apply(xs.x, grads.x), Apply(xs.y, grads.y)});
    }
  }

  __device__ static uint4 ApplyVector(const uint4& x, const uint4& grad) {
    return {ApplyWord(x.x, grad.x), ApplyWord(x.y, grad.y), ApplyWord(x.z, grad.z),
            ApplyWord(x.w, grad.w)};
  }

  __device__ static void ApplyEnds(const Arguments<T>& arguments) {
    const long between = arguments.vectors * kPerVector;
    for (long i = threadIdx.x; i < arguments.count - between; i += kThreads) {
      ApplyElement(arguments, i < arguments.head ? i : i + between);
    }
  }

  __device__ static void ApplyTile(const Arguments<T>& arguments, long tile) {
    const auto* input = reinterpret_cast<const uint4*>(arguments.input + arguments.head);
    auto* output = reinterpret_cast<uint4*>(arguments.output + arguments.head);
    uint4 x[kInFlight];
    uint4 grad[kInFlight] = {};
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const long at = tile + i * kThreads + threadIdx.x;
      if (at >= arguments.vectors) break;
      x[i] = input[at];
      if constexpr (kBackward)
        grad[i] = reinterpret_cast<const uint4*>(arguments.grad + arguments.head)[at];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const long at = tile + i * kThreads + threadIdx.x;
      if (at >= arguments.vectors) break;
      output[at] = ApplyVector(x[i], grad[i]);
    }
  }
};

template <class K, class T>
__global__ __launch_bounds__(K::kThreads) void VectorKernel(const Arguments<T> arguments) {
  const long tile = blockIdx.x * K::kTile;
  if (tile < arguments.vectors) {
    K::ApplyTile(arguments, tile);
  } else {
    K::ApplyEnds(arguments);
  }
}

constexpr int kElementThreads = 256;

template <class K, class T>
__global__ __launch_bounds__(kElementThreads) void ElementKernel(const Arguments<T> arguments) {
  const long at = static_cast<long>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (at < arguments.count) K::ApplyElement(arguments, at);
}

unsigned BlocksFor(long count, long per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

// Bytes past a 16-byte boundary.
std::size_t Misalignment(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(uint4);
}

template <class K, class T>
void LaunchTiles(cudaStream_t stream, const Arguments<T>& arguments) {
  const bool has_ends = arguments.vectors * K::kPerVector < arguments.count;
  const unsigned blocks = BlocksFor(arguments.vectors, K::kTile) + (has_ends ? 1 : 0);
  VectorKernel<K><<<blocks, K::kThreads, 0, stream>>>(arguments);
}

// How many threads of at most 32 registers the current device runs at once.
long ConcurrentThreads() {
  return static_cast<long>(DeviceAttribute(cudaDevAttrMultiProcessorCount)) *
         DeviceAttribute(cudaDevAttrMaxThreadsPerMultiProcessor);
}

template <class T, GeluForm kForm, GeluDirection kDirection>
using UsualKernel =
    Kernel<T, kForm, kDirection, sizeof(T) == 2 && kDirection == GeluDirection::kForward ? 2 : 1>;

template <class T, GeluForm kForm, GeluDirection kDirection>
void LaunchVectors(cudaStream_t stream, const Arguments<T>& arguments) {
  if constexpr (kDirection == GeluDirection::kForward) {
    switch ((arguments.vectors - 1) / ConcurrentThreads() + 1) {
      case 3:
        return LaunchTiles<Kernel<T, kForm, kDirection, 3>>(stream, arguments);
      case 4:
        return LaunchTiles<Kernel<T, kForm, kDirection, 4>>(stream, arguments);
      default:
        break;
    }
  }
  LaunchTiles<UsualKernel<T, kForm, kDirection>>(stream, arguments);
}

template <class T, GeluForm kForm, GeluDirection kDirection>
void LaunchAs(cudaStream_t stream, GeluVariant variant, Arguments<T> arguments) {
  using K = UsualKernel<T, kForm, kDirection>;
  const std::size_t past = Misalignment(arguments.output);
  const bool alike = Misalignment(arguments.input) == past &&
                     (!K::kBackward || Misalignment(arguments.grad) == past);
  if (variant == GeluVariant::kFusedScalar || !alike) {
    ElementKernel<K>
        <<<BlocksFor(arguments.count, kElementThreads), kElementThreads, 0, stream>>>(arguments);
  } else {
    const long to_boundary = static_cast<long>((sizeof(uint4) - past) % sizeof(uint4) / sizeof(T));
    arguments.head = std::min(arguments.count, to_boundary);
    arguments.vectors = (arguments.count - arguments.head) / K::kPerVector;
    LaunchVectors<T, kForm, kDirection>(stream, arguments);
  }
  CUDA_CHECK(cudaGetLastError());
}

template <class T>
void LaunchTyped(cudaStream_t stream, const GeluProblem& problem) {
  using enum GeluForm;
  using enum GeluDirection;
  const auto& [variant, form, direction, element, tensors] = problem;
  const Arguments<T> arguments{static_cast<const T*>(tensors.input),
                               static_cast<const T*>(tensors.grad),
                               static_cast<T*>(tensors.output),
                               tensors.count,
                               0,
                               0};
  const bool forward = direction == kForward;
  if (form == kTanh && forward) LaunchAs<T, kTanh, kForward>(stream, variant, arguments);
  if (form == kTanh && !forward) LaunchAs<T, kTanh, kBackward>(stream, variant, arguments);
  if (form == kErf && forward) LaunchAs<T, kErf, kForward>(stream, variant, arguments);
  if (form == kErf && !forward) LaunchAs<T, kErf, kBackward>(stream, variant, arguments);
}

}  // namespace

void LaunchFusedGelu(cudaStream_t stream, const GeluProblem& problem) {
  switch (problem.element) {
    case Element::kFloat32:
      return LaunchTyped<float>(stream, problem);
    case Element::kFloat16:
      return LaunchTyped<__half>(stream, problem);
    case Element::kBfloat16:
      return LaunchTyped<__nv_bfloat16>(stream, problem);
    default:
      throw Error("GELU has no kernel for elements of type " + ToString(problem.element));
  }
}

}  // namespace overlapbench
