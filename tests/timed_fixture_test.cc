// What Google Benchmark is told of a benchmark: the time of its samples, and a state that all ranks
// agree on.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "device/host/host_stream.h"
#include "fixtures/series.h"
#include "fixtures/statistics.h"
#include "timed_rows.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// One joule for every reading.
class ReadingCounter : public EnergyCounter {
 public:
  [[nodiscard]] double Read_J() override {
    if (++readings_ > most) throw Error("it is worn out");
    return readings_;
  }
  [[nodiscard]] std::string name() const override { return "readings"; }
  [[nodiscard]] bool is_of_machine() const override { return false; }
  double most = 1e9;

 private:
  double readings_ = 0;
};

TEST_F(TimedFixtureTest, AnIneffectiveKnobOnOneRankIsAFaultOnAll) {
  if (OnLastRank()) horse_.knob_fault = "the bit is loose";
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "the bit is loose");
  EXPECT_EQ(row.Counter("valid"), 0);
}

TEST_F(TimedFixtureTest, ThrottledClocksOnOneRankAreAFaultOnAll) {
  if (OnLastRank()) device_.Throttle();
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "clocks were throttled: injected");
}

TEST_F(TimedFixtureTest, ThrottledGroupsAreTakenAgain) {
  options_.budget = 10000ms;
  device_.elapsed_ms = [this] { return device_.is_hot ? 7.0 : 1.0; };
  if (OnLastRank()) device_.hot_groups = 4;
  const Row row = Measure();
  EXPECT_NE(row.reason.find("4 of 14 groups were taken again, since clocks were throttled: hot"),
            std::string::npos)
      << row.reason;
  EXPECT_LT(row.state, RowState::kInvalid);
  EXPECT_EQ(row.Counter("samples"), 10);
  EXPECT_EQ(row.Counter("p95_ms"), 1);
  if (OnLastRank()) device_.hot_groups = 2;
  EXPECT_NE(Measure().reason.find("2 of 12 groups"), std::string::npos) << "another repetition";
}

// Without a budget, up to ten groups are taken for five. Four are too few. All count then, as does
// what throttled the others.
TEST_F(TimedFixtureTest, ARowWithTooFewUnthrottledGroupsIsInvalid) {
  options_.budget = 0ms;
  if (OnLastRank()) device_.hot_groups = 6;
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "clocks were throttled: hot");
  EXPECT_EQ(row.Counter("samples"), 10);
  device_.hot_groups = OnLastRank() ? 2 : 0;
  EXPECT_LT(Measure().state, RowState::kInvalid) << "it is another repetition";
}

// It may be noisy: it takes microseconds.
TEST_F(TimedFixtureTest, ARowWithoutFaultIsValid) {
  const Row row = Measure();
  EXPECT_LT(row.state, RowState::kInvalid) << row.reason;
  EXPECT_EQ(row.Counter("valid"), 1);
  EXPECT_EQ(suite_.error_rows, 0);
}

// Its aggregates of repetitions are Google Benchmark's; nothing else goes through its State.
TEST_F(TimedFixtureTest, GoogleBenchmarkHasTheNumbersOfARow) {
  Rows rows(suite_.finished);
  benchmark::RunSpecifiedBenchmarks(&rows, ".");
  ASSERT_EQ(rows.rows().size(), 1U);
  const Row& row = rows.rows()[0];
  const benchmark::BenchmarkReporter::Run& run = rows.runs().at(0);
  const std::map<std::string, double> numbers(run.counters.begin(), run.counters.end());
  EXPECT_EQ(numbers, NumbersOf(row));
  EXPECT_DOUBLE_EQ(run.GetAdjustedRealTime(), row.time_ms);
  EXPECT_EQ(run.report_label, "");
}

TEST_F(TimedFixtureTest, GoogleBenchmarkShowsTimesInTheChosenUnit) {
  for (const auto& [name, unit] :
       std::map<std::string, benchmark::TimeUnit>{{"ns", benchmark::kNanosecond},
                                                  {"us", benchmark::kMicrosecond},
                                                  {"ms", benchmark::kMillisecond},
                                                  {"s", benchmark::kSecond}}) {
    options_.time_unit = name;
    RegisterAnew();
    Rows rows(suite_.finished);
    benchmark::RunSpecifiedBenchmarks(&rows, ".");
    EXPECT_EQ(rows.runs().at(0).time_unit, unit) << name;
  }
}

