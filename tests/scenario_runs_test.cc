// Every family's default rows, on the host backend and, as far as planning needs no GPU, on an
// H200: their names, which must never change, and their runs. Also measures small rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scenarios.h"

namespace overlapbench {
namespace {

// ---- Plans of all families

// All families, planned on a device of this backend.
class Families {
 public:
  explicit Families(Backend backend, const std::vector<AxisOverride>& overrides = {})
      : device_(backend == Backend::kCuda ? PosingDevice::H200()
                                          : std::make_unique<PosingDevice>()),
        registry_(Workloads(backend)),
        plan_(MakePlan({registry_, *device_, machine_}, overrides)) {}

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const Machine& machine() const { return machine_; }

 private:
  Registry Workloads(Backend backend) {
    if (backend == Backend::kCuda) return AllWorkloads(machine_);
    Registry registry;
    FillRegistry(registry, machine_);
    return registry;
  }

  std::unique_ptr<PosingDevice> device_;
  Machine machine_{*device_, TestRanks()};
  Registry registry_;
  Plan plan_;
};

class FamiliesTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    const std::string missing = CudaUnavailable();
    if (on_cuda() && !missing.empty() && !missing.starts_with("this build has no CUDA"))
      GTEST_SKIP() << "a build with CUDA asks a GPU when it plans: " << missing;
    try {
      families_ = std::make_unique<Families>(GetParam());
    } catch (const Error& error) {
      GTEST_SKIP() << "this build asks a GPU when it plans: " << error.what();
    }
  }

  static bool on_cuda() { return GetParam() == Backend::kCuda; }
  [[nodiscard]] const Plan& plan() const { return families_->plan(); }
  [[nodiscard]] const std::vector<Benchmark>& benchmarks() const { return plan().benchmarks(); }

 private:
  std::unique_ptr<Families> families_;
};
INSTANTIATE_TEST_SUITE_P(Backends, FamiliesTest, testing::Values(Backend::kHost, Backend::kCuda),
                         [](const auto& instance) { return ToString(instance.param); });

// ---- Names

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// What is in `these` and not in `others`, a line each.
std::string Missing(const std::vector<std::string>& these, const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  std::string text;
  for (const std::string& name : these)
    if (!known.contains(name)) text += name + "\n";
  return text;
}

// Comparisons with old results match on names. tests/data/ has the names for two ranks with
// everything available; rows that cannot run here, for a stated reason, may be missing.
TEST_P(FamiliesTest, NamesAreUnchanged) {
  const std::string path = std::string(TEST_DATA) + "/names-" + ToString(GetParam()) + ".txt";
  std::vector<std::string> expected = LinesOf(path);
  ASSERT_GT(expected.size(), 100U) << path;
  const std::vector<std::string> all = expected;
  for (const auto& one : plan().unavailable()) {
    std::erase_if(expected, [&](const std::string& name) {
      return name == one.name || name.starts_with(one.name + "/");
    });
  }
  if (!on_cuda() && TestRanks().size() > 1) {
    EXPECT_EQ(expected.size(), all.size());
  }
  std::vector<std::string> names;
  for (const Benchmark& benchmark : benchmarks()) names.push_back(benchmark.name);
  EXPECT_EQ(Missing(expected, names), "") << "are gone, and old results have nothing to match";
  EXPECT_EQ(Missing(names, all), "") << "are new: add them to " << path;
}

// ---- Runs

// Everything that holds for the runs of any row.
void CheckRuns(const std::vector<Run>& runs) {
  ASSERT_FALSE(runs.empty());
  std::set<std::string> names;
  for (const Run& run : runs) {
    SCOPED_TRACE(run.name);
    EXPECT_TRUE(names.insert(run.name).second) << "two runs have this name";
    const Schedule& schedule = run.schedule;
    EXPECT_FALSE(schedule.steps().empty());
    EXPECT_FALSE(schedule.sinks().empty()) << "nothing of it is verified";
    std::set<std::string> works;
    for (const Work& work : schedule.works())
      EXPECT_TRUE(works.insert(work->name).second) << "two works are called " << work->name;
    std::set<std::string> lanes;
    for (const Schedule::Lane& lane : schedule.lanes())
      EXPECT_TRUE(lanes.insert(lane.name).second) << "two lanes are called " << lane.name;
    const std::vector<double> one_ms(schedule.steps().size(), 1);
    const double bound_ms = BoundOf(schedule, one_ms).total_ms;
    EXPECT_GE(bound_ms, 1);
    EXPECT_LE(bound_ms, static_cast<double>(one_ms.size()));
  }
}

