// FindFaultIn: finds where an array on the device differs from its expected contents. The
// comparison runs on the device.
//
// The expected contents are a function of the index: `Expected` is a copyable struct with
//
//   OVERLAPBENCH_BODY double At(long i) const;
//
// FindFault (data.h) does this for ExpectedSegments. Only for files that end in .cu (launch.h).
#pragma once

#include <vector>

#include "device/launch.h"
#include "workload/data.h"

namespace overlapbench {

// Each block notes one faulty index, or leaves −1. Threads of a block may overwrite each other's
// note, since any one fault is enough.
template <class Expected>
struct CompareBody {
  static constexpr int kThreads = 256;
  const void* data;
  long count;
  Element element;
  Expected expected;
  long* faults;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this, &block](long i) {
      if (Load(data, i, element) != expected.At(i)) faults[block.index] = i;
    });
  }
};

// Runs make_body(faults) and returns the smallest fault noted, or −1.
template <class MakeBody>
long SmallestFault(Device& device, Stream& stream, std::chrono::milliseconds timeout,
                   const MakeBody& make_body) {
  constexpr int kBlocks = 1024;
  const Buffer faults = device.Allocate(kBlocks * sizeof(long), MemoryKind::kDevice);
  Poison(stream, faults.data(), faults.bytes());  // −1 everywhere
  Launch(stream, kBlocks, make_body(static_cast<long*>(faults.data())));
  std::vector<long> found(kBlocks);
  stream.Copy(found.data(), faults.data(), faults.bytes());
  stream.Synchronize(timeout, "verifying a result");
  long smallest = -1;
  for (const long index : found) {
    if (index >= 0 && (smallest < 0 || index < smallest)) smallest = index;
  }
  return smallest;
}

// The verdict on element `index`, which is not `expected`.
Verdict FaultAt(const Machine& machine, Stream& stream, const void* data, long count,
                Element element, long index, double expected);

template <class Expected>
Verdict FindFaultIn(const Machine& machine, Stream& stream, const void* data, long count,
                    Element element, const Expected& expected) {
  const long index = SmallestFault(machine.device, stream, machine.timeout, [&](long* faults) {
    return CompareBody<Expected>{data, count, element, expected, faults};
  });
  if (index < 0) return {};
  return FaultAt(machine, stream, data, count, element, index, expected.At(index));
}

}  // namespace overlapbench
