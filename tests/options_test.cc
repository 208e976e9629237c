// The command line and the environment: what is taken, what is passed on, what is refused.
#include "fixtures/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

// Starts every test without Google Benchmark's variables and leaves none behind.
class OptionsTest : public testing::Test {
 protected:
  void SetUp() override { ClearEnvironment(); }
  void TearDown() override { ClearEnvironment(); }

  static std::string Refusal(const std::vector<std::string>& arguments) {
    try {
      ParseOptions(arguments);
    } catch (const UsageError& error) {
      return error.what();
    }
    ADD_FAILURE() << "taken: " << testing::PrintToString(arguments);
    return "";
  }

 private:
  static void ClearEnvironment() {
    for (const auto* variable :
         {"BENCHMARK_OUT", "BENCHMARK_OUT_FORMAT", "BENCHMARK_FILTER", "BENCHMARK_LIST_TESTS",
          "BENCHMARK_FORMAT", "BENCHMARK_ENABLE_RANDOM_INTERLEAVING", "BENCHMARK_MIN_TIME",
          "BENCHMARK_TIME_UNIT"}) {
      unsetenv(variable);
    }
  }
};

TEST_F(OptionsTest, HaveDefaults) {
  const Options options = ParseOptions({});
  EXPECT_EQ(options.backend, Options::BackendChoice::kAuto);
  EXPECT_EQ(options.filter, ".");
  EXPECT_EQ(options.timeout, std::chrono::seconds(60));
  EXPECT_EQ(options.budget, std::chrono::milliseconds(600));
  EXPECT_TRUE(options.gate);
  EXPECT_TRUE(options.out.empty());
  EXPECT_TRUE(options.google_benchmark_flags.empty());
  EXPECT_FALSE(options.iterations_by_google_benchmark);
  EXPECT_EQ(options.warmup.count(), 0);
  EXPECT_EQ(options.trace_samples, 3);
  EXPECT_EQ(options.repetitions, 1);
  EXPECT_EQ(options.host_cores, 0);
  EXPECT_EQ(options.plan_ranks, 0);
  EXPECT_EQ(options.plan_hosts, 1);
  EXPECT_EQ(options.energy, EnergyOf::kNothing);
  EXPECT_EQ(options.precision, std::nullopt);
  EXPECT_TRUE(options.self_test);
}

TEST_F(OptionsTest, AreReadWithEqualsSignOrSpace) {
  for (const auto& arguments :
       {std::vector<std::string>{"--backend=host", "--timeout_s=5", "--gate=off", "--axis=grid=1x1",
                                 "--axis=bytes=1M,2M"},
        std::vector<std::string>{"--backend", "host", "--timeout_s", "5", "--gate", "off", "--axis",
                                 "grid=1x1", "--axis", "bytes=1M,2M"}}) {
    const Options options = ParseOptions(arguments);
    EXPECT_EQ(options.backend, Options::BackendChoice::kHost);
    EXPECT_EQ(options.timeout, std::chrono::seconds(5));
    EXPECT_FALSE(options.gate);
    ASSERT_EQ(options.axes.size(), 2U);
    EXPECT_EQ(options.axes[1].name, "bytes");
    EXPECT_EQ(options.axes[1].values, "1M,2M");
  }
}

TEST_F(OptionsTest, TheLastBackendCounts) {
  using Choice = Options::BackendChoice;
  EXPECT_EQ(ParseOptions({"--backend=cuda"}).backend, Choice::kCuda);
  EXPECT_EQ(ParseOptions({"--backend=cuda", "--backend=auto"}).backend, Choice::kAuto);
}

TEST_F(OptionsTest, DashesAndUnderscoresInNamesAreAlike) {
  const Options options =
      ParseOptions({"--host-cores=3", "--list-axes", "--no_self_test", "--benchmark-filter=a_b-c"});
  EXPECT_EQ(options.host_cores, 3);
  EXPECT_TRUE(options.list_axes);
  EXPECT_FALSE(options.self_test);
  EXPECT_EQ(options.filter, "a_b-c");
}

