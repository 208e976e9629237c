// Rows: the numbers that they are written as, which of them belongs to a run of Google Benchmark,
// and how names are split for the tables.
#include "fixtures/row.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "device/error.h"
#include "google_run.h"
#include "report/csv.h"
#include "report/row_name.h"

namespace overlapbench {
namespace {

constexpr const char* kName = "Overlap/AllToAll+Gemm/bytes:67108864/grid:16x16/cache:cold";

TEST(Row, IsWrittenWithTheEndsOfItsIntervals) {
  Row row{.name = kName, .time_ms = {4, Interval{3, 5}}};
  row.counters["cv"] = 0.5;
  row.counters["slowdown"] = {2, Interval{1, 3}};
  EXPECT_EQ(NumbersOf(row), (std::map<std::string, double>{{"cv", 0.5},
                                                           {"slowdown", 2},
                                                           {"slowdown_low", 1},
                                                           {"slowdown_high", 3},
                                                           {"time_low_ms", 3},
                                                           {"time_high_ms", 5}}));
  EXPECT_EQ(row.Counter("slowdown"), 2);
  EXPECT_EQ(row.Counter("nothing"), 0);
}

TEST(Row, StatesHaveTheNamesOfTheResultFormat) {
  const std::vector<const char*> names = {"ok",    "serialized", "control",
                                          "noisy", "invalid",    "error"};
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_STREQ(ToString(static_cast<RowState>(i)), names[i]);
}

class FinishedRowsTest : public testing::Test {
 protected:
  void Finish(const std::string& name, double time_ms) {
    finished_.Add({.name = name, .time_ms = time_ms});
  }
  // The times of the rows of a report of so many repetitions.
  std::vector<double> Take(const std::string& name, int repetitions, int aggregates = 0) {
    std::vector<GoogleRun> runs(repetitions + aggregates, Measured(name).run);
    for (int i = 0; i < aggregates; ++i) runs[repetitions + i].run_type = GoogleRun::RT_Aggregate;
    std::vector<double> times_ms;
    for (const Row& row : finished_.Take(runs)) {
      EXPECT_EQ(row.name, name);
      times_ms.push_back(row.time_ms);
    }
    return times_ms;
  }

  FinishedRows finished_;
};
using Times = std::vector<double>;

// As with --benchmark_enable_random_interleaving.
TEST_F(FinishedRowsTest, AreTakenByTheirNameInTheOrderOfMeasuring) {
  Finish("Race/Horse", 1);
  Finish("Race/Mule", 2);
  Finish("Race/Horse", 3);
  Finish("Race/Mule", 4);
  EXPECT_EQ(Take("Race/Mule", 2), (Times{2, 4}));
  EXPECT_EQ(Take("Race/Horse", 2), (Times{1, 3}));
}

// Google Benchmark measures more and more iterations until they take long enough. It reports the
// last of these measurements, and the repetitions after it.
TEST_F(FinishedRowsTest, AreThoseThatGoogleBenchmarkKept) {
  for (int i = 1; i <= 4; ++i) Finish("Race/Horse", i);
  EXPECT_EQ(Take("Race/Horse", 2), (Times{3, 4}));
}

TEST_F(FinishedRowsTest, AreTakenOnce) {
  Finish("Race/Horse", 1);
  EXPECT_EQ(Take("Race/Horse", 1, 4), (Times{1}));
  EXPECT_EQ(Take("Race/Horse", 0, 4), Times{}) << "aggregates have no rows";
  EXPECT_THROW(Take("Race/Horse", 1), Error);
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

TEST(ReadableAxes, HaveSizesInBinaryUnits) {
  const auto readable = [](const std::string& axes) {
    std::string text;
    for (const auto& [axis, value] : ReadableAxes(axes)) text += axis + "=" + value + ";";
    return text;
  };
  EXPECT_EQ(readable("/bytes:67108864/grid:16x16"), "bytes=64 MiB;grid=16x16;");
  EXPECT_EQ(readable("/array_bytes:2147483648/blocks:1024"), "array_bytes=2 GiB;blocks=1024;");
  EXPECT_EQ(readable("/bytes:1536"), "bytes=1536 B;");
  EXPECT_EQ(readable("/n:1048576"), "n=1048576;");
  EXPECT_EQ(readable("/n"), "n=;");
  EXPECT_EQ(readable(""), "");
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
