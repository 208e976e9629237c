// What the program prints instead of measuring.
#include "benchmarks/help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"

namespace overlapbench {
namespace {

std::string Printed(const std::function<void()>& prints) {
  testing::internal::CaptureStdout();
  prints();
  return testing::internal::GetCapturedStdout();
}
std::string AnswerTo(Question question) {
  return Printed([&] { Answer(question); });
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string HelpOn(const std::string& topic) {
  return Printed([&] { Answer(Question::kHelp, topic); });
}

// Together with what ./bench says of itself, the overview has at most 60 lines. A line that could
// be broken has at most 80 columns. What continues a table's last column begins where that column
// does.
TEST(Help, FitsAScreen) {
  const std::vector<std::string> overview = LinesOf(HelpOn(""));
  EXPECT_EQ(overview.front(),
            "overlapbench: what it costs to overlap computation and communication.");
  EXPECT_LE(overview.size(), 34U);
  for (const char* const topic : {"", "families", "axes", "counters", "flags"}) {
    for (const std::string& line : LinesOf(HelpOn(topic))) {
      const std::size_t column = line.rfind("  ") == std::string::npos ? 0 : line.rfind("  ") + 2;
      EXPECT_TRUE(line.size() <= 80 || line.find(' ', column) == std::string::npos) << line;
    }
  }
  const std::vector<std::string> lines = LinesOf(HelpOn("families"));
  const auto gelu =
      std::ranges::find_if(lines, [](const auto& line) { return line.starts_with("  Gelu "); });
  ASSERT_NE(gelu, lines.end());
  EXPECT_EQ(*gelu,
            "  Gelu            GELU, fused and not; 100 % is a device copy of as many bytes");
  EXPECT_EQ(gelu[1], "                  as the kernel must move, in the same run.");
}

TEST(Help, NamesEveryFamilyAndCounter) {
  const std::string families = HelpOn("families");
  const std::string overview = HelpOn("");
  for (const Family& family : AllFamilies()) {
    EXPECT_NE(families.find("\n  " + family.name + " "), std::string::npos) << family.name;
    EXPECT_NE(overview.find(family.name), std::string::npos) << family.name;
  }
  const std::string counters = HelpOn("counters");
  for (const char* const counter : {"m", "n", "k", "knee_sms"})
    EXPECT_NE(counters.find("\n  " + std::string(counter) + "  "), std::string::npos) << counter;
  for (const char* const topic : kHelpTopics)
    EXPECT_NE(overview.find(std::string("--help ") + topic), std::string::npos) << topic;
  const std::string markdown = AnswerTo(Question::kCountersAsMarkdown);
  EXPECT_NE(markdown.find("`knee_sms`"), std::string::npos);
  EXPECT_EQ(markdown.find('{'), std::string::npos);
  const std::string json = AnswerTo(Question::kCountersAsJson);
  EXPECT_TRUE(json.starts_with("{\n")) << json.substr(0, 9);
  EXPECT_TRUE(json.ends_with("]\n}\n") || json.ends_with("}\n}\n")) << json.substr(json.size() - 9);
  EXPECT_NE(json.find("\"knee_sms\""), std::string::npos);
}

// dev/update_counters.py keeps it as the tools' table.
TEST(Help, ListsEveryCounterAndFamilyAsTheToolsKnowThem) {
  std::ifstream known(COUNTERS);
  const std::string json = AnswerTo(Question::kCountersAsJson);
  int found = 0;
  for (std::string line; std::getline(known, line) && line != "\"workloads\": [";) {
    if (!line.starts_with("{\"name\": ")) continue;
    if (line.ends_with(',')) line.pop_back();
    EXPECT_NE(json.find("    " + line), std::string::npos) << "changed: " << line;
    ++found;
  }
  EXPECT_GT(found, 150);
}

TEST(Help, ListsThePatternsOfTimelines) {
  const std::string json = AnswerTo(Question::kCountersAsJson);
  for (const std::string pattern :
       {R"("many short kernels", "limit": 0.01, "least_pct": 10)",
        R"("gaps from late launches", "limit": 0.50, "least_pct": 5)",
        R"("copies and kernels in turn, on different streams", "limit": 0.10, "least_pct": 5)",
        R"("a starving device", "limit": 0.50, "least_pct": 5)"})
    EXPECT_NE(json.find(R"(    {"name": )" + pattern + R"(, "advice": )"), std::string::npos)
        << pattern;
}

// Of workloads, of scenarios and of samples, with what each of them says.
TEST(Help, NamesEveryAxisOnce) {
  const std::vector<std::string> lines = LinesOf(HelpOn("axes"));
  const auto count = [&](const std::string& axis) {
    return std::ranges::count_if(
        lines, [&](const auto& line) { return line.starts_with("  " + axis + "  "); });
  };
  for (const char* const axis : {"bytes", "grid", "cache", "prefetch", "comm_ctas", "first"})
    EXPECT_EQ(count(axis), 1) << axis;
  const std::string text = HelpOn("axes");
  EXPECT_NE(text.find("size per rank, as nccl-tests counts it; size of the copy"),
            std::string::npos);
  EXPECT_NE(text.find("; one of tile, full"), std::string::npos);
}

TEST(Help, SaysWhatTheProgramIs) {
  const std::string version = AnswerTo(Question::kVersion);
  EXPECT_TRUE(version.starts_with("overlapbench ")) << version;
  EXPECT_NE(version.find(" (revision "), std::string::npos) << version;
  EXPECT_TRUE(version.ends_with("), backends cuda and host\n") ||
              version.ends_with("), backend host\n"))
      << version;
  EXPECT_EQ(HelpOn("").find(version), std::string::npos) << "nobody asked for it";
  EXPECT_EQ(AnswerTo(Question::kGpus), std::to_string(VisibleGpus()) + "\n");
  EXPECT_EQ(AnswerTo(Question::kFlags), "");
  EXPECT_EQ(AnswerTo(Question::kNone), "");
}

// `rows` benchmarks of `budget_ms` each.
std::string DryRun(std::size_t rows, long budget_ms, long repetitions = 1, bool by_google = false) {
  Options options;
  options.budget = std::chrono::milliseconds(budget_ms);
  options.repetitions = repetitions;
  options.iterations_by_google_benchmark = by_google;
  std::vector<Benchmark> chosen(rows);
  for (std::size_t i = 0; i < rows; ++i) chosen[i].name = "Row" + std::to_string(i);
  return Printed([&] { PrintDryRun(options, chosen); });
}

TEST(DryRun, EstimatesHowLongMeasuringTakes) {
  const std::string after = ", plus setup and verification\n";
  EXPECT_EQ(DryRun(2, 600),
            "Row0\nRow1\n2 benchmarks; measuring takes about 2 s (600 ms each)" + after);
  EXPECT_EQ(DryRun(1, 1000),
            "Row0\n1 benchmarks; measuring takes about 1 s (1000 ms each)" + after);
  EXPECT_EQ(DryRun(1, 1001),
            "Row0\n1 benchmarks; measuring takes about 2 s (1001 ms each)" + after);
  EXPECT_EQ(DryRun(1, 59'000),
            "Row0\n1 benchmarks; measuring takes about 59 s (59000 ms each)" + after);
  EXPECT_EQ(DryRun(1, 60'000),
            "Row0\n1 benchmarks; measuring takes about 1 min 0 s (60000 ms each)" + after);
  EXPECT_EQ(DryRun(2, 25'000, 3),
            "Row0\nRow1\n2 benchmarks, 3 repetitions each; measuring takes about 2 min 30 s (25000 "
            "ms each)" +
                after);
  EXPECT_EQ(DryRun(1, 600, 2, true),
            "Row0\n1 benchmarks, 2 repetitions each; --benchmark_min_time sets how long each is "
            "measured\n");
}

// Five rounds of half a second and three ticks, of each run that has a role.
TEST(DryRun, AddsTheTimeOfEnergy) {
  const auto time = [](const std::vector<std::string>& runs, EnergyOf of, long repetitions = 1) {
    Options options;
    options.energy = of;
    options.repetitions = repetitions;
    Benchmark row;
    row.name = "Row";
    row.runs = [&](const Settings&) {
      std::vector<overlapbench::Run> made;  // not GoogleTest's
      for (const std::string& run : runs) made.push_back({.name = run});
      return made;
    };
    const std::vector<Benchmark> chosen = {row, row};
    const std::string text = Printed([&] { PrintDryRun(options, chosen); });
    const std::string from = text.substr(text.find(", plus ") + 7);
    return from.substr(0, from.find("setup"));
  };
  EXPECT_EQ(time({"comp", "comm", "overlap"}, EnergyOf::kNothing), "");
  EXPECT_EQ(time({"comp", "comm", "overlap"}, EnergyOf::kOwnRun), "8 s of --energy, ");
  EXPECT_EQ(time({"comp", "comm", "overlap"}, EnergyOf::kOwnRun, 2), "16 s of --energy, ");
  EXPECT_EQ(time({"comp", "comm", "overlap"}, EnergyOf::kAllRuns), "24 s of --energy, ");
  EXPECT_EQ(time({"comp", "comm", "second", "overlap"}, EnergyOf::kAllRuns), "32 s of --energy, ");
  EXPECT_EQ(time({"make", "computation", "communication", "chunks", "sequential", "pattern"},
                 EnergyOf::kAllRuns),
            "32 s of --energy, ");
  EXPECT_EQ(time({"plain", "graph"}, EnergyOf::kAllRuns), "16 s of --energy, ");
  EXPECT_EQ(time({"comp"}, EnergyOf::kAllRuns), "8 s of --energy, ") << "it is the row's own";
}

TEST(Axes, AreListedWithTheirWorkloadsAndTheOthersOnce) {
  WorkloadSpec work;
  work.name = "Work";
  work.summary = "does something";
  work.axes = {IntegerAxis("count", "how many", 1, 9, "2,4"),
               ChoiceAxis("kind", "which", {"left", "right"}, "left")};
  Registry registry;
  registry.Add(work);
  registry.Add(Unavailable("Lost", WorkClass::kComm, "needs a GPU"));
  Plan plan({});
  Scenario scenario = Baseline("Compute/Work", registry.Find("Work"));
  scenario.axes.push_back(IntegerAxis("own", "of the scenario", 0, 3, "1"));
  plan.Add(scenario);
  EXPECT_EQ(
      Printed([&] { PrintAxes(registry, plan); }),
      "Work: does something\n"
      "  count = 2,4  (how many)\n"
      "  kind = left  (which)  of left,right\n"
      "Lost: not available: needs a GPU\n"
      "Of every sample (cache, cadence), and of some scenarios:\n"
      "  cache = cold  (cold: the last-level cache is flushed before every sample)  of "
      "cold,warm\n"
      "  cadence = isolated  (isolated samples, or up to 20 back to back behind one gate)  of "
      "isolated,streaming\n"
      "  own = 1  (of the scenario)\n");
}

}  // namespace
}  // namespace overlapbench
