// What is refused before ranks start: filters, output files, and axes that no row accepts.
#include "benchmarks/preflight.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "benchmarks/prologue.h"
#include "device/error.h"

namespace overlapbench {
namespace {

// The text of the error; "" if there is none.
std::string RefusalOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
void NothingElse(const Registry& /*workloads*/) {}
std::string RefusalOf(const Options& options) {
  return RefusalOf([&] { RequireUsable(options, NothingElse); });
}

class PreflightTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string In(const char* name) const { return folder_ / name; }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("preflight_test." + std::to_string(getpid()));
  Options options_ = [] {
    Options options;
    options.backend = Options::BackendChoice::kHost;
    return options;
  }();
};

TEST_F(PreflightTest, LeavesNothingOfWhatItTried) {
  options_.out = In("out.json");
  options_.samples_out = In("samples.csv");
  options_.rank_times_out = In("rank_times.csv");
  options_.resources_out = In("resources.csv");
  options_.trace_out = In("traces");
  EXPECT_EQ(RefusalOf(options_), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  std::filesystem::create_directory(options_.trace_out);
  EXPECT_EQ(RefusalOf(options_), "");
  EXPECT_TRUE(std::filesystem::exists(options_.trace_out)) << "it was there before";
}

TEST_F(PreflightTest, RefusesAnyOutputThatCannotBeWritten) {
  const std::string nowhere = In("missing/file");
  for (std::string Options::* output :
       {&Options::out, &Options::samples_out, &Options::rank_times_out, &Options::resources_out}) {
    Options options = options_;
    options.*output = nowhere;
    EXPECT_NE(RefusalOf(options).find(nowhere), std::string::npos) << RefusalOf(options);
    for (bool Options::* lists : {&Options::list_axes, &Options::list_tests, &Options::dry_run}) {
      Options listing = options;
      listing.*lists = true;
      EXPECT_EQ(RefusalOf(listing), "") << "it writes no file";
    }
  }
}

TEST_F(PreflightTest, RefusesOneFileForTwoOutputs) {
  options_.out = In("same");
  options_.samples_out = (folder_ / "." / "same").string();
  EXPECT_NE(RefusalOf(options_), "");
}

TEST_F(PreflightTest, RefusesAxesThatNoRowOfTheHostAccepts) {
  options_.axes = {{"n", "0"}};
  EXPECT_EQ(RefusalOf(options_), "axis n: '0' is not a whole number from 16 to 65536");
  options_.backend = Options::BackendChoice::kCuda;  // whose plan needs its GPUs
  EXPECT_EQ(RefusalOf(options_), "");
}

TEST_F(PreflightTest, RefusesAPairOfUnknownWorkloads) {
  options_.pairs = {"AllReduce+Nothing"};
  EXPECT_EQ(RefusalOf(options_), "--pair: there is no workload 'Nothing'; --list_axes lists them");
}

TEST_F(PreflightTest, LetsOthersCheckTheWorkloads) {
  bool checked = false;
  RequireUsable(options_, [&](const Registry& workloads) {
    checked = workloads.Find("Gemm").name == "Gemm";
  });
  EXPECT_TRUE(checked);
}

// Both filters, and of an injected delay the part before its last colon.
TEST_F(PreflightTest, RefusesFiltersThatTakeTooLongOnTheNamesOfRows) {
  EXPECT_EQ(RefusalOf([&] { RequireUsableFilters(options_); }), "");
  const std::string deep = std::string(200'000, '(') + std::string(200'000, ')');
  Options options = options_;
  options.filter = deep;
  const std::string refused = RefusalOf([&] { RequireUsableFilters(options); });
  EXPECT_TRUE(refused.starts_with("--benchmark_filter: '((((")) << refused.substr(0, 40);
  options = options_;
  options.inject_delay = deep + ":50";
  const std::string delay = RefusalOf([&] { RequireUsableFilters(options); });
  EXPECT_TRUE(delay.starts_with("--inject_delay: '((((")) << delay.substr(0, 40);
  EXPECT_EQ(delay.substr(16), refused.substr(20));
}

TEST(GoogleBenchmarksFlags, AreTakenOrRefusedByName) {
  Options options;
  options.google_benchmark_flags = {"--benchmark_repetitions=2"};
  std::vector<std::string> flags;
  InitializeGoogleBenchmark(options, flags);
  EXPECT_EQ(flags, (std::vector<std::string>{"overlapbench", "--benchmark_repetitions=2",
                                             "--benchmark_out=", "--benchmark_filter=.",
                                             "--benchmark_format=console"}));
  options.google_benchmark_flags = {"--nothing_of_that_name=1"};
  EXPECT_EQ(RefusalOf([&] { InitializeGoogleBenchmark(options, flags); }),
            "Google Benchmark refuses the flag --nothing_of_that_name=1");
}

TEST(Gpus, AreOfOneRankEach) {
  const std::string too_many =
      "4 ranks on this machine but 2 GPUs: start at most one rank per GPU (--ranks 2)";
  EXPECT_EQ(TooManyRanks(1, 4, 2), "");
  EXPECT_EQ(TooManyRanks(2, 4, 2), too_many);
  EXPECT_EQ(TooManyRanks(3, 4, 2), too_many);
  EXPECT_EQ(TooManyRanks(3, 4, 1), "") << "the launcher shows each rank its own";
  EXPECT_EQ(SameGpu({"a", "b", "c"}), "");
  EXPECT_EQ(SameGpu({}), "");
  EXPECT_EQ(SameGpu({"a", "b", "c", "b", "b"}),
            "more ranks than GPUs: ranks 1 and 3 have the same GPU; start one rank per GPU");
}

TEST(Backends, AreChosenByNameOrByTheGpus) {
  Options options;
  EXPECT_EQ(ChoosesCuda(options), VisibleGpus() > 0);
  options.backend = Options::BackendChoice::kHost;
  EXPECT_FALSE(ChoosesCuda(options));
  options.backend = Options::BackendChoice::kCuda;
  EXPECT_TRUE(ChoosesCuda(options));
}

}  // namespace
}  // namespace overlapbench