TEST_F(OptionsTest, AFlagWithoutValueIsOn) {
  EXPECT_TRUE(ParseOptions({"--list_axes"}).list_axes);
  EXPECT_TRUE(ParseOptions({"--benchmark_list_tests"}).list_tests);
  EXPECT_FALSE(ParseOptions({"--benchmark_list_tests=false"}).list_tests);
}

TEST_F(OptionsTest, AQuestionIsAnsweredInsteadOfARun) {
  EXPECT_EQ(ParseOptions({}).question, Question::kNone);
  for (const auto& [flag, question] : std::vector<std::pair<std::string, Question>>{
           {"--help", Question::kHelp},
           {"-h", Question::kHelp},
           {"--version", Question::kVersion},
           {"--list_counters=json", Question::kCountersAsJson},
           {"--list_counters=markdown", Question::kCountersAsMarkdown},
           {"--query=gpus", Question::kGpus},
           {"--query=flags", Question::kFlags}}) {
    EXPECT_EQ(ParseOptions({"--backend=host", flag}).question, question) << flag;
  }
}

TEST_F(OptionsTest, AnEmptyFilterAndAllMeanEverything) {
  EXPECT_EQ(ParseOptions({"--benchmark_filter="}).filter, ".");
  EXPECT_EQ(ParseOptions({"--benchmark_filter=all"}).filter, ".");
  EXPECT_EQ(ParseOptions({"--benchmark_filter=Overlap"}).filter, "Overlap");
}

TEST_F(OptionsTest, GoogleBenchmarksOwnFlagsArePassedOn) {
  EXPECT_EQ(ParseOptions({"--benchmark_repetitions=3", "--v=2"}).google_benchmark_flags,
            (std::vector<std::string>{"--benchmark_repetitions=3", "--v=2"}));
}

// A benchmark's own unit wins over Google Benchmark's flag.
TEST_F(OptionsTest, TheSuiteHandlesTheTimeUnitItself) {
  EXPECT_EQ(ParseOptions({}).time_unit, "ms");
  for (const auto* unit : {"ns", "us", "ms", "s"}) {
    const Options options = ParseOptions({std::string("--benchmark_time_unit=") + unit});
    EXPECT_EQ(options.time_unit, unit);
    EXPECT_TRUE(options.google_benchmark_flags.empty());
  }
  setenv("BENCHMARK_TIME_UNIT", "us", 1);
  EXPECT_EQ(ParseOptions({}).time_unit, "us");
}

TEST_F(OptionsTest, TheOutputFileIsNotPassedOn) {
  const Options options = ParseOptions({"--benchmark_out=a.json", "--benchmark_out_format=json"});
  EXPECT_EQ(options.out, "a.json");
  EXPECT_TRUE(options.google_benchmark_flags.empty());
}

TEST_F(OptionsTest, MinTimeLeavesTheIterationsToGoogleBenchmark) {
  const Options options = ParseOptions({"--benchmark_min_time=0.5"});
  EXPECT_TRUE(options.iterations_by_google_benchmark);
  EXPECT_EQ(options.google_benchmark_flags, std::vector<std::string>{"--benchmark_min_time=0.5"});
}

TEST_F(OptionsTest, AreReadFromTheEnvironmentToo) {
  setenv("BENCHMARK_OUT", "env.json", 1);
  setenv("BENCHMARK_FILTER", "Comm", 1);
  setenv("BENCHMARK_FORMAT", "json", 1);
  setenv("BENCHMARK_MIN_TIME", "0.5", 1);
  const Options options = ParseOptions({});
  EXPECT_EQ(options.out, "env.json");
  EXPECT_EQ(options.filter, "Comm");
  EXPECT_EQ(options.format, ConsoleFormat::kJson);
  EXPECT_TRUE(options.iterations_by_google_benchmark);
}

TEST_F(OptionsTest, TheCommandLineWinsOverTheEnvironment) {
  setenv("BENCHMARK_OUT", "env.json", 1);
  setenv("BENCHMARK_FILTER", "Comm", 1);
  const Options options = ParseOptions({"--benchmark_out=b.json", "--benchmark_filter=Overlap"});
  EXPECT_EQ(options.out, "b.json");
  EXPECT_EQ(options.filter, "Overlap");
}