std::vector<Work> WorksOf(const std::vector<Run>& runs) {
  std::vector<Work> works;
  for (const Run& run : runs) {
    for (const Work& work : run.schedule.works())
      if (std::ranges::find(works, work) == works.end()) works.push_back(work);
  }
  return works;
}

// In a solo run, another work of the same name may stand in for the row's own work: it needs more
// room, or its own memory.
void CheckNamesOfWorks(const std::vector<Run>& runs) {
  const std::vector<Work> own = runs.back().schedule.works();
  std::map<std::string, Work> named;
  std::map<std::string, int> stand_ins;
  for (const Work& work : WorksOf(runs)) {
    const bool is_own = std::ranges::find(own, work) != own.end();
    if (!is_own) {
      EXPECT_LE(++stand_ins[work->name], 1) << work->name;
    }
    const auto [other, is_new] = named.emplace(work->name, work);
    EXPECT_EQ(work->work_class, other->second->work_class) << work->name;
  }
}

// A run that has the name of one of the row's works is that work alone: bounds rely on it.
void CheckSoloRuns(const std::vector<Run>& runs) {
  for (const Work& work : runs.back().schedule.works()) {
    const auto solo = std::ranges::find(runs, work->name, &Run::name);
    if (solo == runs.end()) continue;
    const std::vector<Work> works = solo->schedule.works();
    ASSERT_EQ(works.size(), 1U) << solo->name;
    EXPECT_EQ(works[0]->name, work->name);
    EXPECT_EQ(solo->gated, runs.back().gated || runs.back().name == "ungated") << solo->name;
  }
}

TEST_P(FamiliesTest, RunsAreSound) {
  for (const Benchmark& benchmark : benchmarks()) {
    SCOPED_TRACE(benchmark.name);
    const auto runs = benchmark.runs(benchmark.settings);
    CheckRuns(runs);
    CheckNamesOfWorks(runs);
    CheckSoloRuns(runs);
    if (HasFailure()) return;
  }
}

// The host backend's defaults are small; those of cuda fit an H200.
TEST_P(FamiliesTest, RunsFitInMemory) {
  const std::size_t most = on_cuda() ? 100UL << 30 : 256UL << 20;
  for (const Benchmark& benchmark : benchmarks()) {
    const Footprint footprint = FootprintOf(WorksOf(benchmark.runs(benchmark.settings)));
    EXPECT_LE(footprint.device_bytes, most) << benchmark.name;
    EXPECT_LE(footprint.host_bytes, most) << benchmark.name;
    const bool counts = !benchmark.name.starts_with("Launch/") &&
                        benchmark.name.find("Delay") == std::string::npos &&
                        benchmark.name.find("Short") == std::string::npos &&
                        benchmark.name.find("Resident") == std::string::npos;
    EXPECT_TRUE(footprint.device_bytes + footprint.host_bytes > 0 || !counts)
        << benchmark.name << " needs no memory";
  }
}

// The tools read all words but the last as the family's name (tools/overlapbench/reading/names.py).
TEST_P(FamiliesTest, RowsBeginWithTheNameOfTheirFamily) {
  std::set<std::string> names;
  for (const Family& family : AllFamilies()) names.insert(family.name);
  for (const Benchmark& benchmark : benchmarks()) {
    const std::string words = benchmark.name.substr(0, benchmark.name.find(':'));
    const std::string scenario = words.substr(0, words.rfind('/'));
    const std::string named = benchmark.name.find(':') == std::string::npos ? words : scenario;
    EXPECT_TRUE(names.contains(named.substr(0, named.rfind('/')))) << benchmark.name;
  }
}

// Their 99th percentile needs them.
TEST_P(FamiliesTest, StepsOfInferenceAreSampledAHundredTimes) {
  for (const Benchmark& benchmark : benchmarks())
    EXPECT_EQ(benchmark.least_groups, benchmark.name.starts_with("Decode/") ? 100U : 0U)
        << benchmark.name;
}

// A gate must not hold what the host waits for.
TEST(HostWaits, AreDerivedFromASchedule) {
  const auto waits = [](const char* scenario, const Values& values) {
    std::string text;
    for (const auto& run : ScenarioReport(scenario, values).runs())
      if (run.schedule.host_waits()) text += run.name + " ";
    return text;
  };
  EXPECT_EQ(waits("Copy/ComputeTransfer", {{"tie", "events"}, {"buffers", "2"}}), "");
  EXPECT_EQ(waits("Copy/ComputeTransfer", {{"tie", "host"}, {"buffers", "2"}}), "buffered ");
  EXPECT_EQ(waits("Layers/DoubleBuffer", {{"tie", "events"}, {"buffers", "2"}}), "");
  EXPECT_EQ(waits("Layers/DoubleBuffer", {{"tie", "host"}, {"buffers", "2"}}), "pattern ");
  EXPECT_EQ(waits("Copy/Pipelined", {}), "");
  EXPECT_EQ(waits("Supply/Batches", {{"workers", "2"}}), "make consume supply ");
  EXPECT_EQ(waits("Prefetch/Batches", {{"workers", "2"}}),
            "make computation communication chunks sequential pattern ");
}

