// Sizes as people write them: 4096, 64K, 1M, 2G, 1T, in powers of 1024.
//
// Names contain sizes in digits, because a name identifies a configuration forever. Tables show the
// short form. Users may write either (axis.h, benchmarks/name_filter.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace overlapbench {

// nullopt if `text` is not a whole number with or without one of these letters, or is too large.
std::optional<long> ReadSize(std::string_view text);

// "67108864" as "64M", if it is a whole number of a unit; any other text as it is.
std::string ShortSize(std::string_view digits);

// `text` with every size in it in digits: "bytes:(1M|64M)/" as "bytes:(1048576|67108864)/".
std::string WithSizesInDigits(std::string_view text);

}  // namespace overlapbench
