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
#include <cmath>

#include "benchmarks/pair.h"
#include "comm/stand_in.h"
#include "kernels/clock_probe.h"
#include "workload/own_time.h"

namespace overlapbench {
namespace {

constexpr const char* kFamily = "Lab/Attribution";
constexpr double kProbe_us = 300;
constexpr std::size_t kMemorySpan = 1UL << 30U;
constexpr int kTrafficSms = 16;  // of the stand-ins for copies by engine

// The row's communication, which the stand-ins imitate, and its properties that they take over.
struct Model {
  Workload* comm = nullptr;
  std::optional<StandInOptions> found;
};
using SharedModel = std::shared_ptr<Model>;

// The workload's time on the slowest rank.
double Time_us(const Machine& machine, Workload& workload) {
  constexpr int kRuns = 7;
  constexpr const char* kWhat = "the communication alone";
  double time_us = 0;
  machine.ranks.Together(std::string("timing ") + kWhat, [&] {
    const auto stream = machine.device.CreateStream();
    workload.Reset(*stream);
    time_us = ShortestTime_us(machine, *stream, kRuns, kWhat, [&] { workload.Enqueue(*stream); });
  });
  machine.ranks.Max({&time_us, 1}, std::string("timing ") + kWhat);
  return time_us;
}

const StandInOptions& Found(const Machine& machine, Model& model) {
  if (model.found) return *model.found;
  StandInOptions options;
  options.duration_us = Time_us(machine, *model.comm);
  // This also determines how many SMs it takes. The session will report any fault it finds.
  model.comm->IneffectiveKnob();
  options.sms = static_cast<int>(model.comm->sms().value_or(0));
  if (options.sms == 0) options.sms = kTrafficSms;
  const Cost cost = model.comm->cost();
  options.moved_bytes = static_cast<std::size_t>(cost.memory_bytes + cost.moved_bytes);
  return model.found.emplace(options);
}

// `span_bytes`: the size of the memory within which it moves the bytes; 0: it moves none.
Work StandInWork(const Catalog& catalog, const SharedModel& model, const std::string& name,
                 std::size_t span_bytes) {
  auto plan = std::make_shared<WorkPlan>();
  plan->name = name;
  plan->work_class = WorkClass::kComm;
  const std::size_t most_bytes = span_bytes == 0 ? 0 : kMemorySpan;
  plan->footprint = {.device_bytes = most_bytes};
  plan->make = [machine = catalog.machine, model, span_bytes, most_bytes] {
    return MakeStandIn(machine, most_bytes, [machine, model, span_bytes] {
      StandInOptions options = Found(machine, *model);
      options.span_bytes = span_bytes;
      if (span_bytes == 0) options.moved_bytes = 0;
      return options;
    });
  };
  return plan;
}

// The communication's work. Making it also registers the workload in the model.
Work Modelled(const Work& comm, const SharedModel& model) {
  auto plan = std::make_shared<WorkPlan>(*comm);
  plan->make = [make = comm->make, model] {
    auto workload = make();
    model->comm = workload.get();
    return workload;
  };
  return plan;
}

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

int HalfOfSms(const DeviceInfo& info) {
  return info.multiprocessors / 2 / info.partitions.step * info.partitions.step;
}

// `standing_in`: the settings of the stand-ins' runs.
std::vector<Run> Runs(const Catalog& catalog, const Work& plain_comm, const Work& comp,
                      const Settings& settings, const Settings& standing_in) {
  const auto model = std::make_shared<Model>();
  const Work comm = Modelled(plain_comm, model);
  std::vector<Run> runs = {AloneRun(comp, settings), AloneRun(comm, settings)};
  const std::size_t cache_bytes = catalog.device.info().cache_bytes;
  for (const auto& [name, span_bytes] : {std::pair<const char*, std::size_t>{"sm", 0},
                                         {"sm_l2", cache_bytes / 8},
                                         {"sm_hbm", kMemorySpan}})
    runs.push_back(
        BesideRun(name, StandInWork(catalog, model, name, span_bytes), comp, standing_in));
  runs.push_back(Probed(catalog, AloneRun(comp, settings), "clock_alone"));
  runs.push_back(Probed(catalog, BesideRun("", comm, comp, settings), "clock_beside"));
  Run half =
      AloneRun(comp, settings.With("comp_sms", std::to_string(HalfOfSms(catalog.device.info()))));
  half.name = "half";
  runs.push_back(half);
  runs.push_back(BesideRun("overlap", comm, comp, settings));
  return runs;
}

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
  return measurement.Total_ms("half").median() >= kLonger * alone_ms ? "arithmetic" : "latency";
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

void ReportShares(bool by_engine, const Measurement& measurement, Counters& counters) {
  const Series C = measurement.Total_ms("comp");
  const Series longer = LongerOf(C, measurement.Total_ms("comm"));
  const Series excess = measurement.Total_ms("overlap") - longer;
  const TimeSpan comp = measurement.Step("overlap", "comp");
  const TimeSpan comm = measurement.Step("overlap", "comm");
  const bool comp_is_last = comp.end_ms >= comm.end_ms;
  const auto beside = [&](const std::string& stand_in) {
    return LongerOf(
        comp_is_last ? measurement.StepEnd_ms(stand_in, "comp") : measurement.Total_ms(stand_in),
        longer);
  };
  const Series sm = beside("sm");
  const Series sm_l2 = beside("sm_l2");
  const Series sm_hbm = beside("sm_hbm");
  const double clocks = measurement.Observed("clock_alone", "clock_alone") /
                        measurement.Observed("clock_beside", "clock_beside");
  const Series sm_ms = (by_engine ? 0.0 : 1.0) * (sm - longer);
  const Series lead_ms =
      (by_engine ? 1.0 : 0.0) * measurement.StepBegin_ms("overlap", comp_is_last ? "comp" : "comm");
  const Series l2_ms = sm_l2 - sm;
  const Series hbm_ms = sm_hbm - sm_l2;
  const Series clock_ms = (clocks - 1) * C;
  Report(counters, "by_sm", sm_ms / excess);
  Report(counters, "by_l2", l2_ms / excess);
  Report(counters, "by_hbm", hbm_ms / excess);
  Report(counters, "by_clock", clock_ms / excess);
  Report(counters, "by_lead", lead_ms / excess);
  Report(counters, "residual", (excess - sm_ms - l2_ms - hbm_ms - clock_ms - lead_ms) / excess);
}

Remark ReportAttribution(bool by_engine, const Measurement& measurement, Counters& counters) {
  constexpr double kWorthExplaining = 1.1;  // below this, the shares are noise
  Remark remark = ReportPair(measurement, counters);
  if (remark.state == RowState::kInvalid) return remark;
  if (counters["slowdown"] >= kWorthExplaining) ReportShares(by_engine, measurement, counters);
  const std::string bounds =
      fmt::format("alone, the computation is bound by {} and the communication by {}",
                  BoundOfComp(measurement), BoundOfComm(measurement));
  return {remark.state, remark.reason.empty() ? bounds : remark.reason + "; " + bounds};
}

// A row whose only cause is known: all of `shares` together are 1.
Remark ReportKnown(const std::vector<std::string>& shares, const Measurement& measurement,
                   Counters& counters) {
  constexpr double kTolerance = 0.1;
  Remark remark = ReportAttribution(false, measurement, counters);
  if (remark.state == RowState::kInvalid || remark.state == RowState::kNoisy) return remark;
  double sum = 0;
  for (const std::string& name : shares) {
    const auto share = counters.find(name);
    if (share == counters.end())
      return Remark::Invalid("the known cause slowed nothing down: there is nothing to attribute");
    sum += share->second.value;
  }
  const std::string found = fmt::format("{} of 1 found: {:.2f}", fmt::join(shares, " + "), sum);
  return std::abs(sum - 1) <= kTolerance ? Remark::Control(found) : Remark::Invalid(found);
}

Scenario Attribution(const Catalog& catalog, const PairSide& comm, const PairSide& comp) {
  Values values = comp.values;
  values.insert(comm.values.begin(), comm.values.end());
  values.emplace("first", "comp,comm");
  Scenario scenario = PairScenario(catalog, kFamily, comm.workload, comp.workload, values);
  const WorkloadSpec& comm_spec = catalog.workloads.Find(comm.workload);
  const WorkloadSpec& comp_spec = catalog.workloads.Find(comp.workload);
  const DeviceInfo& info = catalog.device.info();
  scenario.excluded = [&info,
                       of_pair = scenario.excluded](const Settings& settings) -> std::string {
    if (settings.Integer("comp_sms") > 0) return "comp_sms must be 0: attribution sets it itself";
    if (const std::string fault = PartitionFault(info, HalfOfSms(info)); !fault.empty())
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
    return ReportAttribution(comm_spec.IsByCopyEngine(measurement.settings()), measurement,
                             counters);
  };
  return scenario;
}

// Each stand-in takes what its computation needs most.
std::vector<Scenario> KnownCauses(const Catalog& catalog) {
  struct Known {
    std::vector<std::string> shares;
    Values values;  // of both sides
    std::string computation;
  };
  const std::vector<Known> all = {
      {{"by_sm"}, {{"stand_in_sms", "32"}, {"stand_in_us", "500"}}, "CublasGemm"},
      // Started first, since a computation that fills the GPU would make it wait for SMs.
      {{"by_sm", "by_l2", "by_hbm"},
       {{"stand_in_bytes", "768M"}, {"first", "comm"}},
       "StreamKernel"},
  };
  const std::vector<PairSide> computations = MatrixComputations(catalog);
  std::vector<Scenario> scenarios;
  for (const auto& [shares, values, computation] : all) {
    const auto comp = std::ranges::find(computations, computation, &PairSide::workload);
    Scenario scenario = Attribution(catalog, {"StandIn", values}, *comp);
    scenario.report = [shares](const Measurement& measurement, Counters& counters) {
      return ReportKnown(shares, measurement, counters);
    };
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
  const auto share = [](const char* name, const char* title, const char* definition) {
    return Counter{name, "", kNeither, Range::kSigned, title, definition};
  };
  return {.name = kFamily,
          .about = "What a slowdown is made of, by stand-ins for the communication.",
          .lead = {"slowdown", "by_sm", "by_hbm", "by_l2", "by_clock", "by_lead", "residual"},
          .counters = {share("by_sm", "by SMs",
                             "share of T - max(C, M) that holding as many SMs takes"),
                       share("by_hbm", "by memory",
                             "share that as much memory traffic takes beyond the "
                             "cache's"),
                       share("by_l2", "by L2",
                             "share that as much traffic in the last-level cache takes"),
                       share("by_clock", "by clocks", "share that lower SM clocks take, on rank 0"),
                       share("by_lead", "by the lead",
                             "share that the late start of the side that ends last takes, beside "
                             "copy engines; elsewhere part of by_sm"),
                       share("residual", "residual", "share that none of these explains")},
          .scenarios = &Scenarios};
}

}  // namespace families
}  // namespace overlapbench
