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

#include "backends.h"
#include "drawn_schedule.h"
#include "fake_workload.h"
#include "fixtures/patterns.h"
#include "fixtures/row_breakdown.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;

using Shares = std::map<std::string, double>;  // by counter
constexpr double kTolerance_pct = 1;
constexpr int kSamples = 3;

class RowTraceTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    machine_ = std::make_unique<Machine>(Machine{device(), TestRanks()});
    try {
      device().watches().Activities();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  Work Delay(const std::string& name, WorkClass work_class, std::chrono::microseconds delay) {
    WorkPlan plan = *DelayWork(*machine_, name, delay);
    plan.work_class = work_class;
    return std::make_shared<const WorkPlan>(std::move(plan));
  }

  void Open(const Run& run, const std::string& cadence = "isolated",
            const std::string& cache = "warm") {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"warm", "cold"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    session_ = std::make_unique<Session>(
        *machine_, Benchmark{.name = "Family/Row",
                             .settings = SettingsOf(axes, {{"cadence", cadence}, {"cache", cache}}),
                             .runs = [run](const Settings&) { return std::vector{run}; },
                             .report = {}});
    session_->SetUp(true);
    session_->WarmUp();
  }
  RowTrace Trace(int samples = kSamples) {
    std::vector<double> untraced_ms = UntracedTimes_ms(*session_, samples);
    const auto watch = device().watches().Activities();
    RowTrace trace = TraceRow(*session_, *watch, samples);
    trace.untraced_ms = std::move(untraced_ms);
    return trace;
  }

  // The shares of the first right trace, else of the last one. On the host other processes may
  // spoil most: each is of one sample, which they spoil least often, and is soon taken.
  template <class IsRight>
  Shares FirstRight(const IsRight& is_right, const std::function<RowTrace()>& trace) {
    constexpr int kAttemptsOnHost = 200;
    Shares shares;
    for (int left = GetParam() == Backend::kHost ? kAttemptsOnHost : 1; left > 0; --left) {
      const RowTrace traced = trace();
      EXPECT_EQ(traced.fault, "");
      shares = SharesOf(traced);
      if (is_right(shares)) break;
    }
    return shares;
  }

  // The shares of a pair of delays of 4 and 2 ms, which takes `expected_ms`.
  Shares PairOn(int streams, double expected_ms, const Shares& expected) {
    Run run{.name = "pair"};
    const auto comp = run.schedule.AddLane({"comp"});
    const auto comm = streams == 1 ? comp : run.schedule.AddLane({"comm"});
    run.schedule.Add(comm, Delay("second", WorkClass::kComm, 2000us));
    run.schedule.Add(comp, Delay("first", WorkClass::kCompute, 4000us));
    Open(run);
    const double tolerance_ms = 0.025 * expected_ms;
    const auto is_right = [&](const Shares& shares) {
      const double traced_ms = shares.at("traced_ms");
      return std::abs(traced_ms - expected_ms) <= tolerance_ms &&
             std::abs(traced_ms - shares.at("traced_events_ms")) <= tolerance_ms &&
             std::ranges::all_of(expected, [&](const auto& one) {
               return std::abs(shares.at(one.first) - one.second) <= kTolerance_pct;
             });
    };
    const Shares shares = FirstRight(is_right, [&] { return Trace(1); });
    EXPECT_NEAR(shares.at("traced_ms"), expected_ms, tolerance_ms);
    for (const auto& [name, share] : expected)
      EXPECT_NEAR(shares.at(name), share, kTolerance_pct) << name;
    EXPECT_NEAR(shares.at("traced_ms"), shares.at("traced_events_ms"), tolerance_ms);
    return shares;
  }
  static Shares SharesOf(const RowTrace& trace) {
    Counters counters;
    ReportBreakdown(trace, counters);
    Shares shares;
    for (const auto& [name, counter] : counters) shares[name] = counter.value;
    return shares;
  }
  static double Sum(const Shares& shares, const std::vector<std::string>& names) {
    double sum = 0;
    for (const std::string& name : names) sum += shares.at(name);
    return sum;
  }

  Session& session() { return *session_; }
  Machine& machine() { return *machine_; }

 private:
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Session> session_;
};
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

