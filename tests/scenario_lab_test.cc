// The laboratory's families: which rows they have, the runs of a row, and what rows report of
// samples whose truth is known. Times in milliseconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/plan.h"
#include "scenarios.h"

namespace overlapbench {
namespace {

ScenarioReport OnGpu(const std::string& scenario, const Values& values = {}) {
  return {scenario, values, PosingDevice::H200()};
}

std::string NamesOf(const std::vector<Run>& runs) {
  std::string names;
  for (const Run& run : runs) names += (names.empty() ? "" : " ") + run.name;
  return names;
}

Cost CarryingBytes(double bytes) { return {.wire_bytes = bytes, .bus_factor = 1}; }

// ---- Link and Knee

// 100 MB in a millisecond are 100 GB/s.
TEST(Link, ReportsTheBandwidthOfAPoint) {
  for (const int sms : {1, 4}) {
    ScenarioReport link = OnGpu("Lab/Link/Broadcast", {{"transport", "sm_load"}});
    link.Costs("Broadcast", CarryingBytes(100e6));
    link.Takes("Broadcast", sms);
    const Reported row = link.Report({{"Broadcast", Took(1)}});
    ExpectCounters(row, {{"GBps", 100}, {"GBps_per_sm", 100.0 / sms}});
  }
}

TEST(Link, HasNoBandwidthPerSmForCopyEngines) {
  ScenarioReport link = OnGpu("Lab/Link/Broadcast", {{"transport", "copy"}});
  link.Costs("Broadcast", CarryingBytes(100e6));
  link.Takes("Broadcast", 0);
  ExpectCounters(link.Report({{"Broadcast", Took(2)}}), {{"GBps", 50}});
}

// A curve that grows by 10 GB/s an SM up to eight SMs and then no more, with a dip.
TEST(Knee, IsTheFewestSmsThatReachThePlateau) {
  ScenarioReport knee = OnGpu("Lab/Knee/SendRecv", {{"transport", "sm_load"}});
  Timings timings;
  for (const auto& run : knee.runs()) {
    const double sms = std::stod(run.name);
    knee.Costs(run.name, CarryingBytes(1e6));
    timings[run.name] = Took(1 / (sms == 10 ? 70 : 10 * std::min(sms, 8.0)));
  }
  const Reported row = knee.Report(timings);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 80);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps_per_sm"), 10);
  EXPECT_DOUBLE_EQ(row.counters.at("knee_sms"), 8);
  EXPECT_EQ(row.reason, "peak 80 GB/s, 80 with all 132");
}

TEST(Knee, SweepsTheAvailableSmsOrCtas) {
  EXPECT_EQ(NamesOf(OnGpu("Lab/Knee/Broadcast").runs()), "1 2 4 6 8 10 12 16 24 32 64 132");
  const auto on = [](int sms) {
    return NamesOf(
        ScenarioReport("Lab/Knee/Broadcast", {}, PosingDevice::WithMultiprocessors(sms)).runs());
  };
  EXPECT_EQ(on(12), "1 2 4 6 8 10 12");
  EXPECT_EQ(on(1), "1");
  // Our kernels use at most 256 SMs.
  EXPECT_EQ(on(300), "1 2 4 6 8 10 12 16 24 32 64 256");
}

// Of every family.
TEST(Scenarios, ExistWhateverTheNumberOfSms) {
  for (const int sms : {1, 2, 12, 15, 16, 255, 256, 257, 1024}) {
    const auto device = PosingDevice::WithMultiprocessors(sms);
    Machine machine{*device, TestRanks()};
    const Registry registry = AllWorkloads(machine);
    Plan plan({});
    for (const Family& family : AllFamilies()) {
      for (const Scenario& scenario : family.scenarios({registry, *device, machine}))
        EXPECT_NO_THROW(plan.Add(scenario)) << scenario.name << " on " << sms << " SMs";
    }
    EXPECT_FALSE(plan.benchmarks().empty());
  }
}

// ---- Matrix and Partition

std::set<std::string> ScenariosOf(const std::string& family) {
  const auto device = PosingDevice::H200();
  Machine machine{*device, TestRanks()};
  const Registry registry = AllWorkloads(machine);
  std::set<std::string> names;
  for (const Family& one : AllFamilies()) {
    if (one.name != family) continue;
    for (const Scenario& scenario : one.scenarios({registry, *device, machine}))
      names.insert(scenario.name);
  }
  return names;
}

TEST(Matrix, HasEachComputationBesideEachCommunication) {
  const std::set<std::string> names = ScenariosOf("Lab/Matrix");
  for (const char* comm : {"AllGather", "PeerCopy", "HostToDevice", "DeviceToHost"}) {
    for (const char* comp : {"CublasGemm", "FmaKernel", "StreamKernel", "L2Kernel", "SharedKernel",
                             "ChainKernel", "SoftmaxFused", "Attention"})
      EXPECT_TRUE(names.contains(std::string("Lab/Matrix/") + comm + "+" + comp)) << comm << comp;
  }
  EXPECT_EQ(names.size(), 32U);
}

TEST(Matrix, HasTheRunsOfAPair) {
  EXPECT_EQ(NamesOf(OnGpu("Lab/Matrix/AllGather+StreamKernel").runs()), "comp comm overlap");
}

// ---- Triple

// C = 4, M = 2 and 1. Beside the computation the first communication takes 3, and the computation
// twice as long as alone while either of the two runs beside it; the two do not disturb each other.
Timings OfThree(const Timing& overlap) {
  return {{"comp", Took(4)},
          {"comm", Took(2)},
          {"second", Took(1)},
          {"comm beside second", Ran({{"comm", {0, 2}}, {"second", {0, 1}}})},
          {"comm beside comp", Ran({{"comm", {0, 3}}, {"comp", {0, 5.5}}})},
          {"second beside comp", Ran({{"second", {0, 1}}, {"comp", {0, 4.5}}})},
          {"overlap", overlap}};
}

class TripleReport : public testing::Test {
 protected:
  ScenarioReport triple_ = OnGpu("Lab/Triple/AllGather+DeviceToHost+StreamKernel");
};

// In the first ms, the computation does a quarter of its 4 ms and the communication 2/3 of its 2;
// then it has half its speed until 3, and ends at 3 + 2.75.
TEST_F(TripleReport, HasEachSidesSlowdownAndTheProductRule) {
  const Reported row =
      triple_.Report(OfThree(Ran({{"comm", {0, 3}}, {"second", {0, 1.5}}, {"comp", {0, 5}}})));
  ExpectCounters(row, {{"comp_ms", 4},
                       {"comm_ms", 2},
                       {"second_ms", 1},
                       {"overlap_ms", 5},
                       {"slowdown", 1.25},
                       {"speedup", 1.4},
                       {"efficiency", 2.0 / 3},
                       {"hidden_comm", 2.0 / 3},
                       {"comp_slowdown", 1.25},
                       {"comm_slowdown", 1.5},
                       {"second_slowdown", 1.5},
                       {"exposed_comm_ms", 1},
                       {"bound_ms", 4},
                       {"pct_of_bound", 80},
                       {"product_slowdown", 5.75 / 4},
                       {"product_error", 0.15},
                       {"coverage", 1}});
  EXPECT_EQ(row.state, RowState::kOk) << row.reason;
}

TEST_F(TripleReport, NamesTheSideThatWaited) {
  const Reported row =
      triple_.Report(OfThree(Ran({{"comm", {0, 3}}, {"second", {2.9, 3.9}}, {"comp", {0, 5.6}}})));
  EXPECT_EQ(row.state, RowState::kInvalid);
  EXPECT_EQ(row.reason.find("not overlapped"), 0U) << row.reason;
  const Reported waited =
      triple_.Report(OfThree(Ran({{"comm", {0, 3}}, {"second", {0, 4}}, {"comp", {0, 6}}})));
  EXPECT_EQ(waited.state, RowState::kSerialized);
  EXPECT_EQ(waited.reason.find("second communication waited for the other side"), 0U)
      << waited.reason;
}

TEST_F(TripleReport, MayNotBeFasterThanItsLongestSide) {
  const std::vector<Timings> groups(
      5, OfThree(Ran({{"comm", {0, 2}}, {"second", {0, 1}}, {"comp", {0, 3}}})));
  const Reported row = triple_.ReportAll(groups);
  EXPECT_EQ(row.state, RowState::kNoisy);
  EXPECT_EQ(row.reason.find("all together took 0.750 of the computation alone, whose own time "
                            "beside the other sides is 0.750"),
            0U)
      << row.reason;
}

// Training steps enqueue both communications before the computation.
TEST(Triple, LetsBothCommunicationsLead) {
  const std::string row = "Lab/Triple/AllGather+DeviceToHost+StreamKernel";
  for (const std::string first : {"comm", "comp"}) {
    for (const auto& run : OnGpu(row, {{"first", first}}).runs()) {
      const Schedule& schedule = run.schedule;
      if (schedule.steps().size() == 1) continue;
      for (const Schedule::Step& step : schedule.steps()) {
        const bool beside_comp = schedule.steps().back().name == "comp";
        const bool follows = beside_comp && (step.name == "comp") == (first == "comm");
        EXPECT_EQ(schedule.Follows(step.lane), follows) << run.name << ": " << step.name;
      }
    }
  }
}

// comm_sms is how many SMs a transport's kernel takes, not a partition of its stream.
TEST(Partition, LimitsOnlyTheComputation) {
  ScenarioReport row = OnGpu("Lab/Partition/AllGather+CublasGemm",
                             {{"comp_sms", "112"}, {"transport", "sm_load"}, {"comm_sms", "8"}});
  for (const auto& run : row.runs()) {
    for (const Schedule::Step& step : run.schedule.steps())
      EXPECT_EQ(run.schedule.lanes()[step.lane].sms, step.name == "comp" ? 112 : 0) << run.name;
  }
}

TEST(Partition, OffersSizesThatTheDeviceGrants) {
  struct Case {
    int sms;
    SmPartitions partitions;
    std::vector<std::string> sizes;
  };
  for (const auto& [sms, partitions, sizes] :
       {Case{132, {8, 8, 128}, {"0", "128", "120", "112"}}, Case{20, {8, 8, 16}, {"0", "16", "8"}},
        Case{132, {2, 2, 130}, {"0", "128", "120", "112"}}, Case{132, {}, {"0"}}}) {
    const auto device = PosingDevice::WithMultiprocessors(sms, partitions);
    Machine machine{*device, TestRanks()};
    const Registry registry = AllWorkloads(machine);
    for (const Scenario& scenario : AllScenarios({registry, *device, machine})) {
      if (!scenario.name.starts_with("Lab/Partition/")) continue;
      EXPECT_EQ(std::ranges::find(scenario.axes, "comp_sms", &Axis::name)->values, sizes) << sms;
    }
  }
}

// ---- Attribution

// C = 4, M = 3, T = 6: 2 to explain. The computation ends last, at these times beside stand-ins.
Timings Slowed(double sm, double sm_l2, double sm_hbm) {
  return {{"comp", Took(4)},
          {"comm", Took(3)},
          {"sm", Ran({{"comp", {0, sm}}, {"sm", {0, 3}}})},
          {"sm_l2", Ran({{"comp", {0, sm_l2}}, {"sm_l2", {0, 3}}})},
          {"sm_hbm", Ran({{"comp", {0, sm_hbm}}, {"sm_hbm", {0, 3}}})},
          {"clock_alone", Took(4)},
          {"clock_beside", Took(6)},
          {"half", Took(8)},
          {"overlap", Ran({{"comp", {0, 6}}, {"comm", {0, 4}}})}};
}

class AttributionReport : public ScenarioReport {
 public:
  explicit AttributionReport(const std::string& pair = "AllGather+StreamKernel",
                             const Values& values = {},
                             std::unique_ptr<PosingDevice> device = PosingDevice::H200())
      : ScenarioReport("Lab/Attribution/" + pair, values, std::move(device)) {
    Observes("clock_alone", 1.8);
    Observes("clock_beside", 1.8);
  }
};

TEST(Attribution, AttributesToEachCauseItsAddedTime) {
  const Reported row = AttributionReport().Report(Slowed(5, 5.2, 5.6));
  EXPECT_DOUBLE_EQ(row.counters.at("by_sm"), 0.5);
  EXPECT_NEAR(row.counters.at("by_l2"), 0.1, 1e-9);
  EXPECT_NEAR(row.counters.at("by_hbm"), 0.2, 1e-9);
  EXPECT_DOUBLE_EQ(row.counters.at("by_clock"), 0);
  EXPECT_NEAR(row.counters.at("residual"), 0.2, 1e-9);
}

// A stand-in may itself end later than the communication does.
TEST(Attribution, AsksWhatStandInsDoToTheSideThatEndsLast) {
  Timings timings = Slowed(5, 5.2, 5.6);
  timings["sm_hbm"] = Ran({{"comp", {0, 5.6}}, {"sm_hbm", {0, 9}}});
  AttributionReport row;
  EXPECT_NEAR(row.Report(timings).counters.at("by_hbm"), 0.2, 1e-9);
  timings["overlap"] = Ran({{"comp", {0, 5}}, {"comm", {0, 6}}});
  EXPECT_NEAR(row.Report(timings).counters.at("by_hbm"), 1.9, 1e-9);
}

// The leads of copies and of their stand-ins differ.
TEST(Attribution, TellsOfTheLeadBesideCopyEngines) {
  Timings timings = Slowed(5, 5, 5.4);
  timings["overlap"] = Ran({{"comp", {0.2, 6}}, {"comm", {0, 4}}});
  const Reported copy =
      AttributionReport("AllGather+StreamKernel", {{"transport", "copy"}}).Report(timings);
  EXPECT_NEAR(copy.counters.at("by_lead"), 0.1, 1e-9);
  EXPECT_NEAR(copy.counters.at("residual"), 0.7, 1e-9);
  const Reported kernel = AttributionReport().Report(timings);
  EXPECT_DOUBLE_EQ(kernel.counters.at("by_lead"), 0);
  EXPECT_NEAR(kernel.counters.at("residual"), 0.3, 1e-9);
}

// At 10 % less clock the computation takes 0.4 of the 2 longer.
TEST(Attribution, AttributesLowerClocksToTheComputation) {
  AttributionReport row;
  row.Observes("clock_alone", 1.98);
  EXPECT_NEAR(row.Report(Slowed(4, 4, 4)).counters.at("by_clock"), 0.2, 1e-9);
}

// A clock that was not observed makes no share, instead of one that JSON cannot hold.
TEST(Attribution, HasNoShareOfWhatWasNotObserved) {
  AttributionReport row;
  row.Observes("clock_beside", 0);
  const Reported reported = row.Report(Slowed(5, 5.2, 5.6));
  EXPECT_FALSE(reported.counters.contains("by_clock"));
  EXPECT_FALSE(reported.counters.contains("residual"));
  EXPECT_DOUBLE_EQ(reported.counters.at("by_sm"), 0.5);
}

// The stand-ins' own SMs are no cause then.
TEST(Attribution, CountsNoSmsForCopyEngines) {
  AttributionReport row("AllGather+StreamKernel", {{"transport", "copy"}});
  const Reported reported = row.Report(Slowed(5, 5, 6));
  EXPECT_DOUBLE_EQ(reported.counters.at("by_sm"), 0);
  EXPECT_DOUBLE_EQ(reported.counters.at("by_hbm"), 0.5);
  EXPECT_DOUBLE_EQ(reported.counters.at("residual"), 0.5);
  for (const auto& run : row.runs()) {
    if (run.name == "sm") {
      EXPECT_EQ(run.schedule.leader, run.schedule.LaneNamed("COMM"));
    }
  }
}

TEST(Attribution, KnowsWhichCopiesTakeNoSms) {
  const auto by_sm = [](const std::string& engine) {
    AttributionReport row("HostToDevice+StreamKernel", {{"engine", engine}});
    return row.Report(Slowed(5, 5, 6)).counters.at("by_sm");
  };
  EXPECT_DOUBLE_EQ(by_sm("copy"), 0);
  EXPECT_DOUBLE_EQ(by_sm("sm"), 0.5);
}

TEST(Attribution, ExplainsNothingWithoutASlowdown) {
  Timings timings = Slowed(4, 4, 4);
  timings["overlap"] = Ran({{"comp", {0, 4}}, {"comm", {0, 3}}});
  Reported row = AttributionReport().Report(timings);
  EXPECT_FALSE(row.counters.contains("by_sm"));
  EXPECT_NE(row.reason.find("the computation is bound by "), std::string::npos) << row.reason;
  timings["overlap"] = Ran({{"comp", {0, 4.3}}, {"comm", {0, 3}}});
  row = AttributionReport().Report(timings);
  EXPECT_FALSE(row.counters.contains("by_sm")) << "its shares would be noise";
}

TEST(Attribution, ExplainsASlowdownOfTenPercent) {
  Timings timings = Slowed(4, 4, 4);
  timings["overlap"] = Ran({{"comp", {0, 4.4}}, {"comm", {0, 3}}});
  EXPECT_TRUE(AttributionReport().Report(timings).counters.contains("by_sm"));
}

// Their lanes, with what leads and what is limited.
TEST(Attribution, RunsEachStandInAndTheProbeBesideTheComputation) {
  std::string text;
  for (const auto& run : AttributionReport().runs()) {
    text += run.name + ":";
    for (std::size_t lane = 0; lane < run.schedule.lanes().size(); ++lane) {
      const Schedule::Lane& one = run.schedule.lanes()[lane];
      text += (run.schedule.leader == lane ? " *" : " ") + one.name;
      if (one.sms > 0) text += "/" + std::to_string(one.sms);
      text += "(" + run.schedule.steps().at(lane).work->name + ")";
    }
    text += "\n";
  }
  EXPECT_EQ(text,
            "comp: COMP(comp)\n"
            "comm: COMM(comm)\n"
            "sm: COMM(sm) *COMP(comp)\n"
            "sm_l2: COMM(sm_l2) *COMP(comp)\n"
            "sm_hbm: COMM(sm_hbm) *COMP(comp)\n"
            "clock_alone: COMP(comp) *probe(clock_alone)\n"
            "clock_beside: COMM(comm) COMP(comp) *probe(clock_beside)\n"
            "half: COMP/64(comp)\n"
            "overlap: COMM(comm) *COMP(comp)\n");
}

TEST(Attribution, LeavesTheSmsToItself) {
  EXPECT_EQ(AttributionReport("AllGather+StreamKernel", {{"comp_sms", "8"}}).excluded(),
            "comp_sms must be 0: attribution sets it itself");
  EXPECT_EQ(AttributionReport().excluded().find("comp_sms"), std::string::npos);
}

// 0 SMs would be all of them. A partition of the device that it stands for has 8, 16, ... SMs.
TEST(Attribution, NeedsAPartitionForHalfOfTheSms) {
  const auto excluded = [](int sms) {
    return AttributionReport("AllGather+StreamKernel", {}, PosingDevice::WithMultiprocessors(sms))
        .excluded();
  };
  EXPECT_EQ(excluded(1), "half of the GPU's 1 SMs is less than a partition");
  EXPECT_EQ(excluded(15), "half of the GPU's 15 SMs is less than a partition");
  EXPECT_EQ(excluded(16).find("half"), std::string::npos);
}

TEST(Attribution, SaysWhatBoundsEachSideAlone) {
  const auto reason_on = [](std::unique_ptr<PosingDevice> device, const Cost& comp, double half_ms,
                            const Cost& comm) {
    AttributionReport row("AllGather+StreamKernel", {}, std::move(device));
    row.Costs("comp", comp);
    row.Costs("comm", comm);
    Timings timings = Slowed(4, 4, 4);
    timings["half"] = Took(half_ms);
    return row.Report(timings).reason;
  };
  const auto reason = [&](const Cost& comp, double half_ms, double bus_GBps) {
    return reason_on(PosingDevice::H200(), comp, half_ms, CarryingBytes(bus_GBps * 1e6 * 3));
  };
  const auto of_comm = [&](const Cost& comm) {
    const std::string text = reason_on(PosingDevice::H200(), {}, 8, comm);
    return text.substr(text.find(" and "));
  };
  EXPECT_EQ(of_comm({.copied_bytes = 1}), " and the communication by the link");
  EXPECT_EQ(of_comm({}), " and the communication by an unknown limit");
  EXPECT_EQ(reason_on(PosingDevice::WithoutRates(), {.moved_bytes = 1e9}, 8, CarryingBytes(1e9)),
            "alone, the computation is bound by an unknown limit and the communication by an "
            "unknown limit");
  EXPECT_EQ(reason({}, 6.4, 225), reason({}, 8, 300)) << "at the limits";
  EXPECT_EQ(reason({.moved_bytes = 0.6 * 4800 / 1e-6 * 4}, 8, 300),
            reason({.moved_bytes = 1e12}, 8, 300));
  EXPECT_EQ(reason({.cached_bytes = 0.6 * 4800 / 1e-6 * 4}, 8, 300),
            reason({.cached_bytes = 1e12}, 8, 300));
  EXPECT_EQ(reason({.moved_bytes = 11e9, .cached_bytes = 11e9}, 6, 200), reason({}, 5, 100));
  const Cost moving{.moved_bytes = 4000e6 * 4};
  const Cost caching{.cached_bytes = 9000e6 * 4};
  EXPECT_EQ(reason({}, 8, 300),
            "alone, the computation is bound by arithmetic and the communication by the link");
  EXPECT_EQ(reason({}, 5, 100),
            "alone, the computation is bound by latency and the communication by latency");
  EXPECT_EQ(
      reason(moving, 8, 300),
      "alone, the computation is bound by memory bandwidth and the communication by the link");
  EXPECT_EQ(reason(caching, 8, 300),
            "alone, the computation is bound by bandwidth within the chip and the communication by "
            "the link");
}

// A stand-in whose one cause is known.
TEST(AttributionControl, FailsUnlessItsCauseIsFound) {
  AttributionReport control("StandIn+CublasGemm");
  const Reported found = control.Report(Slowed(6.1, 6.1, 6.1));
  EXPECT_EQ(found.state, RowState::kControl);
  EXPECT_EQ(found.reason, "by_sm of 1 found: 1.05");
  EXPECT_EQ(control.Report(Slowed(5.81, 5.81, 5.81)).state, RowState::kControl);
  EXPECT_EQ(control.Report(Slowed(5.7, 6, 6)).state, RowState::kInvalid);
  EXPECT_EQ(control.Report(Slowed(6.3, 6, 6)).state, RowState::kInvalid);
  const Reported missed = control.Report(Slowed(5, 6, 6));
  EXPECT_EQ(missed.state, RowState::kInvalid);
  EXPECT_EQ(missed.reason, "by_sm of 1 found: 0.50");
}

// Traffic to memory crosses the cache, and SMs copy it: all shares together are the cause.
TEST(AttributionControl, AddsSmsAndTheCacheToMemory) {
  AttributionReport memory("StandIn+StreamKernel");
  EXPECT_EQ(memory.Report(Slowed(4, 4, 5.9)).reason, "by_sm + by_l2 + by_hbm of 1 found: 0.95");
  EXPECT_EQ(memory.Report(Slowed(4, 4.4, 6)).reason, "by_sm + by_l2 + by_hbm of 1 found: 1.00");
  EXPECT_EQ(memory.Report(Slowed(4.4, 5, 6)).reason, "by_sm + by_l2 + by_hbm of 1 found: 1.00");
  EXPECT_EQ(memory.Report(Slowed(4, 4.4, 6)).state, RowState::kControl);
  EXPECT_EQ(memory.Report(Slowed(4, 4.4, 5)).state, RowState::kInvalid);
  EXPECT_EQ(memory.Report(Slowed(4, 6, 8)).state, RowState::kInvalid);
}

}  // namespace
}  // namespace overlapbench