TEST_F(TimedFixtureTest, AnObserverIsToldOfEveryRowAndRepetition) {
  class Notes : public RowObserver {
   public:
    void Begin(const std::string& name) override { text += name; }
    void EndRepetition() override { text += " +"; }
    std::string text;
  } notes;
  suite_.observer = &notes;
  Measure();
  Measure();
  EXPECT_EQ(notes.text, "Race/Horse + +") << "its session is kept";
  suite_.session.reset();
  horse_.fault = [] { return "it is a mule"; };
  Measure();
  EXPECT_EQ(notes.text, "Race/Horse + +Race/Horse +");
}

// Its interval may also be wide: it takes microseconds.
TEST_F(TimedFixtureTest, ADisturbanceOnOneRankMakesARowNoisyOnAll) {
  constexpr long kStranger = 1L << 30;  // above any process id of Linux
  for (int i = 0; OnLastRank() && i <= TestRanks().local_size(); ++i)
    device_.use.processes.push_back(kStranger + i);
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_NE(row.reason.find("1 other process uses a GPU"), std::string::npos) << row.reason;
  EXPECT_EQ(row.Counter("valid"), 1);
}

TEST_F(TimedFixtureTest, ARowHasItsEnergyIfThatIsAskedFor) {
  row_.report = [](const Measurement&, Counters& counters) {
    counters["tokens_per_s"] = 5e6;
    return Remark();
  };
  RegisterAnew();
  const auto counter = std::make_shared<ReadingCounter>();
  device_.energy = counter;
  EXPECT_FALSE(Measure().counters.contains("energy_J"));
  options_.energy = EnergyOf::kAllRuns;
  suite_.energy = {.missing = "there is none", .period_ms = 1};
  EXPECT_FALSE(Measure().counters.contains("energy_J"));
  suite_.energy->missing.clear();
  const Row row = Measure();
  EXPECT_GT(row.Counter("energy_J"), 0);
  EXPECT_TRUE(row.Counter("average_W").interval);
  const double tokens = 5e6 * row.time_ms.value / 1000;
  EXPECT_NEAR(row.Counter("energy_per_token_J") * tokens, row.Counter("energy_J"),
              1e-9 * row.Counter("energy_J"));
  counter->most = 0;
  EXPECT_FALSE(Measure().counters.contains("energy_J")) << "it is another repetition";
  suite_.energy->missing = "there is none";
  EXPECT_EQ(Measure().reason.find("energy not available"), std::string::npos);
}

TEST_F(TimedFixtureTest, ARowWhoseEnergyCounterFailsIsMeasuredAndSaysSo) {
  const auto counter = std::make_shared<ReadingCounter>();
  if (OnLastRank()) counter->most = 0;
  device_.energy = counter;
  options_.energy = EnergyOf::kAllRuns;
  suite_.energy = {.period_ms = 1};
  const Row row = Measure();
  EXPECT_LT(row.state, RowState::kInvalid);
  EXPECT_NE(row.reason.find("energy not available: "), std::string::npos) << row.reason;
  EXPECT_NE(row.reason.find("it is worn out"), std::string::npos) << row.reason;
  EXPECT_FALSE(row.counters.contains("energy_J"));
}

TEST_F(TimedFixtureTest, ARowSaysWhatLoadItMet) {
  const Row row = Measure();
  const auto cores = static_cast<double>(AllowedCores().size());
  EXPECT_GE(row.Counter("core_wait_pct"), 0);
  EXPECT_LE(row.Counter("core_wait_pct"), 100);
  EXPECT_GE(row.Counter("foreign_cores"), 0);
  EXPECT_LE(row.Counter("foreign_cores"), cores);
}

