// Rows of callables: one whose work is elsewhere leaves its lane empty, and the row says so,
// however long that work lasts.
#include "interface/user_rows.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "fake_gpu.h"
#include "fixtures/measurement.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// Longer than a whole sample after its gate opens.
constexpr auto kElsewhere = 75ms;
constexpr const char* kEmpty =
    "' left its lane empty: alone it took 0.0 us, and an empty callable 0.0 us; it must enqueue on "
    "the stream passed to it";

using Enqueueing = std::function<void(Stream& stream)>;

int32_t Call(void* context, void* stream, overlapbench_answer* /*answer*/) {
  (*static_cast<Enqueueing*>(context))(static_cast<FakeGpuStream*>(stream)->inner());
  return 0;
}

class UserRowsTest : public testing::Test {
 protected:
  static Callable Make(const std::string& name, WorkClass work_class, Enqueueing& enqueueing) {
    return {.name = name,
            .work_class = work_class,
            .callbacks = {Call, nullptr, nullptr},
            .context = &enqueueing};
  }
  // The remark of a row whose callables are `works`; a pair has two.
  Remark Measure(overlapbench_kind kind, const std::vector<Callable>& works,
                 const std::vector<AxisOverride>& axes = {{"cache", "warm"}}) {
    UserRow row;
    row.kind = kind;
    row.name = "mine";
    row.works = works;
    row.axes = axes;
    if (kind == OVERLAPBENCH_SCHEDULE) row.steps = {{"lane", works.front().name, 0, {}}};
    row.nothing = Make("nothing", WorkClass::kCompute, nothing_);
    FakeGpu device(elsewhere_);
    const Machine machine{device, TestRanks()};
    const Registry registry = RegistryOf(row, log_);
    const Catalog catalog{registry, device, machine};
    Session session(machine, BenchmarkOf(row, catalog, log_));
    session.SetUp(true);
    session.WarmUp();
    compared_in_quiet_ = session.quiet(session.runs().size() - 1).has_value();
    const std::vector<Group> groups = {session.Measure(), session.Measure(), session.Measure()};
    Counters counters;
    return session.benchmark().report(Measurement(session, groups), counters);
  }

  WorkElsewhere elsewhere_;
  Enqueueing away_ = [this](Stream&) { elsewhere_.Enqueue(kElsewhere); };
  Enqueueing here_ = [](Stream& stream) {
    stream.Enqueue([] { std::this_thread::sleep_for(15ms); });
  };
  // It begins after the previous sample's work elsewhere has ended, as after a rest, so that this
  // work disturbs no other sample.
  Enqueueing nothing_ = [this](Stream&) { elsewhere_.Await(kRanksPatience); };
  CallLog log_;
  bool compared_in_quiet_ = false;  // of the last row, its own run
};

TEST(LongestEmpty, IsLessThanTheShortestKernel) {
  EXPECT_DOUBLE_EQ(LongestEmpty_ms(Backend::kCuda, 0.0065), 0.0073);
  EXPECT_DOUBLE_EQ(LongestEmpty_ms(Backend::kHost, 0.010), 0.015);
}

TEST_F(UserRowsTest, WorkThatKeepsTheDeviceBusyElsewhereLeavesTheLaneEmpty) {
  const Callable comp = Make("comp", WorkClass::kCompute, here_);
  const Callable comm = Make("comm", WorkClass::kComm, away_);
  const Callable mine = Make("mine", WorkClass::kCompute, away_);
  struct Row {
    overlapbench_kind kind;
    std::vector<Callable> works;
  };
  for (const Row& row : {Row{OVERLAPBENCH_PAIR, {comp, comm}}, Row{OVERLAPBENCH_ALONE, {mine}},
                         Row{OVERLAPBENCH_SCHEDULE, {mine}}}) {
    const Remark remark = Measure(row.kind, row.works);
    EXPECT_EQ(remark.state, RowState::kInvalid) << row.kind;
    EXPECT_EQ(remark.reason, "'" + row.works.back().name + kEmpty);
  }
}

// All calls of a sample are made before its gate opens.
TEST_F(UserRowsTest, AGateStaysClosedUntilTheWorkOfAllCallsHasEnded) {
  away_ = [this](Stream&) { elsewhere_.Enqueue(9ms); };
  const Remark remark = Measure(OVERLAPBENCH_ALONE, {Make("mine", WorkClass::kCompute, away_)},
                                {{"cache", "warm"}, {"cadence", "streaming"}});
  EXPECT_EQ(remark.reason, std::string("'mine") + kEmpty);
}

TEST_F(UserRowsTest, WorkOnItsLaneIsMeasuredWhateverIsElsewhere) {
  Enqueueing both = [this](Stream& stream) {
    here_(stream);
    away_(stream);
  };
  for (Enqueueing* enqueueing : {&here_, &both}) {
    const Remark remark =
        Measure(OVERLAPBENCH_ALONE, {Make("mine", WorkClass::kCompute, *enqueueing)});
    EXPECT_EQ(remark.state, RowState::kOk) << remark.reason;
  }
}

// The fifth of five comparisons is disturbed. Before them, the callable is called twice: to verify
// it and to time it.
TEST_F(UserRowsTest, OneDisturbedComparisonChangesNothing) {
  int calls = 0;
  Enqueueing once = [&](Stream&) {
    if (++calls == 2 + 5) elsewhere_.Enqueue(300ms);
  };
  Measure(OVERLAPBENCH_ALONE, {Make("mine", WorkClass::kCompute, once)});
  EXPECT_TRUE(compared_in_quiet_);
}

// There is no gate to keep closed.
TEST_F(UserRowsTest, AnUngatedCallableIsNotComparedInQuiet) {
  Enqueueing idle = [](Stream&) {};
  Callable work = Make("mine", WorkClass::kCompute, idle);
  Measure(OVERLAPBENCH_ALONE, {work});
  EXPECT_TRUE(compared_in_quiet_);
  work.waits = true;
  Measure(OVERLAPBENCH_ALONE, {work});
  EXPECT_FALSE(compared_in_quiet_);
}

}  // namespace
}  // namespace overlapbench
