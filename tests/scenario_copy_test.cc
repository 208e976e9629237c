// What rows of Copy and Supply report for samples whose truth is known: counters, states and
// reasons. Times in milliseconds.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "scenarios.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

// ---- Copy/Bandwidth

// Alone, 8 MB take 2 and 4 MB take 1. Together they take 4 and, from 1 on, 2.
TEST(BandwidthReport, EachDirectionHasItsOwnRateAndLoss) {
  ScenarioReport both("Copy/Bandwidth/direction:both");
  both.Costs("HostToDevice", {.copied_bytes = 8e6});
  both.Costs("DeviceToHost", {.copied_bytes = 4e6});
  const Reported row =
      both.Report({{"HostToDevice", Took(2)},
                   {"DeviceToHost", Took(1)},
                   {"both", Ran({{"HostToDevice", {0, 4}}, {"DeviceToHost", {1, 3}}})}});
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_DOUBLE_EQ(row.counters.at("host_to_device_GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("device_to_host_GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("host_to_device_slowdown"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("device_to_host_slowdown"), 2);
}

TEST(BandwidthReport, OneDirectionHasItsRate) {
  ScenarioReport in("Copy/Bandwidth/direction:host_to_device");
  in.Costs("HostToDevice", {.copied_bytes = 8e6});
  EXPECT_DOUBLE_EQ(in.Report({{"HostToDevice", Took(2)}}).counters.at("GBps"), 4);
}

TEST(SequentialReport, HasTheRateOfTheCopies) {
  ScenarioReport sequential("Copy/Sequential", {{"elements", "64"}});
  sequential.Costs("in", {.copied_bytes = 4e6});
  sequential.Costs("out", {.copied_bytes = 4e6});
  sequential.Costs("compute", {.flops = 4e9});
  const Reported row = sequential.Report({{"sequential", Took(4)}});
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("TFLOPs"), 1);
}

// ---- Copy/Pipelined

struct StageTimes {
  double in_ms = 0;
  double compute_ms = 0;
  double out_ms = 0;
};
// How much longer a copy takes beside one in the other direction.
struct Slowdowns {
  double in = 1;
  double out = 1;
};
constexpr Slowdowns kNone = {1, 1};

class Pipeline {
 public:
  explicit Pipeline(int parts, const std::string& memory = "pinned")
      : report_("Copy/Pipelined", {{"elements", "6400"},
                                   {"pipeline_streams", std::to_string(parts)},
                                   {"memory", memory}}) {}
  void LeavesAnotherResult() { report_.Leaves("pipelined", 4712); }
  Reported Report(const StageTimes& stages, const Slowdowns& slowdowns, double pipelined_ms) {
    return report_.Report(
        {{"sequential", Took(stages.in_ms + stages.compute_ms + stages.out_ms)},
         {"in", Took(stages.in_ms)},
         {"compute", Took(stages.compute_ms)},
         {"out", Took(stages.out_ms)},
         {"duplex", Ran({{"host to device", {0, stages.in_ms * slowdowns.in}},
                         {"device to host", {0, stages.out_ms * slowdowns.out}}})},
         {"pipelined", Took(pipelined_ms)}});
  }
  // Alone they take 8 in all: 2 in, 4 computing, 2 out.
  Reported Report(double pipelined_ms) { return Report({2, 4, 2}, kNone, pipelined_ms); }

 private:
  ScenarioReport report_;
};

// Parts of 0.5, 1 and 0.5: at best the last of four leaves at 5.
TEST(PipelinedReport, ComparesWithTheSequentialFormAndTheBound) {
  const Reported row = Pipeline(4).Report(6.25);
  EXPECT_EQ(row.state, RowState::kOk);
  ExpectCounters(row, {{"sequential_ms", 8},
                       {"in_ms", 2},
                       {"compute_ms", 4},
                       {"out_ms", 2},
                       {"bound_ms", 5},
                       {"speedup", 1.28},
                       {"pct_of_bound", 80},
                       {"identical", 1},
                       {"duplex_bound_ms", 5}});
}

TEST(PipelinedReport, BlamesTheRestIfCopiesDoNotContend) {
  EXPECT_EQ(Pipeline(4).Report(5.5).reason,
            "over the bound: 0.0 % due to copies in both directions at once, 10.0 % to the rest");
}

// In two parts of 2, 0 and 2, at best 6. The second comes in while the first goes out: both take 3,
// and all is done at 7.
TEST(PipelinedReport, SplitsTheLossBetweenDuplexCopiesAndTheRest) {
  const Reported row = Pipeline(2).Report({4, 0, 4}, {1.5, 1.5}, 7.5);
  EXPECT_DOUBLE_EQ(row.counters.at("bound_ms"), 6);
  EXPECT_DOUBLE_EQ(row.counters.at("duplex_bound_ms"), 7);
  EXPECT_EQ(row.reason,
            "over the bound: 16.7 % due to copies in both directions at once, 8.3 % to the rest");
}

TEST(PipelinedReport, AResultUnlikeTheSequentialOneIsAFault) {
  Pipeline pipeline(4);
  pipeline.LeavesAnotherResult();
  const Reported row = pipeline.Report(5);
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "the result is not that of the sequential run");
  EXPECT_EQ(row.counters.at("identical"), 0);
}

