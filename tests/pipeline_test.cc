// Pipelines on real ranks: their schedules' structure, their works' data, and that the share of
// bubbles is the formula's where times are known.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "benchmarks/pipeline_order.h"
#include "benchmarks/plan.h"
#include "comm/pipeline_stages.h"
#include "fake_workload.h"
#include "fixtures/load.h"
#include "fixtures/session.h"
#include "noting_transports.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

// ---- Links

// A transfer is one work for all links of a set, so each rank may have only one part in it.
TEST(LinkSets, HaveNoRankInCommon) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const PipelineShape shape{.ranks = ranks, .chunks = 2};
    std::set<std::pair<LinkSet, int>> ends;
    for (int link = 0; link < ranks; ++link) {
      EXPECT_TRUE(shape.HasLink(link));
      for (const int rank : {link, (link + 1) % ranks})
        EXPECT_TRUE(ends.emplace(LinkSetOf(shape, link), rank).second) << link << " of " << ranks;
    }
    EXPECT_FALSE((PipelineShape{.ranks = ranks}).HasLink(ranks - 1));
  }
}

// ---- Rows

class PipelineTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's
  using Runs = std::vector<Run>;

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (!IsSkipped()) FillRegistry(registry_, machine());
  }

  // The rows whose names begin so, at these values.
  std::vector<Benchmark> Rows(const std::string& begin, const std::vector<AxisOverride>& values) {
    plan_ = std::make_unique<Plan>(MakePlan({registry_, device(), machine()}, values));
    std::vector<Benchmark> rows;
    for (const Benchmark& row : plan_->benchmarks())
      if (row.name.starts_with(begin)) rows.push_back(row);
    return rows;
  }
  static PipelineShape ShapeOf(const Benchmark& row) {
    const auto integer = [&](const char* axis) {
      return row.settings.Has(axis) ? static_cast<int>(row.settings.Integer(axis)) : 1;
    };
    return {TestRanks().size(), integer("virtual"), integer("microbatches")};
  }
  std::unique_ptr<Session> Open(const Benchmark& row) {
    auto session = std::make_unique<Session>(machine(), row);
    session->SetUp(true);
    return session;
  }

 private:
  Registry registry_;
  std::unique_ptr<Plan> plan_;
};
INSTANTIATE_ON_EACH_BACKEND(PipelineTest);

// ---- Works

constexpr long kElements = 33;  // of a micro-batch

class StagesTest : public PipelineTest {
 protected:
  struct Hop {
    int stage = 0;
    int next = 0;
  };
  // The transfers of a pass that go over a set of links, as the picture of a ring has them.
  static std::vector<Hop> HopsOf(const PipelineShape& shape, Pass pass, LinkSet set) {
    std::vector<Hop> hops;
    for (int lower = 0; lower + 1 < shape.stages(); ++lower) {
      if (LinkSetOf(shape, lower % shape.ranks) != set) continue;
      hops.push_back(pass == Pass::kForward ? Hop{lower, lower + 1} : Hop{lower + 1, lower});
    }
    return hops;
  }
  std::unique_ptr<Workload> MakeTransfer(const std::shared_ptr<PipelineStages>& stages, Pass pass,
                                         LinkSet set) {
    Settings settings;
    for (const Axis& axis : TransportAxes(machine())) settings.Set(axis, axis.standing);
    auto transfer = PipelineStages::MakeTransfer(stages, pass, set,
                                                 std::make_shared<Transports>(machine()), settings);
    transfer->Connect();
    return transfer;
  }
  std::string FaultOf(Workload& work) { return work.Verify(stream()).fault; }
  // Enqueues these parts between a reset and the ranks' meeting.
  void Run(Workload& work, const std::vector<Part>& parts) {
    work.Reset(stream());
    for (const Part& part : parts) work.EnqueuePart(stream(), part);
    Finish();
    TestRanks().Barrier("the test");
  }
  void RunWhole(Workload& work) {
    work.Reset(stream());
    work.Enqueue(stream());
    Finish();
  }
};
INSTANTIATE_ON_EACH_BACKEND(StagesTest);

