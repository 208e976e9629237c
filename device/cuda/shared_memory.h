// GPU memory that other processes on this machine can map: their GPUs then read and write it
// directly.
//
//   rank 0:  SharedMemory memory(bytes);  send memory.descriptor()
//   rank 1:  receive the descriptor;      Buffer mapped = MapShared(descriptor, bytes)
//
// The driver's virtual memory management allocates it (CUDA Driver API, "Virtual Memory
// Management"); its handles travel as file descriptors. Unlike with the older cudaIpc handles, the
// memory lives until the last process unmaps it: its owner may free it, or even exit, while others
// still use it.
#pragma once

#include <cstddef>
#include <string>

#include "device/descriptor.h"
#include "device/device.h"

namespace overlapbench {

// Why the current GPU cannot share memory; "" if it can.
std::string NoSharedMemory();

// The size of an allocation of `bytes`, rounded up to the driver's granularity.
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

// Maps another process's memory for the current GPU. `bytes` is the size that was allocated.
Buffer MapShared(const Descriptor& descriptor, std::size_t bytes);

}  // namespace overlapbench
