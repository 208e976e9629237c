// What rows of Overlap and Priority report for samples whose truth is known: counters, states and
// reasons. Times in milliseconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/pair.h"
#include "comm/transport.h"
#include "fake_workload.h"
#include "scenarios.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

// ---- Overlap

// A computation of 4 ms and a communication of 2 ms that ran so when both were started at once.
Timings Overlapped(TimeSpan comp, TimeSpan comm) {
  return {{"comp", Took(4)}, {"comm", Took(2)}, {"overlap", Ran({{"comp", comp}, {"comm", comm}})}};
}

class OverlapReport : public testing::Test {
 protected:
  Reported Report(TimeSpan comp, TimeSpan comm) { return pair_.Report(Overlapped(comp, comm)); }
  ScenarioReport pair_{"Overlap/AllToAll+Gemm"};
};

TEST_F(OverlapReport, PerfectOverlapNeedsNoRemark) {
  const Reported row = Report({0, 4}, {0, 2});
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("efficiency"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("coverage"), 1);
}

// Both held each other up: the computation took 5 of its 4, the communication 3 of its 2.
TEST_F(OverlapReport, HasThreeTimesAndTheirRatios) {
  const Reported row = Report({0, 5}, {0, 3});
  ExpectCounters(row, {{"comp_ms", 4},
                       {"comm_ms", 2},
                       {"overlap_ms", 5},
                       {"slowdown", 1.25},
                       {"speedup", 1.2},
                       {"efficiency", 0.5},
                       {"hidden_comm", 0.5},
                       {"comp_slowdown", 1.25},
                       {"comm_slowdown", 1.5},
                       {"exposed_comm_ms", 1},
                       {"coverage", 1}});
  EXPECT_EQ(row.state, RowState::kOk);
}

// 6 MB on the wire in the 3 ms for which it ran beside the computation.
TEST_F(OverlapReport, RatesAreThoseOfTheOverlappedCommunication) {
  pair_.Costs("comm", {.wire_bytes = 6e6, .bus_factor = 1.5});
  pair_.Costs("comp", {.flops = 1e9});
  const Reported row = Report({0, 5}, {1, 4});
  EXPECT_DOUBLE_EQ(row.counters.at("algbw_GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("busbw_GBps"), 3);
  EXPECT_FALSE(row.counters.contains("TFLOPs"));
}

TEST_F(OverlapReport, OneStreamIsAFault) {
  const Reported row = Report({2, 6}, {0, 2});
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason.find("not overlapped"), 0U) << row.reason;
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1.5);
}

TEST(OverlapControl, MustNotOverlapOnOneStream) {
  ScenarioReport control("Overlap/SecondDelay+Delay", {{"streams", "1"}});
  const Reported passed = control.Report(Overlapped({2, 6}, {0, 2}));
  EXPECT_EQ(passed.state, RowState::kControl);
  EXPECT_DOUBLE_EQ(passed.counters.at("slowdown"), 1.5);
  const Reported failed = control.Report(Overlapped({0, 4}, {0, 2}));
  EXPECT_EQ(failed.state, RowState::kInvalid);
  EXPECT_EQ(failed.reason.find("the negative control overlapped"), 0U) << failed.reason;
}

// Both end within 1.9 ms, although one takes 4 ms alone.
TEST_F(OverlapReport, TimeBelowTheLongerSideIsNoisy) {
  const std::vector<Timings> groups(5, Overlapped({0, 1.9}, {0, 1}));
  const Reported row = pair_.ReportAll(groups);
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_EQ(row.reason.find("both together took 0.475 of the computation alone, whose own time "
                            "beside the other side is 0.475 of that alone"),
            0U)
      << row.reason;
  const auto state_at = [&](double end_ms) {
    return pair_.ReportAll(std::vector<Timings>(5, Overlapped({0, end_ms}, {0, 2}))).state;
  };
  EXPECT_EQ(state_at(3.95), RowState::kNoisy);
  EXPECT_EQ(state_at(3.985), RowState::kOk) << "within half a percent it may be the same";
}