TEST(GroupCounts, AreThoseThatFitInTheBudgetFromTenTo200) {
  const auto counts = [](double budget_ms, double group_ms) {
    const auto [first, most] = GroupCountsFor(budget_ms, group_ms);
    return std::pair(first, most);
  };
  EXPECT_EQ(counts(600, 1), std::pair(10L, 200L));
  EXPECT_EQ(counts(600, 0), std::pair(10L, 200L));
  EXPECT_EQ(counts(600, 4), std::pair(10L, 150L));
  EXPECT_EQ(counts(600, 11), std::pair(10L, 54L)) << "of 54.5";
  EXPECT_EQ(counts(600, 150), std::pair(10L, 10L)) << "a quarter of the budget";
  EXPECT_EQ(counts(600, 151), std::pair(5L, 5L));
  EXPECT_EQ(counts(0.1, 0), std::pair(10L, 100L)) << "of a microsecond";
  EXPECT_EQ(counts(0, 1), std::pair(5L, 5L));
}

TEST(SampledTime, IsThatOfAllRunsInAllGroups) {
  const auto took = [](double total_ms) {
    Sample sample;
    sample.total_ms = total_ms;
    return sample;
  };
  EXPECT_DOUBLE_EQ(SampledTime_s({{took(1), took(2)}, {took(3), took(4)}}, 1), 0.010);
  EXPECT_DOUBLE_EQ(SampledTime_s({{took(1), took(2)}}, 20), 0.060);
  EXPECT_EQ(SampledTime_s({}, 1), 0);
}

// Every other sample takes eight times as long.
std::function<double()> OneOrEight() {
  return [i = 0]() mutable { return ++i % 2 == 0 ? 1 : 8; };
}

TEST_F(TimedFixtureTest, AWideIntervalMakesARowNoisy) {
  device_.elapsed_ms = OneOrEight();
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_EQ(row.reason.find("known to ±"), 0U) << row.reason;
  EXPECT_GT(row.Counter("margin_pct"), 25);
  EXPECT_EQ(row.Counter("valid"), 1);
}

TEST_F(TimedFixtureTest, ANoisyRowKeepsWhatWasFound) {
  row_.report = [](const Measurement&, Counters&) { return Remark::Finding("the horse limps"); };
  RegisterAnew();
  device_.elapsed_ms = OneOrEight();
  const Row row = Measure();
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_EQ(row.reason.find("known to ±"), 0U) << row.reason;
  EXPECT_TRUE(row.reason.ends_with("; the horse limps")) << row.reason;
}

// Order statistics bound the median of five samples, but not that of fewer.
TEST_F(TimedFixtureTest, ALongRowTakesFiveSamplesWhateverTheBudget) {
  options_.budget = 20ms;
  horse_.enqueue = [](Stream&) { std::this_thread::sleep_for(30ms); };
  EXPECT_EQ(Measure().Counter("samples"), 5);
  suite_.session.reset();
  options_.budget = 300ms;
  options_.precision = 0;
  EXPECT_LE(Measure().Counter("samples"), 10) << "as many as fit, or ten";
}

TEST_F(TimedFixtureTest, AnErrorIsCountedAndEndsItsSession) {
  horse_.fault = [] { return "it is a mule"; };
  EXPECT_EQ(Measure().state, RowState::kError);
  EXPECT_EQ(suite_.error_rows, 1);
  EXPECT_EQ(suite_.session, nullptr);
}

TEST_F(TimedFixtureTest, AnErrorLeavesNoFigures) {
  row_.report = [](const Measurement&, Counters& counters) -> Remark {
    counters["legs"] = 3;
    throw AgreedError("it fell");
  };
  RegisterAnew();
  const Row row = Measure();
  EXPECT_EQ(row.reason, "it fell");
  EXPECT_TRUE(row.counters.empty());
}

TEST_F(TimedFixtureTest, ARepetitionHasItsOwnSamples) {
  options_.precision = 0;  // as many as are allowed
  device_.elapsed_ms = [] { return 1; };
  const double samples = Measure().Counter("samples");
  EXPECT_GE(samples, 3);
  device_.elapsed_ms = [] { return 2; };
  const Row row = Measure();
  EXPECT_EQ(row.Counter("samples"), samples);
  EXPECT_EQ(row.time_ms.value, 2);
}

