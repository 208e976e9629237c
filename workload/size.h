// Sizes as people write them: 4096, 64K, 1M, 2G, 1T, in powers of 1024.
//
// Names contain sizes in digits, because a name identifies a configuration forever. Tables show
// them as 64 KiB. Users may write either (axis.h, benchmarks/name_filter.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace overlapbench {

bool IsDigit(char c);
// Letters, digits and '_'.
bool IsOfAWord(char c);

// nullopt if `text` is not a whole number with or without one of these letters, or is too large.
std::optional<long> ReadSize(std::string_view text);

// "67108864" as "64 MiB", in its largest whole unit; a text that is no number as it is.
std::string BinarySize(std::string_view digits);

// `text` with every size in it in digits: "bytes:(1M|64M)/" as "bytes:(1048576|67108864)/".
std::string WithSizesInDigits(std::string_view text);

}  // namespace overlapbench
