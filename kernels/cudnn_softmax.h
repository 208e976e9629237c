// Softmax over the rows of a row-major matrix by cuDNN: what a library offers ready-made.
//
// cuDNN is not needed to build. libcudnn.so.9 is opened at run time (device/dynamic_library.h). The
// source declares the few entry points that a softmax needs, after NVIDIA's documentation ("cuDNN
// API Reference", library cudnn_ops). So this file compiles with and without CUDA.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

// The entry points of a loaded cuDNN.
struct Cudnn;

// Throws Error naming what is missing: the file, or one of its symbols.
std::shared_ptr<const Cudnn> LoadCudnn(const std::string& file = "libcudnn.so.9");

// "9.10.2", or "" if LoadCudnn throws.
std::string CudnnVersion();

class CudnnSoftmax {
 public:
  // The most elements of a tensor that cuDNN accepts.
  static constexpr long kMostElements = 2147483647;

  // On the current CUDA device. Throws Error if cuDNN rejects the shape.
  CudnnSoftmax(std::shared_ptr<const Cudnn> library, long rows, long columns, Element element);
  // `input` and `output` have rows × columns elements each.
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
