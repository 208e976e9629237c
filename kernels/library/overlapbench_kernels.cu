// Each function checks its requirements, then launches. A requirement that is not met is thrown as
// a Refusal; Guarded turns it into a status and this thread's message.
#include <cstdint>
#include <string>

#include "device/cuda/cuda_check.h"
#include "device/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/grid_gemm_body.h"
#include "kernels/library/overlapbench_kernels.h"

namespace {

using overlapbench::Element;
using overlapbench::GeluDirection;
using overlapbench::GeluForm;
using overlapbench::GeluVariant;
using overlapbench::kSoftmaxWorkspaceBytes;

struct Refusal {
  overlapbench_status status;
  std::string message;
};

std::string& LastError() {
  thread_local std::string message;
  return message;
}

template <class Call>
int32_t Guarded(const Call& call) noexcept {
  try {
    call();
    return OVERLAPBENCH_OK;
  } catch (const Refusal& refusal) {
    LastError() = refusal.message;
    return refusal.status;
  } catch (const std::exception& error) {
    LastError() = error.what();
    return OVERLAPBENCH_CUDA_FAILED;
  }
}

// `message` returns the text. It is a function because a call that is not refused must not pay for
// strings: a dozen of them take as long as half a launch.
template <class Message>
void Require(bool met, overlapbench_status status, const Message& message) {
  if (!met) throw Refusal{status, message()};
}

void RequireCount(int64_t count, int64_t most, const char* name) {
  Require(count > 0 && count <= most, OVERLAPBENCH_BAD_SIZE, [&] {
    return std::string(name) + " is " + std::to_string(count) + ", must be from 1 to " +
           std::to_string(most);
  });
}

Element ElementOf(int32_t type) {
  switch (type) {
    case OVERLAPBENCH_FLOAT32:
      return Element::kFloat32;
    case OVERLAPBENCH_FLOAT16:
      return Element::kFloat16;
    case OVERLAPBENCH_BFLOAT16:
      return Element::kBfloat16;
    default:
      throw Refusal{OVERLAPBENCH_UNKNOWN_TYPE, "type is " + std::to_string(type) +
                                                   ", must be 0 (float32), 1 (float16) or 2 "
                                                   "(bfloat16)"};
  }
}

GeluForm FormOf(int32_t form) {
  Require(form == OVERLAPBENCH_GELU_TANH || form == OVERLAPBENCH_GELU_ERF,
          OVERLAPBENCH_UNKNOWN_TYPE,
          [&] { return "form is " + std::to_string(form) + ", must be 0 (tanh) or 1 (erf)"; });
  return form == OVERLAPBENCH_GELU_TANH ? GeluForm::kTanh : GeluForm::kErf;
}

struct Tensor {
  const char* name;
  const void* data;
  int64_t bytes = 0;
  [[nodiscard]] std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data); }
};

void RequireAddress(const Tensor& tensor, std::size_t alignment, const char* aligned_to) {
  Require(tensor.data != nullptr, OVERLAPBENCH_NULL_POINTER,
          [&] { return std::string(tensor.name) + " is null"; });
  Require(tensor.address() % alignment == 0, OVERLAPBENCH_MISALIGNED, [&] {
    return std::string(tensor.name) + " is not aligned to " + aligned_to +
           std::to_string(alignment) + " bytes";
  });
}

// A kernel may write an element before another block has read its neighbour.
void RequireApart(const Tensor& output, const Tensor& other) {
  Require(output.address() >= other.address() + other.bytes ||
              other.address() >= output.address() + output.bytes,
          OVERLAPBENCH_OVERLAPPING,
          [&] { return std::string(output.name) + " overlaps " + other.name; });
}

void RequireSameOrApart(const Tensor& output, const Tensor& other) {
  if (output.data != other.data) RequireApart(output, other);
}

void RequireOnDevice(const Tensor& tensor, int device) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, tensor.data));
  Require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
          OVERLAPBENCH_WRONG_DEVICE,
          [&] { return std::string(tensor.name) + " is not memory of a CUDA device"; });
  Require(attributes.type == cudaMemoryTypeManaged || attributes.device == device,
          OVERLAPBENCH_WRONG_DEVICE, [&] {
            return std::string(tensor.name) + " is memory of device " +
                   std::to_string(attributes.device) + ", not of device " + std::to_string(device);
          });
}

// The last of the tensors is the output; `require_overlap` says how it may overlap the others. The
// checks that need no GPU come first.
template <std::size_t N>
void RequireTensors(int32_t device, std::size_t element_bytes, const Tensor (&tensors)[N],
                    void (*require_overlap)(const Tensor&, const Tensor&)) {
  for (const Tensor& tensor : tensors) RequireAddress(tensor, element_bytes, "its elements of ");
  for (std::size_t i = 0; i + 1 < N; ++i) require_overlap(tensors[N - 1], tensors[i]);
  if (device == OVERLAPBENCH_TRUSTED_DEVICE) return;
  int current = 0;
  CUDA_CHECK(cudaGetDevice(&current));
  Require(current == device, OVERLAPBENCH_WRONG_DEVICE, [&] {
    return "the current device is " + std::to_string(current) + ", not " + std::to_string(device);
  });
  for (const Tensor& tensor : tensors) RequireOnDevice(tensor, device);
}

constexpr int64_t kMostElements = int64_t{1} << 31;
constexpr int64_t kMostMatrixElements = int64_t{1} << 40;

