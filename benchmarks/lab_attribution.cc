// Lab/Attribution: which shared resource causes a slowdown?
//
// Pairs of Lab/Matrix again, with stand-ins for the communication (comm/stand_in.h). Each takes
// one more resource than the one before:
//
//   sm       as many SMs, as long as the communication takes alone, and nothing else
//   sm_l2    the same, and as many bytes copied within an eighth of the last-level cache, where
//            they stay
//   sm_hbm   the same, and the bytes go through memory, which also displaces what the computation
//            has in the cache
//
// A cause's share of T - max(C, M) is the increase in time from one stand-in to the next. If the
// computation ends last beside the communication itself, that time is the computation's end, since
// a stand-in's own end then says nothing; otherwise it is the end of both. The clocks' share is the
// time that the computation would lose at the lower of two clock rates. A probe measures them
// beside both sides, which start together after it, and beside the computation alone. The residual
// is the rest: the link, and any difference between the stand-ins and the communication.
//
// Copy engines take no SMs, but nothing else can generate their traffic without any. Their
// stand-ins therefore take 16 SMs and start first, and only what the traffic adds to the 16 SMs is
// counted. The side that ends last may have started late, to let the other lead. For copy engines
// this delay is a separate share (by_lead); elsewhere, stand-ins start equally late, and by_sm
// includes it.
//
// In some rows, the communication is itself a stand-in, so the cause is known. These rows are
// controls, and invalid unless the cause's share is found to be 1 within 0.1. What goes to memory
// crosses the cache as well, and is copied by SMs, so all three share that cause. No control has
// the cache alone as its cause: SMs that copy within it slow even L2Kernel down too little. No
// control has lower clocks as its only cause: lowering them takes power, and so SMs too.
//
// A row also says what bounds each side alone. A computation is bound by memory if it moves 60 % of
// what the memory could, by the cache if it reads as much from there; by arithmetic, or other work
// of the SMs, if it takes 1.6 times as long on half of them; otherwise by latency. A communication
// is bound by a link if it is a copy or reaches half of the link's bandwidth.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "benchmarks/imitation.h"
#include "benchmarks/pair.h"
#include "kernels/clock_probe.h"