// Each rank computes its chunks, and none without its part.
TEST_P(StagesTest, ComputeEveryPartOfTheirOwn) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "a pipeline needs two ranks";
  constexpr long kTimes = 3;
  const PipelineShape shape{.ranks = TestRanks().size(), .chunks = 2, .microbatches = 3};
  const long parts = shape.PartOf(0, 0).count;
  EXPECT_EQ(PipelineStages::FootprintOf(shape, kElements).device_bytes,
            4 * sizeof(float) * parts * kElements);
  const auto stages = std::make_shared<PipelineStages>(machine(), shape, kElements);
  MakeTransfer(stages, Pass::kForward, LinkSet::kEven);  // makes their memory
  std::set<std::optional<std::uint64_t>> results;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    int connected = 0;
    int reset = 0;
    long enqueued = 0;
    std::string fault;
    Behaviour takes_time;
    takes_time.connect = [&] { ++connected; };
    takes_time.reset = [&] { ++reset; };
    takes_time.enqueue = [&](Stream&) { ++enqueued; };
    takes_time.fault = [&] { return fault; };
    takes_time.cost = {.flops = 3, .moved_bytes = 5, .cached_bytes = 7};
    takes_time.knob_fault = "no knob";
    const auto compute = PipelineStages::MakeCompute(
        stages, pass, [&] { return std::make_unique<FakeWorkload>(takes_time); }, kTimes);
    compute->Connect();
    EXPECT_EQ(connected, 1);
    EXPECT_EQ(compute->IneffectiveKnob(), "no knob");
    const Cost cost = compute->cost();
    EXPECT_EQ(cost.flops, 3.0 * kTimes * parts);
    EXPECT_EQ(cost.moved_bytes, 5.0 * kTimes * parts);
    EXPECT_EQ(cost.cached_bytes, 7.0 * kTimes * parts);
    RunWhole(*compute);
    EXPECT_EQ(reset, 1);
    EXPECT_EQ(enqueued, kTimes * parts);
    EXPECT_EQ(FaultOf(*compute), "");
    const auto whole = compute->Fingerprint();
    EXPECT_TRUE(results.insert(whole).second) << "another pass has this result";
    for (long missing = -1; missing < parts; ++missing) {
      std::vector<Part> some;
      for (long part = parts - 1; part >= 0; --part)
        if (part != missing) some.push_back({part, parts});
      Run(*compute, some);
      EXPECT_EQ(FaultOf(*compute).empty(), missing < 0) << "without part " << missing;
      if (missing < 0) {
        EXPECT_EQ(compute->Fingerprint(), whole);
      }
    }
    fault = "too short";
    EXPECT_EQ(FaultOf(*compute), "too short");
  }
}

// What a stage sends arrives at the next one, in each micro-batch: a receiver notices a missing
// one.
TEST_P(StagesTest, TransferEveryMicrobatchOverTheirLinks) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "a pipeline needs two ranks";
  for (const int chunks : {1, 3}) {
    const PipelineShape shape{.ranks = TestRanks().size(), .chunks = chunks, .microbatches = 2};
    const auto stages = std::make_shared<PipelineStages>(machine(), shape, kElements);
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      for (const LinkSet set : {LinkSet::kEven, LinkSet::kOdd, LinkSet::kLast}) {
        SCOPED_TRACE(
            fmt::format("{} chunks, {}, {}", chunks, static_cast<int>(pass), ToString(set)));
        const auto transfer = MakeTransfer(stages, pass, set);
        EXPECT_EQ(transfer->cost().memory_bytes, 4.0 * chunks * 2 * kElements);
        std::vector<Part> parts;  // that this rank sends or receives
        bool receives = false;
        for (const auto& [stage, next] : HopsOf(shape, pass, set)) {
          const bool is_here = shape.RankOf(next) == TestRanks().rank();
          if (!is_here && shape.RankOf(stage) != TestRanks().rank()) continue;
          receives = is_here;
          for (const int microbatch : {1, 0}) parts.push_back(shape.PartOf(stage, microbatch));
        }
        RunWhole(*transfer);
        EXPECT_EQ(FaultOf(*transfer), "");
        Run(*transfer, {});
        EXPECT_EQ(FaultOf(*transfer).empty(), !receives) << "nothing was sent";
        Run(*transfer, parts);
        EXPECT_EQ(FaultOf(*transfer), "");
        if (!parts.empty()) parts.pop_back();
        Run(*transfer, parts);
        EXPECT_EQ(FaultOf(*transfer).empty(), !receives) << "one part is missing";
      }
    }
  }
}

