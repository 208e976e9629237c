#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <sstream>
#include <vector>

#include "workload/data.h"
#include "workload/find_fault.h"

namespace overlapbench {
namespace {

constexpr int kDataBlocks = 1024;

struct FillFractionsBody {
  static constexpr int kThreads = 256;
  void* data;
  long count;
  Element element;
  std::uint32_t seed;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    WithElement(element, [this, &block]<Element kElement>() {
      block.ForEach(count, [this](long i) { Store(data, i, kElement, RandomFraction(seed, i)); });
    });
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
    WithElement(element, [this, &block]<Element kElement>() {
      block.ForEach(count,
                    [this](long i) { Store(data, i, kElement, RandomInteger(seed, i, most)); });
    });
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
    WithElement(element, [this, &block]<Element kElement>() {
      block.ForEach(count, [this](long i) { Store(data, i, kElement, input.At(rank, i)); });
    });
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
  MatrixView matrix;
  long* faults;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(matrix.rows * matrix.columns, [this, &block](long i) {
      const long place = i / matrix.columns * matrix.stride + i % matrix.columns;
      const double value = Load(matrix.data, place, matrix.element);
      if (value != value) faults[block.index] = i;  // only a NaN differs from itself
    });
  }
};

// Every thread adds up its words, each mixed with its position so that any bit of either changes
// about half of the sum's bits (splitmix64: G. Steele et al., Fast Splittable Pseudorandom Number
// Generators, 2014).
struct FingerprintBody {
  static constexpr int kThreads = 256;
  const std::uint32_t* data;
  long words;
  std::uint64_t first_word;
  std::uint64_t* sums;  // one per thread
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    std::uint64_t sum = 0;
    block.ForEach(words, [this, &sum](long i) {
      std::uint64_t mixed = (first_word + i) * 0x9E3779B97F4A7C15U + data[i];
      mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9U;
      mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBU;
      sum += mixed ^ mixed >> 31;
    });
    sums[block.index * block.threads + block.thread] = sum;
  }
};

// Searches row by row, without the gaps between rows. Negative: all were written.
long FirstUnwritten(Device& device, Stream& stream, const MatrixView& matrix,
                    std::chrono::milliseconds timeout) {
  return SmallestFault(device, stream, timeout,
                       [&](long* faults) { return WrittenBody{matrix, faults}; });
}

}  // namespace

double ReadElement(Stream& stream, const void* data, long index, Element element,
                   std::chrono::milliseconds timeout) {
  std::array<std::byte, 8> bytes{};
  stream.Copy(bytes.data(), static_cast<const std::byte*>(data) + index * SizeOf(element),
              SizeOf(element));
  stream.Synchronize(timeout, "reading a faulty element");
  return Load(bytes.data(), 0, element);
}

void FillFractions(Stream& stream, void* data, long count, Element element, std::uint32_t seed) {
  Launch(stream, kDataBlocks, FillFractionsBody{data, count, element, seed});
}

void FillIntegers(Stream& stream, void* data, long count, Element element, std::uint32_t seed,
                  int most) {
  Launch(stream, kDataBlocks, FillIntegersBody{data, count, element, seed, most});
}

void FillCollective(Stream& stream, void* data, long count, Element element,
                    const CollectiveInput& input, int rank) {
  Launch(stream, kDataBlocks, FillCollectiveBody{data, count, element, input, rank});
}

void Poison(Stream& stream, void* data, std::size_t bytes) {
  Launch(stream, kDataBlocks,
         PoisonBody{static_cast<unsigned char*>(data), static_cast<long>(bytes)});
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

std::uint64_t FingerprintOnDevice(Device& device, Stream& stream, const void* data,
                                  std::size_t bytes, std::uint64_t first_word,
                                  std::chrono::milliseconds timeout) {
  // Starts at zero, since the host backend's blocks have one thread.
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(kDataBlocks) *
                                  FingerprintBody::kThreads);
  const std::size_t sums_bytes = sums.size() * sizeof(sums[0]);
  const Buffer on_device = device.Allocate(sums_bytes, MemoryKind::kDevice);
  stream.Copy(on_device.data(), sums.data(), sums_bytes);
  Launch(stream, kDataBlocks,
         FingerprintBody{static_cast<const std::uint32_t*>(data),
                         static_cast<long>(bytes / sizeof(std::uint32_t)), first_word,
                         static_cast<std::uint64_t*>(on_device.data())});
  stream.Copy(sums.data(), on_device.data(), sums_bytes);
  stream.Synchronize(timeout, "reading a fingerprint");
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
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
  const MatrixView row{data, element, 1, count, count};
  const long index = FirstUnwritten(device, stream, row, timeout);
  if (index < 0) return "";
  return "element " + std::to_string(index) + " of " + std::to_string(count) + " was not written";
}

std::string FindUnwritten(Device& device, Stream& stream, const MatrixView& matrix,
                          std::chrono::milliseconds timeout) {
  const long index = FirstUnwritten(device, stream, matrix, timeout);
  if (index < 0) return "";
  return "element [" + std::to_string(index / matrix.columns) + "," +
         std::to_string(index % matrix.columns) + "] was not written";
}

}  // namespace overlapbench