// JSON has no NaN and no infinity.
TEST_F(TimedFixtureTest, ACounterThatIsNoNumberIsNotReported) {
  row_.report = [](const Measurement&, Counters& counters) {
    counters["furlongs"] = std::numeric_limits<double>::quiet_NaN();
    counters["hands"] = std::numeric_limits<double>::infinity();
    counters["legs"] = 4;
    return Remark();
  };
  RegisterAnew();
  const Row row = Measure();
  EXPECT_FALSE(row.counters.contains("furlongs"));
  EXPECT_FALSE(row.counters.contains("hands"));
  EXPECT_EQ(row.Counter("legs"), 4);
}

// Times between 3 and 5 ms, the same on all ranks, without an end to their spread.
std::function<double()> Scattered() {
  return [i = 0]() mutable { return 3 + 2 * std::fmod(0.618034 * ++i, 1); };
}

// What the lines of --samples_out say is what the row has.
TEST_F(TimedFixtureTest, ARowsFiguresFollowFromItsSamples) {
  Behaviour pony;
  pony.sms = 16;
  horse_.max_rel_err = 0.125;
  horse_.cost.product = {.m = 2, .n = 3, .k = 4};
  row_.runs = [&](const Settings&) {
    return std::vector{SoloRun(FakeWork("pony", WorkClass::kComm, pony), false),
                       SoloRun(FakeWork("horse", WorkClass::kComm, horse_), false)};
  };
  horse_.sms = 24;
  RegisterAnew();
  device_.elapsed_ms = Scattered();
  std::vector<std::string> lines;
  suite_.write_samples = [&](const std::string& text) {
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);) lines.push_back(line);
  };
  std::string noted;
  suite_.note_resources = [&](const std::string& name, std::size_t groups) {
    noted += fmt::format("{} {}, ", name, groups);
    EXPECT_EQ(suite_.session == nullptr, name.empty()) << "its memory is free then";
  };
  const Row row = Measure();
  std::vector<double> ponies_ms;
  std::vector<double> horses_ms;
  std::vector<double> skews_us;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_horse = i % 2 == 1;
    const std::string begin = fmt::format("Race/Horse,{},{},", i / 2, is_horse ? "horse" : "pony");
    ASSERT_TRUE(lines[i].starts_with(begin)) << lines[i];
    std::istringstream numbers(lines[i].substr(begin.size()));
    double total_ms = 0;
    double skew_us = 0;
    char comma = 0;
    numbers >> total_ms >> comma >> skew_us;
    (is_horse ? horses_ms : ponies_ms).push_back(total_ms);
    if (is_horse) skews_us.push_back(skew_us);
  }
  EXPECT_GE(suite_.session->empty_sample_ms(), 3);
  const Series total_ms(horses_ms);
  const Summary summary = Summarize(horses_ms);
  EXPECT_EQ(row.time_ms.value, total_ms.median());
  const Interval none = {0, 0};
  EXPECT_EQ(row.time_ms.interval.value_or(none).low, total_ms.interval().value_or(none).low);
  EXPECT_EQ(row.time_ms.interval.value_or(none).high, total_ms.interval().value_or(none).high);
  EXPECT_TRUE(row.time_ms.interval.has_value());
  const double margin = std::max(total_ms.margin(), (total_ms / Series(ponies_ms)).margin());
  for (const auto& [name, value] :
       std::map<std::string, double>{{"margin_pct", 100 * margin},
                                     {"p05_ms", summary.p05},
                                     {"p95_ms", summary.p95},
                                     {"cv", summary.cv},
                                     {"samples", static_cast<double>(horses_ms.size())},
                                     {"skew_us", Median(skews_us)},
                                     {"empty_sample_us", 1000 * suite_.session->empty_sample_ms()},
                                     {"max_rel_err", 0.125},
                                     {"comm_sms", 24},
                                     {"m", 2},
                                     {"n", 3},
                                     {"k", 4},
                                     {"valid", 1}})
    EXPECT_DOUBLE_EQ(row.Counter(name), value) << name;
  EXPECT_EQ(noted, fmt::format(" 0, Race/Horse {}, ", horses_ms.size()));
}

