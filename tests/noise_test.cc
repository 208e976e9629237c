// When a row is noisy, by its interval and by what disturbed it.
#include "fixtures/noise.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace overlapbench {
namespace {

RowCertainty Quiet() { return {.margin = 0.01, .groups = 20}; }

RowCertainty Disturbed(const RowLoad& load) {
  RowCertainty row = Quiet();
  row.load = load;
  return row;
}

std::string NoiseAt(Backend backend, double margin) {
  RowCertainty row = Quiet();
  row.backend = backend;
  row.margin = margin;
  return NoiseOf(row);
}

TEST(Noise, AHostRowsIntervalMayBeFiveTimesAsWideAsAGpus) {
  EXPECT_EQ(NoiseAt(Backend::kCuda, 0.05), "");
  EXPECT_EQ(NoiseAt(Backend::kCuda, 0.051),
            "known to ±5 % only: its times vary, but no other load was seen");
  EXPECT_EQ(NoiseAt(Backend::kHost, 0.25), "");
  EXPECT_NE(NoiseAt(Backend::kHost, 0.251), "");
}

TEST(Noise, OneSampleSaysNothing) {
  EXPECT_EQ(NoiseAt(Backend::kHost, std::numeric_limits<double>::infinity()),
            "one sample says nothing about the spread; raise --budget_ms");
}

// Each cause alone, however narrow the interval, from 5 % on.
TEST(Noise, ADisturbanceMakesARowNoisyByItself) {
  struct Case {
    RowLoad below;
    RowLoad above;
    std::string noise;
  };
  const std::vector<Case> cases = {
      {{.waited_share = 0.9, .foreign_cores = 2, .lost_share = 0.05},
       {.waited_share = 0.34, .foreign_cores = 0.66, .lost_share = 0.051},
       "a thread waited for a core 34 % of its time, while other processes used 0.7 cores"},
      {{.stolen_share = 0.05},
       {.stolen_share = 0.12},
       "the hypervisor took 12 % of the cores' time"},
      {{.limited_share = 0.05},
       {.limited_share = 0.3},
       "a CPU limit stopped cores for 30 % of the time"},
      {{.page_ins = 0.1},
       {.page_ins = 0.2},
       "0.2 page faults per group of samples waited for a disk"},
      {{.gpu_processes = 0}, {.gpu_processes = 1}, "1 other process uses a GPU"},
      {{.gpu_processes = 0}, {.gpu_processes = 2}, "2 other processes use a GPU"}};
  for (const Case& one : cases) {
    EXPECT_EQ(NoiseOf(Disturbed(one.below)), "") << one.noise;
    EXPECT_EQ(NoiseOf(Disturbed(one.above)), "disturbed: " + one.noise);
    RowCertainty wide = Disturbed(one.above);
    wide.margin = 0.8;
    EXPECT_EQ(NoiseOf(wide), "known to ±80 % only: " + one.noise);
  }
}

TEST(Noise, WhatDisturbsTheHostCountsOnlyIfItTakesPart) {
  for (const RowLoad& load : {RowLoad{.waited_share = 0.3, .foreign_cores = 1, .lost_share = 0.3},
                              {.stolen_share = 0.3},
                              {.limited_share = 0.3},
                              {.page_ins = 3}}) {
    RowCertainty row = Disturbed(load);
    row.host_takes_part = false;
    EXPECT_EQ(NoiseOf(row), "");
    const std::string prefix = "disturbed: ";
    const std::string disturbed = NoiseOf(Disturbed(load));
    ASSERT_TRUE(disturbed.starts_with(prefix));
    row.margin = 0.8;
    EXPECT_EQ(NoiseOf(row), "known to ±80 % only: " + disturbed.substr(prefix.size()));
  }
  RowCertainty row = Disturbed({.gpu_processes = 1});
  row.host_takes_part = false;
  EXPECT_EQ(NoiseOf(row), "disturbed: 1 other process uses a GPU");
}

TEST(Noise, AWideIntervalHasALikelyCause) {
  RowCertainty row{.margin = 0.3, .groups = 9, .load = {.waited_share = 0.5}};
  EXPECT_EQ(NoiseOf(row), "known to ±30 % only: 9 samples are too few; raise --budget_ms");
  row.groups = 10;
  EXPECT_EQ(NoiseOf(row),
            "known to ±30 % only: the ranks' own threads waited for each other, for 50 % of their "
            "time");
  row.load.waited_share = 0.1;
  EXPECT_EQ(NoiseOf(row), "known to ±30 % only: its times vary, but no other load was seen");
}

TEST(Noise, AnImpossibleRowIsNoisyHoweverNarrow) {
  RowCertainty row = Quiet();
  row.impossible = "faster than light";
  EXPECT_EQ(NoiseOf(row), "faster than light");
}

TEST(Noise, ANoisyRowKeepsItsFinding) {
  const Remark plain = WithNoise({}, "wide");
  EXPECT_EQ(plain.state, RowState::kNoisy);
  EXPECT_EQ(plain.reason, "wide");
  EXPECT_EQ(WithNoise(Remark::Finding("a limp"), "wide").reason, "wide; a limp");
  EXPECT_EQ(WithNoise(Remark::Serialized("waited"), "wide").state, RowState::kNoisy);
  EXPECT_EQ(WithNoise(Remark::Finding("a limp"), "").state, RowState::kOk);
  EXPECT_EQ(WithNoise(Remark::Finding("a limp"), "").reason, "a limp");
}

TEST(Noise, AControlAndAnInvalidRowStayWhatTheyAre) {
  for (const Remark& remark :
       {Remark::Control("one stream"), Remark::Noisy("impossible"), Remark::Invalid("throttled")}) {
    const Remark after = WithNoise(remark, "wide");
    EXPECT_EQ(after.state, remark.state);
    EXPECT_EQ(after.reason, remark.reason);
  }
}

}  // namespace
}  // namespace overlapbench