TEST(PipelinedReport, SaysThatPageableMemoryDoesNotOverlap) {
  const Reported row = Pipeline(4, "pageable").Report(8);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "no overlap: every copy of pageable memory blocks the host");
}

TEST(PipelinedReport, ExplainsNothingForOnePart) {
  const Reported row = Pipeline(1, "pageable").Report(8);
  EXPECT_EQ(row.reason, "");
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_bound"), 100);
}

// The two bounds of a pipeline, in cases that can be followed by hand.
double Bound_ms(const StageTimes& stages, int parts) {
  return Pipeline(parts).Report(stages, kNone, 1).counters.at("bound_ms");
}
double DuplexBound_ms(const StageTimes& stages, const Slowdowns& slowdowns, int parts) {
  return Pipeline(parts).Report(stages, slowdowns, 1).counters.at("duplex_bound_ms");
}

TEST(PipelinedBound, OnePartTakesTheSumOfItsStages) {
  EXPECT_DOUBLE_EQ(Bound_ms({3, 5, 2}, 1), 10);
}

// Parts of 1, 2 and 0.5: the first leaves at 3.5, and then one every 2.
TEST(PipelinedBound, IsFillAndDrainPlusTheSlowestStage) {
  EXPECT_DOUBLE_EQ(Bound_ms({4, 8, 2}, 4), 9.5);
  EXPECT_DOUBLE_EQ(Bound_ms({8, 2, 4}, 4), 9.5);
  EXPECT_DOUBLE_EQ(Bound_ms({2, 4, 8}, 4), 9.5);
}

TEST(PipelinedBound, EqualStagesApproachAThird) {
  EXPECT_DOUBLE_EQ(Bound_ms({3, 3, 3}, 3), 5);
  EXPECT_NEAR(Bound_ms({3, 3, 3}, 60), 3.1, 1e-9);
}

TEST(PipelinedBound, OneStageGainsNothing) {
  for (const int parts : {1, 2, 16}) EXPECT_DOUBLE_EQ(Bound_ms({0, 8, 0}, parts), 8);
}

TEST(DuplexBound, OnePartTakesTheSumOfItsStages) {
  EXPECT_DOUBLE_EQ(DuplexBound_ms({3, 5, 2}, {4, 4}, 1), 10);
}

// Parts of 1 and 1. At 1 the second comes in while the first goes out: both take 2 and not 1. At 3
// the second goes out alone.
TEST(DuplexBound, CopiesThatMeetTakeLonger) {
  EXPECT_DOUBLE_EQ(DuplexBound_ms({2, 0, 2}, kNone, 2), 3);
  EXPECT_DOUBLE_EQ(DuplexBound_ms({2, 0, 2}, {2, 2}, 2), 4);
}

// Parts of 2, 1 and 2. The second comes in alone from 2 to 3, is half done when the first starts
// out, and needs 2 more beside it, to 5; computed to 6, out to 8.
TEST(DuplexBound, ACopyIsSlowedOnlyWhileAnotherRuns) {
  EXPECT_DOUBLE_EQ(DuplexBound_ms({4, 2, 4}, kNone, 2), 7);
  EXPECT_DOUBLE_EQ(DuplexBound_ms({4, 2, 4}, {2, 1}, 2), 8);
}

// Parts of 2, 1 and 2. The first goes out from 3 on, a quarter of it until the second is in at 4,
// and the rest alone until 5.5; the second, computed at 5, follows until 7.5.
TEST(DuplexBound, EachDirectionHasItsOwnSlowdown) {
  EXPECT_DOUBLE_EQ(DuplexBound_ms({4, 2, 4}, {1, 2}, 2), 7.5);
}

