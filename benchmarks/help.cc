#include "benchmarks/help.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "benchmarks/preflight.h"
#include "fixtures/energy.h"
#include "fixtures/patterns.h"
#include "git_revision.h"
#include "report/json.h"

namespace overlapbench {
namespace {

void PrintAxesOf(const std::string& owner, const std::vector<Axis>& axes) {
  std::cout << owner << "\n";
  for (const Axis& axis : axes) {
    const std::string choices =
        axis.choices.empty() ? "" : fmt::format("  of {}", fmt::join(axis.choices, ","));
    std::cout << fmt::format("  {} = {}  ({}){}\n", axis.name, fmt::join(axis.values, ","),
                             axis.help, choices);
  }
}

bool IsOfWorkload(const Registry& registry, const Axis& axis) {
  return std::ranges::any_of(registry.specs(), [&](const WorkloadSpec& spec) {
    return std::ranges::find(spec.axes, axis.name, &Axis::name) != spec.axes.end();
  });
}

// Breaks lines of more than 80 columns. A table line continues in its last column, which starts
// after the last two adjacent blanks.
std::string Wrapped(const std::string& text) {
  constexpr std::size_t kColumns = 80;
  std::string wrapped;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t gap = line.rfind("  ");
    const std::size_t indent = gap == std::string::npos ? 0 : gap + 2;
    while (line.size() > kColumns) {
      const std::size_t blank = line.rfind(' ', kColumns);
      if (blank == std::string::npos || blank < indent) break;
      wrapped += line.substr(0, blank) + "\n";
      line = std::string(indent, ' ') + line.substr(blank + 1);
    }
    wrapped += line + "\n";
  }
  return wrapped;
}

std::string Overview(const CounterTable& table) {
  std::vector<std::string> families;
  for (const FamilyText& family : table.families()) families.push_back(family.name);
  return fmt::format(
      "overlapbench: what it costs to overlap computation and communication.\n\n"
      "Rows are named Family/Workload[+Workload]/axis:value/... The families are\n"
      "{}.\n\n"
      "Flags that most runs need:\n{}\n"
      "Examples:\n"
      "  --benchmark_filter=Overlap/AllToAll.Gemm --axis bytes=1M,64M --axis grid=1x1\n"
      "  --pair AllReduce+Softmax --axis bytes=64M --axis columns=4K\n"
      "  --benchmark_filter=Copy/Pipelined --axis pipeline_streams=1,4\n"
      "  --benchmark_filter=Comm --axis cache=warm --axis cadence=streaming\n\n"
      "More: --help families (what each measures), --help axes, --help counters (m, n\n"
      "and k are the sizes of a product), --help flags.\n",
      fmt::join(families, ", "), CommonFlagsHelp());
}

std::string FamiliesHelp(const CounterTable& table) {
  std::string text = "Families:\n";
  for (const FamilyText& family : table.families())
    text += fmt::format("  {:<15} {}\n", family.name, family.about);
  return text;
}

// The workloads' and scenarios' axes that this build has, each once.
std::string AxesHelp() {
  struct Told {
    std::vector<std::string> helps;
    std::vector<std::string> choices;
  };
  std::map<std::string, Told> axes;
  for (const Axis& axis : KnownAxes()) {
    Told& told = axes[axis.name];
    if (std::ranges::find(told.helps, axis.help) == told.helps.end())
      told.helps.push_back(axis.help);
    told.choices = axis.choices;
  }
  std::string text =
      "Axes, as in --axis bytes=1M,64M. --list_axes: of each workload, with defaults.\n";
  for (const auto& [name, told] : axes) {
    const std::string choices =
        told.choices.empty() ? "" : fmt::format("; one of {}", fmt::join(told.choices, ", "));
    text += fmt::format("  {:<19} {}{}\n", name, fmt::join(told.helps, "; "), choices);
  }
  return text;
}

std::string HelpOn(const std::string& topic) {
  const CounterTable table = AllCounters();
  if (topic == "families") return FamiliesHelp(table);
  if (topic == "axes") return AxesHelp();
  if (topic == "counters") return "Counters:\n" + CounterHelp(table);
  return topic == "flags" ? FlagsHelp() : Overview(table);
}

void PrintVersion() {
#ifdef OVERLAPBENCH_WITH_CUDA
  constexpr const char* kBackends = "backends cuda and host";
#else
  constexpr const char* kBackends = "backend host";
#endif
  std::cout << fmt::format("overlapbench {} (revision {}), {}\n", kVersion, kGitRevision,
                           kBackends);
}

std::string PatternsAsJson() {
  std::vector<std::string> patterns;
  for (const Pattern& pattern : Patterns()) {
    patterns.push_back(JsonObject()
                           .Text("name", pattern.name)
                           .Number("limit", pattern.limit, 2)
                           .Number("least_pct", pattern.least_pct, 0)
                           .Text("advice", pattern.advice)
                           .Line());
  }
  return fmt::format("  \"patterns\": [\n    {}\n  ]\n", fmt::join(patterns, ",\n    "));
}

void PrintCounters(bool as_json) {
  const CounterTable table = AllCounters();
  std::cout << (as_json ? "{\n" + JsonMembers(table) + PatternsAsJson() + "}\n"
                        : MarkdownTables(table));
}

// "9 s", "2 min 5 s".
std::string Duration(long seconds) {
  constexpr long kMinute = 60;
  return seconds < kMinute ? fmt::format("{} s", seconds)
                           : fmt::format("{} min {} s", seconds / kMinute, seconds % kMinute);
}

// "20 s of --energy, " where it is given. Rows that choose count as one of their candidates.
std::string EnergyTime(const Options& options, const std::vector<Benchmark>& chosen) {
  if (options.energy == EnergyOf::kNothing) return "";
  double seconds = 0;
  for (Benchmark one : chosen) {
    if (!one.candidates.empty()) one.settings = one.candidates.front();
    seconds += EnergyTime_s(MakeRuns(one), {.of = options.energy});
  }
  const double all = seconds * static_cast<double>(options.repetitions);
  return fmt::format("{} of --energy, ", Duration(std::lround(all)));
}

}  // namespace

