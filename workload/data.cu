#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "workload/data.h"
#include "workload/find_fault.h"

namespace overlapbench {
namespace {

constexpr int kBlocks = 1024;

struct FillFractionsBody {
  static constexpr int kThreads = 256;
  void* data;
  long count;
  Element element;
  std::uint32_t seed;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this](long i) { Store(data, i, element, RandomFraction(seed, i)); });
  }
};

struct FillIntegersBody {
  static constexpr int kThreads = 256;
  void* data;
  long count;
  Element element;
  std::uint32_t seed;
  int most;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this](long i) { Store(data, i, element, RandomInteger(seed, i, most)); });
  }
};

struct FillCollectiveBody {
  static constexpr int kThreads = 256;
  void* data;
  long count;
  Element element;
  CollectiveInput input;
  int rank;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this](long i) { Store(data, i, element, input.At(rank, i)); });
  }
};

struct PoisonBody {
  static constexpr int kThreads = 256;
  unsigned char* data;
  long bytes;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(bytes, [this](long i) { data[i] = 0xFF; });
  }
};

struct WrittenBody {
  static constexpr int kThreads = 256;
  const void* data;
  long count;
  Element element;
  long* faults;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this, &block](long i) {
      const double value = Load(data, i, element);
      if (value != value) faults[block.index] = i;  // only a NaN differs from itself
    });
  }
};

double ReadElement(Stream& stream, const void* data, long index, Element element,
                   std::chrono::milliseconds timeout) {
  std::array<std::byte, 8> bytes{};
  stream.Copy(bytes.data(), static_cast<const std::byte*>(data) + index * SizeOf(element),
              SizeOf(element));
  stream.Synchronize(timeout, "reading a faulty element");
  return Load(bytes.data(), 0, element);
}

}  // namespace

void FillFractions(Stream& stream, void* data, long count, Element element, std::uint32_t seed) {
  Launch(stream, kBlocks, FillFractionsBody{data, count, element, seed});
}

void FillIntegers(Stream& stream, void* data, long count, Element element, std::uint32_t seed,
                  int most) {
  Launch(stream, kBlocks, FillIntegersBody{data, count, element, seed, most});
}

void FillCollective(Stream& stream, void* data, long count, Element element,
                    const CollectiveInput& input, int rank) {
  Launch(stream, kBlocks, FillCollectiveBody{data, count, element, input, rank});
}

void Poison(Stream& stream, void* data, std::size_t bytes) {
  Launch(stream, kBlocks, PoisonBody{static_cast<unsigned char*>(data), static_cast<long>(bytes)});
}

// Multiplying by an odd number and rotating are both reversible, so a change of one word changes
// the result.
std::uint64_t FingerprintOf(const void* data, std::size_t bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
  constexpr int kRotation = 27;
  const auto* words = static_cast<const std::uint32_t*>(data);
  std::uint64_t state = kOdd;
  for (std::size_t i = 0; i < bytes / sizeof(std::uint32_t); ++i) {
    state = std::rotl((state ^ words[i]) * kOdd, kRotation);
  }
  return state;
}

Verdict FaultAt(const Machine& machine, Stream& stream, const void* data, long count,
                Element element, long index, double expected) {
  std::ostringstream text;
  text << "element " << index << " of " << count << " is "
       << ReadElement(stream, data, index, element, machine.timeout) << ", expected " << expected;
  return {1, 0, text.str()};
}

Verdict FindFault(const Machine& machine, Stream& stream, const void* data, long count,
                  Element element, const ExpectedSegments& expected) {
  return FindFaultIn(machine, stream, data, count, element, expected);
}

std::string FindUnwritten(Device& device, Stream& stream, const void* data, long count,
                          Element element, std::chrono::milliseconds timeout) {
  const long index = SmallestFault(device, stream, timeout, [&](long* faults) {
    return WrittenBody{data, count, element, faults};
  });
  if (index < 0) return "";
  return "element " + std::to_string(index) + " of " + std::to_string(count) + " was not written";
}

}  // namespace overlapbench
