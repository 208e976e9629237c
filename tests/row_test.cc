// Rows: what they copy from Google Benchmark's Run, and how names are split for the tables.
#include "report/row.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "google_run.h"
#include "report/csv.h"

namespace overlapbench {
namespace {

constexpr const char* kName = "Overlap/AllToAll+Gemm/bytes:67108864/grid:16x16/cache:cold";

TEST(Row, IsConvertedFromARun) {
  GoogleRun run = Measured(kName);
  run.report_label = "a finding";
  const Row row = MakeRow(run);
  EXPECT_EQ(row.name, kName);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "a finding");
  EXPECT_TRUE(row.measured());
  EXPECT_DOUBLE_EQ(row.time_ms, 4);
  EXPECT_DOUBLE_EQ(row.Counter("furlongs"), 12);
  EXPECT_DOUBLE_EQ(row.Counter("nothing"), 0);
}

// Google Benchmark has times in seconds, whatever unit it shows them in.
TEST(Row, HasItsTimeInMillisecondsWhateverTheUnit) {
  for (const auto unit : {benchmark::kNanosecond, benchmark::kMicrosecond, benchmark::kMillisecond,
                          benchmark::kSecond}) {
    GoogleRun run = Measured(kName);
    run.time_unit = unit;
    EXPECT_DOUBLE_EQ(MakeRow(run).time_ms, 4) << benchmark::GetTimeUnitString(unit);
  }
}

TEST(Row, TakesItsStateFromACounterThatItDrops) {
  for (const RowState state : {RowState::kOk, RowState::kSerialized, RowState::kInvalid}) {
    const Row row = MakeRow(InState(Measured(kName), state, "a finding"));
    EXPECT_EQ(row.state, state);
    EXPECT_EQ(row.reason, "a finding");
    EXPECT_TRUE(row.measured());
    EXPECT_FALSE(row.counters.contains(kStateCounter));
  }
}

TEST(Row, IsAnErrorWithTheReasonOfAFailedRun) {
  const Row row = MakeRow(Failed(InState(Measured(kName), RowState::kOk, ""), "wrong result"));
  EXPECT_EQ(row.state, RowState::kError);
  EXPECT_EQ(row.reason, "wrong result");
  EXPECT_FALSE(row.measured());
}

TEST(Split, SeparatesScenarioAndAxes) {
  const auto [scenario, axes] = Split(kName);
  EXPECT_EQ(scenario, "Overlap/AllToAll+Gemm");
  EXPECT_EQ(axes, "/bytes:67108864/grid:16x16/cache:cold");
}

TEST(Split, KeepsAFamilyOfTwoWordsWhole) {
  const auto [scenario, axes] = Split("Lab/Link/Broadcast/bytes:64/cache:cold");
  EXPECT_EQ(scenario, "Lab/Link/Broadcast");
  EXPECT_EQ(axes, "/bytes:64/cache:cold");
}

TEST(Split, LeavesANameWithoutAxesWhole) {
  EXPECT_EQ(Split("Lab/Link/Broadcast").scenario, "Lab/Link/Broadcast");
  EXPECT_EQ(Split("Overlap/AllToAll+Gemm").scenario, "Overlap/AllToAll+Gemm");
  EXPECT_EQ(Split("Overlap/AllToAll+Gemm").axes, "");
}

TEST(AxisValue, IsFoundByTheWholeNameOfTheAxis) {
  EXPECT_EQ(AxisValue(kName, "grid"), "16x16");
  EXPECT_EQ(AxisValue(kName, "cache"), "cold");
  EXPECT_EQ(AxisValue(kName, "place"), "");
  EXPECT_EQ(AxisValue("Compute/StreamKernel/array_bytes:8/blocks:4", "bytes"), "");
}

TEST(WithoutAxis, RemovesOneAxis) {
  const std::string axes = Split(kName).axes;
  EXPECT_EQ(WithoutAxis(axes, "bytes"), "/grid:16x16/cache:cold");
  EXPECT_EQ(WithoutAxis(axes, "grid"), "/bytes:67108864/cache:cold");
  EXPECT_EQ(WithoutAxis(axes, "cache"), "/bytes:67108864/grid:16x16");
  EXPECT_EQ(WithoutAxis(axes, "place"), axes);
}

TEST(ReadableAxes, ShortensOnlyWholeByteSizes) {
  EXPECT_EQ(ReadableAxes("/bytes:67108864/grid:16x16"), "bytes:64M grid:16x16");
  EXPECT_EQ(ReadableAxes("/array_bytes:2147483648/blocks:1024"), "array_bytes:2G blocks:1024");
  EXPECT_EQ(ReadableAxes("/bytes:1536"), "bytes:1536");
  EXPECT_EQ(ReadableAxes("/bytes:1024"), "bytes:1K");
  EXPECT_EQ(ReadableAxes("/bytes:1"), "bytes:1");
  EXPECT_EQ(ReadableAxes("/n:1048576"), "n:1048576");
  EXPECT_EQ(ReadableAxes(""), "");
}

TEST(Csv, HasTimesInTheUnitThatItNames) {
  Row row;
  row.name = kName;
  row.time_ms = 1.5;
  for (const auto& [unit, time] :
       {std::pair{"ns", "1500000"}, {"us", "1500"}, {"ms", "1.5"}, {"s", "0.0015"}})
    EXPECT_EQ(Csv(CounterTable(), {row}, {unit}),
              fmt::format("name,real_time,time_unit,state,reason\n{},{},{},ok,\"\"\n", kName, time,
                          unit));
}

}  // namespace
}  // namespace overlapbench
