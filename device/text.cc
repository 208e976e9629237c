#include "device/text.h"

#include <algorithm>
#include <cctype>

namespace overlapbench {
namespace {

char Lower(char letter) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

// How many letters must be added, left out, replaced, or swapped with their neighbour to get from
// one word to the other (optimal string alignment), whose case does not matter.
std::size_t Slips(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> slips(from.size() + 1,
                                              std::vector<std::size_t>(to.size() + 1));
  const auto same = [&](std::size_t i, std::size_t j) { return Lower(from[i]) == Lower(to[j]); };
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        slips[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = slips[i - 1][j - 1] + (same(i - 1, j - 1) ? 0 : 1);
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1);
      if (swapped) slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
    }
  }
  return slips[from.size()][to.size()];
}

}  // namespace

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  // Words of a few letters are too similar to allow more than one slip.
  constexpr std::size_t kLettersForASlip = 4;
  constexpr std::size_t kLongest = 100;  // longer than any known word
  if (word.empty() || word.size() > kLongest || known.empty()) return "";
  const auto slips = [&](const std::string& other) { return Slips(word, other); };
  const std::string& nearest = *std::ranges::min_element(known, {}, slips);
  const std::size_t most = std::max<std::size_t>(1, word.size() / kLettersForASlip);
  // Something of the word must be left.
  const bool is_alike = slips(nearest) <= std::min(most, word.size() - 1);
  return is_alike ? "; did you mean " + nearest + "?" : "";
}

}  // namespace overlapbench
