// Which typing errors get a suggestion, and which words are too different.
#include "device/suggestion.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

const std::vector<std::string> kAxes = {"bytes", "cache", "cadence", "grid", "n"};

TEST(DidYouMean, CorrectsOneTypo) {
  for (const char* slip : {"grdi", "gird", "grit", "gri", "girid", "grid"})
    EXPECT_EQ(DidYouMean(slip, kAxes), "; did you mean grid?") << slip;
}

TEST(DidYouMean, CorrectsTwoTyposInALongWord) {
  EXPECT_EQ(DidYouMean("--benchmark_fitler", {"--benchmark_out", "--benchmark_filter"}),
            "; did you mean --benchmark_filter?");
  EXPECT_EQ(DidYouMean("caddance", kAxes), "; did you mean cadence?");
}

TEST(DidYouMean, DoesNotGuess) {
  for (const char* other : {"", "trid_", "grids_of", "stride", "precision"})
    EXPECT_EQ(DidYouMean(other, kAxes), "") << other;
  EXPECT_EQ(DidYouMean("grid", {}), "");
  EXPECT_EQ(DidYouMean(std::string(1000, 'g'), kAxes), "");
}

}  // namespace
}  // namespace overlapbench
