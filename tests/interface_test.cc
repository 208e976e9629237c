// The C interface as a program calls it, in one suite for all of these tests: what it refuses,
// which rows it makes of callbacks, and what their documents say.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "answers.h"
#include "interface/measuring.h"
#include "interface/overlapbench.h"
#include "json.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

class InterfaceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    constexpr std::array kFlags = {"--backend=host", "--no-self-test", "--budget_ms=20",
                                   "--warmup_ms=1"};
    ASSERT_EQ(overlapbench_open(kFlags.size(), kFlags.data(), &suite), 0)
        << overlapbench_measuring_error();
  }
  static void TearDownTestSuite() { overlapbench_close(suite); }
  void SetUp() override {
    works_ = {Work("comp", OVERLAPBENCH_COMP), Work("comm", OVERLAPBENCH_COMM)};
    row_.kind = OVERLAPBENCH_PAIR;
    row_.name = "mine";
  }

  overlapbench_work Work(const char* name, int32_t work_class) {
    return {name, work_class, 0, {Call, nullptr, nullptr}, &sleeps_};
  }
  // Why the row is refused, or the benchmark in its document.
  std::string Refusal() {
    const int32_t status = Measure();
    return status == OVERLAPBENCH_MEASURING_REFUSED ? overlapbench_measuring_error() : "accepted";
  }
  Json Row() {
    EXPECT_EQ(Measure(), OVERLAPBENCH_MEASURING_OK) << overlapbench_measuring_error();
    return JsonReader::Read(overlapbench_result(suite)).At("benchmarks").items.at(0);
  }

  // Of the last row's samples whose lines have `run` before their time.
  static double Shortest_ms(const std::string& run) {
    std::istringstream lines(overlapbench_samples(suite));
    double shortest_ms = std::numeric_limits<double>::infinity();
    for (std::string line; std::getline(lines, line);) {
      const std::string after =
          line.substr(std::min(line.find(run), line.size() - run.size()) + run.size());
      if (std::isdigit(after[0]) != 0) shortest_ms = std::min(shortest_ms, std::stod(after));
    }
    return shortest_ms;
  }

  std::vector<overlapbench_work> works_;
  std::vector<overlapbench_step> steps_;
  std::vector<const char*> labels_;
  std::vector<const char*> axes_ = {"cache=warm"};
  overlapbench_row row_{};
  Answering sleeps_ = Sleeping(std::chrono::microseconds(300));
  static inline overlapbench_suite* suite = nullptr;

 private:
  int32_t Measure() {
    row_.works = works_.data();
    row_.work_count = std::ssize(works_);
    row_.steps = steps_.data();
    row_.step_count = std::ssize(steps_);
    row_.labels = labels_.data();
    row_.label_count = std::ssize(labels_);
    row_.axes = axes_.data();
    row_.axis_count = std::ssize(axes_);
    return overlapbench_measure(suite, &row_);
  }
};

TEST_F(InterfaceTest, ListsAreChecked) {
  overlapbench_suite* none = nullptr;
  const char* const unknown[] = {"--speed=2"};
  for (const auto& [count, flags] : {std::pair{1L, static_cast<const char* const*>(nullptr)},
                                     {-1L, static_cast<const char* const*>(unknown)}}) {
    EXPECT_EQ(overlapbench_open(count, flags, &none), OVERLAPBENCH_MEASURING_REFUSED);
    EXPECT_STREQ(overlapbench_measuring_error(), "a list is null, or its length is negative");
  }
  EXPECT_EQ(overlapbench_open(1, unknown, &none), OVERLAPBENCH_MEASURING_REFUSED);
  EXPECT_NE(std::strstr(overlapbench_measuring_error(), "--speed"), nullptr);
  EXPECT_EQ(none, nullptr);
  overlapbench_close(none);
}

// As a launcher's that starts another MPI: each rank would measure alone.
TEST_F(InterfaceTest, RefusesRanksOfAnotherMpi) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  overlapbench_suite* none = nullptr;
  const char* const flag = "--backend=host";
  EXPECT_EQ(overlapbench_open(1, &flag, &none), OVERLAPBENCH_MEASURING_FAILED);
  EXPECT_EQ(std::strstr(overlapbench_measuring_error(), "started as rank 0 of 2, but "),
            overlapbench_measuring_error());
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
}

