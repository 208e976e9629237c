// Traces of rows: what they record of schedules of delays, whose times are known.
// row_trace_faults_test.cc has the faults that are found in records.
#include "fixtures/row_trace.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "drawn_schedule.h"
#include "fixtures/patterns.h"
#include "row_traces.h"
#include "tests/forwarding_device.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;
INSTANTIATE_ON_EACH_BACKEND(RowTraceTest);

const std::vector<std::string> kSets = {"only_comp_pct",     "only_comm_pct", "only_mem_pct",
                                        "comp_comm_pct",     "comp_mem_pct",  "comm_mem_pct",
                                        "comp_comm_mem_pct", "idle_pct"};
const std::vector<std::string> kCauses = {"idle_ranks_pct", "idle_gate_pct", "idle_host_pct",
                                          "idle_dependency_pct", "idle_other_pct"};

TEST_P(RowTraceTest, TwoStreamsAreHalfBothAndHalfComputation) {
  const Shares shares = PairOn(
      2, 4, {{"only_comp_pct", 50}, {"comp_comm_pct", 50}, {"only_comm_pct", 0}, {"idle_pct", 0}});
  EXPECT_EQ(Sum(shares, {"only_mem_pct", "comp_mem_pct", "comm_mem_pct", "comp_comm_mem_pct"}), 0);
  EXPECT_NEAR(shares.at("overlap_pct"), 100, 2);
  EXPECT_NEAR(Sum(shares, kSets), 100, 1e-9);
  EXPECT_NEAR(Sum(shares, kCauses), shares.at("idle_pct"), 1e-9);
}

TEST_P(RowTraceTest, OneStreamRunsOneAfterTheOther) {
  const Shares shares =
      PairOn(1, 6, {{"only_comp_pct", 200.0 / 3}, {"only_comm_pct", 100.0 / 3}, {"idle_pct", 0}});
  EXPECT_EQ(shares.at("comp_comm_pct"), 0);
  EXPECT_EQ(shares.at("overlap_pct"), 0);
}

