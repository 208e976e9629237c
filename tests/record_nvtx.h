// An NVTX tool for tests: a library that NVTX loads instead of a profiler's if the environment
// names it (NVTX_INJECTION64_PATH), and that records the ranges.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace overlapbench {

struct RecordedRange {
  std::string name;
  std::string category;
  std::optional<std::uint64_t> payload;
  std::size_t depth = 0;  // in how many other ranges
};

struct NvtxRecord {
  // Handles point into these.
  std::deque<std::string> domains;
  std::deque<std::string> registered;
  std::map<std::uint32_t, std::string> categories;
  std::vector<RecordedRange> ranges;  // in order of their begin
  std::size_t open = 0;
};

NvtxRecord& TheNvtxRecord();

}  // namespace overlapbench
