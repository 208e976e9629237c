// What up to 1,024 ranks would list and plan, without starting them: one rank poses as each of
// them. No family may throw at any number of ranks. A default that does not exist there is listed
// as not available, with the reason.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/plan.h"
#include "scenarios.h"

namespace overlapbench {
namespace {

// All families on the last of `size` ranks. A GPU's workloads pose as available.
class Families {
 public:
  Families(Backend backend, int size, std::vector<AxisOverride> overrides = {})
      : on_gpu_(backend == Backend::kCuda),
        device_(on_gpu_ ? PosingDevice::H200() : std::make_unique<PosingDevice>()),
        progress_(size - 1, size),
        ranks_({.rank = size - 1, .size = size}, progress_),
        plan_(std::move(overrides)) {
    if (!on_gpu_) FillRegistry(registry_, machine_);
    const Registry& workloads = on_gpu_ ? all_ = AllWorkloads(machine_) : registry_;
    scenarios_ = AllScenarios({workloads, *device_, machine_});
    for (Scenario& scenario : scenarios_) {
      if (on_gpu_ && size > 1 && !scenario.axes.empty()) scenario.missing = "";
      plan_.Add(scenario);
    }
    plan_.RequireKnownAxes();
  }

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<Scenario>& scenarios() const { return scenarios_; }
  // Whether the runs of this row can be made without a GPU.
  [[nodiscard]] bool CanMake(const Benchmark& benchmark) const {
    constexpr std::array kSteps = {"Tp/", "Ddp/", "Fsdp/", "Moe/", "Pp/", "Layers/"};
    return !on_gpu_ || std::ranges::any_of(kSteps, [&](const char* prefix) {
      return benchmark.name.starts_with(prefix);
    });
  }