// Names the kernels of one step of two as NCCL's.
class NamingWatch : public ActivityWatch {
 public:
  NamingWatch(std::unique_ptr<ActivityWatch> watch, std::uint64_t step)
      : watch_(std::move(watch)), step_(step) {}
  void Mark(std::uint64_t mark) override { watch_->Mark(mark); }
  Activities Stop() override {
    Activities activities = watch_->Stop();
    for (Activity& record : activities.records)
      if (record.mark % 4 == step_ + 1)  // no step, two steps, the flush
        record.name = "ncclDevKernel_AllReduce_Sum_f32";
    return activities;
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
  std::uint64_t step_;
};

TEST_P(RowTraceTest, KernelNamesDecideWhatOtherToolsSee) {
  const Shares unnamed = PairOn(2, 4, {{"overlap_pct", 100}});
  EXPECT_EQ(unnamed.at("overlap_by_name_pct"), 0);
  // All of the communication runs beside the computation, but only half of the computation runs
  // beside the communication.
  for (const auto& [step, expected_pct] : {std::pair{0, 100.0}, std::pair{1, 50.0}}) {
    const auto is_right = [expected = expected_pct](const Shares& shares) {
      return std::abs(shares.at("overlap_by_name_pct") - expected) <= kTolerance_pct;
    };
    const Shares shares = FirstRight(is_right, [&, step = step] {
      NamingWatch watch(device().watches().Activities(), step);
      RowTrace trace = TraceRow(session(), watch, 1);
      trace.untraced_ms = {4};
      return trace;
    });
    EXPECT_NEAR(shares.at("overlap_by_name_pct"), expected_pct, kTolerance_pct) << step;
  }
}

// The first run and the first sample have costs of their own.
TEST_P(RowTraceTest, TheFirstSamplesAreNotKept) {
  int runs = 0;
  const auto made = Delay("delay", WorkClass::kCompute, 100us)->make();
  Behaviour counted;
  counted.enqueue = [&](Stream& stream) {
    ++runs;
    made->Enqueue(stream);
  };
  Open(SoloRun(FakeWork("work", WorkClass::kCompute, counted), false));
  runs = 0;
  EXPECT_EQ(Untraced_ms(2).size(), 2U);
  EXPECT_EQ(runs, 1 + 1 + 2);
  runs = 0;
  const auto watch = device().watches().Activities();
  EXPECT_EQ(TraceRow(session(), *watch, 2).samples.size(), 2U);
  EXPECT_EQ(runs, 1 + 1 + 2);
}

// The host takes 20 ms to enqueue a delay of 20 ms, and another 20 ms for a second one.
TEST_P(RowTraceTest, ALateHostIsTheCauseOfIdleTime) {
  const auto delay = Delay("delay", WorkClass::kCompute, 20000us);
  const auto made = delay->make();
  Behaviour slow;
  slow.enqueue = [&](Stream& stream) {
    std::this_thread::sleep_for(20ms);
    made->Enqueue(stream);
    std::this_thread::sleep_for(40ms);  // until the device has nothing to do
    made->Enqueue(stream);
  };
  Open(SoloRun(FakeWork("slow", WorkClass::kCompute, slow), false));
  const RowTrace trace = Trace();
  ASSERT_EQ(trace.fault, "");
  const Breakdown& row = trace.row_breakdown;
  const double count = kSamples;
  EXPECT_GE(row.idle_of_ms(IdleCause::kHost) / count, 20 + 20 - 2);
  EXPECT_LE(row.idle_of_ms(IdleCause::kOther) / count, 2);
  EXPECT_GE(row.With_ms(Breakdown::Bit(WorkClass::kCompute)) / count, 40);
  EXPECT_NE(PatternsOf(row).find("a starving device"), std::string::npos) << PatternsOf(row);
}

// The host takes 0.4 ms between delays of 0.1 ms.
TEST_P(RowTraceTest, LateLaunchesAreAPattern) {
  const auto made = Delay("delay", WorkClass::kCompute, 100us)->make();
  Behaviour slow;
  slow.enqueue = [&](Stream& stream) {
    for (int i = 0; i < 8; ++i) {
      const auto until = std::chrono::steady_clock::now() + 400us;
      while (std::chrono::steady_clock::now() < until) {
      }
      made->Enqueue(stream);
    }
  };
  Open(SoloRun(FakeWork("slow", WorkClass::kCompute, slow), false));
  const auto is_late = [](const RowTrace& trace) {
    return PatternsOf(trace.row_breakdown).find("gaps from late launches") != std::string::npos;
  };
  RowTrace trace = Trace();
  for (int left = 20; left > 0 && !is_late(trace); --left) trace = Trace();
  EXPECT_TRUE(is_late(trace)) << trace.row_breakdown.late_ms;
  if (TestRanks().size() == 1) {
    EXPECT_EQ(trace.row_breakdown.late_ms, trace.breakdown.late_ms);
  }
}

TEST_P(RowTraceTest, ShortKernelsAreAPattern) {
  const auto made = Delay("delay", WorkClass::kCompute, 4us)->make();
  Behaviour shredded;
  shredded.enqueue = [&](Stream& stream) {
    for (int i = 0; i < 200; ++i) made->Enqueue(stream);
  };
  Open(SoloRun(FakeWork("shredded", WorkClass::kCompute, shredded), true));
  const std::string shown = PatternsOf(Trace().row_breakdown);
  EXPECT_NE(shown.find("many short kernels"), std::string::npos) << shown;
}

TEST_P(RowTraceTest, CopiesInTurnAreAPatternWhereTheyHaveAStream) {
  for (const bool apart : {true, false}) {
    Run run{.name = "copies"};
    const auto kernels = run.schedule.AddLane({"kernels"});
    const auto copies = apart ? run.schedule.AddLane({"copies"}) : kernels;
    const auto copied = run.schedule.Add(copies, Delay("copy", WorkClass::kMemory, 2000us));
    run.schedule.Add(kernels, Delay("kernel", WorkClass::kCompute, 4000us), {.after = {copied}});
    Open(run);
    const std::string shown = PatternsOf(Trace().row_breakdown);
    EXPECT_EQ(shown.find("copies and kernels in turn") != std::string::npos, apart) << shown;
  }
}

// The host takes 40 ms to enqueue a delay of 20 ms.
TEST_P(RowTraceTest, BehindAGateASampleBeginsWhenItOpens) {
  const auto made = Delay("delay", WorkClass::kCompute, 20000us)->make();
  Behaviour slow;
  slow.enqueue = [&](Stream& stream) {
    std::this_thread::sleep_for(40ms);
    made->Enqueue(stream);
  };
  Open(SoloRun(FakeWork("slow", WorkClass::kCompute, slow), true));
  const RowTrace trace = Trace();
  ASSERT_EQ(trace.fault, "");
  const double traced_ms = SharesOf(trace).at("traced_ms");
  EXPECT_GE(traced_ms, 20 - 2);
  EXPECT_LE(traced_ms, 40);
}

// One run outside of a sample, and one sample that is not kept.
TEST_P(RowTraceTest, UntracedSamplesAreNotTheFirst) {
  int runs = 0;
  Behaviour counted;
  counted.enqueue = [&](Stream&) { ++runs; };
  Open(SoloRun(FakeWork("counted", WorkClass::kCompute, counted), true));
  runs = 0;
  EXPECT_EQ(Untraced_ms(3).size(), 3U);
  EXPECT_EQ(runs, 1 + 1 + 3);
}

// In each of twenty repetitions every step is found.
TEST_P(RowTraceTest, AStreamingRunIsRecordedOncePerRepetition) {
  Run run{.name = "streaming"};
  const auto lane = run.schedule.AddLane({"lane"});
  run.schedule.Add(lane, Delay("first", WorkClass::kCompute, 100us));
  run.schedule.Add(lane, Delay("second", WorkClass::kMemory, 100us));
  Open(run, "streaming");
  const RowTrace trace = Trace();
  ASSERT_EQ(trace.fault, "");
  for (const TracedSample& sample : trace.samples) {
    for (const std::uint64_t mark : {1, 2}) {
      EXPECT_EQ(std::ranges::count_if(
                    sample.activities,
                    [=](const Activity& one) { return one.mark == mark && IsWork(one.kind); }),
                20);
    }
    EXPECT_EQ(sample.enqueues.size(), 40U);
  }
  const Shares shares = SharesOf(trace);
  // Per operation, like T.
  EXPECT_NEAR(shares.at("traced_ms"), trace.traced_ms / 20, 1e-6);
  const double longest_rank_ms = trace.row_breakdown.total_ms() / kSamples;
  EXPECT_GE(trace.traced_ms, longest_rank_ms - 1e-6);
  if (TestRanks().size() == 1) {
    EXPECT_NEAR(trace.traced_ms, longest_rank_ms, 1e-6);
  }
  EXPECT_GE(shares.at("untraced_events_ms"), 0.16);  // per operation as well
}

// Counts its looks, and shows the count as power.
class Asked : public GaugeSource {
 public:
  [[nodiscard]] GaugeLook LookAtGauges() const override {
    return {.power_W = static_cast<double>(++asked_)};
  }

