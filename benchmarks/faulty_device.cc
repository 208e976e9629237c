#include "benchmarks/faulty_device.h"

#include <chrono>
#include <cstdint>

#include "kernels/trap.h"

namespace overlapbench {

void FaultyDevice::CorruptBuffers() {
  constexpr std::chrono::seconds kSoon(10);
  constexpr std::uint32_t kBit = 1U << 22U;  // the highest of a float's fraction
  const auto stream = CreateStream(0);
  for (const auto& [data, bytes] : buffers_) {
    std::uint32_t word = 0;
    if (bytes < sizeof(word)) continue;
    auto* middle = static_cast<std::byte*>(data) + bytes / 2 / sizeof(word) * sizeof(word);
    stream->Copy(&word, middle, sizeof(word));
    stream->Synchronize(kSoon, "reading what is to be corrupted");
    word ^= kBit;
    stream->Copy(middle, &word, sizeof(word));
    stream->Synchronize(kSoon, "corrupting a result");
  }
}

void FaultyDevice::BreakKernel() {
  constexpr std::chrono::seconds kSoon(10);
  const auto stream = CreateStream(0);
  EnqueueTrap(*stream);
  stream->Synchronize(kSoon, "an injected kernel fault");
}

Buffer FaultyDevice::Allocate(std::size_t bytes, MemoryKind kind) {
  auto buffer = std::make_shared<Buffer>(ForwardingDevice::Allocate(bytes, kind));
  if (kind != MemoryKind::kDevice) {
    return {buffer->data(), bytes, [buffer](void*) mutable { buffer.reset(); }};
  }
  const auto entry = buffers_.insert(buffers_.end(), {buffer->data(), bytes});
  return {buffer->data(), bytes, [this, buffer, entry](void*) mutable {
            buffers_.erase(entry);
            buffer.reset();
          }};
}

std::string FaultyDevice::ThrottleReason() {
  const std::string reason = ForwardingDevice::ThrottleReason();
  return throttled_ ? "injected" : reason;
}

}  // namespace overlapbench