// Links of different sets or passes may not wait for each other. A rank without a link of the set
// proves a call of nothing.
TEST_P(StagesTest, TransfersHaveAChannelAndProveTheirFirstCall) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "a pipeline needs two ranks";
  const PipelineShape shape{.ranks = TestRanks().size(), .chunks = 3, .microbatches = 2};
  const auto transports = std::make_shared<NotingTransports>(machine());
  const auto stages = std::make_shared<PipelineStages>(machine(), shape, kElements);
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const LinkSet set : {LinkSet::kEven, LinkSet::kOdd, LinkSet::kLast}) {
      const auto transfer = PipelineStages::MakeTransfer(stages, pass, set, transports, Settings());
      transfer->Connect();
      EXPECT_EQ(transfer->IneffectiveKnob(), "it took another kernel");
      EXPECT_EQ(transfer->sms(), 7);
      const CollectiveCall& call = transports->communicator->proven.back();
      const auto hops = HopsOf(shape, pass, set);
      const auto own = std::ranges::find_if(hops, [&](const Hop& hop) {
        const int rank = TestRanks().rank();
        return shape.RankOf(hop.stage) == rank || shape.RankOf(hop.next) == rank;
      });
      if (own == hops.end()) {
        EXPECT_EQ(call.count, 0);
        continue;
      }
      const bool sends = shape.RankOf(own->stage) == TestRanks().rank();
      EXPECT_EQ(call.count, kElements);
      EXPECT_EQ(call.operation, sends ? Operation::kSend : Operation::kReceive);
      EXPECT_EQ(call.peer, shape.RankOf(sends ? own->next : own->stage));
      EXPECT_EQ(call.send != nullptr, sends);
      transfer->EnqueuePart(stream(), shape.PartOf(own->stage, 0));
      const CollectiveCall& first = transports->communicator->calls.back();
      EXPECT_EQ(sends ? call.send : call.receive, sends ? first.send : first.receive);
    }
  }
  EXPECT_EQ(transports->communicator->allocated,
            std::vector<std::size_t>{PipelineStages::FootprintOf(shape, kElements).device_bytes});
  const std::set<int> channels(transports->channels.begin(), transports->channels.end());
  EXPECT_EQ(channels.size(), 6U);
  EXPECT_GE(*channels.begin(), 0);
}

// ---- Orders

std::vector<AxisOverride> Small(Backend backend) {
  return {{"microbatches", "12"},
          {"virtual", "2,3"},
          {"forward_us", "60"},
          {"backward_us", "120"},
          {"bytes", "4096"},
          {"layers", "6"},
          {"n", "64"},
          {"transport", backend == Backend::kHost ? "mpi" : "nccl,copy"},
          {"cache", "warm"}};
}

TEST_P(PipelineTest, EveryOrderHasTheResultOfTheSequentialRun) {
  const std::vector<Benchmark> rows = Rows("Pp/", Small(GetParam()));
  const std::size_t transports = GetParam() == Backend::kHost ? 1 : 2;
  EXPECT_EQ(rows.size(), TestRanks().size() > 1 ? 8 * transports : 0);
  for (const Benchmark& row : rows) {
    SCOPED_TRACE(row.name);
    const auto session = Open(row);
    EXPECT_EQ(session->knob_fault(), "");
    const std::vector<Group> groups = {session->Measure()};
    const Measurement measurement(*session, groups);
    EXPECT_TRUE(measurement.Identical("sequential", "pattern"));
    Counters counters;
    EXPECT_EQ(row.report(measurement, counters).state, RowState::kOk);
    const double computing = (measurement.Total_ms("chunks") / measurement.Total_ms()).median();
    EXPECT_NEAR(counters["bubble_share"], 1 - computing, 1e-12);
    EXPECT_DOUBLE_EQ(counters["formula_bubble_share"], BubbleShare(ShapeOf(row)));
    const bool is_gpipe = row.name.starts_with("Pp/GPipe/");
    EXPECT_EQ(counters["in_flight"] == 12, is_gpipe);
    if (row.name.find("/Delay/") == std::string::npos) {
      const double tokens = 12 * 64;  // each passes through all ranks, and counts once
      EXPECT_NEAR(counters["tokens_per_s"], 1000 * tokens / measurement.Total_ms().median(),
                  1e-9 * counters["tokens_per_s"]);
    } else {
      EXPECT_FALSE(counters.contains("tokens_per_s"));
    }
  }
}