// Parts of 1, 3 and 1: all is in at 2, the first goes out at 4.
TEST(DuplexBound, CopiesThatNeverMeetTakeNoLonger) {
  EXPECT_DOUBLE_EQ(DuplexBound_ms({2, 6, 2}, {3, 3}, 2), 8);
}

TEST(DuplexBound, TerminatesIfAStageTakesAlmostNoTime) {
  constexpr double kNext = 1e-9;
  for (const StageTimes& stages :
       {StageTimes{kNext, 8, kNext}, {8, 0, kNext}, {kNext, 0, 8}, {8, kNext, kNext}})
    EXPECT_NEAR(DuplexBound_ms(stages, {2, 2}, 4), 8, 1e-6);
}

TEST(DuplexBound, GrowsWithTheSlowdownsOfTheCopies) {
  Pipeline pipeline(8);
  double before_ms = 0;
  for (const double slowdown : {1.0, 1.1, 1.25, 1.5, 2.0, 3.0}) {
    const double time_ms =
        pipeline.Report({4, 2, 4}, {slowdown, slowdown}, 1).counters.at("duplex_bound_ms");
    EXPECT_GT(time_ms, before_ms) << slowdown;
    before_ms = time_ms;
  }
}

// Calls check(stages, slowdowns, counters, pipeline) for many pipelines: stages of a microsecond to
// a second, some of them of no time worth mentioning.
template <class Check>
void ForManyPipelines(const Check& check) {
  constexpr int kDraws = 200;
  long index = 0;  // of the next random number; they are the same in every run
  const auto uniform = [&](double least, double most) {
    return least + (most - least) * std::ldexp(Random(1, index++), -32);
  };
  const auto stage = [&] { return uniform(0, 8) < 1 ? 1e-12 : std::pow(10, uniform(-3, 3)); };
  for (const int parts : {1, 2, 3, 7, 16, 64}) {
    Pipeline pipeline(parts);
    for (int i = 0; i < kDraws; ++i) {
      const StageTimes stages = {stage(), stage(), stage()};
      const Slowdowns slowdowns = {uniform(1, 3), uniform(1, 3)};
      SCOPED_TRACE(std::to_string(stages.in_ms) + " + " + std::to_string(stages.compute_ms) +
                   " + " + std::to_string(stages.out_ms) + " ms in " + std::to_string(parts) +
                   " parts");
      check(pipeline, stages, slowdowns);
      if (testing::Test::HasFailure()) return;
    }
  }
}

constexpr double kRounding = 1e-12;  // of a sum of some hundred steps, relative

TEST(DuplexBound, EqualsTheBoundIfCopiesDoNotContend) {
  ForManyPipelines([](Pipeline& pipeline, const StageTimes& stages, const Slowdowns&) {
    const auto counters = pipeline.Report(stages, kNone, 1).counters;
    EXPECT_NEAR(counters.at("duplex_bound_ms") / counters.at("bound_ms"), 1, kRounding);
  });
}

// At best no copy is slowed, at worst each one always.
TEST(DuplexBound, LiesBetweenTheBoundAndThatOfSlowCopies) {
  ForManyPipelines([](Pipeline& pipeline, const StageTimes& stages, const Slowdowns& slowdowns) {
    const StageTimes slow = {stages.in_ms * slowdowns.in, stages.compute_ms,
                             stages.out_ms * slowdowns.out};
    const auto counters = pipeline.Report(stages, slowdowns, 1).counters;
    const double slow_ms = pipeline.Report(slow, kNone, 1).counters.at("bound_ms");
    EXPECT_GE(counters.at("duplex_bound_ms"), counters.at("bound_ms") * (1 - kRounding));
    EXPECT_LE(counters.at("duplex_bound_ms"), slow_ms * (1 + kRounding));
  });
}

// ---- Copy/ComputeTransfer

class ComputeTransferReport : public testing::Test {
 protected:
  // Four batches: 6 in turn, 4 tied by events, 5 as the row ties them; each stage alone takes 2.
  static Reported Report(const std::string& tie, std::uint64_t result = 4711) {
    ScenarioReport report("Copy/ComputeTransfer",
                          {{"tie", tie}, {"buffers", "2"}, {"batch_elements", "64"}});
    report.Leaves("buffered", result);
    Timings timings = {{"sequential", Took(6)},
                       {"in", Took(2)},
                       {"compute", Took(2)},
                       {"out", Took(2)},
                       {"buffered", Took(5)}};
    if (tie == "host") timings["by events"] = Took(4);
    return report.Report(timings);
  }
};

