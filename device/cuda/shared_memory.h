// GPU memory that other processes on this machine can map: their GPUs then read and write it
// directly.
//
//   rank 0:  SharedMemory memory(bytes);  send memory.descriptor()
//   rank 1:  receive the descriptor;      Buffer mapped = MapShared(descriptor, bytes)
//
// Made by the driver's virtual memory management (CUDA Driver API, "Virtual Memory Management"),
// whose handles travel as file descriptors. Unlike the older cudaIpc handles, every process that
// has mapped the memory keeps it: it may be freed here, and the process may even end, while others
// still use it.
#pragma once

#include <cstddef>
#include <string>

#include "device/descriptor.h"
#include "device/device.h"

namespace overlapbench {

// Why the current GPU cannot share memory; "" if it can.
std::string NoSharedMemory();

// The size that an allocation of `bytes` really has.
std::size_t SharedMemoryBytes(std::size_t bytes);

class SharedMemory {
 public:
  // Allocates on the current GPU. Throws Error if there is not enough memory.
  explicit SharedMemory(std::size_t bytes);

  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  [[nodiscard]] const Descriptor& descriptor() const { return descriptor_; }
  // The memory without the means to share it any further.
  [[nodiscard]] Buffer TakeBuffer() && { return std::move(buffer_); }

 private:
  Buffer buffer_;
  Descriptor descriptor_;
};

// Another process's memory of `bytes`, as it was allocated, for use by the current GPU.
Buffer MapShared(const Descriptor& descriptor, std::size_t bytes);

}  // namespace overlapbench