TEST_F(InterfaceTest, KnowsItsPlace) {
  overlapbench_place place{};
  EXPECT_EQ(overlapbench_where(suite, &place), 0);
  EXPECT_EQ(place.rank, TestRanks().rank());
  EXPECT_EQ(place.ranks, TestRanks().size());
  EXPECT_EQ(place.local_rank, TestRanks().rank());
  EXPECT_EQ(place.device, -1);
}

TEST(DeviceNumber, IsThatOfTheRankUnlessTheLauncherShowsItOneGpu) {
  EXPECT_EQ(DeviceNumber(8, 3), 3);
  EXPECT_EQ(DeviceNumber(2, 1), 1);
  EXPECT_EQ(DeviceNumber(1, 3), 0);
}

TEST_F(InterfaceTest, BroadcastsTheRootsBytes) {
  std::array<unsigned char, 3> bytes{};
  bytes.fill(static_cast<unsigned char>(TestRanks().rank() + 1));
  EXPECT_EQ(overlapbench_broadcast(suite, bytes.data(), 2), 0);
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[1], 1);
  EXPECT_EQ(bytes[2], TestRanks().rank() + 1);
  const auto refuses = [](void* data, int64_t size) {
    return overlapbench_broadcast(suite, data, size) == OVERLAPBENCH_MEASURING_REFUSED &&
           std::string(overlapbench_measuring_error()) ==
               "a broadcast takes 0 to 2147483647 bytes of memory";
  };
  EXPECT_TRUE(refuses(bytes.data(), -1));
  EXPECT_TRUE(refuses(bytes.data(), int64_t{1} << 31)) << "MPI's numbers end before it";
  EXPECT_TRUE(refuses(bytes.data(), int64_t{1} << 32)) << "MPI would take 0";
  EXPECT_TRUE(refuses(nullptr, 1));
  EXPECT_EQ(overlapbench_broadcast(suite, nullptr, 0), 0);
}

TEST_F(InterfaceTest, OnlyFlagsOfRowsCanChange) {
  const auto configure = [](const std::vector<const char*>& flags) -> std::string {
    const int32_t status = overlapbench_configure(suite, std::ssize(flags), flags.data());
    return status == OVERLAPBENCH_MEASURING_OK ? "" : overlapbench_measuring_error();
  };
  EXPECT_EQ(configure({"--budget_ms=10", "--warmup_ms=2", "--precision=3", "--timeout_s=9"}), "");
  EXPECT_EQ(configure({"--budget_ms=20", "--backend=host"}),
            "--backend=host can only be set at the start");
  EXPECT_EQ(configure({}), "");
}

TEST_F(InterfaceTest, ARowWhoseSettingsDifferBetweenRanksIsAnError) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  row_.kind = OVERLAPBENCH_ALONE;
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  const std::string own = "--budget_ms=2" + std::to_string(TestRanks().rank());
  const char* const flag = own.c_str();
  ASSERT_EQ(overlapbench_configure(suite, 1, &flag), 0);
  const std::string said = Row().At("error_message").text;
  EXPECT_NE(said.find("the ranks have diverged: rank 0 is at Compute/mine/cache:warm ("),
            std::string::npos)
      << said;
  overlapbench_configure(suite, 0, nullptr);
  EXPECT_FALSE(Row().Has("error_message")) << "the next row is measured";
}

TEST_F(InterfaceTest, APairIsARowOfOverlap) {
  labels_ = {"n=4096"};
  const Json row = Row();
  EXPECT_EQ(row.At("name").text, "Overlap/mineComm+mineComp/n:4096/cache:warm");
  EXPECT_GE(row.At("comp_ms").number, 0.3);
  EXPECT_GE(row.At("comm_ms").number, 0.3);
  // Its samples: each run's name is in a line.
  const std::string samples = overlapbench_samples(suite);
  for (const char* run : {",comp,", ",comm,", ",overlap,"})
    EXPECT_NE(samples.find(run), std::string::npos) << samples.substr(0, 300);
  const Json document = JsonReader::Read(overlapbench_result(suite));
  EXPECT_EQ(document.At("context").At("backend").text, "host");
  EXPECT_EQ(document.At("context").At("self_test").text, "left out");
  EXPECT_FALSE(row.Has("schedules"));
  EXPECT_EQ(document.At("families").items.back().At("name").text, "Schedule");
}

