#include <chrono>
#include <cstdint>

#include "device/launch.h"
#include "tests/injection/faulty_device.h"

namespace overlapbench {
namespace {

// On a GPU the kernel traps, after which every call into this process's context fails
// (cudaErrorLaunchFailure, CUDA Runtime API, "Error handling"). On the host its task throws Error.
struct TrapBody {
  static constexpr int kThreads = 1;

  OVERLAPBENCH_BODY void operator()(const Block& /*block*/) const {
#ifdef __CUDA_ARCH__
    __trap();
#else
    throw Error("a kernel failed");
#endif
  }
};

class FaultyThrottleWatch : public ThrottleWatch {
 public:
  // `throttled` belongs to the device, which outlives the watch.
  FaultyThrottleWatch(std::unique_ptr<ThrottleWatch> watch, const bool& throttled)
      : watch_(std::move(watch)), throttled_(throttled) {}
  [[nodiscard]] std::string Reason() override { return throttled_ ? "injected" : watch_->Reason(); }

 private:
  std::unique_ptr<ThrottleWatch> watch_;
  const bool& throttled_;
};

}  // namespace

void FaultyDevice::CorruptBuffers() {
  constexpr std::chrono::seconds kSoon(10);
  constexpr std::uint32_t kBit = 1U << 22U;  // the highest bit of a float's fraction
  const auto stream = CreateStream({});
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
  const auto stream = CreateStream({});
  Launch(*stream, 1, TrapBody{});
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

std::unique_ptr<ThrottleWatch> FaultyDevice::Throttling() {
  return std::make_unique<FaultyThrottleWatch>(ForwardingDevice::Throttling(), throttled_);
}

std::map<std::string, std::string> FaultyDevice::Surroundings() const {
  auto surroundings = ForwardingDevice::Surroundings();
  surroundings["injected_fault"] = faults_;
  return surroundings;
}

}  // namespace overlapbench