void Answer(Question question, const std::string& help_topic) {
  switch (question) {
    case Question::kFlags:  // all flags were read and accepted
    case Question::kNone:
      return;
    case Question::kHelp:
      std::cout << Wrapped(HelpOn(help_topic));
      return;
    case Question::kVersion:
      return PrintVersion();
    case Question::kCountersAsJson:
    case Question::kCountersAsMarkdown:
      return PrintCounters(question == Question::kCountersAsJson);
    case Question::kGpus:
      std::cout << VisibleGpus() << "\n";
  }
}

void PrintDryRun(const Options& options, const std::vector<Benchmark>& chosen) {
  for (const Benchmark& one : chosen) std::cout << one.name << "\n";
  const auto runs = static_cast<long>(chosen.size()) * options.repetitions;
  std::cout << fmt::format("{} benchmarks", chosen.size());
  if (options.repetitions > 1)
    std::cout << fmt::format(", {} repetitions each", options.repetitions);
  if (options.iterations_by_google_benchmark) {
    std::cout << "; --benchmark_min_time sets how long each is measured\n";
    return;
  }
  const long budget_ms = options.budget.count();
  std::cout << fmt::format(
      "; measuring takes about {} ({} ms each), plus {}setup and verification\n",
      Duration((runs * budget_ms + 999) / 1000), budget_ms, EnergyTime(options, chosen));
}

void PrintAxes(const Registry& registry, const Plan& plan) {
  for (const WorkloadSpec& spec : registry.specs()) {
    const std::string& missing = spec.missing;
    PrintAxesOf(spec.name + ": " + (missing.empty() ? spec.summary : "not available: " + missing),
                spec.axes);
  }
  std::vector<Axis> others;
  for (const Axis& axis : plan.axes()) {
    if (!IsOfWorkload(registry, axis)) others.push_back(axis);
  }
  PrintAxesOf("Of every sample (cache, cadence), and of some scenarios:", others);
}

}  // namespace overlapbench