 private:
  mutable std::atomic<int> asked_ = 0;
};

class DeviceWithGauges : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<GaugeWatch> Gauges() override {
    return std::make_unique<GaugeWatch>(std::make_shared<Asked>());
  }
};

// A discarded sample's readings are discarded too.
TEST(RowTraceGauges, AreThoseOfTheirSamples) {
  DeviceWithGauges device(OpenHostDevice(2));
  Machine machine{device, TestRanks()};
  const Work delay = DelayWork(machine, "delay", 20000us);
  Session session(machine,
                  {.name = "Family/Row",
                   .settings = SettingsOf({ChoiceAxis("cache", "", {"warm"}, "warm"),
                                           ChoiceAxis("cadence", "", {"isolated"}, "isolated")},
                                          {}),
                   .runs = [&](const Settings&) { return std::vector{SoloRun(delay, false)}; },
                   .report = {}});
  session.SetUp(true);
  session.WarmUp();
  const auto watch = device.watches().Activities();
  const RowTrace trace = TraceRow(session, *watch, kSamples);
  double last = 1;  // the watch's first look was before the first sample
  for (std::size_t i = 0; i < trace.samples.size(); ++i) {
    const TracedSample& sample = trace.samples[i];
    ASSERT_GE(sample.gauges.size(), 2U) << "in 20 ms";
    for (const GaugeReading& reading : sample.gauges) {
      EXPECT_STREQ(reading.name, "power_W");
      EXPECT_GE(reading.at_ms, sample.moments.begin_ms);
      if (i + 1 < trace.samples.size()) {
        EXPECT_LT(reading.at_ms, trace.samples[i + 1].moments.begin_ms);
      }
      EXPECT_GT(reading.value, last) << "in the order of the looks, each once";
      last = reading.value;
    }
  }
}