// Half of the groups took far less than the longer side alone, but not all: the interval allows
// what is possible.
TEST_F(OverlapReport, AnIntervalThatReachesThePossibleIsNotImpossible) {
  std::vector<Timings> groups(6, Overlapped({0, 3}, {0, 2}));
  groups.insert(groups.end(), 5, Overlapped({0, 4.5}, {0, 2}));
  const Reported row = pair_.ReportAll(groups);
  EXPECT_LT(row.counters.at("slowdown"), 0.98);
  EXPECT_GT(row.counters.at("slowdown").interval.value_or(Interval{}).high, 1);
  EXPECT_EQ(row.state, RowState::kOk) << row.reason;
}

TEST_F(OverlapReport, SerializedRowsNameTheSideThatWaited) {
  const Reported computation = Report({0, 6}, {0, 2});
  EXPECT_EQ(computation.state, RowState::kSerialized);
  EXPECT_EQ(computation.reason.find("computation waited"), 0U) << computation.reason;
  const Reported communication = Report({0, 4}, {0, 6});
  EXPECT_EQ(communication.state, RowState::kSerialized);
  EXPECT_EQ(communication.reason.find("communication waited"), 0U) << communication.reason;
}

// The SM targets of the default rows on a GPU of so many SMs. Only builds with CUDA have the axis.
std::set<std::string> SmTargetsOn(int multiprocessors) {
  const auto device = PosingDevice::WithMultiprocessors(multiprocessors);
  Machine machine{*device, TestRanks()};
  const Registry known = AllWorkloads(machine);
  Registry workloads;
  for (WorkloadSpec spec : known.specs()) {
    if (spec.name == "CublasGemm")
      spec.axes = {IntegerAxis("sm_target", "SMs that the product may use", 0, 1024, "0")};
    workloads.Add(std::move(spec));
  }
  std::set<std::string> targets;
  for (const Scenario& scenario : AllScenarios({workloads, *device, machine})) {
    if (!scenario.name.starts_with("Overlap/")) continue;
    const auto axis = std::ranges::find(scenario.axes, "sm_target", &Axis::name);
    if (axis != scenario.axes.end()) targets.insert(axis->values.begin(), axis->values.end());
  }
  return targets;
}

// A target of all SMs or more would limit nothing.
TEST(SmTargets, AreBelowTheNumberOfSms) {
  EXPECT_EQ(SmTargetsOn(132), (std::set<std::string>{"0", "108"}));
  EXPECT_EQ(SmTargetsOn(108), (std::set<std::string>{"0", "84"}));
  EXPECT_EQ(SmTargetsOn(24), (std::set<std::string>{"0"}));
}

