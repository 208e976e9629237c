// PeerMemory: buffers that every rank of this node allocates and every other rank maps.
//
// Ranks allocate the same sizes in the same order, so an address on this rank has a known
// counterpart on every other rank. Communicators of the same ranks share it (comm/communicator.h):
// all of them can access a buffer that one of them allocated.
//
// The memory of a dead rank stays mapped until this process ends.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.h"
#include "ranks/ranks.h"

namespace overlapbench {

// A buffer of the same size on every rank, mapped on this one. All ranks make it together.
class PeerArray {
 public:
  PeerArray(Ranks& ranks, std::size_t bytes);
  [[nodiscard]] std::byte* At(int rank) const {
    return static_cast<std::byte*>(mapped_[rank].data());
  }
  [[nodiscard]] bool Holds(int rank, const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= At(rank) && byte < At(rank) + mapped_[rank].bytes();
  }

 private:
  std::vector<Buffer> mapped_;
};

class PeerMemory {
 public:
  explicit PeerMemory(Ranks& ranks) : ranks_(ranks) {}

  // This rank's part of a new array. Called by all ranks together.
  Buffer Allocate(std::size_t bytes);

  // A location in an array, on any rank.
  struct Located {
    const PeerArray* array = nullptr;
    std::ptrdiff_t offset = 0;

    [[nodiscard]] std::byte* At(int rank) const { return array->At(rank) + offset; }
  };
  // The location of an address on this rank; empty for nullptr. Throws Error if it is in no array.
  [[nodiscard]] Located Locate(const void* address) const;

 private:
  Ranks& ranks_;
  std::vector<std::weak_ptr<PeerArray>> arrays_;
};

}  // namespace overlapbench
