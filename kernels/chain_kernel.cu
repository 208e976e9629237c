// ChainKernel: bound by the latency of memory. Each load reads the address of the next one.
//
// A buffer larger than the caches holds the next place for every place: (factor · place + added)
// mod places, a permutation with a single cycle (Hull and Dobell, "Random Number Generators", 1962:
// the number of places is a power of two, `added` is odd, and `factor` − 1 is a multiple of 4). One
// thread per SM, or core, follows it from its own place. Each run continues where the last one
// ended, so that it finds no places of an earlier run in a cache.
//
// Cost: none, since neither operations nor bytes say anything about it. A chain's correct end is
// known without following it: `chain_steps` such maps compose to one.

#include <bit>

#include "device/launch.h"
#include "kernels/chain_map.h"
#include "workload/data.h"
#include "workload/find_fault.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kChainSeed = 6400;
constexpr long kPlaceBytes = sizeof(std::uint32_t);
constexpr long kMostPlaces = 1L << 31;  // that an int32 can number

struct FillNextBody {
  static constexpr int kThreads = 256;
  std::uint32_t* next;
  long places;
  AffineMap map;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    const auto mask = static_cast<std::uint32_t>(places - 1);
    block.ForEach(places,
                  [this, mask](long i) { next[i] = map.At(static_cast<std::uint32_t>(i)) & mask; });
  }
};

// Where chain number `chain` starts.
OVERLAPBENCH_BODY inline std::uint32_t StartOf(long chain, long places) {
  return Random(kChainSeed, chain) & static_cast<std::uint32_t>(places - 1);
}

struct FillStartsBody {
  static constexpr int kThreads = 256;
  std::uint32_t* at;
  long chains;
  long places;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(chains, [this](long i) { at[i] = StartOf(i, places); });
  }
};

struct FollowBody {
  static constexpr int kThreads = 1;
  const std::uint32_t* next;
  std::uint32_t* at;
  long steps;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    std::uint32_t place = at[block.index];
    for (long step = 0; step < steps; ++step) place = next[place];
    at[block.index] = place;
  }
};

struct ExpectedPlaces {
  long places;
  AffineMap map;  // of all steps
  [[nodiscard]] OVERLAPBENCH_BODY double At(long i) const {
    return static_cast<double>(map.At(StartOf(i, places)) & static_cast<std::uint32_t>(places - 1));
  }
};

class ChainKernelWorkload : public Workload {
 public:
  ChainKernelWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        places_(settings.Integer("chain_bytes") / kPlaceBytes),
        steps_(settings.Integer("chain_steps")),
        next_(machine.device.Allocate(places_ * kPlaceBytes, MemoryKind::kDevice)),
        at_(machine.device.Allocate(chains() * kPlaceBytes, MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override { return {}; }

  void Reset(Stream& stream) override {
    constexpr int kFillBlocks = 1024;
    Launch(stream, kFillBlocks, FillNextBody{Places(next_), places_, kChainMap});
    Launch(stream, 1, FillStartsBody{Places(at_), chains(), places_});
  }

  void Enqueue(Stream& stream) override {
    Launch(stream, chains(), FollowBody{Places(next_), Places(at_), steps_});
  }

  Verdict Verify(Stream& stream) override {
    return FindFaultIn(machine_, stream, at_.data(), chains(), Element::kInt32,
                       ExpectedPlaces{places_, Repeated(kChainMap, steps_)});
  }

 private:
  [[nodiscard]] int chains() const { return machine_.device.info().multiprocessors; }
  static std::uint32_t* Places(const Buffer& buffer) {
    return static_cast<std::uint32_t*>(buffer.data());
  }

  Machine machine_;
  long places_;
  long steps_;
  Buffer next_;
  Buffer at_;
};

std::string ExcludedChain(const Settings& settings) {
  const long bytes = settings.Integer("chain_bytes");
  const long places = bytes / kPlaceBytes;
  if (!std::has_single_bit(static_cast<unsigned long>(bytes)) || places < 2 || places > kMostPlaces)
    return "chain_bytes must be a power of two from 8 to 8G";
  if (settings.Integer("chain_steps") >= places)
    return "chain_steps must be less than chain_bytes / 4, or a chain would end where it began";
  return "";
}

}  // namespace

std::vector<WorkloadSpec> ChainKernel(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "ChainKernel";
  spec.summary = "dependent loads from memory, one chain per SM";
  spec.axes = {
      BytesAxis("chain_bytes", "size of the buffer, a power of two", host ? "64M" : "256M"),
      IntegerAxis("chain_steps", "dependent loads of each chain", 1, 1L << 30,
                  host ? "20000" : "2000")};
  spec.excluded = ExcludedChain;
  spec.footprint = [&device = machine.device](const Settings& settings) {
    return Footprint{settings.Integer("chain_bytes") +
                         static_cast<std::size_t>(device.info().multiprocessors) * kPlaceBytes,
                     0};
  };
  spec.make = MakerOf<ChainKernelWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