// It looks after 10 samples, and then whenever there are half as many more.
TEST_F(TimedFixtureTest, SamplingEndsAtTheFirstLookThatIsPrecise) {
  if (TestRanks().size() > 1) GTEST_SKIP() << "several ranks tell no more";
  options_.budget = 3600'000ms;
  std::vector<double> totals_ms;
  suite_.write_samples = [&](const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      totals_ms.push_back(std::stod(line.substr(line.find(",horse,") + 7)));
  };
  for (const double precision : {0.12, 0.05, 0.0}) {
    totals_ms.clear();
    suite_.session.reset();
    options_.precision = precision;
    device_.elapsed_ms = Scattered();
    const auto is_precise = [&](std::size_t look) {
      return look == 200 ||
             (look <= totals_ms.size() &&
              Series({totals_ms.begin(), totals_ms.begin() + static_cast<std::ptrdiff_t>(look)})
                      .margin() <= precision);
    };
    const double samples = Measure().Counter("samples");
    EXPECT_EQ(samples, std::ssize(totals_ms));
    constexpr std::array<std::size_t, 9> kLooks = {10, 15, 22, 33, 49, 73, 109, 163, 200};
    EXPECT_EQ(totals_ms.size(), *std::ranges::find_if(kLooks, is_precise)) << precision;
  }
}

// All times are the same.
TEST_F(TimedFixtureTest, ARowMayAskForMoreSamplesThanItsPrecisionNeeds) {
  if (TestRanks().size() > 1) GTEST_SKIP() << "several ranks tell no more";
  options_.budget = 3600'000ms;
  device_.elapsed_ms = [] { return 4; };
  for (const auto& [least, samples] : {std::pair{0U, 10}, {10U, 10}, {11U, 15}, {15U, 15}}) {
    row_.least_groups = least;
    RegisterAnew();
    suite_.session.reset();
    EXPECT_EQ(Measure().Counter("samples"), samples) << least;
  }
}

TEST_F(TimedFixtureTest, ARowNamesItsSlowestRank) {
  options_.rank_times_out = "asked for";
  const int last = TestRanks().size() - 1;
  const Behaviour pony;
  row_.runs = [&](const Settings&) {
    return std::vector{SoloRun(FakeWork("pony", WorkClass::kComm, pony), false),
                       SoloRun(FakeWork("horse", WorkClass::kCompute, horse_), false)};
  };
  RegisterAnew();
  device_.elapsed_ms = [time_ms = 4.0 + TestRanks().rank()] { return time_ms; };
  std::string lines;
  suite_.write_rank_times = [&](const std::string& text) { lines += text; };
  const Row row = Measure();
  EXPECT_EQ(row.Counter("slowest_rank"), last);
  EXPECT_EQ(row.Counter("slowest_share"), 1);
  EXPECT_EQ(row.Counter("rank_spread"), last / (4 + last / 2.0));
  EXPECT_EQ(row.time_ms.value, 4 + last);
  EXPECT_EQ(std::ranges::count(lines, '\n'), TestRanks().size()) << lines;
  EXPECT_TRUE(lines.starts_with("Race/Horse,0," + Ranks::HostId() + ",4,")) << lines;
}

// 4 ms at least for bytes that the peaks allow in 5 ms at most.
TEST_F(TimedFixtureTest, AnImpossibleRateIsNoise) {
  device_.elapsed_ms = Scattered();
  device_.known.memory_GBps = 100;
  device_.known.cache_bytes = 1;
  device_.known.link_GBps = 100;
  for (const auto& [cost, is_possible] :
       {std::pair{Cost{.moved_bytes = 3e8, .wire_bytes = 3e8, .bus_factor = 1}, true},
        {Cost{.moved_bytes = 6e8}, false},
        {Cost{.wire_bytes = 6e8, .bus_factor = 1}, false}}) {
    suite_.session.reset();
    horse_.cost = cost;
    const Row row = Measure();
    const bool is_said = row.reason.find(" peak of 100 GB/s") != std::string::npos;
    const bool is_disturbed = row.reason.starts_with("disturbed: ");  // that comes first
    EXPECT_TRUE(is_said != is_possible || is_disturbed) << row.reason;
    EXPECT_FALSE(is_said && is_possible) << row.reason;
  }
}

