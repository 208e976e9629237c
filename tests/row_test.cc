// Rows: what is taken from Google Benchmark's Run, and how names are taken apart for the tables.
#include "report/row.h"

#include <gtest/gtest.h>

#include <string>

namespace overlapbench {
namespace {

using GoogleRun = benchmark::BenchmarkReporter::Run;

constexpr const char* kName = "Overlap/AllToAll+Gemm/bytes:67108864/grid:16x16/cache:cold";

GoogleRun Measured() {
  GoogleRun run;
  run.run_name.function_name = kName;
  run.run_name.iterations = "iterations:1";
  run.report_label = "a label";
  run.time_unit = benchmark::kMillisecond;
  run.iterations = 2;
  run.real_accumulated_time = 0.008;
  run.counters["slowdown"] = 1.25;
  run.counters["valid"] = 1;
  return run;
}

// Google Benchmark 1.8 renamed the members that say a run was skipped.
template <class AnyRun>
AnyRun Failed(AnyRun run, const std::string& message) {
  if constexpr (requires { run.skip_message; }) {
    using Skipped = decltype(run.skipped);
    run.skipped = Skipped::SkippedWithError;
    run.skip_message = message;
  } else {
    run.error_occurred = true;
    run.error_message = message;
  }
  return run;
}

TEST(Row, IsTakenFromARun) {
  const Row row = MakeRow(Measured());
  EXPECT_EQ(row.name, kName);
  EXPECT_EQ(row.label, "a label");
  EXPECT_DOUBLE_EQ(row.time_ms, 4);
  EXPECT_DOUBLE_EQ(row.Counter("slowdown"), 1.25);
  EXPECT_DOUBLE_EQ(row.Counter("nothing"), 0);
  EXPECT_EQ(row.error, "");
  EXPECT_TRUE(row.valid());
}

TEST(Row, OfAFailedRunHasItsErrorAndIsNotValid) {
  const Row row = MakeRow(Failed(Measured(), "wrong result"));
  EXPECT_EQ(row.error, "wrong result");
  EXPECT_FALSE(row.valid());
}

TEST(Row, IsNotValidWithoutTheCounterThatSaysSo) {
  GoogleRun run = Measured();
  run.counters["valid"] = 0;
  EXPECT_FALSE(MakeRow(run).valid());
  run.counters.erase("valid");
  EXPECT_FALSE(MakeRow(run).valid());
}

TEST(Split, SeparatesScenarioAndAxes) {
  const auto [scenario, axes] = Split(kName);
  EXPECT_EQ(scenario, "Overlap/AllToAll+Gemm");
  EXPECT_EQ(axes, "/bytes:67108864/grid:16x16/cache:cold");
}

TEST(Split, LeavesANameWithoutAxesWhole) {
  EXPECT_EQ(Split("Overlap/AllToAll+Gemm").scenario, "Overlap/AllToAll+Gemm");
  EXPECT_EQ(Split("Overlap/AllToAll+Gemm").axes, "");
}

TEST(AxisValue, IsFoundByTheAxisWholeName) {
  EXPECT_EQ(AxisValue(kName, "grid"), "16x16");
  EXPECT_EQ(AxisValue(kName, "cache"), "cold");
  EXPECT_EQ(AxisValue(kName, "place"), "");
  EXPECT_EQ(AxisValue("Compute/StreamKernel/array_bytes:8/blocks:4", "bytes"), "");
}

TEST(WithoutAxis, TakesOneAxisOut) {
  const std::string axes = Split(kName).axes;
  EXPECT_EQ(WithoutAxis(axes, "bytes"), "/grid:16x16/cache:cold");
  EXPECT_EQ(WithoutAxis(axes, "grid"), "/bytes:67108864/cache:cold");
  EXPECT_EQ(WithoutAxis(axes, "cache"), "/bytes:67108864/grid:16x16");
  EXPECT_EQ(WithoutAxis(axes, "place"), axes);
}

TEST(ReadableAxes, ShortensWholeSizesOfBytesAlone) {
  EXPECT_EQ(ReadableAxes("/bytes:67108864/grid:16x16"), "bytes:64M grid:16x16");
  EXPECT_EQ(ReadableAxes("/array_bytes:2147483648/blocks:1024"), "array_bytes:2G blocks:1024");
  EXPECT_EQ(ReadableAxes("/bytes:1536"), "bytes:1536");
  EXPECT_EQ(ReadableAxes("/bytes:1024"), "bytes:1K");
  EXPECT_EQ(ReadableAxes("/bytes:1"), "bytes:1");
  EXPECT_EQ(ReadableAxes("/n:1048576"), "n:1048576");
  EXPECT_EQ(ReadableAxes(""), "");
}

}  // namespace
}  // namespace overlapbench