TEST_F(InterfaceTest, AWorkAloneIsARowOfItsClass) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  row_.kind = OVERLAPBENCH_ALONE;
  for (const auto& [work_class, family] : {std::pair{OVERLAPBENCH_COMP, "Compute"},
                                           {OVERLAPBENCH_COMM, "Comm"},
                                           {OVERLAPBENCH_MEM, "Comm"}}) {
    works_ = {Work("own", work_class)};
    EXPECT_EQ(Row().At("name").text, std::string(family) + "/mine/cache:warm");
  }
}

// Sleeps of 20 ms, so that a busy machine leaves no doubt of how many there are.
TEST_F(InterfaceTest, AScheduleIsComparedWithItsSequenceAndItsComputation) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  Answering sleeps = Sleeping(std::chrono::milliseconds(20));
  for (overlapbench_work& work : works_) work.context = &sleeps;
  row_.kind = OVERLAPBENCH_SCHEDULE;
  steps_ = {{"a", "load", 1, nullptr, 0}, {"b", "compute", 0, nullptr, 0}};
  EXPECT_NEAR(Row().At("speedup").number, 2, 0.6) << "side by side";
  const int64_t first = 0;
  steps_[1] = {"b", "compute", 0, &first, 1};
  const Json ordered = Row();
  EXPECT_EQ(ordered.At("name").text, "Schedule/mine/cache:warm");
  EXPECT_NEAR(ordered.At("speedup").number, 1, 0.3);
  EXPECT_GE(ordered.At("sequential_ms").number, 40);
  EXPECT_GE(ordered.At("bound_ms").number, 40);
  EXPECT_NEAR(ordered.At("interference_ms").number, 0, 10);
  EXPECT_NEAR(ordered.At("exposed_comm_ms").number, 20, 10);
  const std::string samples = overlapbench_samples(suite);
  for (const char* run : {",sequential,", ",computation,", ",pattern,", ",comp,", ",comm,"})
    EXPECT_NE(samples.find(run), std::string::npos) << run;
  works_[0].work_class = OVERLAPBENCH_COMM;
  EXPECT_FALSE(Row().Has("exposed_comm_ms")) << "no computation to expose it";
}

TEST_F(InterfaceTest, SameLaneSameStream) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  row_.kind = OVERLAPBENCH_SCHEDULE;
  steps_ = {{"a", "one", 0, nullptr, 0}, {"a", "two", 0, nullptr, 0}};
  EXPECT_GE(Row().At("bound_ms").number, 0.6);
}

