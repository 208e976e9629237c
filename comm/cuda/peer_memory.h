// PeerMemory: buffers that every rank of this node has and every other one has mapped.
//
// Ranks allocate the same sizes in the same order, so what lies at an address here lies at a known
// address on every other rank. Communicators of the same ranks share it (comm/communicator.h): a
// buffer that one of them allocated, all of them reach.
//
// The memory of a rank that has died stays mapped until this process ends.
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

  // A place in an array, on any rank.
  struct Located {
    const PeerArray* array = nullptr;
    std::ptrdiff_t offset = 0;

    [[nodiscard]] std::byte* At(int rank) const { return array->At(rank) + offset; }
  };
  // Of an address on this rank; nothing for nullptr. Throws Error where it lies in no array.
  [[nodiscard]] Located Locate(const void* address) const;

 private:
  Ranks& ranks_;
  std::vector<std::weak_ptr<PeerArray>> arrays_;
};

}  // namespace overlapbench