 private:
  bool on_gpu_;
  std::unique_ptr<PosingDevice> device_;
  Progress progress_;
  Ranks ranks_;
  Machine machine_{*device_, ranks_};
  Registry registry_;
  Registry all_;
  std::vector<Scenario> scenarios_;
  Plan plan_;
};

// Planning on a GPU takes longer, so some large counts are left out there.
std::vector<int> Counts(Backend backend) {
  const bool all = backend == Backend::kHost;
  std::vector<int> counts;
  for (int count = 1; count <= 1024; ++count)
    if (all || count <= 128 || count % 16 == 0 || count % 97 == 0) counts.push_back(count);
  return counts;
}

// Makes the runs of the row, or of every candidate, and what is derived from them.
void CheckRuns(const Benchmark& benchmark) {
  std::vector<Settings> all = benchmark.candidates;
  if (all.empty()) all.push_back(benchmark.settings);
  for (const Settings& candidate : all) {
    std::vector<overlapbench::Run> runs;
    ASSERT_NO_THROW(runs = benchmark.runs(candidate));
    const Schedule& own = runs.back().schedule;
    EXPECT_FALSE(own.lanes().empty());
    EXPECT_GE(BoundOf(own, std::vector(own.steps().size(), 1.0)).total_ms, 1);
  }
}

class ManyRanksTest : public testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Backends, ManyRanksTest, testing::Values(Backend::kHost, Backend::kCuda),
                         [](const auto& instance) { return ToString(instance.param); });

TEST_P(ManyRanksTest, ListsEveryFamilyAtEveryCount) {
  const std::vector<Family> all = AllFamilies();
  for (const int count : Counts(GetParam())) {
    SCOPED_TRACE(fmt::format("{} ranks", count));
    std::unique_ptr<Families> families;
    ASSERT_NO_THROW(families = std::make_unique<Families>(GetParam(), count));
    EXPECT_FALSE(families->plan().benchmarks().empty());
    for (const auto& [name, reason] : families->plan().unavailable()) {
      EXPECT_FALSE(reason.empty()) << name;
      EXPECT_EQ(std::ranges::find(all, name, &Family::name), all.end())
          << "the family exists at no value: " << name << ": " << reason;
    }
  }
}

// The scenarios that have rows.
std::set<std::string> WithRows(Backend backend, int size) {
  const Families families(backend, size);
  std::set<std::string> names;
  for (const Benchmark& benchmark : families.plan().benchmarks())
    names.insert(benchmark.name.substr(0, benchmark.name.rfind('/', benchmark.name.find(':'))));
  return names;
}

TEST_P(ManyRanksTest, HaveRowsOfEveryScenario) {
  const std::set<std::string> of_two = WithRows(GetParam(), 2);
  EXPECT_GT(of_two.size(), 50U);
  for (const int count : {3, 5, 6, 7, 12, 96})
    EXPECT_EQ(WithRows(GetParam(), count), of_two) << count << " ranks";
}

TEST_P(ManyRanksTest, RoundNoDefaultThatAPowerOfTwoCanShare) {
  for (const int count : {1, 2, 4, 8}) {
    const Families families(GetParam(), count);
    for (const Scenario& scenario : families.scenarios()) {
      for (const Settings& settings : Combinations(scenario.axes)) {
        const Settings rounded = InUnits(scenario.axes, settings);
        if (rounded.NameSuffix() != settings.NameSuffix()) {
          EXPECT_NE(scenario.excluded(settings), "")
              << count << " ranks: " << scenario.name << settings.NameSuffix() << " is now "
              << rounded.NameSuffix();
        }
      }
    }
  }
}

// Names say what was rounded. What the user chose is not, nor does it change other sizes.
TEST(ManyRanks, RoundDefaultsOnly) {
  const auto has = [](const Families& families, const std::string& name) {
    const auto& rows = families.plan().benchmarks();
    return std::ranges::find(rows, name, &Benchmark::name) != rows.end();
  };
  EXPECT_TRUE(has(Families(Backend::kCuda, 3),
                  "Tp/RowParallel/model:llama8b/ffn:14328/tokens:4080/chunks:6/cache:cold"));
  const Families chosen(Backend::kCuda, 3, {{"tokens", "4095,4096"}});
  EXPECT_TRUE(
      has(chosen, "Tp/RowParallel/model:llama8b/ffn:14328/tokens:4095/chunks:3/cache:cold"));
  const auto& missing = chosen.plan().unavailable();
  const auto refused = std::ranges::find(
      missing, "Tp/RowParallel/model:llama8b/ffn:14328/tokens:4096/chunks:3/cache:cold",
      &Plan::Unavailable::name);
  ASSERT_NE(refused, missing.end());
  EXPECT_EQ(refused->reason, "tokens must be a multiple of chunks and ranks");
}

TEST_P(ManyRanksTest, MakesTheRunsOfEveryRow) {
  for (const int count : {2, 3, 8, 12, 48, 64, 127, 256, 1024}) {
    const Families families(GetParam(), count);
    for (const Benchmark& benchmark : families.plan().benchmarks()) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", count, benchmark.name));
      // The routing of more ranks takes hundreds of megabytes.
      const bool is_large = count > 64 && benchmark.name.starts_with("Moe/");
      if (families.CanMake(benchmark) && !is_large) CheckRuns(benchmark);
    }
  }
}