// A GPU's row is precise at 1 %, a host's at 5 %.
TEST_F(TimedFixtureTest, TheBackendDecidesWhatIsPreciseAndWhatLoadIsKnown) {
  if (TestRanks().size() > 1) GTEST_SKIP() << "several ranks tell no more";
  options_.budget = 3600'000ms;
  device_.elapsed_ms = [i = 0]() mutable { return 4 + 0.2 * (++i % 2); };
  EXPECT_EQ(Measure().Counter("samples"), 10);
  suite_.session.reset();
  device_.shown = Backend::kCuda;
  device_.use.processes = {getpid(), 1L << 30};  // above any process id of Linux
  const Row row = Measure();
  EXPECT_EQ(row.Counter("samples"), 200);
  EXPECT_EQ(row.Counter("foreign_gpu_processes"), 1);
  suite_.session.reset();
  options_.precision = 0;  // never
  device_.elapsed_ms = [] { return 4; };
  EXPECT_EQ(Measure().Counter("samples"), 200);
}

// Without the flag no trace is taken.
TEST_F(TimedFixtureTest, ARowIsTracedOnRequest) {
  horse_.enqueue = [](Stream& stream) { stream.Enqueue([] {}); };
  EXPECT_FALSE(Measure().counters.contains("breakdown_valid"));
  std::vector<std::size_t> samples;
  suite_.write_trace = [&](const RowTrace& trace) { samples.push_back(trace.samples.size()); };
  const Row row = Measure();
  EXPECT_EQ(samples, std::vector<std::size_t>{3});
  EXPECT_EQ(row.Counter("breakdown_valid"), 1) << row.reason;
  EXPECT_EQ(row.reason.find("no breakdown"), std::string::npos) << row.reason;
}

TEST_F(TimedFixtureTest, ATracesPatternsAreSaidInItsRow) {
  horse_.enqueue = [](Stream& stream) {
    std::this_thread::sleep_for(10ms);  // the device starves
    stream.Enqueue([] {});
  };
  suite_.write_trace = [](const RowTrace&) {};
  const Row row = Measure();
  EXPECT_NE(row.reason.find("its trace shows a starving device"), std::string::npos) << row.reason;
  EXPECT_EQ(row.Counter("valid"), 1);
}

TEST_F(TimedFixtureTest, ATraceFaultIsReportedInItsRow) {
  suite_.write_trace = [](const RowTrace&) {};
  const Row row = Measure();  // the horse enqueues nothing
  EXPECT_EQ(row.Counter("breakdown_valid"), 0);
  EXPECT_EQ(row.Counter("valid"), 1);
  EXPECT_NE(row.reason.find("no breakdown: step 'horse' has no record"), std::string::npos)
      << row.reason;
  EXPECT_EQ(suite_.no_traces, "");
}

// The records arrive at the end, when the other ranks go on to compare theirs.
TEST_F(TimedFixtureTest, IfOneRanksRecordsAreLostAllRowsAreMeasuredWithoutTraces) {
  device_.loses_records = OnLastRank();
  suite_.write_trace = [](const RowTrace&) { ADD_FAILURE() << "there is nothing to write"; };
  const Row row = Measure();
  EXPECT_LT(row.state, RowState::kInvalid) << row.reason;
  EXPECT_FALSE(row.counters.contains("breakdown_valid"));
  EXPECT_NE(suite_.no_traces.find("the records are lost"), std::string::npos) << suite_.no_traces;
}

TEST_F(TimedFixtureTest, IfOneRankCannotTraceAllRowsAreMeasuredWithoutTraces) {
  auto other = OnLastRank() ? device_.watches().Activities() : nullptr;
  suite_.write_trace = [](const RowTrace&) { ADD_FAILURE() << "there is nothing to write"; };
  const Row row = Measure();
  EXPECT_LT(row.state, RowState::kInvalid);
  EXPECT_FALSE(row.counters.contains("breakdown_valid"));
  EXPECT_NE(suite_.no_traces.find("already being recorded"), std::string::npos) << suite_.no_traces;
  other.reset();
  EXPECT_FALSE(Measure().counters.contains("breakdown_valid"));  // and none is tried again
}

}  // namespace
}  // namespace overlapbench
