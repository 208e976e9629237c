// HostWord: a word of pinned host memory, at first 0, through which host and device signal.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "device/cuda/cuda_check.h"

namespace overlapbench {

class HostWord {
 public:
  HostWord() {
    CUDA_CHECK(cudaHostAlloc(&word_, sizeof(*word_), cudaHostAllocMapped));
    *word_ = 0;
    void* on_device = nullptr;
    CUDA_CHECK(cudaHostGetDevicePointer(&on_device, word_, 0));
    on_device_ = static_cast<std::uint32_t*>(on_device);
  }
  ~HostWord() { cudaFreeHost(word_); }
  HostWord(const HostWord&) = delete;
  HostWord& operator=(const HostWord&) = delete;

  [[nodiscard]] std::uint32_t* on_device() const { return on_device_; }
  void Store(std::uint32_t value) {
    std::atomic_ref(*word_).store(value, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t Load() const {
    return std::atomic_ref(*word_).load(std::memory_order_acquire);
  }

 private:
  std::uint32_t* word_ = nullptr;
  std::uint32_t* on_device_ = nullptr;
};

}  // namespace overlapbench
