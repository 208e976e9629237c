#include "comm/cuda/peer_memory.h"

#include "comm/communicator.h"
#include "device/cuda/shared_memory.h"
#include "device/error.h"
#include "ranks/descriptors.h"

namespace overlapbench {

PeerArray::PeerArray(Ranks& ranks, std::size_t bytes) : mapped_(ranks.size()) {
  std::unique_ptr<SharedMemory> own;
  ranks.Together("sharing memory", [&] { own = std::make_unique<SharedMemory>(bytes); });
  const auto descriptors = ExchangeDescriptors(ranks, own->descriptor());
  ranks.Together("mapping shared memory", [&] {
    for (int peer = 0; peer < ranks.size(); ++peer) {
      mapped_[peer] =
          peer == ranks.rank() ? std::move(*own).TakeBuffer() : MapShared(descriptors[peer], bytes);
    }
  });
}

Buffer PeerMemory::Allocate(std::size_t bytes) {
  const auto array = std::make_shared<PeerArray>(ranks_, bytes);
  std::erase_if(arrays_, [](const auto& one) { return one.expired(); });
  arrays_.push_back(array);
  return {array->At(ranks_.rank()), bytes, [array](void* /*memory*/) {}};
}

PeerMemory::Located PeerMemory::Locate(const void* address) const {
  if (address == nullptr) return {};
  for (const auto& array : arrays_) {
    const auto held = array.lock();
    if (held == nullptr || !held->Holds(ranks_.rank(), address)) continue;
    return {held.get(), static_cast<const std::byte*>(address) - held->At(ranks_.rank())};
  }
  throw Error("communication over peers' memory got a buffer that is not shared");
}

std::shared_ptr<PeerMemory> MakePeerMemory(const Machine& machine) {
  return std::make_shared<PeerMemory>(machine.ranks);
}

}  // namespace overlapbench