// Twice as many chunks as there are ranks exist up to 32,768 ranks.
TEST(ManyRanks, LoseAFamilyWhoseDefaultDoesNotExistAndNoOther) {
  const Families families(Backend::kHost, 40'000);
  EXPECT_FALSE(families.plan().benchmarks().empty());
  const auto& missing = families.plan().unavailable();
  const auto family = std::ranges::find(missing, "Tp", &Plan::Unavailable::name);
  ASSERT_NE(family, missing.end());
  EXPECT_EQ(family->reason, "axis chunks: '80000' is not a whole number from 1 to 65536");
}

// Chunks for every rank, several times over, of the fewest rows that can win.
TEST(ManyRanks, ShareTensorParallelLayersInChunks) {
  const Families families(Backend::kCuda, 64);
  const auto& rows = families.plan().benchmarks();
  const auto row =
      std::ranges::find(rows, "Tp/ColumnParallel/model:llama8b/tokens:16384/chunks:auto/cache:cold",
                        &Benchmark::name);
  ASSERT_NE(row, rows.end());
  std::vector<std::string> chunks;
  for (const Settings& candidate : row->candidates) chunks.push_back(candidate.Text("chunks"));
  EXPECT_EQ(chunks, (std::vector<std::string>{"1", "64"}));
}

// One chunk for each rank is not tried along a ring, eight are not tried directly.
TEST(ManyRanks, ChooseTheWayOfSums) {
  const auto tried = [](int count, const std::string& tokens, const std::string& way) {
    const Families families(Backend::kCuda, count, {{"tokens", tokens}, {"sums", way}});
    const std::string name = "Tp/RowParallel/model:llama8b/tokens:" + tokens + "/chunks:auto/" +
                             (way == "auto" ? "" : "sums:" + way + "/") + "cache:cold";
    const auto& rows = families.plan().benchmarks();
    const auto row = std::ranges::find(rows, name, &Benchmark::name);
    std::string text;
    if (row == rows.end()) return text;
    for (const Settings& candidate : row->candidates)
      text += candidate.Text("chunks") + candidate.Text("sums").front() + " ";
    return text;
  };
  EXPECT_EQ(tried(2, "4096", "auto"), "1a 2d 4d 4r 8d 8r 16r ");
  EXPECT_EQ(tried(4, "4096", "auto"), "1a 4d 8d 8r 16d 16r ");
  EXPECT_EQ(tried(4, "4096", "direct"), "1a 4d 8d 16d ");
  EXPECT_EQ(tried(4, "4096", "ring"), "1a 8r 16r ");
  EXPECT_EQ(tried(4, "1024", "auto"), "1a 4d ");
}

// Own transports move whole words of 16 bytes to and from each rank. The sum of 36 tokens has them
// on three ranks, that of a chunk of four tokens has not.
TEST(ManyRanks, SumNoChunksWhosePartsAreNotWholeWords) {
  const Families families(Backend::kCuda, 3,
                          {{"model", "small"},
                           {"tokens", "36"},
                           {"chunks", "1,3,9"},
                           {"reduce", "all"},
                           {"transport", "copy"},
                           {"cache", "warm"}});
  const auto reason_of = [&](const std::string& chunks) {
    for (const auto& [name, reason] : families.plan().unavailable())
      if (name.starts_with("Tp/RowParallel/") && name.find(chunks) != std::string::npos)
        return reason;
    return std::string("none");
  };
  EXPECT_EQ(reason_of("chunks:9/"), "copy needs bytes to be a multiple of 16 x ranks");
  EXPECT_NE(reason_of("chunks:3/"), "copy needs bytes to be a multiple of 16 x ranks");
}

// All pairs of its steps, which are of one rank each, would take 300 MB and half a minute.
TEST(ManyRanks, EstimatesAPipelineOf1024) {
  const Families families(Backend::kHost, 1024);
  const auto& rows = families.plan().benchmarks();
  const auto row = std::ranges::find_if(rows, [](const auto& one) {
    return one.name.starts_with("Pp/OneFOneB/Delay/microbatches:8");
  });
  ASSERT_NE(row, rows.end());
  const Schedule pattern = row->runs(row->settings).back().schedule;
  const std::clock_t began = std::clock();  // of this process: others may use the cores
  // Its first and last rank may compute while nothing is sent to or by them.
  EXPECT_GT(Overlappable_ms(pattern, std::vector(pattern.steps().size(), 1.0)), 8);
  EXPECT_LT((std::clock() - began) / CLOCKS_PER_SEC, 10);
}

}  // namespace
}  // namespace overlapbench