TEST_F(ComputeTransferReport, ComparesWithTheSequentialForm) {
  const Reported row = Report("events");
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  EXPECT_DOUBLE_EQ(row.counters.at("sequential_ms"), 6);
  EXPECT_DOUBLE_EQ(row.counters.at("in_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("compute_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("out_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("speedup"), 1.2);
  EXPECT_EQ(row.counters.at("identical"), 1);
}

// Eight copies of 0.5 on one lane; the second batch cannot come in before the first has gone out.
// With the transfers in the order in(0) in(1) out(0) in(2) out(1) in(3) out(2) out(3), all
// computing runs beside them: even out(3) does not wait for the last batch, as out(2) still runs.
TEST_F(ComputeTransferReport, ReportsThePercentageOfItsSchedulesBound) {
  const Reported row = Report("events");
  EXPECT_DOUBLE_EQ(row.counters.at("bound_ms"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_bound"), 80);
}

TEST_F(ComputeTransferReport, OnlyATieByTheHostHasASyncCost) {
  EXPECT_FALSE(Report("events").counters.contains("sync_cost_ms"));
  EXPECT_DOUBLE_EQ(Report("host").counters.at("sync_cost_ms"), 1);
}

TEST_F(ComputeTransferReport, AResultUnlikeTheSequentialOneIsAFault) {
  const Reported row = Report("events", 4712);
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason, "the result is not that of the sequential run");
  EXPECT_EQ(row.counters.at("identical"), 0);
}

// ---- Copy/Fragmented

Reported ReportFragmented(const Timing& one, const Timing& fragmented) {
  ScenarioReport report("Copy/Fragmented",
                        {{"bytes", "1600"}, {"fragments", "100"}, {"call", "loop"}});
  report.Costs("one transfer", {.copied_bytes = 4e6});
  return report.Report({{"one transfer", one}, {"fragmented", fragmented}});
}

// One copy of 1 ms in 100 fragments, which take 4 ms, 0.5 of them on the host.
TEST(FragmentedReport, ReportsTheCostOfAFragment) {
  const Reported row = ReportFragmented(TookWithHost(1, 0.125), TookWithHost(4, 0.5));
  EXPECT_DOUBLE_EQ(row.counters.at("one_transfer_ms"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("fragmented_slowdown"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("us_per_fragment"), 40);
  EXPECT_DOUBLE_EQ(row.counters.at("host_us_per_fragment"), 5);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 1);
}

TEST(FragmentedReport, SaysWhetherLatencyOrBandwidthBoundsIt) {
  EXPECT_EQ(ReportFragmented(Took(1), Took(1.4)).reason, "bandwidth-bound");
  EXPECT_EQ(ReportFragmented(Took(1), Took(1.6)).reason, "latency-bound");
}

// ---- Supply

// `make_ms` and `consume_ms`: all batches alone, by the workers and by the device.
Reported ReportSupply(long workers, long batches, double make_ms, double consume_ms,
                      double supply_ms) {
  ScenarioReport report("Supply/Batches", {{"workers", std::to_string(workers)},
                                           {"supply_batches", std::to_string(batches)},
                                           {"batch_bytes", "16"}});
  return report.Report(
      {{"make", Took(make_ms)}, {"consume", Took(consume_ms)}, {"supply", Took(supply_ms)}});
}
// Ten batches, which take the device 2.5.
Reported ReportTen(long workers, double make_ms, double supply_ms) {
  return ReportSupply(workers, 10, make_ms, 2.5, supply_ms);
}

// Four workers take three turns of 4 ms, and the two batches of the last turn half a millisecond
// more: 12.5 ms.
TEST(SupplyReport, ComparesWithThePredictionOfItsParts) {
  const Reported row = ReportTen(4, 12, 20);
  EXPECT_EQ(row.state, RowState::kOk);
  ExpectCounters(row, {{"make_ms", 4},
                       {"consume_ms", 0.25},
                       {"bound_ms", 12.5},
                       {"pct_of_bound", 62.5},
                       {"batches_per_s", 500},
                       {"predicted_batches_per_s", 800},
                       {"prediction_error_pct", -37.5},
                       {"device_idle_share", 0.875},
                       {"bound_by_workers", 1}});
}

TEST(SupplyReport, ACorrectPredictionHasNoError) {
  EXPECT_NEAR(ReportTen(4, 12, 12.5).counters.at("prediction_error_pct"), 0, 1e-9);
  EXPECT_NEAR(ReportTen(0, 40, 42.5).counters.at("prediction_error_pct"), 0, 1e-9);
}

// The consumer makes its ten batches itself.
TEST(SupplyReport, WithoutWorkersMakingAndConsumingAlternate) {
  EXPECT_DOUBLE_EQ(ReportTen(0, 40, 45).counters.at("make_ms"), 4);
}

TEST(SupplyReport, SaysWhetherProducersOrDeviceBoundIt) {
  EXPECT_EQ(ReportTen(4, 12, 12.5).reason, "bound by the producers");
  const Reported row = ReportTen(4, 0.3, 2.6);
  EXPECT_EQ(row.reason, "bound by the device");
  EXPECT_EQ(row.counters.at("bound_by_workers"), 0);
}

// The predicted time of a supply, in cases worked out by hand.
struct Supply {
  double make_ms;  // of one batch by one worker
  double consume_ms;
  long workers;
  long batches;
};
void ExpectBound(const Supply& supply, double bound_ms, bool by_workers) {
  const auto& [make_ms, consume_ms, workers, batches] = supply;
  const long turns = workers == 0 ? batches : (batches + workers - 1) / workers;
  const Reported row = ReportSupply(workers, batches, make_ms * static_cast<double>(turns),
                                    consume_ms * static_cast<double>(batches), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("bound_ms"), bound_ms) << workers << " workers";
  EXPECT_EQ(row.counters.at("bound_by_workers"), by_workers ? 1 : 0) << workers << " workers";
}

TEST(SupplyBound, WithoutWorkersMakingAndConsumingAlternate) {
  ExpectBound({4, 1, 0, 8}, 40, true);
  ExpectBound({1, 4, 0, 8}, 40, false);
  ExpectBound({4, 1, 0, 1}, 5, true);
}

// The worker makes batches all the time, and the device consumes the last one after that.
TEST(SupplyBound, OneSlowWorkerIsTheBound) { ExpectBound({4, 1, 1, 8}, 33, true); }

// The device waits for the first batch only.
TEST(SupplyBound, FastWorkerIsDeviceBound) { ExpectBound({1, 4, 1, 8}, 33, false); }

// And the device consumes the batches of the last turn one by one.
TEST(SupplyBound, SeveralSlowWorkersTakeTurns) {
  ExpectBound({4, 0.5, 2, 8}, 17, true);
  ExpectBound({4, 0.5, 3, 8}, 13, true);  // the third turn has but two batches
  ExpectBound({4, 0.5, 4, 8}, 10, true);
}

// Eight workers are done in one turn: from there on the device decides.
TEST(SupplyBound, EnoughWorkersAreDeviceBound) {
  ExpectBound({4, 0.5, 8, 8}, 8, false);
  ExpectBound({4, 0.5, 100, 8}, 8, false);
}

// The workers' turns take 8, 4, 2 and 1 times 4; the device's batches 8 times 1.
TEST(SupplyBound, GoesFromStarvingToSaturated) {
  ExpectBound({4, 1, 1, 8}, 33, true);
  ExpectBound({4, 1, 2, 8}, 18, true);
  ExpectBound({4, 1.01, 4, 8}, 12.08, false);
  ExpectBound({4, 1, 8, 8}, 12, false);
}

// Near the point where both take equally long, the longer of the two is the bound.
TEST(SupplyBound, SwitchesSidesWhereMakingTakesAsLongAsConsuming) {
  ExpectBound({2, 2.5, 1, 8}, 22, false);
  ExpectBound({2.5, 2, 1, 8}, 22, true);
}

// With one batch of room, the worker waits for each batch to be consumed.
TEST(SupplyBound, IncludesWorkersWaitingForRoom) {
  ScenarioReport report(
      "Supply/Batches",
      {{"workers", "1"}, {"prefetch", "1"}, {"supply_batches", "3"}, {"batch_bytes", "16"}});
  const Reported row =
      report.Report({{"make", Took(3)}, {"consume", Took(3)}, {"supply", Took(6)}});
  EXPECT_DOUBLE_EQ(row.counters.at("bound_ms"), 6);
}

TEST(SupplyBound, OneBatchIsMadeAndConsumed) {
  for (const long workers : {0, 1, 16}) ExpectBound({4, 1, workers, 1}, 5, true);
}

}  // namespace
}  // namespace overlapbench
