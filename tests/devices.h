// Streams with shut gates, patterns of bytes and pieces of buffers, for tests of devices.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "device/device.h"

namespace overlapbench {

constexpr std::size_t kBytes = 1 << 20;
// Long enough for wrongly released work to have run.
constexpr std::chrono::milliseconds kAWhile(30);

class DeviceTest : public OnEachBackend {
 protected:
  // A stream with a shut gate in it: what is enqueued behind it stays until Release.
  struct HeldStream {
    explicit HeldStream(Device& device) : stream(device.CreateStream()), gate(device.CreateGate()) {
      gate->Arm(*stream);
    }
    ~HeldStream() { gate->Release(); }
    HeldStream(const HeldStream&) = delete;
    HeldStream& operator=(const HeldStream&) = delete;

    std::unique_ptr<Stream> stream;
    std::unique_ptr<Gate> gate;
  };
  static void Finish(Stream& stream) { stream.Synchronize(kPatience, "the test"); }
  static std::vector<std::uint8_t> Pattern(std::size_t bytes) {
    std::vector<std::uint8_t> pattern(bytes);
    for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::uint8_t>(i * 31 >> 3);
    return pattern;
  }
  // Pattern(bytes), through memory of a kind and back.
  std::vector<std::uint8_t> CopiedThrough(MemoryKind kind, std::size_t bytes) {
    const auto stream = device().CreateStream();
    const auto sent = Pattern(bytes);
    const Buffer through = device().Allocate(bytes, kind);
    std::vector<std::uint8_t> received(bytes);
    stream->Copy(through.data(), sent.data(), bytes);
    stream->Copy(received.data(), through.data(), bytes);
    Finish(*stream);
    return received;
  }
  // All of a buffer in pieces of 1, 2, 3, … bytes.
  static std::vector<CopyPiece> PiecesOf(const Buffer& to, const Buffer& from) {
    std::vector<CopyPiece> pieces;
    std::size_t first = 0;
    for (std::size_t bytes = 1; first < to.bytes(); ++bytes) {
      bytes = std::min(bytes, to.bytes() - first);
      pieces.push_back({static_cast<std::byte*>(to.data()) + first,
                        static_cast<const std::byte*>(from.data()) + first, bytes});
      first += bytes;
    }
    return pieces;
  }
  static void ExpectError(const std::string& text, const std::function<void()>& action) {
    try {
      action();
      FAIL() << "no error: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), text);
    }
  }
  static bool IsDoneSoon(const Event& event) {
    std::this_thread::sleep_for(kAWhile);
    return event.Done();
  }
};

}  // namespace overlapbench