TEST_F(OptionsTest, RandomInterleavingIsRefusedByFlagAndEnvironment) {
  for (const auto* flag :
       {"--benchmark_enable_random_interleaving", "--benchmark_enable_random_interleaving=true"}) {
    EXPECT_NE(Refusal({flag}).find("is refused"), std::string::npos);
  }
  EXPECT_NO_THROW(ParseOptions({"--benchmark_enable_random_interleaving=false"}));
  setenv("BENCHMARK_ENABLE_RANDOM_INTERLEAVING", "1", 1);
  EXPECT_NE(Refusal({}).find("is refused"), std::string::npos);
}

TEST_F(OptionsTest, SetHowRowsAreShown) {
  EXPECT_EQ(ParseOptions({}).format, ConsoleFormat::kText);
  EXPECT_EQ(ParseOptions({"--benchmark_format=csv"}).format, ConsoleFormat::kCsv);
  EXPECT_EQ(ParseOptions({"--benchmark_format=console"}).format, ConsoleFormat::kText);
  EXPECT_NE(Refusal({"--benchmark_out_format=csv"}).find("only json"), std::string::npos);
  EXPECT_NO_THROW(ParseOptions({"--benchmark_counters_tabular"}));
  EXPECT_EQ(ParseOptions({}).colour, std::nullopt);
  EXPECT_EQ(ParseOptions({"--benchmark_color=auto"}).colour, std::nullopt);
  EXPECT_EQ(ParseOptions({"--benchmark_color=true", "--benchmark_color=auto"}).colour,
            std::nullopt);
  EXPECT_EQ(ParseOptions({"--benchmark_format=csv", "--benchmark_format=console"}).format,
            ConsoleFormat::kText);
  EXPECT_EQ(ParseOptions({"--benchmark_color=true"}).colour, true);
  EXPECT_EQ(ParseOptions({"--benchmark_color=false"}).colour, false);
  EXPECT_EQ(ParseOptions({}).columns, std::nullopt);
  EXPECT_EQ(ParseOptions({"--columns=100"}).columns, 100);
}

TEST_F(OptionsTest, AnEmptyVariableIsNotSet) {
  setenv("BENCHMARK_OUT", "", 1);
  setenv("BENCHMARK_MIN_TIME", "", 1);
  EXPECT_EQ(ParseOptions({}).out, "");
}

TEST_F(OptionsTest, TheSuitesOwnFlagsAreNotReadFromTheEnvironment) {
  setenv("BUDGET_MS", "5", 1);
  EXPECT_EQ(ParseOptions({}).budget.count(), 600);
  unsetenv("BUDGET_MS");
}

TEST_F(OptionsTest, TakeEveryWordForOnAndOff) {
  for (const char* on : {"on", "true", "1", "yes"})
    EXPECT_TRUE(ParseOptions({std::string("--gate=") + on}).gate) << on;
  for (const char* off : {"off", "false", "0", "no"})
    EXPECT_FALSE(ParseOptions({std::string("--gate=") + off}).gate) << off;
}

TEST_F(OptionsTest, PrecisionIsAPercentage) {
  EXPECT_EQ(ParseOptions({"--precision=0"}).precision, 0);
  EXPECT_EQ(ParseOptions({"--precision=2.5"}).precision, 0.025);
  EXPECT_EQ(ParseOptions({"--precision=100%"}).precision, 1);
  for (const char* text : {"100.1", "-1", "1x", "%", "1%%"})
    EXPECT_NE(Refusal({std::string("--precision=") + text}), "") << text;
}

TEST_F(OptionsTest, SecondsAreAboveZeroWithOrWithoutTheirUnit) {
  for (const char* text : {"0.5", "1s", "10x", "999999999"}) {
    const std::string flag = std::string("--benchmark_min_time=") + text;
    EXPECT_EQ(ParseOptions({flag}).google_benchmark_flags, std::vector{flag});
  }
  for (const char* text : {"0", "-1s", "1e9", "1 s", "1ms", "x", "10xs"})
    EXPECT_NE(Refusal({std::string("--benchmark_min_time=") + text}), "") << text;
}