// `tensors`: the input, the gradient of the output if there is one, and `output`.
template <std::size_t N>
int32_t Gelu(int32_t device, int32_t type, int32_t form, Tensor (&&tensors)[N], void* output,
             int64_t count, void* stream) {
  constexpr bool kForward = N == 2;
  return Guarded([&] {
    const Element element = ElementOf(type);
    const GeluForm gelu_form = FormOf(form);
    RequireCount(count, kMostElements, "count");
    for (Tensor& tensor : tensors) tensor.bytes = count * static_cast<int64_t>(SizeOf(element));
    RequireTensors(device, SizeOf(element), tensors, RequireSameOrApart);
    const void* const grad = kForward ? nullptr : tensors[1].data;
    overlapbench::LaunchFusedGelu(static_cast<cudaStream_t>(stream),
                                  {GeluVariant::kFused,
                                   gelu_form,
                                   kForward ? GeluDirection::kForward : GeluDirection::kBackward,
                                   element,
                                   {tensors[0].data, grad, output, nullptr, count}});
  });
}

}  // namespace

const char* overlapbench_last_error(void) { return LastError().c_str(); }

int32_t overlapbench_gelu_forward(int32_t device, int32_t type, int32_t form, const void* input,
                                  void* output, int64_t count, void* stream) {
  return Gelu(device, type, form, {{"input", input}, {"output", output}}, output, count, stream);
}

int32_t overlapbench_gelu_backward(int32_t device, int32_t type, int32_t form, const void* input,
                                   const void* grad_output, void* grad_input, int64_t count,
                                   void* stream) {
  return Gelu(device, type, form,
              {{"input", input}, {"grad_output", grad_output}, {"grad_input", grad_input}},
              grad_input, count, stream);
}

int32_t overlapbench_softmax_forward(int32_t device, int32_t type, const void* input, void* output,
                                     int64_t rows, int64_t columns, void* workspace, void* stream) {
  static_assert(kSoftmaxWorkspaceBytes == OVERLAPBENCH_SOFTMAX_WORKSPACE_BYTES);
  constexpr std::size_t kWorkspaceAlignment = 16;
  return Guarded([&] {
    const Element element = ElementOf(type);
    RequireCount(rows, INT32_MAX, "rows");
    RequireCount(columns, INT32_MAX, "columns");
    RequireCount(rows * columns, kMostMatrixElements, "rows x columns");
    const int64_t bytes = rows * columns * static_cast<int64_t>(SizeOf(element));
    const Tensor to{"output", output, bytes};
    const Tensor from{"input", input, bytes};
    const bool meets = overlapbench::SoftmaxNeedsWorkspace(columns, element);
    const Tensor between{"workspace", workspace, kSoftmaxWorkspaceBytes};
    if (meets) {
      RequireAddress(between, kWorkspaceAlignment, "");
      RequireApart(between, to);
      RequireApart(between, from);
    }
    RequireTensors(device, SizeOf(element), {from, to}, RequireApart);
    if (meets && device != OVERLAPBENCH_TRUSTED_DEVICE) RequireOnDevice(between, device);
    overlapbench::LaunchFusedSoftmax(static_cast<cudaStream_t>(stream),
                                     {input, output, workspace, rows, columns, element});
  });
}

int32_t overlapbench_softmax_workspace(int32_t type, int64_t columns, int64_t* bytes) {
  return Guarded([&] {
    const Element element = ElementOf(type);
    RequireCount(columns, INT32_MAX, "columns");
    Require(bytes != nullptr, OVERLAPBENCH_NULL_POINTER,
            [] { return std::string("bytes is null"); });
    *bytes = overlapbench::SoftmaxNeedsWorkspace(columns, element) ? kSoftmaxWorkspaceBytes : 0;
  });
}

int32_t overlapbench_grid_gemm(int32_t device, const float* a, const float* b, float* c, int64_t n,
                               int32_t grid_x, int32_t grid_y, int32_t work, void* stream) {
  namespace grid_gemm = overlapbench::grid_gemm;
  return Guarded([&] {
    Require(work == OVERLAPBENCH_WORK_TILE || work == OVERLAPBENCH_WORK_FULL,
            OVERLAPBENCH_UNKNOWN_TYPE,
            [&] { return "work is " + std::to_string(work) + ", must be 0 (tile) or 1 (full)"; });
    RequireCount(n, 1 << 16, "n");
    Require(n % grid_gemm::kTile == 0, OVERLAPBENCH_BAD_SIZE,
            [&] { return "n is " + std::to_string(n) + ", must be a multiple of 16"; });
    const bool full = work == OVERLAPBENCH_WORK_FULL;
    const int tiles = static_cast<int>(n / grid_gemm::kTile);
    constexpr int kMostBlocksASide = 32768;
    RequireCount(grid_x, full ? kMostBlocksASide : tiles, "grid_x");
    RequireCount(grid_y, full ? kMostBlocksASide : tiles, "grid_y");
    const int64_t bytes = n * n * static_cast<int64_t>(sizeof(float));
    RequireTensors(device, sizeof(float), {{"a", a, bytes}, {"b", b, bytes}, {"c", c, bytes}},
                   RequireApart);
    const grid_gemm::Body body{
        a, b, c, n, grid_x, grid_y, full ? tiles : grid_x, full ? tiles : grid_y};
    overlapbench::RunBody<<<grid_x * grid_y, grid_gemm::Body::kThreads, 0,
                            static_cast<cudaStream_t>(stream)>>>(body);
    CUDA_CHECK(cudaGetLastError());
  });
}

int32_t overlapbench_stream_is_capturing(void* stream, int32_t* capturing) {
  return Guarded([&] {
    Require(capturing != nullptr, OVERLAPBENCH_NULL_POINTER,
            [] { return std::string("capturing is null"); });
    cudaStreamCaptureStatus status{};
    CUDA_CHECK(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status));
    *capturing = status == cudaStreamCaptureStatusNone ? 0 : 1;
  });
}
