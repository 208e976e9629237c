// Which typing errors get a suggestion, and which words are too different.
#include <gtest/gtest.h>

#include "device/text.h"

namespace overlapbench {
namespace {

const std::vector<std::string> kAxes = {"bytes", "cache", "cadence", "grid", "n"};

TEST(DidYouMean, CorrectsOneTypo) {
  for (const char* slip : {"grdi", "gird", "rgid", "grit", "gri", "girid", "grid"})
    EXPECT_EQ(DidYouMean(slip, kAxes), "; did you mean grid?") << slip;
}

TEST(DidYouMean, CorrectsTwoTyposInALongWord) {
  EXPECT_EQ(DidYouMean("--benchmark_fitler", {"--benchmark_out", "--benchmark_filter"}),
            "; did you mean --benchmark_filter?");
  EXPECT_EQ(DidYouMean("caddance", kAxes), "; did you mean cadence?");
}

TEST(DidYouMean, IgnoresCase) {
  EXPECT_EQ(DidYouMean("Alltoall", {"AllGather", "AllToAll"}), "; did you mean AllToAll?");
  EXPECT_EQ(DidYouMean("GIRD", kAxes), "; did you mean grid?");
}

TEST(DidYouMean, DoesNotGuess) {
  for (const char* other : {"", "trid_", "grids_of", "stride", "precision", "id", "gr", "gridxx",
                            "ggrd", "grxi", "igid", "grdg", "gixd", "rxid", "rgidx"})
    EXPECT_EQ(DidYouMean(other, kAxes), "") << other;
  EXPECT_EQ(DidYouMean("grid", {}), "");
  EXPECT_EQ(DidYouMean("?", {"2", "1"}), "") << "nothing of it is left";
  EXPECT_EQ(DidYouMean(std::string(1000, 'g'), kAxes), "");
}

TEST(DidYouMean, WordsHaveUpTo100Letters) {
  const std::string known(101, 'g');
  EXPECT_EQ(DidYouMean(std::string(100, 'g'), {known}), "; did you mean " + known + "?");
  EXPECT_EQ(DidYouMean(known, {known}), "");
}

// Two letters are swapped in the word only if both are of the word.
TEST(DidYouMean, ReadsNothingBeforeTheWord) {
  EXPECT_EQ(DidYouMean(std::string_view("rgid").substr(1), {"grid"}), "; did you mean grid?");
}

}  // namespace
}  // namespace overlapbench
