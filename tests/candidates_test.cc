// Rows that choose: which of its candidates a row is, and when the plain form replaces it.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "fixtures/contest.h"
#include "timed_rows.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

class CandidatesTest : public TimedFixtureTest {
 protected:
  // Makes the row choose among horses "0", "1" .... Each one's run may have the plain form before
  // it.
  void RaceOf(const std::vector<Behaviour*>& horses, Behaviour* plain = nullptr) {
    for (std::size_t i = 0; i < horses.size(); ++i)
      row_.candidates.push_back(row_.settings.With("horse", std::to_string(i)));
    row_.runs = [horses, plain](const Settings& settings) {
      const auto run = [](const std::string& name, Behaviour& does) {
        return SoloRun(FakeWork(name, WorkClass::kCompute, does), false);
      };
      std::vector<overlapbench::Run> runs;
      if (plain != nullptr) runs.push_back(run("plain", *plain));
      const std::string& horse = settings.Text("horse");
      runs.push_back(run(horse, *horses.at(std::stoul(horse))));
      return runs;
    };
  }
};

// Of three horses the second is the fastest.
TEST_F(CandidatesTest, ARowThatChoosesIsTheFastestOfItsCandidates) {
  Behaviour slow;
  slow.enqueue = Takes(40);
  horse_.enqueue = Takes(1);
  RaceOf({&slow, &horse_, &slow});
  std::string chosen;
  row_.report = [&](const Measurement& measurement, Counters&) {
    chosen = measurement.settings().Text("horse");
    return Remark();
  };
  RegisterAnew();
  const Row row = Measure();
  EXPECT_EQ(chosen, "1");
  EXPECT_EQ(suite_.session->runs().back().name, "1");
  EXPECT_EQ(row.time_ms.value, 1);
  EXPECT_EQ(row.name, "Race/Horse");
}

// One has samples of 1, 2, 3 ... ms, and the other of ten times as much.
TEST_F(CandidatesTest, AContestComparesTheMediansOfFifteenSamples) {
  double time_ms = 0;
  double other_ms = 0;
  Behaviour first;
  first.enqueue = Takes([&] { return ++time_ms; });
  Behaviour second;
  second.enqueue = Takes([&] { return other_ms += 10; });
  RaceOf({&first, &second});
  Session contest(suite_.machine, ContestOf(row_));
  contest.SetUp(false);
  time_ms = other_ms = 0;
  EXPECT_EQ(Medians_ms(contest), (std::vector<double>{8, 80}));
}

// The second horse wins the contest, and is slow in its row, where the plain form runs before it.
TEST_F(CandidatesTest, AChoiceSlowerThanThePlainFormIsReplacedByIt) {
  bool is_tired = false;
  Behaviour plain;
  plain.enqueue = Takes([&] { return is_tired = true, 4; });
  Behaviour first;
  first.enqueue = Takes(4);
  Behaviour second;
  second.enqueue = Takes([&] { return is_tired ? 6 : 1; });
  RaceOf({&first, &second}, &plain);
  std::string chosen;
  row_.report = [&](const Measurement& measurement, Counters&) {
    chosen = measurement.settings().Text("horse");
    return Remark();
  };
  options_.budget = 3600'000ms;
  int freed = 0;
  suite_.note_resources = [&](const std::string& name, std::size_t /*groups*/) {
    if (name.empty()) ++freed;
  };
  const auto choice = [&] {
    freed = 0;
    is_tired = false;
    RegisterAnew();
    suite_.session.reset();
    const double samples = Measure().Counter("samples");
    EXPECT_TRUE(options_.iterations_by_google_benchmark || samples == 10) << samples;
    return chosen;
  };
  EXPECT_EQ(choice(), "1") << "nothing that it must not lose to";
  EXPECT_EQ(freed, 2) << "before and after the contest";
  row_.plain_run = "plain";
  EXPECT_EQ(choice(), "0");
  EXPECT_EQ(freed, 3);
  if (TestRanks().size() > 1) return;  // Google Benchmark takes half a second
  options_.iterations_by_google_benchmark = true;
  EXPECT_EQ(choice(), "0");
  EXPECT_EQ(freed, 3);
}

// Google Benchmark may ask for one sample: it decides nothing.
TEST_F(CandidatesTest, OneSampleDoesNotDropTheWinner) {
  options_.iterations_by_google_benchmark = true;
  std::array flags = {std::string("test"), std::string("--benchmark_min_time=0.05")};
  std::array arguments = {flags[0].data(), flags[1].data()};
  auto count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  bool is_tired = false;
  Behaviour first;
  first.enqueue = Takes(4);
  Behaviour second;  // in its row, as fast as the plain form on average
  second.enqueue = Takes([&, count = 0]() mutable {
    if (!is_tired) return 1;
    return ++count % 2 == 0 ? 2 : 6;
  });
  Behaviour steady;
  steady.enqueue = Takes([&] { return is_tired = true, 4; });
  RaceOf({&first, &second}, &steady);
  row_.plain_run = "plain";
  std::string chosen;
  row_.report = [&](const Measurement& measurement, Counters&) {
    chosen = measurement.settings().Text("horse");
    return Remark();
  };
  for (int i = 0; i < 3; ++i) {
    is_tired = false;
    RegisterAnew();
    suite_.session.reset();
    Measure();
    EXPECT_EQ(chosen, "1");
  }
}

// The memory of both would not suffice, that of each does.
TEST_F(CandidatesTest, CandidatesThatDoNotFitTogetherRaceOneByOne) {
  const std::size_t most =
      device_.memory(MemoryKind::kPinned).free_bytes / TestRanks().local_size();
  Behaviour slow;
  slow.enqueue = Takes(20);
  horse_.enqueue = Takes(1);
  Behaviour too_large;
  slow.footprint.device_bytes = horse_.footprint.device_bytes = most / 5 * 3;
  too_large.footprint.device_bytes = 2 * most;
  RaceOf({&slow, &too_large, &horse_});
  RegisterAnew();
  const Row row = Measure();
  EXPECT_LT(row.state, RowState::kInvalid) << row.reason;
  ASSERT_NE(suite_.session, nullptr);
  EXPECT_EQ(suite_.session->runs().back().name, "2");
}

}  // namespace
}  // namespace overlapbench