// The longest path through a pipeline of known delays.
TEST_P(PipelineTest, TheBoundMatchesTheFormula) {
  for (const Benchmark& row : Rows("Pp/", Small(GetParam()))) {
    if (row.name.find("/Delay/") == std::string::npos) continue;
    SCOPED_TRACE(row.name);
    const std::vector<Run> runs = row.runs(row.settings);
    const PipelineShape shape = ShapeOf(row);
    const auto bound_ms = [&](const Run& run, double transfer_ms) {
      std::vector<double> step_ms;
      for (const Schedule::Step& step : run.schedule.steps()) {
        const bool computes = step.work->work_class == WorkClass::kCompute;
        step_ms.push_back(!computes ? transfer_ms : step.work->name == "forward" ? 1 : 2);
      }
      return BoundOf(run.schedule, step_ms).total_ms;
    };
    const double busy_ms = 3.0 * shape.chunks * shape.microbatches;
    EXPECT_NEAR(1 - busy_ms / bound_ms(runs.back(), 0), BubbleShare(shape), 1e-12);
    const Run& sequential = runs[runs.size() - 2];
    EXPECT_EQ(sequential.name, "sequential");
    // Each transfer takes its time once, not once to send and once to receive.
    const double transfers = 2.0 * (shape.stages() - 1) * shape.microbatches;
    EXPECT_NEAR(bound_ms(sequential, 0.125), shape.ranks * busy_ms + 0.125 * transfers, 1e-9);
    const Run& chunks = runs[runs.size() - 3];
    EXPECT_EQ(chunks.name, "chunks");
    EXPECT_NEAR(bound_ms(chunks, 0), busy_ms, 1e-9);
  }
}

// Noise only adds to a time, so the least of several is judged. A machine whose other processes
// took more of the time than the tolerance cannot show it.
TEST_P(PipelineTest, KnownDelaysHaveTheFormulasBubbles) {
  constexpr double kTolerance = 0.01;
  constexpr int kMostGroups = 20;
  for (Benchmark& row : Rows("Pp/", {{"microbatches", "4"},
                                     {"forward_us", "20000"},
                                     {"backward_us", "40000"},
                                     {"bytes", "4096"},
                                     {"cache", "warm"}})) {
    if (row.name.find("/Delay/") == std::string::npos) continue;
    SCOPED_TRACE(row.name);
    row.runs = [all = row.runs](const Settings& settings) {
      Runs runs = all(settings);
      std::erase_if(runs,
                    [](const Run& run) { return run.name != "chunks" && run.name != "pattern"; });
      return runs;
    };
    const auto session = Open(row);
    double chunks_ms = std::numeric_limits<double>::max();
    double total_ms = chunks_ms;
    double error = 1;
    double sampled_s = 0;
    LoadWatch load(machine());
    load.BeginSamples();
    int groups = 0;
    for (; groups < kMostGroups && error > kTolerance; ++groups) {
      const Group group = session->Measure();
      sampled_s += (group.front().total_ms + group.back().total_ms) / 1000;
      chunks_ms = std::min(chunks_ms, group.front().total_ms);
      total_ms = std::min(total_ms, group.back().total_ms);
      error = std::abs(1 - chunks_ms / total_ms - BubbleShare(ShapeOf(row)));
    }
    const double lost_share = load.Read(sampled_s, groups).lost_share;
    if (error > kTolerance && lost_share > kTolerance)
      GTEST_SKIP() << "other processes took " << 100 * lost_share << " % of the time";
    EXPECT_LE(error, kTolerance) << "1 - " << chunks_ms << " / " << total_ms << " ms";
  }
}

}  // namespace
}  // namespace overlapbench