TEST_P(RowTraceTest, TheHostHasNoGauges) {
  if (GetParam() == Backend::kCuda) GTEST_SKIP() << "as far as NVML has them";
  Open(SoloRun(Delay("delay", WorkClass::kCompute, 5000us), false));
  for (const TracedSample& sample : Trace().samples) EXPECT_TRUE(sample.gauges.empty());
}

// The time in ms that each set of classes ran in a rank's samples, by a look every microsecond.
std::array<double, 8> LookedAt_ms(const RowTrace& trace) {
  constexpr double kLook_ms = 1e-3;
  std::array<double, 8> sets_ms{};
  for (const TracedSample& sample : trace.samples) {
    const long looks = std::lround((sample.end_ms - sample.begin_ms) / kLook_ms);
    for (long look = 0; look < looks; ++look) {
      const double now_ms = sample.begin_ms + kLook_ms * static_cast<double>(look);
      std::size_t set = 0;
      for (const Activity& one : sample.activities) {
        if (one.mark == 0 || !IsWork(one.kind)) continue;
        if (one.begin_ms <= now_ms && now_ms < one.end_ms)
          set |= Breakdown::Bit(trace.run.schedule.steps()[one.mark - 1].work->work_class);
      }
      sets_ms.at(set) += kLook_ms;
    }
  }
  return sets_ms;
}

TEST_P(RowTraceTest, RecordsMatchEnqueuedWork) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const DrawnSchedule drawn(
        seed, [this](const std::string& name, WorkClass work_class,
                     std::chrono::microseconds delay) { return Delay(name, work_class, delay); });
    Open(drawn.run);
    const RowTrace trace = Trace();
    ASSERT_EQ(trace.fault, "");
    ASSERT_EQ(trace.samples.size(), static_cast<std::size_t>(kSamples));
    for (const TracedSample& sample : trace.samples) {
      std::map<std::uint64_t, const Activity*> work;  // by mark
      for (const Activity& activity : sample.activities) {
        if (!IsWork(activity.kind) || activity.mark == 0) continue;
        EXPECT_TRUE(work.emplace(activity.mark, &activity).second) << "recorded twice";
        EXPECT_GE(activity.begin_ms, sample.begin_ms - 0.01);
        EXPECT_LE(activity.end_ms, sample.end_ms);
      }
      const auto& steps = drawn.run.schedule.steps();
      ASSERT_EQ(work.size(), steps.size());
      std::map<std::size_t, std::uint64_t> stream_of_lane;
      std::map<std::size_t, double> end_of_lane_ms;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Activity& own = *work.at(i + 1);
        EXPECT_GE(own.end_ms - own.begin_ms, drawn.delay_ms[i] * 0.99);
        EXPECT_EQ(stream_of_lane.try_emplace(steps[i].lane, own.stream).first->second, own.stream);
        EXPECT_GE(own.begin_ms, end_of_lane_ms[steps[i].lane] - 0.001);
        end_of_lane_ms[steps[i].lane] = own.end_ms;
        for (const auto* awaited : {&steps[i].options.after, &steps[i].options.host_after})
          for (const std::size_t earlier : *awaited)
            EXPECT_GE(own.begin_ms, work.at(earlier + 1)->end_ms - 0.001);
      }
    }
    const Shares shares = SharesOf(trace);
    EXPECT_NEAR(Sum(shares, kSets), 100, 1e-9);
    EXPECT_NEAR(Sum(shares, kCauses), shares.at("idle_pct"), 1e-9);
    const std::size_t steps = drawn.run.schedule.steps().size();
    double total_ms = 0;
    for (const TracedSample& sample : trace.samples) total_ms += sample.end_ms - sample.begin_ms;
    EXPECT_NEAR(trace.breakdown.total_ms(), total_ms, 1e-6);
    const auto looked_at_ms = LookedAt_ms(trace);
    const double within_ms = 2e-3 * static_cast<double>(trace.samples.size() * (steps + 1));
    for (std::size_t set = 0; set < looked_at_ms.size(); ++set)
      EXPECT_NEAR(trace.breakdown.sets_ms.at(set), looked_at_ms.at(set), within_ms) << set;
  }
}

