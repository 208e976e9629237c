// A whole run in this process: its exit status, what it says on stderr, and the files that it
// leaves. A process can do it only once, so one rank runs to a failed row, two to the end, and
// three to a failed self-test.
#include "benchmarks/run.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "benchmarks/prologue.h"
#include "fake_workload.h"
#include "fixtures/rank_times.h"
#include "fixtures/resources.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"
#include "thrown.h"

namespace overlapbench {
namespace {

bool& DriverFails() {
  static bool fails = false;
  return fails;
}

}  // namespace

// The linker puts the first in the place of VisibleGpus, which has the second name then.
int CountOrFail() asm("__wrap__ZN12overlapbench11VisibleGpusEv");
int CountTruly() asm("__real__ZN12overlapbench11VisibleGpusEv");
int CountOrFail() { return DriverFails() ? throw Error("the driver fails") : CountTruly(); }

namespace {

std::string ContentsOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
std::string FirstLineOf(const std::filesystem::path& path) {
  const std::string text = ContentsOf(path);
  return text.substr(0, text.find('\n'));
}
long LinesOf(const std::filesystem::path& path) {
  const std::string text = ContentsOf(path);
  return std::ranges::count(text, '\n');
}

class BrokenCounter : public EnergyCounter {
 public:
  [[nodiscard]] double Read_J() override { throw Error("there is no meter"); }
  [[nodiscard]] std::string name() const override { return "broken"; }
  [[nodiscard]] bool is_of_machine() const override { return false; }
};

class UnmeteredDevice : public ForwardingDevice {
 public:
  UnmeteredDevice() : ForwardingDevice(OpenHostDevice(1)) {}
  std::shared_ptr<EnergyCounter> Energy() override { return std::make_shared<BrokenCounter>(); }
};

class RunTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.budget = std::chrono::milliseconds(1);
    options_.columns = 0;
    options_.out = In("out.json");
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    benchmark::ClearRegisteredBenchmarks();
    TestRanks().Barrier("the end of a test");  // the folder is of all ranks
    if (OnRoot()) std::filesystem::remove_all(folder_);
    TestRanks().Barrier("the end of its folder");
  }
  [[nodiscard]] std::string In(const char* name) const { return folder_ / name; }
  static bool OnRoot() { return TestRanks().is_root(); }

  overlapbench::Benchmark RowOf(const std::string& name) {
    return {.name = name,
            .settings = Settings().With("cache", "warm").With("cadence", "isolated"),
            .runs =
                [this](const Settings&) {
                  return std::vector{SoloRun(FakeWork("work", WorkClass::kCompute, work_), false)};
                },
            .report = [](const Measurement&, Counters&) { return Remark(); }};
  }
  // A known row of the self-test, whose slowdown of 1 is right if this is.
  overlapbench::Benchmark Known(double slowdown) {
    overlapbench::Benchmark known = RowOf("Known/Row");
    known.settings =
        known.settings.With("streams", "2").With("delay_us", "2").With("second_delay_us", "1");
    known.report = [slowdown](const Measurement&, Counters& counters) {
      counters["slowdown"] = slowdown;
      return Remark();
    };
    return known;
  }
  // What it returns. Its stderr is in said_.
  int Run(const std::vector<overlapbench::Benchmark>& rows,
          const std::vector<overlapbench::Benchmark>& known = {}) {
    Watchdog watchdog(TestRanks().progress(), kRanksPatience);
    Suite suite{{*device_, TestRanks()}, options_};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int status = -1;
    std::string refused;
    try {
      status = RunAll(watchdog, suite, AllCounters(), known, rows);
    } catch (const UsageError& error) {
      refused = error.what();
    }
    shown_ = testing::internal::GetCapturedStdout();
    said_ = testing::internal::GetCapturedStderr() + refused;
    return status;
  }

  // The same on all ranks.
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("run_test." + std::to_string(getppid()));
  Behaviour work_;
  std::unique_ptr<Device> device_ = std::make_unique<UnmeteredDevice>();
  Options options_;
  std::string shown_;
  std::string said_;
};

// All ranks learn of it, and none of the other files is left behind.
TEST_F(RunTest, RefusesAFileThatCannotBeWritten) {
  const std::string nowhere = In("missing/file");
  for (std::string Options::* output :
       {&Options::out, &Options::samples_out, &Options::rank_times_out, &Options::resources_out}) {
    Options others = options_;
    others.samples_out = In("samples.csv");
    others.*output = nowhere;
    std::swap(options_, others);
    EXPECT_EQ(Run({RowOf("Race/Only")}), -1);
    EXPECT_EQ(said_.find(nowhere) != std::string::npos, OnRoot()) << said_;
    std::swap(options_, others);
    EXPECT_TRUE(!OnRoot() || std::filesystem::is_empty(folder_));
  }
}

