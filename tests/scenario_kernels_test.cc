// What rows of Compute, Comm, Launch, Gelu, Softmax and Mlp report for samples whose truth is
// known: counters, states and reasons. Times in milliseconds.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "scenarios.h"

namespace overlapbench {
namespace {

// ---- Compute, Comm

TEST(BaselineReport, HasTheRatesOfItsWork) {
  ScenarioReport kernel("Compute/StreamKernel");
  kernel.Costs("StreamKernel", {.flops = 4e9, .moved_bytes = 8e6});
  const Reported row = kernel.Report({{"StreamKernel", Took(2)}});
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  ExpectCounters(row, {{"GBps", 4}, {"TFLOPs", 2}});
}

TEST(BaselineReport, CollectivesHaveBothBandwidths) {
  ScenarioReport collective("Comm/AllReduce");
  collective.Costs("AllReduce", {.wire_bytes = 8e6, .bus_factor = 1.5});
  const Reported row = collective.Report({{"AllReduce", Took(2)}});
  ExpectCounters(row, {{"algbw_GBps", 4}, {"busbw_GBps", 6}});
}

// A product of 2e9 operations on an H200, whose SMs have a peak in bf16 of 4,096 operations a
// clock.
Reported ReportMatMul(const std::string& precision, double tiny_ms, double own_ms) {
  ScenarioReport product("Compute/MatMul",
                         {{"n", "1024"}, {"precision", precision}, {"sm_target", "0"}},
                         PosingDevice::H200());
  product.Costs("CublasGemm", {.flops = 2e9});
  return product.Report({{"TinyGemm", Took(tiny_ms)}, {"CublasGemm", Took(own_ms)}});
}

TEST(MatMulReport, ComparesWithThePeakAndWithATinyProduct) {
  const double peak_TFLOPs = 132 * 1.98 * 4096 / 1000;
  const Reported row = ReportMatMul("bf16", 0.05, 0.01 * 2);
  EXPECT_DOUBLE_EQ(row.counters.at("TFLOPs"), 100);
  EXPECT_NEAR(row.counters.at("pct_of_peak"), 100 * 100 / peak_TFLOPs, 1e-9);
  EXPECT_DOUBLE_EQ(row.counters.at("fixed_cost_share"), 2.5);
}

TEST(MatMulReport, HasNoPercentageOfAnUnknownPeak) {
  EXPECT_TRUE(ReportMatMul("fp32", 1, 20).counters.contains("pct_of_peak"));
  ScenarioReport on_host("Compute/MatMul",
                         {{"n", "1024"}, {"precision", "bf16"}, {"sm_target", "0"}});
  const Reported row = on_host.Report({{"TinyGemm", Took(1)}, {"CublasGemm", Took(20)}});
  EXPECT_FALSE(row.counters.contains("pct_of_peak"));
}

TEST(MatMulReport, SaysWhetherTheFixedCostMatters) {
  EXPECT_EQ(ReportMatMul("bf16", 1.9, 20).reason, "");
  EXPECT_EQ(ReportMatMul("bf16", 2.1, 20).reason, "the fixed cost is over a tenth");
}

// ---- Gelu, Softmax: compared with a copy alone, since a fused form moves no more than a copy

class FusedReport : public testing::Test {
 protected:
  FusedReport() { fused_.Costs("GeluFused", {.moved_bytes = 8e6}); }
  static Timings Measured(double copy_ms, double own_ms) {
    return {{"copy", Took(copy_ms)}, {"GeluFused", Took(own_ms)}};
  }
  ScenarioReport fused_{"Gelu/Fused"};
};

TEST_F(FusedReport, HasPercentageOfCopyAndRateButNoSpeedup) {
  const Reported row = fused_.Report(Measured(2, 2.5));
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  ExpectCounters(row, {{"copy_ms", 2}, {"pct_of_copy", 80}, {"GBps", 3.2}});
}

TEST_F(FusedReport, MayBeFasterThanTheCopy) {
  EXPECT_DOUBLE_EQ(fused_.Report(Measured(2.5, 2)).counters.at("pct_of_copy"), 125);
}

// The groups' own shares are 40, 25 and 75 %. The medians of 2 and 4 ms would make it 50 %, from
// times that were not sampled side by side.
TEST_F(FusedReport, ComparesWithinGroups) {
  const Reported row = fused_.ReportAll({Measured(2, 5), Measured(1, 4), Measured(3, 4)});
  EXPECT_DOUBLE_EQ(row.counters.at("copy_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_copy"), 40);
}

// Also compared with the fused form, which moves a quarter of the bytes.
class UnfusedReport : public testing::Test {
 protected:
  UnfusedReport() {
    unfused_.Costs("fused", {.moved_bytes = 8e6});
    unfused_.Costs("SoftmaxUnfused", {.moved_bytes = 32e6});
  }
  Reported Report(double own_ms) {
    return unfused_.Report(
        {{"copy", Took(2)}, {"fused", Took(2.5)}, {"SoftmaxUnfused", Took(own_ms)}});
  }
  ScenarioReport unfused_{"Softmax/Unfused"};
};

TEST_F(UnfusedReport, HasItsMeasuredAndPredictedSpeedup) {
  const Reported row = Report(12.5);
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_copy"), 16);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 2.56);
  EXPECT_DOUBLE_EQ(row.counters.at("fused_ms"), 2.5);
  EXPECT_DOUBLE_EQ(row.counters.at("fused_speedup"), 5);
  EXPECT_DOUBLE_EQ(row.counters.at("predicted_speedup"), 4);
}

TEST_F(UnfusedReport, IsPredictedFromBytesAndNotFromTimes) {
  const Reported row = Report(2);
  EXPECT_DOUBLE_EQ(row.counters.at("fused_speedup"), 0.8);
  EXPECT_DOUBLE_EQ(row.counters.at("predicted_speedup"), 4);
}

// How many bytes the copy beside a row takes from each of its buffers.
std::size_t CopiedBytes(const std::string& scenario, const Values& values) {
  const auto runs = ScenarioReport(scenario, values).runs();
  return FootprintOf(runs.front().schedule.works()).device_bytes / 2;
}

// The part of the matrix that rows do not fill is not copied either. Copies are of whole words.
TEST(AgainstCopyRuns, SoftmaxBaselineCopiesOnlyTheFilledRows) {
  for (const auto* scenario :
       {"Softmax/Fused", "Softmax/Unfused", "Softmax/BlockPerRow", "Softmax/TwoPass"}) {
    const auto copied = [&](const char* columns, const char* precision) {
      return CopiedBytes(scenario,
                         {{"columns", columns}, {"precision", precision}, {"matrix_bytes", "1M"}});
    };
    EXPECT_EQ(copied("131073", "fp32"), 524292U) << scenario;
    EXPECT_EQ(copied("131073", "bf16"), 786440U) << scenario;
    EXPECT_EQ(copied("262144", "fp32"), 1048576U) << scenario;
    EXPECT_EQ(copied("262144", "bf16"), 1048576U) << scenario;
  }
}

// One array in and one out; backward, two in and one out.
TEST(AgainstCopyRuns, GeluBaselineCopiesHalfTheMovedBytes) {
  const auto copied = [](const char* count, const char* direction, const char* precision) {
    return CopiedBytes("Gelu/Fused",
                       {{"count", count}, {"direction", direction}, {"precision", precision}});
  };
  EXPECT_EQ(copied("1000", "forward", "fp32"), 4000U);
  EXPECT_EQ(copied("1000", "forward", "bf16"), 2000U);
  EXPECT_EQ(copied("1000", "backward", "fp32"), 6000U);
  EXPECT_EQ(copied("1001", "forward", "bf16"), 2004U);  // whole words
  EXPECT_EQ(copied("1", "forward", "bf16"), 4U);
}

// ---- Launch

// Behind the gate the host takes 0.5 ms for 100 launches and the device 0.2 ms; without it both
// take 0.8 ms. The host's time there is not read.
TEST(EmptyKernelReport, SeparatesTheHostsCostFromTheDevices) {
  ScenarioReport empty("Launch/EmptyKernel", {{"launches", "100"}});
  const Reported row =
      empty.Report({{"gated", TookWithHost(0.2, 0.5)}, {"ungated", TookWithHost(0.8, 0.75)}});
  EXPECT_EQ(row.state, RowState::kOk);
  ExpectCounters(
      row, {{"host_us_per_launch", 5}, {"device_us_per_launch", 2}, {"launches_per_s", 125'000}});
}

// One kernel takes 10 ms. The pieces take `gated_ms` behind the gate, and 20 ms without it; the
// host takes `host_ms` to enqueue them behind the gate.
Reported ReportPieces(const std::string& launches, double gated_ms, double host_ms) {
  ScenarioReport pieces("Launch/Pieces", {{"launches", launches}, {"total_steps", "100"}});
  return pieces.Report({{"whole", Took(10)},
                        {"gated", TookWithHost(gated_ms, host_ms)},
                        {"ungated", TookWithHost(20, 1)}});
}

// 99 launches more than one take 0.99 ms more on the device.
TEST(PiecesReport, TheExtraTimeOfThePiecesIsTheDevicesCost) {
  const Reported row = ReportPieces("100", 10.99, 0.5);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_DOUBLE_EQ(row.counters.at("whole_ms"), 10);
  EXPECT_DOUBLE_EQ(row.counters.at("pieces_slowdown"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("kernel_us"), 100);
  EXPECT_DOUBLE_EQ(row.counters.at("host_us_per_launch"), 5);
  EXPECT_NEAR(row.counters.at("device_us_per_launch"), 10, 1e-9);
}

TEST(PiecesReport, TheSlowerOfHostAndDeviceDominates) {
  EXPECT_NEAR(ReportPieces("100", 10.99, 0.5).counters.at("dominated_below_us"), 10, 1e-9);
  EXPECT_DOUBLE_EQ(ReportPieces("100", 10.99, 3).counters.at("dominated_below_us"), 30);
}

TEST(PiecesReport, SaysWhetherAKernelIsLongerThanItsLaunch) {
  EXPECT_EQ(ReportPieces("100", 10.99, 9).reason, "kernels dominate");
  EXPECT_EQ(ReportPieces("100", 10.99, 11).reason, "launches dominate");
}

// One piece is the whole kernel: any extra time is noise.
TEST(PiecesReport, OneLaunchReportsNoDeviceCost) {
  const Reported row = ReportPieces("1", 14, 0.005);
  EXPECT_FALSE(row.counters.contains("device_us_per_launch"));
  EXPECT_DOUBLE_EQ(row.counters.at("dominated_below_us"), 5);
  EXPECT_EQ(row.reason, "kernels dominate");
}

TEST(RoundTripReport, IsTheTimeThatTheHostWaits) {
  ScenarioReport round_trip("Launch/RoundTrip");
  const Reported row = round_trip.Report({{"RoundTrip", TookWithHost(0.004, 0.012)}});
  ExpectCounters(row, {{"round_trip_us", 12}});
}

TEST(LaunchRuns, AreAGatedAndAnUngatedRunAndAGraphOnRequest) {
  for (const char* call : {"loop", "graph"}) {
    for (const char* name : {"Launch/EmptyKernel", "Launch/Pieces"}) {
      const auto runs =
          ScenarioReport(name, {{"launches", "4"}, {"call", call}, {"total_steps", "4"}}).runs();
      const auto& gated = runs[runs.size() - 2];
      const auto& ungated = runs.back();
      EXPECT_TRUE(gated.gated) << name;
      EXPECT_FALSE(ungated.gated) << name;
      for (const auto* run : {&gated, &ungated}) {
        EXPECT_EQ(run->as_graph, call == std::string("graph")) << name;
        EXPECT_EQ(run->schedule.steps().size(), 4U) << name;
      }
    }
  }
}

// ---- Mlp

// The row's own form takes 2 ms. `plain`: the plainer forms that it is compared with.
Reported ReportTraining(const std::string& call, const std::string& gelu, const Timings& plain) {
  ScenarioReport training("Mlp/Training", {{"call", call}, {"gelu", gelu}});
  training.Costs("Mlp", {.flops = 4e9});
  Timings timings = plain;
  timings["Mlp"] = Took(2);
  return training.Report(timings);
}

TEST(TrainingReport, ComparesAFormWithItsPlainerForms) {
  const Reported both =
      ReportTraining("graph", "epilogue", {{"MlpLoop", Took(3)}, {"MlpKernel", Took(5)}});
  EXPECT_EQ(both.state, RowState::kOk);
  ExpectCounters(both, {{"TFLOPs", 2},
                        {"train_ms", 2},
                        {"loop_ms", 3},
                        {"graph_speedup", 1.5},
                        {"kernel_ms", 5},
                        {"epilogue_speedup", 2.5}});
  const Reported graph = ReportTraining("graph", "kernel", {{"MlpLoop", Took(3)}});
  EXPECT_DOUBLE_EQ(graph.counters.at("graph_speedup"), 1.5);
  EXPECT_FALSE(graph.counters.contains("kernel_ms"));
}

TEST(TrainingReport, DoesNotCompareThePlainestForm) {
  ExpectCounters(ReportTraining("loop", "kernel", {}), {{"TFLOPs", 2}, {"train_ms", 2}});
}

// What a graph saves is the host's time, which a gate would hide.
TEST(TrainingRuns, AreNotGated) {
  for (const auto& run :
       ScenarioReport("Mlp/Training", {{"call", "graph"}, {"gelu", "epilogue"}}).runs())
    EXPECT_FALSE(run.gated) << run.name;
}

}  // namespace
}  // namespace overlapbench
