// Softmax over the rows of a row-major matrix by cuDNN: what a library offers ready-made.
//
// cuDNN is nothing that a build needs. libcudnn.so.9 is loaded when the program starts, from where
// the loader looks (LD_LIBRARY_PATH, the system's folders), and stays loaded; the few entry points
// that a softmax takes are declared in the source, after NVIDIA's documentation ("cuDNN API
// Reference", library cudnn_ops). So this file compiles with and without CUDA.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

// The entry points of a loaded cuDNN.
struct Cudnn;

// Throws Error saying what is not there: the file, or what it should have.
std::shared_ptr<const Cudnn> LoadCudnn(const std::string& file = "libcudnn.so.9");

// "9.10.2", or "" where LoadCudnn throws.
std::string CudnnVersion();

class CudnnSoftmax {
 public:
  // Elements of a tensor that cuDNN takes, at most.
  static constexpr long kMostElements = 2147483647;

  // On the current CUDA device. Throws Error where cuDNN refuses the shape.
  CudnnSoftmax(std::shared_ptr<const Cudnn> library, long rows, long columns, Element element);
  // Of `input` into `output`, rows × columns elements each.
  void Enqueue(Stream& stream, const void* input, void* output) const;

 private:
  // A handle or descriptor with the entry point that destroys it.
  using Owner = std::unique_ptr<void, int (*)(void*)>;

  std::shared_ptr<const Cudnn> library_;
  Owner handle_;
  Owner tensor_;
  int mode_;
};

}  // namespace overlapbench