TEST(OpenDevice, GivesTheHostItsCores) {
  Options options;
  options.backend = Options::BackendChoice::kHost;
  EXPECT_EQ(OpenDevice(TestRanks(), options)->info().multiprocessors,
            std::max(1, static_cast<int>(TestRanks().cores())));
  options.host_cores = 3;
  const auto device = OpenDevice(TestRanks(), options);
  EXPECT_EQ(device->backend(), Backend::kHost);
  EXPECT_EQ(device->info().multiprocessors, 3);
  Suite suite{{*device, TestRanks()}, options};
  const FirstLook look = LookAround(suite);
  EXPECT_EQ(look.network, "") << "no GPU talks to another";
  options.share_gpu = true;
  try {
    OpenDevice(TestRanks(), options);
    FAIL() << "the host has no GPU to share";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "--share_gpu: the host backend has no GPUs; leave the flag out");
  }
}

// Some ranks would wait for it otherwise, or measure another backend.
TEST(OpenDevice, AllRanksLearnThatADriverFails) {
  const Ranks& ranks = TestRanks();
  DriverFails() = ranks.rank() == ranks.size() - 1;
  const std::string whose = ranks.size() == 1 ? "" : fmt::format("rank {}: ", ranks.size() - 1);
  EXPECT_EQ(Thrown<AgreedError>([] { OpenDevice(TestRanks(), {}); }), whose + "the driver fails");
  DriverFails() = false;
}

TEST_F(RunTest, EndsWithStatusZeroAndWritesEveryFileOnRankZero) {
  if (TestRanks().size() != 2) GTEST_SKIP() << "for two ranks";
  options_.samples_out = In("samples.csv");
  options_.rank_times_out = In("rank_times.csv");
  options_.resources_out = In("resources.csv");
  options_.trace_out = In("traces");
  EXPECT_EQ(Run({RowOf("Race/First"), RowOf("Race/Second")}, {Known(1)}), 0) << said_;
  TestRanks().Barrier("the end of a run");
  const std::string json = ContentsOf(options_.out);
  EXPECT_NE(json.find("\"Race/First\""), std::string::npos);
  EXPECT_NE(json.find("\"Race/Second\""), std::string::npos);
  EXPECT_NE(json.find("\"self_test\": \"passed: slowdown 1.00 of 1.00\""), std::string::npos);
  EXPECT_EQ(json.find("incomplete"), std::string::npos);
  EXPECT_EQ(FirstLineOf(options_.samples_out), "name,group,run,total_ms,skew_us");
  EXPECT_GT(LinesOf(options_.samples_out), 2);
  EXPECT_EQ(FirstLineOf(options_.rank_times_out) + "\n", RankTimesHeader());
  EXPECT_GT(LinesOf(options_.rank_times_out), 2);
  EXPECT_EQ(FirstLineOf(options_.resources_out) + "\n", ResourceLog::Header());
  EXPECT_GT(LinesOf(options_.resources_out), 2);
  for (const std::string& file :
       {options_.samples_out, options_.rank_times_out, options_.resources_out})
    EXPECT_EQ(ContentsOf(file).find("incomplete"), std::string::npos) << file;
  const auto traces = std::distance(std::filesystem::directory_iterator(options_.trace_out), {});
  EXPECT_EQ(traces, 2 * TestRanks().size());
  EXPECT_EQ(shown_.find("First") != std::string::npos, OnRoot());
}

TEST_F(RunTest, EndsWithStatusOneIfARowFailed) {
  if (TestRanks().size() != 1) GTEST_SKIP() << "for one rank";
  work_.fault = [] { return "it is a mule"; };
  options_.trace_out = In("traces");
  options_.energy = EnergyOf::kAllRuns;
  EXPECT_EQ(Run({RowOf("Race/First"), RowOf("Race/Second")}), 1);
  EXPECT_EQ(said_,
            "overlapbench: 2 benchmark runs failed\n"
            "overlapbench: energy not available: there is no meter\n");
  EXPECT_NE(ContentsOf(options_.out).find("\"energy\": \"not available: there is no meter\""),
            std::string::npos);
  EXPECT_NE(ContentsOf(options_.out).find("it is a mule"), std::string::npos);
  EXPECT_NE(ContentsOf(options_.out).find("\"self_test\": \"left out\""), std::string::npos);
  const auto files = std::distance(std::filesystem::directory_iterator(folder_), {});
  EXPECT_EQ(files, 2) << "what was not asked for is not written";
}

TEST_F(RunTest, EndsWithStatusThreeIfOnlyItsSelfTestFailed) {
  if (TestRanks().size() != 3) GTEST_SKIP() << "for three ranks";
  options_.out = "";
  EXPECT_EQ(Run({RowOf("Race/Only")}, {Known(2)}), kNotToBeTrusted);
  EXPECT_EQ(said_, OnRoot() ? "overlapbench: the self-test failed: slowdown 2.00 of 1.00; do not "
                              "trust this run's figures\n"
                            : "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace overlapbench
