// A fake CUPTI, for tests without a GPU.
//
// A program that links it loads it under the name of NVIDIA's library (libcupti.so.13 with CUDA
// 13), so Cupti finds it. It delivers the records that a test adds, and fails the calls that a test
// chooses. Its clock is a day ahead of the steady clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace overlapbench {

struct FakeCupti {
  static constexpr std::uint64_t kAhead_ns = 86'400'000'000'000;
  // Room for the largest record. CUPTI's own records have the sizes of their kinds.
  using Record = std::array<std::uint8_t, 512>;

  // `record`: a struct of CUPTI's, which the next flush hands over.
  template <class Struct>
  void Add(const Struct& record) {
    static_assert(sizeof(Struct) <= sizeof(Record));
    std::memcpy(records.emplace_back().data(), &record, sizeof(Struct));
  }

  std::map<std::string, int> refused;  // by function: the error it returns
  int subscribers = 0;                 // that are there now
  int registrations = 0;               // of callbacks for buffers
  std::vector<Record> records;         // since the last flush
  std::size_t dropped = 0;             // that the next buffer had no room for
  std::map<std::pair<int, std::uint32_t>, std::string> calls;  // names, by domain and id
  std::set<std::pair<int, std::uint32_t>> silenced;            // calls that are not to be recorded
};

// What the library answers from, and what it has seen.
FakeCupti& TheFakeCupti();

}  // namespace overlapbench