TEST_F(InterfaceTest, RefusesRowsThatCannotBe) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  EXPECT_EQ(Refusal(), "accepted");
  row_.kind = 7;
  EXPECT_EQ(Refusal(), "there is no kind of row 7");
  row_.kind = OVERLAPBENCH_ALONE;
  EXPECT_EQ(Refusal(), "mine: it needs exactly one work");
  row_.kind = OVERLAPBENCH_SCHEDULE;
  EXPECT_EQ(Refusal(), "mine: it has no steps");
  steps_ = {{"a", "one", 2, nullptr, 0}};
  EXPECT_EQ(Refusal(), "mine: a step has no work");
  steps_[0].work = -1;
  EXPECT_EQ(Refusal(), "mine: a step has no work");
  steps_[0] = {"a", "one", 0, nullptr, 1};
  EXPECT_EQ(Refusal(), "a list is null, or its length is negative");
  row_.kind = OVERLAPBENCH_PAIR;
  steps_.clear();
  const std::string pair = "mine: a pair needs a computation first, then a communication or copy";
  std::swap(works_[0], works_[1]);
  EXPECT_EQ(Refusal(), pair);
  works_[0].work_class = OVERLAPBENCH_COMP;
  works_[1].work_class = OVERLAPBENCH_COMP;
  EXPECT_EQ(Refusal(), pair);
  works_.push_back(Work("third", OVERLAPBENCH_COMM));
  EXPECT_EQ(Refusal(), pair);
  works_.pop_back();
  works_[1].name = works_[0].name;
  EXPECT_EQ(Refusal(), "mine: two works have the same name");
  works_[1] = Work("other", 3);
  EXPECT_EQ(Refusal(), "there is no class of work 3");
  works_[1] = Work("other", OVERLAPBENCH_MEM);
  works_[1].callbacks.enqueue = nullptr;
  EXPECT_EQ(Refusal(), "mine: a work has no callback that enqueues it");
  works_[1] = Work("other", OVERLAPBENCH_MEM);
  EXPECT_EQ(Refusal(), "accepted");
  axes_ = {"cache=warm,cold"};
  EXPECT_EQ(Refusal(), "Overlap/mineComm+mineComp: give each axis one value");
  axes_ = {"cadence=streaming"};
  EXPECT_EQ(
      Refusal(),
      "Overlap/mineComm+mineComp/cache:cold/cadence:streaming: cadence:streaming needs a warm "
      "cache (--axis cache=warm)");
  axes_ = {"cash=warm"};
  EXPECT_TRUE(Refusal().starts_with("there is no axis 'cash'")) << Refusal();
}

TEST_F(InterfaceTest, WorksThatMayWaitAreMeasuredWithoutAGate) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  row_.kind = OVERLAPBENCH_ALONE;
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  works_[0].waits = 2;
  EXPECT_EQ(Row().At("name").text, "Compute/mine/gate:off/cache:warm");
}

TEST_F(InterfaceTest, AFailureIsTheRowsError) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  row_.kind = OVERLAPBENCH_ALONE;
  Answering fails = [](overlapbench_answer& answer) {
    std::strcpy(answer.text, "no way");
    return 1;
  };
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  works_[0].context = &fails;
  const Json row = Row();
  EXPECT_EQ(row.At("state").text, "error");
  EXPECT_EQ(row.At("error_message").text.substr(0, 4 + 6), "own: no wa");
  EXPECT_STREQ(overlapbench_samples(suite), "");
  works_[0].context = &sleeps_;
  row_.nothing = Call;
  row_.nothing_context = &fails;
  EXPECT_EQ(Row().At("error_message").text.substr(0, 7 + 8), "nothing: no way");
  row_.nothing = nullptr;
  EXPECT_FALSE(Row().Has("error_message")) << "the next row is measured";
}

// On the host, both times include the call itself.
TEST_F(InterfaceTest, AWorkThatTakesNoLongerThanNothingIsInvalid) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  Answering sleeps = Sleeping(std::chrono::milliseconds(20));
  row_.kind = OVERLAPBENCH_ALONE;
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  works_[0].context = &sleeps;
  row_.nothing = Call;
  row_.nothing_context = &sleeps;
  const Json row = Row();
  EXPECT_EQ(row.At("state").text, "invalid");
  const std::regex wanted(
      R"('mine' left its lane empty: alone it took (\d+\.\d) us, and an empty callable (\d+\.\d) us; )"
      "work this short cannot be measured");
  const std::string reason = row.At("reason").text;
  std::smatch times_us;
  ASSERT_TRUE(std::regex_match(reason, times_us, wanted)) << reason;
  for (const double us : {std::stod(times_us[1]), std::stod(times_us[2])}) {
    EXPECT_GE(us, 20000);
    EXPECT_LT(us, 2e6);
  }
  EXPECT_EQ(times_us[1], fmt::format("{:.1f}", 1000 * Shortest_ms(",mine,")));
  Answering longer = Sleeping(std::chrono::milliseconds(48));  // more than once and a half as long
  works_[0].context = &longer;
  EXPECT_NE(Row().At("state").text, "invalid");
  // Most of its calls wait for a core.
  int calls = 0;
  Answering disturbed = [&](overlapbench_answer& answer) {
    return (++calls % 3 == 0 ? sleeps : longer)(answer);
  };
  works_[0].context = &disturbed;
  const char* const more = "--budget_ms=200";
  EXPECT_EQ(overlapbench_configure(suite, 1, &more), OVERLAPBENCH_MEASURING_OK);
  EXPECT_EQ(Row().At("state").text, "invalid");
  EXPECT_EQ(overlapbench_configure(suite, 0, nullptr), OVERLAPBENCH_MEASURING_OK);
  row_.nothing = nullptr;
}