// All ranks have the same breakdown, even if one takes longer than the others.
TEST_P(RowTraceTest, AllRanksHaveTheRowsBreakdown) {
  Run run{.name = "pair"};
  const auto long_ms = TestRanks().rank() == TestRanks().size() - 1 ? 8 : 4;
  run.schedule.Add(run.schedule.AddLane({"comp"}),
                   Delay("delay", WorkClass::kCompute, std::chrono::milliseconds(long_ms)));
  Open(run);
  const RowTrace trace = Trace();
  EXPECT_GE(trace.row_breakdown.total_ms() / kSamples, TestRanks().size() > 1 ? 8 : 4);
  auto others = trace.row_breakdown.sets_ms;
  TestRanks().Max(others, "the test");
  EXPECT_EQ(others, trace.row_breakdown.sets_ms);
}

// The ranks take turns at being the slow one. Each takes 6 ms on average at most.
TEST_P(RowTraceTest, TheTracedTimeIsThatOfEachSamplesSlowestRank) {
  const auto quick = Delay("quick", WorkClass::kCompute, 2000us)->make();
  const auto slow = Delay("slow", WorkClass::kCompute, 8000us)->make();
  int turn = TestRanks().rank();
  Behaviour turns;
  turns.enqueue = [&](Stream& stream) { (turn++ % 2 == 0 ? slow : quick)->Enqueue(stream); };
  Open(SoloRun(FakeWork("turns", WorkClass::kCompute, turns)));
  const RowTrace trace = Trace();
  ASSERT_EQ(trace.fault, "");
  if (TestRanks().size() == 1) return;
  EXPECT_GE(SharesOf(trace).at("traced_ms"), 8);
  EXPECT_GE(SharesOf(trace).at("traced_events_ms"), 8);
}

TEST_P(RowTraceTest, TheCacheFlushIsNoStepAndNoFault) {
  Open(SoloRun(Delay("delay", WorkClass::kCompute, 1000us)), "isolated", "cold");
  const RowTrace trace = Trace();
  EXPECT_EQ(trace.fault, "");
  for (const TracedSample& sample : trace.samples) {
    EXPECT_EQ(
        std::ranges::count_if(sample.flush, [](const Activity& one) { return IsWork(one.kind); }),
        1);
    EXPECT_EQ(std::ranges::count_if(sample.activities,
                                    [](const Activity& one) { return IsWork(one.kind); }),
              1);
    EXPECT_EQ(sample.enqueues.size(), 1U);
  }
}

// Rank r's clock is 10 r ms behind, and its sample begins r ms after rank 0's.
TEST(AllBegan, IsTheLastRanksBeginOnThisRanksClock) {
  const int rank = TestRanks().rank();
  RowTrace trace;
  trace.clock_offset_ms = 10.0 * rank;
  trace.samples.emplace_back().begin_ms = 100 - 10.0 * rank + rank;
  const double last_ms = 100 + TestRanks().size() - 1;
  AgreeOnTimes(trace, TestRanks());
  EXPECT_EQ(trace.samples.front().all_began_ms, last_ms - 10.0 * rank);
}

}  // namespace
}  // namespace overlapbench