TEST_F(OptionsTest, NumbersReachTheirBounds) {
  struct {
    const char* flag;
    long least;
    long most;
    long (*read)(const Options&);
  } const numbers[] = {
      {"--budget_ms", 1, 3'600'000, [](const Options& o) -> long { return o.budget.count(); }},
      {"--warmup_ms", 0, 3'600'000, [](const Options& o) -> long { return o.warmup.count(); }},
      {"--timeout_s", 1, 86'400, [](const Options& o) -> long { return o.timeout.count() / 1000; }},
      {"--columns", 0, 10'000, [](const Options& o) -> long { return o.columns.value_or(-1); }},
      {"--host_cores", 1, 4096, [](const Options& o) -> long { return o.host_cores; }},
      {"--trace_samples", 1, 1000, [](const Options& o) -> long { return o.trace_samples; }},
      {"--plan_ranks", 1, 1024, [](const Options& o) -> long { return o.plan_ranks; }},
      {"--plan_nodes", 1, 1024, [](const Options& o) -> long { return o.plan_hosts; }},
      {"--benchmark_repetitions", 1, 1'000'000,
       [](const Options& o) -> long { return o.repetitions; }}};
  for (const auto& [flag, least, most, read] : numbers) {
    const auto with = [flag = std::string(flag)](long value) {
      return std::vector{flag + "=" + std::to_string(value)};
    };
    EXPECT_EQ(read(ParseOptions(with(least))), least) << flag;
    EXPECT_EQ(read(ParseOptions(with(most))), most) << flag;
    EXPECT_NE(Refusal(with(least - 1)), "") << flag;
    EXPECT_NE(Refusal(with(most + 1)), "") << flag;
    EXPECT_NE(Refusal({std::string(flag) + "="}), "") << flag;
  }
  for (const char* flag : {"--v=0", "--v=9"}) EXPECT_NO_THROW(ParseOptions({flag}));
  for (const char* flag : {"--v=-1", "--v=10"}) EXPECT_NE(Refusal({flag}), "");
}

TEST_F(OptionsTest, EveryFlagSetsWhatItSays) {
  const std::map<std::string, std::string Options::*> texts = {
      {"--samples_out", &Options::samples_out},     {"--rank_times_out", &Options::rank_times_out},
      {"--resources_out", &Options::resources_out}, {"--trace_out", &Options::trace_out},
      {"--benchmark_out", &Options::out},           {"--benchmark_filter", &Options::filter},
      {"--inject_delay", &Options::inject_delay}};
  const std::map<std::string, bool Options::*> switches = {
      {"--list_axes", &Options::list_axes},
      {"--dry_run", &Options::dry_run},
      {"--predictable", &Options::predictable},
      {"--share_gpu", &Options::share_gpu},
      {"--gate", &Options::gate},
      {"--benchmark_list_tests", &Options::list_tests}};
  for (const auto& [flag, member] : texts) {
    const Options options = ParseOptions({flag + "=Text"});
    for (const auto& [other, one] : texts)
      EXPECT_EQ(options.*one, other == flag ? "Text" : Options().*one) << flag << " " << other;
  }
  for (const auto& [flag, member] : switches) {
    const bool usual = flag == "--gate";
    EXPECT_EQ(ParseOptions({}).*member, usual) << flag;
    for (const bool given : {true, false})
      EXPECT_EQ(ParseOptions({flag + (given ? "=on" : "=off")}).*member, given) << flag;
  }
  for (const auto& [text, of] : std::map<std::string, EnergyOf>{
           {"on", EnergyOf::kAllRuns}, {"off", EnergyOf::kNothing}, {"own", EnergyOf::kOwnRun}})
    EXPECT_EQ(ParseOptions({"--energy=" + text}).energy, of) << text;
  EXPECT_EQ(ParseOptions({"--energy"}).energy, EnergyOf::kAllRuns);
  EXPECT_EQ(Refusal({"--energy=all"}), "--energy takes on, off or own, got 'all'");
}

TEST_F(OptionsTest, PairsHaveTwoOrThreeSides) {
  EXPECT_EQ(ParseOptions({"--pair=A+B"}).pairs, std::vector<std::string>{"A+B"});
  EXPECT_EQ(ParseOptions({"--pair=A+B+C"}).pairs, std::vector<std::string>{"A+B+C"});
  for (const char* flag :
       {"--pair=+", "--pair=A+", "--pair=+B", "--pair=A++B", "--pair=", "--pair=A+B+"})
    EXPECT_NE(Refusal({flag}), "") << flag;
}

TEST_F(OptionsTest, PairsOfContextNeedAKeyAndAValue) {
  for (const char* list : {"=b", "a", "a=b,=d", "a=b,c=", "a=b,,c=d"})
    EXPECT_NE(Refusal({std::string("--benchmark_context=") + list}), "") << list;
}

TEST_F(OptionsTest, PairsOfContextArePassedOn) {
  EXPECT_EQ(ParseOptions({"--benchmark_context=a=b,c=d"}).google_benchmark_flags,
            std::vector<std::string>{"--benchmark_context=a=b,c=d"});
}

TEST_F(OptionsTest, ARefusalNamesTheFlagAndTheValue) {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  for (const auto& [arguments, says] :
       {Case{{"--backend=gpu"}, "there is no backend 'gpu': choose auto, cuda or host"},
        Case{{"--gate=maybe"}, "--gate takes on or off, got 'maybe'"},
        Case{{"--budget_ms=0"}, "--budget_ms takes a whole number from 1 to 3600000, got '0'"},
        Case{{"--timeout_s=1h"}, "--timeout_s takes a whole number from 1 to 86400, got '1h'"},
        Case{{"--host_cores=-1"}, "--host_cores takes a whole number from 1 to 4096, got '-1'"},
        Case{{"--axis"}, "--axis needs a value"},
        Case{{"--axis=n=1", "--axis=n=2"}, "--axis n is given twice; give its values in one list"},
        Case{{"--pair=AllReduce"},
             "--pair takes two or three workloads, as in --pair AllReduce+Gemm; got 'AllReduce'"},
        Case{{"--pair=A+B+C+D"},
             "--pair takes two or three workloads, as in --pair AllReduce+Gemm; got 'A+B+C+D'"},
        Case{{"--pair=+Gemm"},
             "--pair takes two or three workloads, as in --pair AllReduce+Gemm; got '+Gemm'"},
        Case{{"--benchmark_repetitions=0"},
             "--benchmark_repetitions takes a whole number from 1 to 1000000, got '0'"},
        Case{{"--benchmark_min_time=abc"},
             "--benchmark_min_time takes seconds above 0, or iterations as in 10x, got 'abc'"},
        Case{{"--benchmark_min_time=0.5x"},
             "--benchmark_min_time takes seconds above 0, or iterations as in 10x, got '0.5x'"},
        Case{{"--benchmark_min_time=nan"},
             "--benchmark_min_time takes seconds above 0, or iterations as in 10x, got 'nan'"},
        Case{{"--precision=nan"},
             "--precision takes a percentage from 0 to 100, as in 1%, got 'nan'"},
        Case{{"--benchmark_out="}, "--benchmark_out needs a name"},
        Case{{"--samples_out", ""}, "--samples_out needs a name"},
        Case{{"--trace_out="}, "--trace_out needs a name"},
        Case{{"--benchmark_context=a=b,c"},
             "--benchmark_context takes KEY=VALUE,..., each with one '=', got 'a=b,c'"},
        Case{{"--benchmark_context=a=b=c"},
             "--benchmark_context takes KEY=VALUE,..., each with one '=', got 'a=b=c'"},
        Case{{"--benchmark_context=a="},
             "--benchmark_context takes KEY=VALUE,..., each with one '=', got 'a='"},
        Case{{"--benchmark_min_time=1", "--benchmark_min_warmup_time=1x"},
             "--benchmark_min_warmup_time takes seconds above 0, got '1x'"},
        Case{{"--benchmark_min_warmup_time=1"},
             "--benchmark_min_warmup_time needs --benchmark_min_time; without them the suite warms "
             "up by itself"},
        Case{{"--benchmark_time_unit=foo"},
             "--benchmark_time_unit takes ns, us, ms or s, got 'foo'"},
        Case{{"--benchmark_format=jsn"},
             "--benchmark_format takes console, json or csv, got 'jsn'"},
        Case{{"--benchmark_report_aggregates_only"},
             "--benchmark_report_aggregates_only is refused: the tools compare repetitions, which "
             "would be left out of the result"},
        Case{{"--v=abc"}, "--v takes a whole number from 0 to 9, got 'abc'"},
        Case{{"--backend=host", "--bogus=1"}, "unknown flag '--bogus=1'; --help lists the flags"},
        Case{{"--benchmark_filtre=Comm"},
             "unknown flag '--benchmark_filtre=Comm'; did you mean --benchmark_filter? --help "
             "lists the flags"},
        Case{{"--rnaks=4"},
             "unknown flag '--rnaks=4'; did you mean --ranks? --help lists the flags"},
        Case{{"--filter=Comm"},
             "unknown flag '--filter=Comm'; did you mean --benchmark_filter? --help lists the "
             "flags"},
        Case{{"--hostfile=hosts"}, "--hostfile is a flag of ./bench, which starts this program"},
        Case{{"--query=cpus"}, "--query takes gpus or flags, got 'cpus'"},
        Case{{"--list_counters=csv"}, "--list_counters takes json or markdown, got 'csv'"},
        Case{{"--benchmark_display_aggregates_only"},
             "--benchmark_display_aggregates_only is refused: the result contains what is "
             "displayed, and the tools need the repetitions"},
        Case{{"Overlap"}, "unknown flag 'Overlap'; --help lists the flags"}}) {
    EXPECT_EQ(Refusal(arguments), says);
  }
}

// The ranks compare this text to check that they got the same flags.
TEST_F(OptionsTest, SharedFlagsAreKnownHoweverTheyWereGiven) {
  EXPECT_EQ(ParseOptions({}).shared_flags, "");
  EXPECT_EQ(
      ParseOptions({"--gate=off", "--axis", "n=64", "--benchmark_repetitions=2"}).shared_flags,
      "--gate=off --axis=n=64 --benchmark_repetitions=2");
  setenv("BENCHMARK_MIN_TIME", "0.5", 1);
  EXPECT_EQ(ParseOptions({}).shared_flags, "--benchmark_min_time=0.5");
}

TEST_F(OptionsTest, FlagsOfRank0AloneAreNotShared) {
  setenv("BENCHMARK_OUT", "env.json", 1);
  EXPECT_EQ(
      ParseOptions({"--benchmark_out=a.json", "--benchmark_out_format=json", "--samples_out=b.csv",
                    "--benchmark_color=true", "--benchmark_counters_tabular", "--columns=80"})
          .shared_flags,
      "");
  EXPECT_EQ(ParseOptions({"--resources_out=c.csv"}).shared_flags, "--resources_out=c.csv")
      << "all ranks take part in it";
}

TEST_F(OptionsTest, HelpTakesATopic) {
  const auto topic = [](const std::vector<std::string>& arguments) {
    const Options options = ParseOptions(arguments);
    return options.question == Question::kHelp ? "help:" + options.help_topic : "";
  };
  EXPECT_EQ(topic({"--help"}), "help:");
  EXPECT_EQ(topic({"-h", "axes"}), "help:axes");
  EXPECT_EQ(topic({"--help=flags"}), "help:flags");
  EXPECT_EQ(topic({"--help", "--backend=host"}), "help:");
  EXPECT_EQ(Refusal({"--help", "axis"}),
            "--help knows nothing of 'axis'; did you mean axes? it takes families, axes, counters, "
            "flags");
  EXPECT_EQ(Refusal({"--help=everything"}),
            "--help knows nothing of 'everything'; it takes families, axes, counters, flags");
}

TEST_F(OptionsTest, HelpListsEveryFlagOfTheSuite) {
  const std::string help = FlagsHelp();
  for (const auto* flag : {"--backend=", "--axis=", "--list_axes", "--budget_ms=", "--timeout_s=",
                           "--gate=", "--host_cores=", "--samples_out=", "--benchmark_filter=",
                           "--benchmark_list_tests", "--v="}) {
    EXPECT_NE(help.find(std::string("  ") + flag), std::string::npos) << flag;
  }
  EXPECT_EQ(help.find("interleaving"), std::string::npos) << "which is refused";
  const std::string common = CommonFlagsHelp();
  EXPECT_NE(common.find("  --benchmark_filter="), std::string::npos);
  EXPECT_EQ(common.find("--share_gpu"), std::string::npos);
}

}  // namespace
}  // namespace overlapbench