namespace overlapbench {
namespace {

constexpr const char* kFamily = "Lab/Attribution";
constexpr double kProbe_us = 300;

// The runs of a row beside those of a pair ("comp", "comm", "overlap"): the computation beside each
// stand-in, both sides with the clock's probe, and the computation on half of the SMs.
constexpr const char* kSm = "sm";
constexpr const char* kSmL2 = "sm_l2";
constexpr const char* kSmHbm = "sm_hbm";
constexpr const char* kClockAlone = "clock_alone";
constexpr const char* kClockBeside = "clock_beside";
constexpr const char* kHalf = "half";

// ---- Causes, and what each has a share in

// Shares of T - max(C, M), which add up to 1.
struct Shares {
  Series sm;
  Series hbm;
  Series l2;
  Series clock;
  Series lead;
  Series residual;
};
using Share = Series Shares::*;

struct ShareText {
  Share share;
  const char* counter;
  const char* title;
  const char* definition;
};
constexpr std::array<ShareText, 6> kShares = {
    {{&Shares::sm, "by_sm", "by SMs", "share of T - max(C, M) that holding as many SMs takes"},
     {&Shares::hbm, "by_hbm", "by memory",
      "share that as much memory traffic takes beyond the cache's"},
     {&Shares::l2, "by_l2", "by L2", "share that as much traffic in the last-level cache takes"},
     {&Shares::clock, "by_clock", "by clocks", "share that lower SM clocks take, on rank 0"},
     {&Shares::lead, "by_lead", "by the lead",
      "share that the late start of the side that ends last takes, beside copy engines; elsewhere "
      "part of by_sm"},
     {&Shares::residual, "residual", "residual", "share that none of these explains"}}};

// What `by_engine` changes: the stand-ins of copies by engine take SMs that the copies do not.
Shares SharesOf(bool by_engine, const Measurement& measurement) {
  const Series C = measurement.Total_ms("comp");
  const Series longer = LongerOf(C, measurement.Total_ms("comm"));
  const Series excess = measurement.Total_ms("overlap") - longer;
  const Series none = 0 * excess;
  const bool comp_is_last =
      measurement.Step("overlap", "comp").end_ms >= measurement.Step("overlap", "comm").end_ms;
  const auto beside = [&](const char* stand_in) {
    return LongerOf(
        comp_is_last ? measurement.StepEnd_ms(stand_in, "comp") : measurement.Total_ms(stand_in),
        longer);
  };
  const Series sm = beside(kSm);
  const Series sm_l2 = beside(kSmL2);
  const Series sm_hbm = beside(kSmHbm);
  const double clocks = measurement.Observed(kClockAlone, kClockAlone) /
                        measurement.Observed(kClockBeside, kClockBeside);
  const Series sm_ms = by_engine ? none : sm - longer;
  const Series lead_ms =
      by_engine ? measurement.StepBegin_ms("overlap", comp_is_last ? "comp" : "comm") : none;
  const Series l2_ms = sm_l2 - sm;
  const Series hbm_ms = sm_hbm - sm_l2;
  const Series clock_ms = (clocks - 1) * C;
  return {.sm = sm_ms / excess,
          .hbm = hbm_ms / excess,
          .l2 = l2_ms / excess,
          .clock = clock_ms / excess,
          .lead = lead_ms / excess,
          .residual = (excess - sm_ms - l2_ms - hbm_ms - clock_ms - lead_ms) / excess};
}

// ---- Runs

// The probe starts first, so that it has a place even beside a grid that fills every SM.
Run Probed(const Catalog& catalog, Run run, const std::string& name) {
  auto plan = std::make_shared<WorkPlan>();
  plan->name = name;
  plan->make = [machine = catalog.machine] { return MakeClockProbe(machine, kProbe_us); };
  run.name = name;
  run.schedule.leader = run.schedule.AddLane({.name = "probe"});
  run.schedule.Add(*run.schedule.leader, plan);
  return run;
}

// 0 if that is less than the smallest partition.
int HalfOfSms(const DeviceInfo& info) {
  return info.multiprocessors / 2 / info.partitions.step * info.partitions.step;
}

// `standing_in`: the settings of the stand-ins' runs.
std::vector<Run> Runs(const Catalog& catalog, const Work& plain_comm, const Work& comp,
                      const Settings& settings, const Settings& standing_in) {
  const Imitation imitation(catalog.machine, plain_comm);
  const Work& comm = imitation.comm();
  std::vector<Run> runs = {AloneRun(comp, settings), AloneRun(comm, settings)};
  const std::size_t cache_bytes = catalog.device.info().cache_bytes;
  for (const auto& [name, span_bytes] : {std::pair<const char*, std::size_t>{kSm, 0},
                                         {kSmL2, cache_bytes / 8},
                                         {kSmHbm, Imitation::kMostSpan}})
    runs.push_back(BesideRun(name, {imitation.StandIn(name, span_bytes), comp}, standing_in));
  runs.push_back(Probed(catalog, AloneRun(comp, settings), kClockAlone));
  runs.push_back(Probed(catalog, BesideRun("", {comm, comp}, settings), kClockBeside));
  Run half =
      AloneRun(comp, settings.With("comp_sms", std::to_string(HalfOfSms(catalog.device.info()))));
  half.name = kHalf;
  runs.push_back(half);
  runs.push_back(BesideRun("overlap", {comm, comp}, settings));
  return runs;
}

// ---- Reports

std::string BoundOfComp(const Measurement& measurement) {
  constexpr double kShare = 0.6;
  constexpr double kLonger = 1.6;
  constexpr double kGBpsFromBytesPerMs = 1e-6;
  const double alone_ms = measurement.Total_ms("comp").median();
  const Cost cost = measurement.CostOf("comp");
  if (measurement.device().info().memory_GBps == 0) return "an unknown limit";
  const double least_bytes =
      kShare * measurement.device().info().memory_GBps / kGBpsFromBytesPerMs * alone_ms;
  if (cost.moved_bytes >= least_bytes) return "memory bandwidth";
  // More than memory could deliver, so it comes from L2 or shared memory.
  if (cost.cached_bytes >= least_bytes) return "bandwidth within the chip";
  return measurement.Total_ms(kHalf).median() >= kLonger * alone_ms ? "arithmetic" : "latency";
}

std::string BoundOfComm(const Measurement& measurement) {
  constexpr double kShare = 0.5;  // the lowest seen for a large collective is 0.6
  const Cost cost = measurement.CostOf("comm");
  if (cost.copied_bytes > 0) return "the link";
  const double link_GBps = measurement.device().info().link_GBps;
  if (cost.wire_bytes == 0 || link_GBps == 0) return "an unknown limit";
  const double bus_GBps = BusGBps(cost, measurement.Total_ms("comm")).median();
  return bus_GBps >= kShare * link_GBps ? "the link" : "latency";
}

// What a row is attributed to. A row without a slowdown has no shares: they would be noise.
struct Attributed {
  Remark remark;
  std::optional<Shares> shares = {};
};

Attributed Attribute(bool by_engine, const Measurement& measurement, Counters& counters) {
  constexpr double kWorthExplaining = 1.1;
  Attributed found{ReportPair(measurement, counters)};
  if (found.remark.state == RowState::kInvalid) return found;
  if (counters["slowdown"] >= kWorthExplaining) {
    found.shares = SharesOf(by_engine, measurement);
    for (const ShareText& one : kShares) Report(counters, one.counter, *found.shares.*one.share);
  }
  std::string& reason = found.remark.reason;
  reason +=
      fmt::format("{}alone, the computation is bound by {} and the communication by {}",
                  reason.empty() ? "" : "; ", BoundOfComp(measurement), BoundOfComm(measurement));
  return found;
}

// A row whose only cause is known: all of `shares` together are 1.
Remark ReportKnown(const std::vector<Share>& shares, const Measurement& measurement,
                   Counters& counters) {
  constexpr double kTolerance = 0.1;
  const Attributed found = Attribute(false, measurement, counters);
  if (found.remark.state == RowState::kInvalid || found.remark.state == RowState::kNoisy)
    return found.remark;
  if (!found.shares)
    return Remark::Invalid("the known cause slowed nothing down: there is nothing to attribute");
  double sum = 0;
  std::vector<std::string> names;
  for (const Share share : shares) {
    sum += (*found.shares.*share).median();
    names.emplace_back(std::ranges::find(kShares, share, &ShareText::share)->counter);
  }
  const std::string text = fmt::format("{} of 1 found: {:.2f}", fmt::join(names, " + "), sum);
  return std::abs(sum - 1) <= kTolerance ? Remark::Control(text) : Remark::Invalid(text);
}

// ---- Rows

Scenario Attribution(const Catalog& catalog, const PairSide& comm, const PairSide& comp) {
  Values values = comp.values;
  values.insert(comm.values.begin(), comm.values.end());
  values.emplace("first", "comp,comm");
  Scenario scenario = PairScenario(catalog, kFamily, {comm.workload, comp.workload}, values);
  const WorkloadSpec& comm_spec = catalog.workloads.Find(comm.workload);
  const WorkloadSpec& comp_spec = catalog.workloads.Find(comp.workload);
  const DeviceInfo& info = catalog.device.info();
  scenario.excluded = [&info,
                       of_pair = scenario.excluded](const Settings& settings) -> std::string {
    if (settings.Integer("comp_sms") > 0) return "comp_sms must be 0: attribution sets it itself";
    const int half = HalfOfSms(info);
    if (half == 0)
      return fmt::format("half of the GPU's {} SMs is less than a partition", info.multiprocessors);
    if (const std::string fault = PartitionFault(info, half); !fault.empty())
      return "half of the SMs is not a valid partition: its size " + fault;
    return of_pair(settings);
  };
  scenario.runs = [&comm_spec, &comp_spec, catalog](const Settings& settings) {
    const bool by_engine = comm_spec.IsByCopyEngine(settings);
    return Runs(catalog, MakeWork(comm_spec, settings, "comm"),
                MakeWork(comp_spec, settings, "comp"), settings,
                by_engine ? settings.With("first", "comm") : settings);
  };
  scenario.report = [&comm_spec](const Measurement& measurement, Counters& counters) {
    const bool by_engine = comm_spec.IsByCopyEngine(measurement.settings());
    return Attribute(by_engine, measurement, counters).remark;
  };
  return scenario;
}

// Each stand-in takes what its computation needs most.
std::vector<Scenario> KnownCauses(const Catalog& catalog) {
  struct Known {
    std::vector<Share> shares;
    Values values;  // of both sides
    std::string computation;
  };
  const std::vector<Known> all = {
      {{&Shares::sm}, {{"stand_in_sms", "32"}, {"stand_in_us", "500"}}, "CublasGemm"},
      // Started first, since a computation that fills the GPU would make it wait for SMs.
      {{&Shares::sm, &Shares::l2, &Shares::hbm},
       {{"stand_in_bytes", "768M"}, {"first", "comm"}},
       "StreamKernel"},
  };
  const std::vector<PairSide> computations = MatrixComputations(catalog);
  std::vector<Scenario> scenarios;
  for (const auto& [shares, values, computation] : all) {
    const auto comp = std::ranges::find(computations, computation, &PairSide::workload);
    Scenario scenario = Attribution(catalog, {"StandIn", values}, *comp);
    scenario.report = std::bind_front(ReportKnown, shares);
    scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  if (catalog.on_host()) {
    Scenario scenario{.name = std::string(kFamily) + "/AllGather+CublasGemm"};
    scenario.missing = "the host backend has no SMs to hold";
    return {scenario};
  }
  std::vector<PairSide> comms = MatrixCommunications(catalog);
  comms.front().values["transport"] = "nccl,copy,sm_load";
  std::erase_if(comms, [](const PairSide& comm) {
    return comm.workload == "AllGather" && !comm.values.contains("place");
  });
  std::vector<Scenario> scenarios = KnownCauses(catalog);
  for (const PairSide& comm : comms) {
    for (const PairSide& comp : MatrixComputations(catalog))
      scenarios.push_back(Attribution(catalog, comm, comp));
  }
  return scenarios;
}

}  // namespace

namespace families {

Family LabAttribution() {
  using enum Better;
  std::vector<Counter> counters;
  for (const auto& [share, counter, title, definition] : kShares)
    counters.push_back({counter, "", kNeither, Range::kSigned, title, definition});
  return {.name = kFamily,
          .about = "What a slowdown is made of, by stand-ins for the communication.",
          .lead = {"slowdown", "by_sm", "by_hbm", "by_l2", "by_clock", "by_lead", "residual"},
          .counters = counters,
          .scenarios = &Scenarios};
}

}  // namespace families
}  // namespace overlapbench