// One disturbed group of many changes nothing.
TEST_F(OverlapReport, CountersAreOfTheMedians) {
  std::vector<Timings> groups(5, Overlapped({0, 4}, {0, 2}));
  groups[2] = Overlapped({0, 400}, {0, 200});
  const Reported row = pair_.ReportAll(groups);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_DOUBLE_EQ(row.counters.at("overlap_ms"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
}

TEST(OverlapRuns, PutBothSidesOnOneLaneOnRequest) {
  const Schedule two = ScenarioReport("Overlap/SecondDelay+Delay").runs().back().schedule;
  ASSERT_EQ(two.lanes().size(), 2U);
  EXPECT_NE(two.steps()[0].lane, two.steps()[1].lane);
  const Schedule one =
      ScenarioReport("Overlap/SecondDelay+Delay", {{"streams", "1"}}).runs().back().schedule;
  ASSERT_EQ(one.lanes().size(), 1U);
  EXPECT_EQ(one.steps().size(), 2U);
}

// The communication is enqueued first, whichever side leads.
TEST(OverlapRuns, LetTheRequestedSideLead) {
  for (const char* first : {"comp", "comm", "none"}) {
    const Schedule schedule =
        ScenarioReport("Overlap/AllToAll+Gemm", {{"first", first}}).runs().back().schedule;
    EXPECT_EQ(schedule.steps()[0].name, "comm");
    if (first == std::string("none"))
      EXPECT_FALSE(schedule.leader.has_value());
    else
      EXPECT_EQ(schedule.leader, schedule.steps()[schedule.StepNamed(first)].lane) << first;
  }
}

// ---- Knobs of pairs

const char* const kGemmPair = "Overlap/AllToAll+Gemm";

ScenarioReport OnH200(const std::string& pair, const Values& values) {
  return {pair, values, PosingDevice::H200()};
}
std::string ExcludedOnH200(const std::string& pair, const Values& values) {
  return OnH200(pair, values).excluded();
}

// They apply in every run of a side, with the other side or without.
TEST(OverlapKnobs, ApplyToSoloAndOverlappedLanes) {
  ScenarioReport pair =
      OnH200(kGemmPair, {{"comp_sms", "64"}, {"comp_priority", "5"}, {"comm_priority", "3"}});
  ASSERT_EQ(pair.excluded(), "");
  const auto runs = pair.runs();
  ASSERT_EQ(runs.size(), 3U);
  for (const auto& run : runs) {
    for (const Schedule::Step& step : run.schedule.steps()) {
      const Schedule::Lane& lane = run.schedule.lanes()[step.lane];
      const bool is_comp = step.name == "comp";
      EXPECT_EQ(lane.sms, is_comp ? 64 : 0) << run.name << " " << step.name;
      EXPECT_EQ(lane.priority, is_comp ? 5 : 3) << run.name << " " << step.name;
    }
  }
}

TEST(OverlapKnobs, AreOffByDefault) {
  for (const auto& run : OnH200(kGemmPair, {}).runs()) {
    for (const Schedule::Lane& lane : run.schedule.lanes()) {
      EXPECT_EQ(lane.sms, 0);
      EXPECT_EQ(lane.priority, 0);
    }
  }
}

TEST(OverlapKnobs, RefuseAPartitionSizeThatTheDeviceLacks) {
  for (const char* size : {"8", "64", "128", "132"})
    EXPECT_EQ(ExcludedOnH200(kGemmPair, {{"comp_sms", size}}), "") << size;
  for (const char* size : {"4", "12", "130", "136"}) {
    EXPECT_EQ(ExcludedOnH200(kGemmPair, {{"comp_sms", size}}),
              "comp_sms must be a multiple of 8 from 8 to 128, or 132: all")
        << size;
  }
}

// If a transport lacks the operation, or a number belongs to another transport or NCCL would round
// it, the refusal lists what is possible instead.
TEST(OverlapKnobs, RefuseATransportThatLacksTheOperation) {
  const std::string all_to_all = "Overlap/AllToAll+CublasGemm";
  const std::string all_reduce = "Overlap/AllReduce+CublasGemm";
  const auto excluded = [](const std::string& pair, const Values& values) {
    return ExcludedOnH200(pair, values);
  };
  EXPECT_EQ(excluded(all_to_all, {{"comm_ctas", "16"}}), "");
  EXPECT_EQ(excluded(all_reduce, {{"comm_ctas", "12"}}), "");
  EXPECT_EQ(
      excluded(all_to_all, {{"comm_ctas", "12"}}),
      "NCCL rounds the CTAs of an all-to-all to a power of two: comm_ctas must be 1, 2, 4, ...");
  EXPECT_EQ(excluded(all_reduce, {{"comm_ctas", "6"}}),
            "NCCL launches clusters of 4 CTAs: comm_ctas must be 1, 2, or a multiple of 4");
  EXPECT_EQ(excluded(all_reduce, {{"comm_sms", "8"}}),
            "comm_sms is for our own kernels; with nccl, use comm_ctas");
  EXPECT_EQ(excluded(all_reduce, {{"transport", "copy"}, {"comm_ctas", "8"}}),
            "comm_ctas is for NCCL only; copy does not use it");
  EXPECT_EQ(excluded(all_to_all, {{"transport", "copy"}, {"comm_sms", "8"}}),
            "copies between GPUs use no SMs; comm_sms is for sums");
  EXPECT_EQ(excluded(all_reduce, {{"transport", "nccl_ce"}}),
            "nccl_ce supports AllToAll and AllGather only");
  EXPECT_EQ(excluded(all_to_all, {{"transport", "nccl_sym"}}),
            "nccl_sym supports AllReduce, AllGather and ReduceScatter only");
  EXPECT_EQ(excluded(all_to_all, {{"transport", "sm_load"}, {"bytes", "40"}}),
            "sm_load needs bytes to be a multiple of 16 x ranks");
  EXPECT_EQ(excluded(all_to_all, {{"transport", "sm_load"}, {"comm_sms", "200"}}),
            "comm_sms:200 is more than the GPU's 132 SMs");
}

TEST(OverlapKnobs, RefuseStreamingCopies) {
  const auto device = PosingDevice::H200();
  const Settings settings = Settings()
                                .With("transport", "copy")
                                .With("comm_ctas", "0")
                                .With("comm_sms", "0")
                                .With("cadence", "streaming");
  EXPECT_EQ(NoTransport({*device, TestRanks()}, {Operation::kAllGather}, settings),
            "transport:copy supports cadence:isolated only");
}

TEST(OverlapKnobs, AllowSmsOfSumsBesideCopies) {
  const auto device = PosingDevice::H200();
  const auto refused = [&](const std::vector<Operation>& operations, const std::string& sms) {
    return NoTransport({*device, TestRanks()}, operations,
                       Settings()
                           .With("transport", "copy")
                           .With("comm_ctas", "0")
                           .With("comm_sms", sms)
                           .With("bytes", "4096"));
  };
  using enum Operation;
  EXPECT_EQ(refused({kAllGather}, "8"), "copies between GPUs use no SMs; comm_sms is for sums");
  EXPECT_EQ(refused({kAllGather, kReduceScatter}, "8"), refused({kAllGather}, "0"));
}

TEST(OverlapKnobs, RefuseAPriorityThatTheDeviceLacks) {
  for (const std::string axis : {"comp_priority", "comm_priority"}) {
    EXPECT_EQ(ExcludedOnH200(kGemmPair, {{axis, "5"}}), "");
    EXPECT_EQ(ExcludedOnH200(kGemmPair, {{axis, "6"}}), axis + " must be from 0 to 5");
    ScenarioReport without(kGemmPair, {{axis, "1"}}, PosingDevice::WithPriorities(1));
    EXPECT_EQ(without.excluded(), axis + " must be 0: streams have no priorities here");
  }
}

TEST(OverlapKnobs, SideKnobsRequireTwoStreams) {
  for (const std::string axis : {"comp_sms", "comp_priority", "comm_priority"}) {
    const std::string value = axis == "comp_sms" ? "8" : "1";
    EXPECT_EQ(ExcludedOnH200("Overlap/SecondDelay+Delay", {{"streams", "1"}, {axis, value}}),
              axis + " needs streams:2: with streams:1 the sides share one");
  }
}

// A pair whose computation takes a target, or a graph, as cuBLASLt's do.
class TargetedPair : public testing::Test {
 protected:
  TargetedPair() {
    WorkloadSpec comp = FakeSpec("Product", WorkClass::kCompute, behaviour_);
    comp.axes = {IntegerAxis("sm_target", "", 0, 1024, "0", "0"),
                 ChoiceAxis("call", "", {"loop", "graph"}, "loop", "loop")};
    comp.footprint = [this](const Settings& settings) {
      targets_.push_back(settings.Integer("sm_target"));
      return Footprint{};
    };
    registry_.Add(comp);
    registry_.Add(FakeSpec("Talk", WorkClass::kComm, behaviour_));
    registry_.Add(FakeSpec("Move", WorkClass::kMemory, behaviour_));
  }
  Scenario Pair(const char* names) { return OverlapPair({registry_, *device_, machine_}, names); }
  static Settings With(const Scenario& pair,
                       const std::vector<std::pair<std::string, std::string>>& values) {
    return SettingsOf(pair.axes, values);
  }
  std::string Excluded(const std::vector<std::pair<std::string, std::string>>& values,
                       const char* names = "Talk+Product") {
    const Scenario pair = Pair(names);
    return pair.excluded(With(pair, values));
  }
  // The target that the computation of the row is made with.
  long TargetOf(const std::vector<std::pair<std::string, std::string>>& values) {
    const Scenario pair = Pair("Talk+Product");
    targets_.clear();
    pair.runs(With(pair, values));
    EXPECT_EQ(targets_.size(), 1U);
    return targets_.at(0);
  }

  Behaviour behaviour_;
  std::unique_ptr<PosingDevice> device_ = PosingDevice::H200();
  Machine machine_{*device_, TestRanks()};

 private:
  Registry registry_;
  std::vector<long> targets_;
};

// The library sizes its grid for the partition. A different value of the axis would contradict it.
TEST_F(TargetedPair, APartitionSetsItsSmTarget) {
  EXPECT_EQ(TargetOf({{"comp_sms", "64"}}), 64);
  EXPECT_EQ(TargetOf({{"comp_sms", "132"}}), 0);
  EXPECT_EQ(TargetOf({}), 0);
  EXPECT_EQ(TargetOf({{"sm_target", "104"}}), 104);
  EXPECT_EQ(Excluded({{"comp_sms", "64"}}), "");
  EXPECT_EQ(Excluded({{"sm_target", "104"}}), "");
  EXPECT_EQ(Excluded({{"comp_sms", "64"}, {"sm_target", "104"}}),
            "comp_sms sets the SM target itself: leave out sm_target");
}

TEST_F(TargetedPair, APartitionIsNamedByItsOwnAxisAlone) {
  const Scenario pair = Pair("Talk+Product");
  EXPECT_EQ(With(pair, {{"comp_sms", "64"}, {"comm_priority", "5"}}).NameSuffix(),
            "/cache:cold/comp_sms:64/comm_priority:5");
  EXPECT_EQ(With(pair, {}).NameSuffix(), "/cache:cold");
}

// Collectives that share a channel wait for each other, and MPI would mix them up.
TEST_F(TargetedPair, SidesHaveChannelsOfTheirOwnAndTheSecondItsSizeAndTransport) {
  Registry registry;
  std::vector<std::string> made;
  for (const auto& [name, work_class] :
       {std::pair{"One", WorkClass::kComm}, std::pair{"Other", WorkClass::kComm},
        std::pair{"Product", WorkClass::kCompute}}) {
    WorkloadSpec spec = FakeSpec(name, work_class, behaviour_);
    spec.collective = work_class == WorkClass::kComm;
    if (spec.collective) {
      spec.axes = {BytesAxis("bytes", "", "1M"),
                   ChoiceAxis("transport", "", {"nccl", "copy"}, "nccl", "nccl"),
                   IntegerAxis("comm_ctas", "", 0, 64, "0", "0"),
                   IntegerAxis("comm_sms", "", 0, 64, "0", "0")};
    }
    spec.footprint = [&made, name = std::string(name)](const Settings& settings) {
      std::string text = name;
      for (const char* axis : {"bytes", "transport", "comm_ctas", "channel"})
        text += " " + (settings.Has(axis) ? settings.Text(axis) : "none");
      made.push_back(text);
      return Footprint{};
    };
    registry.Add(spec);
  }
  const Scenario triple = OverlapPair({registry, *device_, machine_}, "Product+One+Other");
  EXPECT_EQ(triple.name, "Overlap/One+Other+Product");
  const auto others = [&](const std::vector<std::pair<std::string, std::string>>& values) {
    made.clear();
    const auto runs = triple.runs(With(triple, values));
    EXPECT_EQ(made.at(0), "One 1048576 nccl 8 none");
    EXPECT_EQ(made.at(2), "Product 1048576 nccl 8 2");
    return made.at(1) + " " + runs.at(2).schedule.works().at(0)->transport;
  };
  EXPECT_EQ(others({{"comm_ctas", "8"}}), "Other 1048576 nccl 8 1 nccl");
  EXPECT_EQ(others({{"comm_ctas", "8"}, {"second_bytes", "8"}, {"second_transport", "copy"}}),
            "Other 8 copy 0 1 copy");
  EXPECT_EQ(With(triple, {{"second_bytes", "8"}, {"second_transport", "copy"}}).NameSuffix(),
            "/bytes:1048576/cache:cold/second_bytes:8/second_transport:copy");
}

TEST_F(TargetedPair, RefusesWorkThatIgnoresPartitions) {
  EXPECT_EQ(Excluded({{"comp_sms", "64"}, {"call", "graph"}}),
            "comp_sms needs call:loop: a recorded graph may ignore its stream's partition");
  EXPECT_EQ(Excluded({{"comp_sms", "64"}}, "Talk+Move"),
            "comp_sms is for computations, and Move is not one");
}

// Here the device's partitions limit nothing: the host's two cores run every block.
TEST(OverlapKnobs, ARowThatLeavesItsPartitionIsInvalidAndSaysWhereItRan) {
  ScenarioReport pair = OnH200(kGemmPair, {{"comp_sms", "64"}});
  const Reported row = pair.Report(Overlapped({0, 4}, {0, 2}));
  EXPECT_EQ(pair.knob_fault(), "comp_sms:64 ran on 2 SMs");
  EXPECT_EQ(row.counters.at("comp_sms_used"), 2);
}

TEST(OverlapKnobs, ARowThatKeepsItsPartitionReportsItsSms) {
  for (const int sms : {1, 2}) {
    ScenarioReport pair(kGemmPair, {{"comp_sms", std::to_string(sms)}});
    const Reported row = pair.Report(Overlapped({0, 4}, {0, 2}));
    EXPECT_EQ(pair.knob_fault(), "");
    EXPECT_EQ(row.counters.at("comp_sms_used"), sms);
  }
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(OverlapKnobs, ConnectionsMatchTheProcess) {
  const auto excluded = [](const char* value) {
    return ExcludedOnH200(kGemmPair, {{"connections", value}});
  };
  const char* const variable = "CUDA_DEVICE_MAX_CONNECTIONS";
  unsetenv(variable);
  EXPECT_EQ(excluded("0"), "");
  EXPECT_EQ(excluded("8"),
            "connections:8 needs a process of its own: CUDA_DEVICE_MAX_CONNECTIONS=8 ./bench ...");
  const Variable of_process(variable, "8");
  EXPECT_EQ(excluded("0"), "");
  EXPECT_EQ(excluded("8"), "");
  for (const std::string other : {"1", "16"}) {
    EXPECT_EQ(excluded(other.c_str()),
              "connections:" + other + " needs a process of its own: CUDA_DEVICE_MAX_CONNECTIONS=" +
                  other + " ./bench ...");
  }
  EXPECT_EQ(ScenarioReport(kGemmPair, {{"connections", "8"}}).excluded(),
            "connections exist on the cuda backend only");
}

// ---- Priority

// Alone the work takes 1 and the load 8. Beside the load the work takes 6, or `work_ms` from 0.5 on
// with the row's priority.
Timings Prioritized(double work_ms) {
  return {{"work", Took(1)},
          {"load", Took(8)},
          {"equal", Ran({{"work", {0, 6}}, {"load", {0, 9}}})},
          {"prioritized", Ran({{"work", {0.5, 0.5 + work_ms}}, {"load", {0, 10}}})}};
}

Reported ReportPriority(const std::string& pair, const std::string& priority, double work_ms) {
  return ScenarioReport("Priority/" + pair, {{"priority", priority}}).Report(Prioritized(work_ms));
}
Reported ReportBlocks(const std::string& priority, double work_ms) {
  return ReportPriority("ShortBlocks+ShortBlocks", priority, work_ms);
}

TEST(PriorityReport, ReportsTheGainAndItsCostToTheLoad) {
  const Reported row = ReportBlocks("high", 2);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "");
  ExpectCounters(row, {{"latency_alone_ms", 1},
                       {"latency_equal_ms", 6},
                       {"latency_ms", 2},
                       {"gain", 3},
                       {"work_slowdown", 2},
                       {"work_slowdown_equal", 6},
                       {"load_alone_ms", 8},
                       {"load_slowdown", 1.25},
                       {"load_slowdown_equal", 1.125}});
}

TEST(PriorityReport, AControlWithoutGainSaysSo) {
  const Reported row = ReportBlocks("equal", 6);
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.reason, "control: equal priorities, no gain");
}

TEST(PriorityReport, AControlThatShowsAGainOrALossIsAFault) {
  const Reported gain = ReportBlocks("equal", 4);
  EXPECT_EQ(gain.state, RowState::kInvalid);
  EXPECT_EQ(gain.reason, "the negative control shows a gain of 1.5");
  const Reported loss = ReportBlocks("equal", 12);
  EXPECT_EQ(loss.state, RowState::kInvalid);
  EXPECT_EQ(loss.reason, "the negative control shows a gain of 0.5");
}

TEST(PriorityReport, RunningBlocksAreNotPreempted) {
  for (const char* pair : {"ShortBlocks+ShortBlocks", "ShortBlocks+ResidentGrid"}) {
    const Reported row = ReportPriority(pair, "high", 6);
    EXPECT_EQ(row.state, RowState::kOk);
    EXPECT_EQ(row.reason, "no gain: running blocks are not preempted") << pair;
  }
}

TEST(PriorityReport, CopiesIgnorePriorityOnEitherSide) {
  for (const char* pair :
       {"ShortBlocks+HostToDevice", "HostToDevice+ShortBlocks", "HostToDevice+HostToDevice"}) {
    EXPECT_EQ(ReportPriority(pair, "high", 6).reason, "no gain: copies ignore priority") << pair;
  }
}

// Within a tenth of 1.
TEST(PriorityReport, ASmallGainIsIgnored) {
  EXPECT_EQ(ReportBlocks("high", 6 / 1.09).reason, "no gain: running blocks are not preempted");
  EXPECT_EQ(ReportBlocks("high", 6 / 1.11).reason, "");
}

// The device's streams have three priorities. Whatever is measured beside it has the lowest.
TEST(PriorityRuns, GiveTheLastRunsWorkTheHighestPriorityUnlessItIsAControl) {
  for (const auto& [priority, expected] : {std::pair{"high", 2}, std::pair{"equal", 0}}) {
    const auto runs =
        ScenarioReport("Priority/ShortBlocks+ResidentGrid", {{"priority", priority}}).runs();
    ASSERT_EQ(runs.size(), 4U);
    for (const auto& run : runs) {
      for (const Schedule::Lane& lane : run.schedule.lanes()) {
        const bool is_prioritized = run.name == "prioritized" && lane.name == "work";
        EXPECT_EQ(lane.priority, is_prioritized ? expected : 0) << run.name << " " << lane.name;
      }
    }
    for (const std::size_t run : {2, 3})
      EXPECT_EQ(runs[run].schedule.leader, runs[run].schedule.LaneNamed("load"));
    EXPECT_EQ(runs.back().name, "prioritized");
  }
}

}  // namespace
}  // namespace overlapbench
