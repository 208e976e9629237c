#include "benchmarks/self_test.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace overlapbench {
namespace {

constexpr const char* kPair = "Overlap/SecondDelay+Delay/";
constexpr const char* kHandOver = "Launch/HandOver/";
constexpr int kAttempts = 3;  // a passing disturbance spoils one, a wrong method all

double ExpectedSlowdown(const Settings& settings) {
  const auto first = static_cast<double>(settings.Integer("delay_us"));
  const auto second = static_cast<double>(settings.Integer("second_delay_us"));
  return settings.Text("streams") == "1" ? (first + second) / std::max(first, second) : 1;
}

Counters Measured(Suite& suite, const Benchmark& benchmark) {
  constexpr int kGroups = 10;
  suite.session = std::make_unique<Session>(suite.machine, benchmark);
  suite.session->SetUp(suite.options.gate);
  suite.session->WarmUp();
  std::vector<Group> groups;
  for (int i = 0; i < kGroups; ++i) groups.push_back(suite.session->Measure());
  Counters counters;
  benchmark.report(Measurement(*suite.session, groups), counters);
  suite.session.reset();
  return counters;
}

std::string MeasuredHandOver(Suite& suite, const Benchmark& benchmark) {
  Counters counters = Measured(suite, benchmark);
  return fmt::format("{:.3g} us on the same stream, {:.3g} us on another",
                     counters["same_stream_us"].value, counters["other_stream_us"].value);
}

}  // namespace

std::vector<Benchmark> KnownBenchmarks(const Catalog& catalog) {
  std::vector<Benchmark> known;
  const Plan plan = MakePlan(catalog, {{"cache", "warm"}}, {});
  for (const Benchmark& benchmark : plan.benchmarks())
    if (benchmark.name.starts_with(kPair) || benchmark.name.starts_with(kHandOver))
      known.push_back(benchmark);
  return known;
}

SelfTest RunSelfTest(Suite& suite, const std::vector<Benchmark>& known) {
  if (suite.machine.shares_gpus)
    return {false, "failed: ranks share a GPU (--share_gpu), so times are meaningless"};
  if (known.empty()) return {true, "left out"};
  // Far above the error of a good measurement of some milliseconds.
  const double tolerance = suite.machine.device.backend() == Backend::kHost ? 0.10 : 0.02;
  SelfTest test;
  std::string figures;
  Progress& progress = suite.machine.ranks.progress();
  for (const Benchmark& benchmark : known) {
    progress.set_benchmark("the self-test");
    if (benchmark.name.starts_with(kHandOver)) {
      test.handover = MeasuredHandOver(suite, benchmark);
      continue;
    }
    const double expected = ExpectedSlowdown(benchmark.settings);
    double measured = 0;
    bool is_right = false;
    for (int attempt = 0; attempt < kAttempts && !is_right; ++attempt) {
      measured = Measured(suite, benchmark)["slowdown"].value;
      is_right = std::abs(measured / expected - 1) <= tolerance;
    }
    test.passed = test.passed && is_right;
    figures +=
        fmt::format("{} {:.2f} of {:.2f}", figures.empty() ? "slowdown" : ",", measured, expected);
  }
  progress.set_benchmark("");
  test.text = (test.passed ? "passed: " : "failed: ") + figures;
  return test;
}

}  // namespace overlapbench