TEST_P(RowTraceTest, AStepThatEnqueuesNothingIsAFaultOnAllRanks) {
  Behaviour idle;
  const auto delay = Delay("delay", WorkClass::kCompute, 100us)->make();
  idle.enqueue = [&](Stream& stream) {
    if (TestRanks().rank() > 0 || TestRanks().size() == 1) return;
    delay->Enqueue(stream);
  };
  Open(SoloRun(FakeWork("idler", WorkClass::kCompute, idle)));
  const RowTrace trace = Trace();
  EXPECT_NE(trace.fault.find("step 'idler' has no record"), std::string::npos) << trace.fault;
  EXPECT_EQ(SharesOf(trace), (Shares{{"breakdown_valid", 0}}));
}

// The last work to begin.
std::vector<Activity>::iterator LastWork(std::vector<Activity>& records) {
  return std::ranges::max_element(
      records, {}, [](const Activity& one) { return std::pair(IsWork(one.kind), one.begin_ms); });
}

// Loses the call of the last kernel to begin, and the mark that came with it.
class LosingWatch : public ActivityWatch {
 public:
  explicit LosingWatch(std::unique_ptr<ActivityWatch> watch) : watch_(std::move(watch)) {}
  void Mark(std::uint64_t mark) override { watch_->Mark(mark); }
  Activities Stop() override {
    Activities all = watch_->Stop();
    std::erase_if(all.records, [](const Activity& one) { return one.kind == ActivityKind::kCall; });
    const auto last = LastWork(all.records);
    last->mark = 0;
    last->call_ms = last->enqueued_ms = 0;
    return all;
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
};

TEST_P(RowTraceTest, AKernelWithoutItsCallIsAFaultOfTheSampleInWhichItRan) {
  Run run{.name = "two"};
  const auto lane = run.schedule.AddLane({"lane"});
  const Work delay = Delay("delay", WorkClass::kCompute, 100us);
  run.schedule.Add(lane, delay);
  run.schedule.Add(lane, delay, {.name = "again"});
  Open(run);
  LosingWatch watch(device().watches().Activities());
  const RowTrace trace = TraceRow(session(), watch, kSamples);
  EXPECT_NE(trace.fault.find("has no record of its call"), std::string::npos) << trace.fault;
  EXPECT_EQ(SharesOf(trace), (Shares{{"breakdown_valid", 0}}));
}

// Loses the record of the last work of a step.
class ForgetfulWatch : public ActivityWatch {
 public:
  explicit ForgetfulWatch(std::unique_ptr<ActivityWatch> watch) : watch_(std::move(watch)) {}
  void Mark(std::uint64_t mark) override { watch_->Mark(mark); }
  Activities Stop() override {
    Activities all = watch_->Stop();
    all.records.erase(LastWork(all.records));
    return all;
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
};

TEST_P(RowTraceTest, AStepWithFewerRecordsInOneSampleIsAFault) {
  Open(SoloRun(Delay("delay", WorkClass::kCompute, 100us)), "streaming");
  ForgetfulWatch watch(device().watches().Activities());
  const RowTrace trace = TraceRow(session(), watch, kSamples);
  EXPECT_NE(trace.fault.find("step 'delay' has 20 records in one sample and 19 in another"),
            std::string::npos)
      << trace.fault;
}

// Enqueues something on another stream when the last sample begins, as a thread that nobody knows
// of may.
class StrayWatch : public ActivityWatch {
 public:
  StrayWatch(std::unique_ptr<ActivityWatch> watch, Workload& stray, Stream& aside)
      : watch_(std::move(watch)), stray_(stray), aside_(aside) {}
  void Mark(std::uint64_t mark) override {
    constexpr std::uint64_t kMarks = 3;  // of a sample: no step, the step, the flush
    watch_->Mark(mark);
    if (mark == kSamples * kMarks && !std::exchange(has_strayed_, true)) stray_.Enqueue(aside_);
  }
  // On a busy machine the work may begin after the sample. A watch drops what ends after it.
  Activities Stop() override {
    aside_.Synchronize(kPatience, "the stray work");
    return watch_->Stop();
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
  Workload& stray_;
  Stream& aside_;
  bool has_strayed_ = false;
};

TEST_P(RowTraceTest, WorkOfNoStepIsAFault) {
  const Work delay = Delay("delay", WorkClass::kCompute, 100us);
  const auto stray = delay->make();
  const auto aside = device().CreateStream();
  Open(SoloRun(delay));
  StrayWatch watch(device().watches().Activities(), *stray, *aside);
  const RowTrace trace = TraceRow(session(), watch, kSamples);
  EXPECT_NE(trace.fault.find("belongs to no step"), std::string::npos) << trace.fault;
  EXPECT_EQ(SharesOf(trace), (Shares{{"breakdown_valid", 0}}));
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
