#include <algorithm>
#include <cstdint>

#include "comm/sm_copy.h"
#include "device/launch.h"

namespace overlapbench {
namespace {

struct alignas(16) Words {
  std::uint32_t word[4];
};

// Tiles are distributed round-robin over blocks. Each thread loads all its words of a tile before
// it stores them, so that enough loads are in flight to hide a bus's latency.
struct SmCopyBody {
  static constexpr int kThreads = 512;
  static constexpr int kInFlight = 4;
  static constexpr long kTile = static_cast<long>(kThreads) * kInFlight;
  Words* destination;
  const Words* source;
  long count;  // of whole words
  std::uint32_t* tail_destination;
  const std::uint32_t* tail_source;
  long tail_count;  // of 4 bytes each, after the last whole word

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    for (long tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      for (long first = tile + block.thread; first < tile + kTile;
           first += static_cast<long>(block.threads) * kInFlight) {
        CopyInFlight(first, block.threads);
      }
    }
    if (block.index > 0) return;
    for (long i = block.thread; i < tail_count; i += block.threads)
      tail_destination[i] = tail_source[i];
  }

  OVERLAPBENCH_BODY void CopyInFlight(long first, int stride) const {
    Words words[kInFlight];
    for (int i = 0; i < kInFlight; ++i) {
      const long at = first + static_cast<long>(i) * stride;
      if (at < count) words[i] = source[at];
    }
    for (int i = 0; i < kInFlight; ++i) {
      const long at = first + static_cast<long>(i) * stride;
      if (at < count) destination[at] = words[i];
    }
  }
};

}  // namespace

void EnqueueSmCopy(Device& device, Stream& stream, void* destination, const void* source,
                   std::size_t bytes) {
  constexpr int kBlocksPerMultiprocessor = 3;
  const long count = static_cast<long>(bytes / sizeof(Words));
  const long tail_count = static_cast<long>(bytes % sizeof(Words) / sizeof(std::uint32_t));
  auto* whole_destination = static_cast<Words*>(destination);
  const auto* whole_source = static_cast<const Words*>(source);
  const long tiles = (count + SmCopyBody::kTile - 1) / SmCopyBody::kTile;
  const long most = static_cast<long>(device.info().multiprocessors) * kBlocksPerMultiprocessor;
  Launch(stream, static_cast<int>(std::clamp(tiles, 1L, most)),
         SmCopyBody{whole_destination, whole_source, count,
                    reinterpret_cast<std::uint32_t*>(whole_destination + count),
                    reinterpret_cast<const std::uint32_t*>(whole_source + count), tail_count});
}

}  // namespace overlapbench
