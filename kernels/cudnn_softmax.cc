#include "kernels/cudnn_softmax.h"

#include "device/dynamic_library.h"

namespace overlapbench {

// Handles and descriptors are opaque pointers, streams are CUDA's, and enumerations are ints. All
// but the first two return a status; 0 is success.
struct Cudnn : DynamicLibrary {
  explicit Cudnn(const std::string& file) : DynamicLibrary("needs cuDNN 9", file) {}

  std::size_t (*const get_version)() = Need("cudnnGetVersion");
  const char* (*const get_error_string)(int status) = Need("cudnnGetErrorString");
  int (*const create)(void** handle) = Need("cudnnCreate");
  int (*const destroy)(void* handle) = Need("cudnnDestroy");
  int (*const set_stream)(void* handle, void* stream) = Need("cudnnSetStream");
  int (*const create_tensor)(void** tensor) = Need("cudnnCreateTensorDescriptor");
  int (*const destroy_tensor)(void* tensor) = Need("cudnnDestroyTensorDescriptor");
  int (*const set_tensor)(void* tensor, int format, int type, int n, int c, int h,
                          int w) = Need("cudnnSetTensor4dDescriptor");
  int (*const softmax)(void* handle, int algorithm, int mode, const void* alpha, void* input_tensor,
                       const void* input, const void* beta, void* output_tensor,
                       void* output) = Need("cudnnSoftmaxForward");
};

namespace {

// Values of cuDNN's enumerations.
constexpr int kNchw = 0;      // CUDNN_TENSOR_NCHW
constexpr int kFloat = 0;     // CUDNN_DATA_FLOAT
constexpr int kHalf = 2;      // CUDNN_DATA_HALF
constexpr int kBfloat = 9;    // CUDNN_DATA_BFLOAT16
constexpr int kAccurate = 1;  // CUDNN_SOFTMAX_ACCURATE: less the row's maximum
// Two modes with the same result if only c is more than 1. On an H200 (cuDNN 9.19, 512 MiB of
// float32) rows of 1,024 columns take 0.57 ms in the first and 0.44 ms in the second, rows of 3,072
// 0.35 in both, of 4,096 0.30 and 0.35, of 32,768 0.36 and 0.75. For shorter rows and for 16 bits
// the two are equally fast.
constexpr int kOverInstance = 0;  // CUDNN_SOFTMAX_MODE_INSTANCE: over c, h and w of each n
constexpr int kOverChannels = 1;  // CUDNN_SOFTMAX_MODE_CHANNEL: over c of each n, h and w
constexpr long kMostOverChannels = 3072;

int TypeOf(Element element) {
  switch (element) {
    case Element::kFloat32:
      return kFloat;
    case Element::kFloat16:
      return kHalf;
    case Element::kBfloat16:
      return kBfloat;
    default:
      throw Error("cuDNN's softmax is not offered for " + ToString(element));
  }
}

void ThrowIfCudnnFailed(const Cudnn& library, int status, const char* call) {
  if (status == 0) return;
  throw Error(std::string(call) + " failed: " + library.get_error_string(status));
}

}  // namespace

std::shared_ptr<const Cudnn> LoadCudnn(const std::string& file) {
  return std::make_shared<Cudnn>(file);
}

std::string CudnnVersion() {
  try {
    const std::size_t version = LoadCudnn()->get_version();
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  } catch (const Error&) {
    return "";
  }
}

CudnnSoftmax::CudnnSoftmax(std::shared_ptr<const Cudnn> library, long rows, long columns,
                           Element element)
    : library_(std::move(library)),
      handle_(nullptr, library_->destroy),
      tensor_(nullptr, library_->destroy_tensor),
      mode_(columns <= kMostOverChannels ? kOverChannels : kOverInstance) {
  if (rows * columns > kMostElements)
    throw Error("cuDNN does not support a tensor of " + std::to_string(rows * columns) +
                " elements");
  void* created = nullptr;
  ThrowIfCudnnFailed(*library_, library_->create(&created), "cudnnCreate");
  handle_.reset(created);
  ThrowIfCudnnFailed(*library_, library_->create_tensor(&created), "cudnnCreateTensorDescriptor");
  tensor_.reset(created);
  ThrowIfCudnnFailed(*library_,
                     library_->set_tensor(tensor_.get(), kNchw, TypeOf(element),
                                          static_cast<int>(rows), static_cast<int>(columns), 1, 1),
                     "cudnnSetTensor4dDescriptor");
}

void CudnnSoftmax::Enqueue(Stream& stream, const void* input, void* output) const {
  const float one = 1;
  const float zero = 0;
  ThrowIfCudnnFailed(*library_, library_->set_stream(handle_.get(), stream.native()),
                     "cudnnSetStream");
  ThrowIfCudnnFailed(*library_,
                     library_->softmax(handle_.get(), kAccurate, mode_, &one, tensor_.get(), input,
                                       &zero, tensor_.get(), output),
                     "cudnnSoftmaxForward");
}

}  // namespace overlapbench