TEST_F(InterfaceTest, OnlyVerifiableWorksAreVerified) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  row_.kind = OVERLAPBENCH_SCHEDULE;
  const int64_t first = 0;
  steps_ = {{"a", "one", 0, nullptr, 0}, {"b", "two", 1, &first, 1}};
  static int checks;
  checks = 0;
  works_[0].callbacks.verify = [](void*, void*, overlapbench_answer* answer) {
    ++checks;
    answer->max_rel_err = 0.25;
    answer->tolerance = 0.5;
    return 0;
  };
  EXPECT_EQ(Row().At("max_rel_err").number, 0.25);
  EXPECT_EQ(checks, 4) << "alone, in turn, as the computation, and in the pattern";
}

TEST_F(InterfaceTest, ACallbackMustNotMeasure) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  row_.kind = OVERLAPBENCH_ALONE;
  std::string said;
  Answering nested = [&](overlapbench_answer&) {
    if (overlapbench_measure_own(suite, "Compute/Delay") == OVERLAPBENCH_MEASURING_REFUSED)
      said = overlapbench_measuring_error();
    return 0;
  };
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  works_[0].context = &nested;
  Row();
  EXPECT_EQ(said, "a measured callable must not start a measurement");
}

// On the thread that measures. Its signal ends the call; a suite of one rank goes on.
TEST_F(InterfaceTest, ACallThatDoesNotReturnIsInterrupted) {
  if (TestRanks().size() > 1) GTEST_SKIP() << "it would end the suite";
  static volatile std::sig_atomic_t interrupts;
  interrupts = 0;
  std::signal(SIGURG, [](int) { interrupts = interrupts + 1; });
  const char* const flag = "--timeout_s=1";
  ASSERT_EQ(overlapbench_configure(suite, 1, &flag), 0);
  ASSERT_EQ(overlapbench_interrupt_with(suite, SIGURG), 0);
  row_.kind = OVERLAPBENCH_ALONE;
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  works_[0].callbacks.verify = [](void*, void*, overlapbench_answer* answer) {
    answer->tolerance = 1;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(4);
    while (interrupts == 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 0;
  };
  const auto start = std::chrono::steady_clock::now();
  std::string said;
  std::thread([&] { said = Row().At("error_message").text; }).join();  // any thread may measure
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(said.find("'own' has not returned for "), 0U) << said;
  EXPECT_GE(took, std::chrono::milliseconds(900)) << "nine tenths of the timeout";
  EXPECT_LT(took, std::chrono::milliseconds(3900));
  EXPECT_EQ(interrupts, 1);
  std::signal(SIGURG, SIG_DFL);
  overlapbench_interrupt_with(suite, 0);
  works_[0].callbacks.verify = nullptr;
  EXPECT_FALSE(Row().Has("error_message")) << "the next row is measured";
  overlapbench_configure(suite, 0, nullptr);
}

// On a lane, the wait for it times out.
TEST_F(InterfaceTest, AWorkThatHangsIsNamed) {
  if (TestRanks().size() > 1) GTEST_SKIP() << "it would end the suite";
  const char* const flag = "--timeout_s=1";
  ASSERT_EQ(overlapbench_configure(suite, 1, &flag), 0);
  static Answering hangs = Sleeping(std::chrono::milliseconds(5000));
  row_.kind = OVERLAPBENCH_ALONE;
  works_ = {Work("own", OVERLAPBENCH_COMP)};
  works_[0].context = &hangs;
  const auto start = std::chrono::steady_clock::now();
  const std::string said = Row().At("error_message").text;
  EXPECT_NE(said.find("; 'own' has not returned for 1."), std::string::npos) << said;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(4500))
      << "it is left a second to end, and then left alone";
  works_[0].context = &sleeps_;
  EXPECT_FALSE(Row().Has("error_message")) << "the next row is measured";
  overlapbench_configure(suite, 0, nullptr);
}

