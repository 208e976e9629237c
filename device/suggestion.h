// "Did you mean": the known word that was probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace overlapbench {

// "; did you mean grid?" if `word` is within a typo or two of one of `known`, else "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace overlapbench