// ---- Small rows of every family, measured on the host backend

// Some of them odd. An axis that is not here has its default values.
const std::vector<AxisOverride> kSmall = {{"array_bytes", "12"},
                                          {"backward_us", "40"},
                                          {"batch_bytes", "4004"},
                                          {"batch_elements", "517"},
                                          {"batches", "1,7"},
                                          {"block_steps", "3"},
                                          {"blocks", "3"},
                                          {"buffers", "1,2,3,5"},
                                          {"bytes", "1536"},
                                          {"cache", "warm"},
                                          {"chunks", "1,2,6"},
                                          {"columns", "33"},
                                          {"count", "517"},
                                          {"delay_us", "300"},
                                          {"elements", "240"},
                                          {"forward_us", "20"},
                                          {"fragments", "1,3,12"},
                                          {"grid", "3x2"},
                                          {"hidden", "48"},
                                          {"independent", "0,25"},
                                          {"intensity", "1,7"},
                                          {"launches", "1,3"},
                                          {"layers", "3"},
                                          {"make_us", "50"},
                                          {"matrix_bytes", "8K"},
                                          {"microbatches", "4"},
                                          {"n", "48"},
                                          {"pipeline_streams", "1,3,8"},
                                          {"prefetch", "1,3"},
                                          {"products", "each,grouped"},
                                          {"reduce", "scatter,all"},
                                          {"second_delay_us", "300"},
                                          {"sequences", "4"},
                                          {"supply_batches", "1,7"},
                                          {"sums", "auto,direct"},
                                          {"tensors", "5"},
                                          {"tokens", "48"},
                                          {"total_steps", "9"},
                                          {"waves", "2"},
                                          {"weights", "device,host"},
                                          {"width", "48"},
                                          {"workers", "0,1,3"}};

// Whether the row's result does not depend on other ranks.
bool NeedsOneRank(const std::string& name) {
  constexpr std::array kFamilies = {"Compute/",        "Copy/",     "Gelu/",    "Launch/",
                                    "MixedPrecision/", "Prefetch/", "Softmax/", "Supply/"};
  return std::ranges::any_of(kFamilies,
                             [&](const char* family) { return name.starts_with(family); });
}

// A session verifies every run, in the order and with the parts that its schedule gives it. On
// several ranks, one row of a scenario that needs one rank is enough.
TEST(SmallRows, HaveCorrectResultsAndReportOnlyDefinedCounters) {
  const Families all(Backend::kHost, kSmall);
  std::set<std::string> families;
  std::set<std::string> scenarios;
  for (const Benchmark& benchmark : all.plan().benchmarks()) {
    SCOPED_TRACE(benchmark.name);
    const std::size_t end = benchmark.name.find('/', benchmark.name.find('/') + 1);
    const bool is_first = scenarios.insert(benchmark.name.substr(0, end)).second;
    if (!is_first && TestRanks().size() > 1 && NeedsOneRank(benchmark.name)) continue;
    Session session(all.machine(), benchmark);
    ASSERT_NO_THROW(session.SetUp(true));
    EXPECT_LT(session.max_rel_err(), 0.1);
    EXPECT_EQ(session.knob_fault(), "");
    const std::vector<Group> groups = {session.Measure(), session.Measure()};
    Counters counters;
    ASSERT_NO_THROW(benchmark.report(Measurement(session, groups), counters));
    for (const auto& [name, counter] : counters)
      EXPECT_EQ(counter.value, counter.value) << name << " is not a number";
    if (counters.contains("identical")) {
      EXPECT_EQ(counters["identical"], 1);
    }
    families.insert(benchmark.name.substr(0, benchmark.name.find('/')));
  }
  std::set<std::string> expected = {"Comm",     "Compute", "Copy",           "Gelu",
                                    "Lab",      "Launch",  "MixedPrecision", "Overlap",
                                    "Prefetch", "Softmax", "Supply"};
  if (TestRanks().size() > 1)
    expected.insert({"Ddp", "Decode", "Fsdp", "Layers", "Moe", "Pp", "Tp"});
  EXPECT_EQ(families, expected);
}

}  // namespace
}  // namespace overlapbench