TEST_F(InterfaceTest, MeasuresTheSuitesOwnRows) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  const auto measure = [](const char* name) -> std::string {
    const int32_t status = overlapbench_measure_own(suite, name);
    if (status != OVERLAPBENCH_MEASURING_OK) return overlapbench_measuring_error();
    return JsonReader::Read(overlapbench_result(suite))
        .At("benchmarks")
        .items.at(0)
        .At("name")
        .text;
  };
  EXPECT_EQ(measure("Compute/Delay/delay_us:500/cache:warm"),
            "Compute/Delay/delay_us:500/cache:warm");
  EXPECT_EQ(measure("Compute/Delay/delay_us:100"), "Compute/Delay/delay_us:100/cache:cold");
  EXPECT_EQ(measure(nullptr),
            "the suite has no rows of ''; ./bench --benchmark_list_tests lists their names");
}

// ---- The end of the measuring

// Only rank 1 knows the error, and rank 0 may wait for it. Each test has a suite of its own.
class EndedInterfaceTest : public InterfaceTest {
 protected:
  static void SetUpTestSuite() {}
  static void TearDownTestSuite() {}
  void SetUp() override {
    if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
    InterfaceTest::SetUpTestSuite();
    InterfaceTest::SetUp();
    const char* const flag = "--timeout_s=2";
    ASSERT_EQ(overlapbench_configure(suite, 1, &flag), 0);
    row_.kind = OVERLAPBENCH_ALONE;
    works_ = {Work("own", OVERLAPBENCH_COMP)};
  }
  void TearDown() override {
    if (IsSkipped()) return;
    TestRanks().Barrier("ending the test");
    InterfaceTest::TearDownTestSuite();
  }
  // What the row says, which ends the suite.
  std::string Ending() {
    std::string said = Row().At("error_message").text;
    for (const int32_t status : {overlapbench_measure_own(suite, "Compute/Delay"),
                                 overlapbench_configure(suite, 0, nullptr)}) {
      EXPECT_EQ(status, OVERLAPBENCH_MEASURING_FAILED);
      EXPECT_EQ(overlapbench_measuring_error(), "an earlier row ended the measuring: " + said);
    }
    return said;
  }
};

TEST_F(EndedInterfaceTest, ByAWorkThatHangs) {
  Answering hangs = Sleeping(std::chrono::milliseconds(2500));
  if (TestRanks().rank() == 1) works_[0].context = &hangs;
  const std::string said = Ending();
  EXPECT_EQ(said.find("; 'own' has not returned for ") != std::string::npos,
            TestRanks().rank() == 1)
      << said;
  std::this_thread::sleep_for(std::chrono::seconds(1));  // `hangs` is still called
}

// Rank 0 could go on.
TEST_F(EndedInterfaceTest, ByAWorkThatOutlastsAnotherRanksError) {
  Answering fails = [](overlapbench_answer&) { return 1; };
  Answering hangs = Sleeping(std::chrono::milliseconds(1600));
  works_ = {Work("own", OVERLAPBENCH_COMM)};
  works_[0].context = TestRanks().rank() == 1 ? &hangs : &fails;
  EXPECT_NE(Ending().find("own: failed without a message"), std::string::npos);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // `hangs` is still called
}

// Before it times out, rank 0 is told.
TEST_F(EndedInterfaceTest, ByACallThatDoesNotReturn) {
  static volatile std::sig_atomic_t interrupts;
  interrupts = 0;
  std::signal(SIGURG, [](int) { interrupts = interrupts + 1; });
  ASSERT_EQ(overlapbench_interrupt_with(suite, SIGURG), 0);
  works_[0].callbacks.verify = [](void*, void*, overlapbench_answer* answer) {
    answer->tolerance = 1;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (TestRanks().rank() == 1 && interrupts == 0 &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 0;
  };
  const std::string said = Ending();
  EXPECT_EQ(said.find("rank 1: 'own' has not returned for "), 0U) << said;
  std::signal(SIGURG, SIG_DFL);
}

}  // namespace
}  // namespace overlapbench
