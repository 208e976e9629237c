// Overlap: a computation beside a communication.
//
// The default rows answer three questions:
//
// 1. The central experiment: how does a GEMM whose grid sets the number of SMs it occupies run
//    beside an all-to-all of a 4096×4096 float matrix? In both forms of work.
// 2. Which pairs disturb each other? {naive GEMM, cuBLASLt GEMM, bandwidth-bound kernel} beside
//    {all-to-all, all-reduce, all-gather, reduce-scatter, host-to-device copy}, at a few sizes.
// 3. Does leaving SMs free help? A cuBLASLt GEMM with and without an SM target beside a 1 GiB
//    all-reduce.
//
// And the ground truth: two delays of known length, on two streams and on one.
//
// Three runs are sampled in turn: the computation alone (C), the communication alone (M), and both
// on two lanes (T). Rates are the communication's, while overlapped. fixtures/coverage.h has
// the arithmetic.
//
// Every pair has knobs that are off by default: how many SMs the computation may use, the sides'
// priorities, and the process's hardware queues. A side alone has the lane that it has beside the
// other one. So with comp_sms a slowdown is interference and nothing else; what the partition
// itself costs shows in comp_ms against the row without it. cuBLASLt is told of the partition, so
// that it chooses a grid for it. All SMs, and equal priorities, are negative controls: their rows
// must be those without the axis.
#include "benchmarks/overlap.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "device/suggestion.h"
#include "fixtures/coverage.h"

namespace overlapbench {
namespace {

struct Defaults {
  Values experiment_tile;
  Values experiment_full;
  std::string pair_bytes;
  std::map<std::string, Values> pair_computations;

  // Of a pair with this computation.
  [[nodiscard]] Values OfPair(const std::string& computation) const {
    const auto found = pair_computations.find(computation);
    Values values = found == pair_computations.end() ? Values() : found->second;
    values["bytes"] = pair_bytes;
    return values;
  }
};

Defaults DefaultsOf(bool host) {
  if (host) {
    return {{{"bytes", "4M"}, {"n", "256"}, {"work", "tile"}},
            {{"bytes", "4M"}, {"n", "128"}, {"work", "full"}},
            "1M,8M",
            {{"Gemm", {{"n", "256"}, {"grid", "8x8"}, {"work", "tile"}}},
             {"CublasGemm", {}},
             {"StreamKernel", {{"array_bytes", "8M"}, {"blocks", "4"}}}}};
  }
  return {{{"bytes", "64M"}, {"n", "4096"}, {"work", "tile"}},
          {{"bytes", "64M"}, {"n", "1024"}, {"work", "full"}},
          "1M,64M,1G",
          {{"Gemm", {{"n", "4096"}, {"grid", "64x64"}, {"work", "tile"}}},
           {"CublasGemm", {{"n", "8192"}, {"precision", "bf16"}}},
           {"StreamKernel", {{"array_bytes", "256M"}, {"blocks", "132"}}}}};
}

constexpr std::array kPairCommunications = {"AllToAll", "AllReduce", "AllGather", "ReduceScatter",
                                            "HostToDevice"};

// All SMs, and all but the 24 that NCCL's collectives take by default.
std::string SmTargets(const Device& device) {
  constexpr int kLeftFree = 24;
  const int target = device.info().multiprocessors - kLeftFree;
  return target > 0 ? fmt::format("0,{}", target) : "0";
}

// More than any device has; Excluded says what this one has.
constexpr long kMostSms = 1024;
constexpr long kMostPriorities = 32;

std::vector<Axis> PairAxes(bool host) {
  // On the host the scheduler decides, and there is nothing to lead by.
  const char* const first = host ? "none" : "comp";
  return {ChoiceAxis("first", "which side starts some microseconds before the other",
                     {"comp", "comm", "none"}, first, first),
          ChoiceAxis("streams", "2: one a side; 1: both on one, a negative control", {"2", "1"},
                     "2", "2"),
          IntegerAxis("comp_sms", "SMs that the computation may use; 0: all, without a partition",
                      0, kMostSms, "0", "0"),
          IntegerAxis("comp_priority", "of the computation's stream; 0 is the lowest", 0,
                      kMostPriorities, "0", "0"),
          IntegerAxis("comm_priority", "of the communication's stream; 0 is the lowest", 0,
                      kMostPriorities, "0", "0"),
          IntegerAxis("connections",
                      "CUDA_DEVICE_MAX_CONNECTIONS of the process; 0: as the environment has it", 0,
                      32, "0", "0")};
}

std::string ExcludedPriority(const Device& device, const Settings& settings,
                             const std::string& axis) {
  const int highest = device.priorities() - 1;
  if (settings.Integer(axis) <= highest) return "";
  if (highest == 0) return axis + " must be 0: streams have no priorities here";
  return fmt::format("{} must be from 0 to {}", axis, highest);
}

// Its size, and whether anything heeds it.
std::string ExcludedPartition(const Device& device, const WorkloadSpec& comp,
                              const Settings& settings) {
  const auto sms = static_cast<int>(settings.Integer("comp_sms"));
  if (sms == 0) return "";
  const std::string fault = PartitionFault(device.info(), sms);
  if (!fault.empty()) return "comp_sms " + fault;
  if (comp.work_class != WorkClass::kCompute)
    return fmt::format("comp_sms is for computations, and {} is none", comp.name);
  if (settings.Has("sm_target") && settings.Integer("sm_target") > 0)
    return "comp_sms sets the SM target itself: leave out sm_target";
  if (settings.Has("call") && settings.Text("call") == "graph")
    return "comp_sms needs call:loop: a recorded graph need not heed its stream's partition";
  return "";
}

// The driver reads it when it makes the context, so a process has one value.
std::string ExcludedConnections(bool host, const Settings& settings) {
  constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
  const long asked = settings.Integer("connections");
  if (asked == 0) return "";
  if (host) return "connections exist on the cuda backend only";
  const char* own = std::getenv(kVariable);
  if (own != nullptr && own == std::to_string(asked)) return "";
  return fmt::format("connections:{} needs a process of its own: {}={} ./bench ...", asked,
                     kVariable, asked);
}

std::string ExcludedFromPairs(const Device& device, const WorkloadSpec& comp,
                              const Settings& settings) {
  for (const char* axis : {"comp_sms", "comp_priority", "comm_priority"}) {
    if (settings.Integer(axis) > 0 && settings.Text("streams") == "1")
      return fmt::format("{} needs streams:2: with streams:1 the sides share one", axis);
  }
  for (const std::string& reason :
       {ExcludedPriority(device, settings, "comp_priority"),
        ExcludedPriority(device, settings, "comm_priority"),
        ExcludedPartition(device, comp, settings),
        ExcludedConnections(device.backend() == Backend::kHost, settings)})
    if (!reason.empty()) return reason;
  return "";
}

// A partition's library is told how many SMs it has. All of them are none to tell of.
Settings ForPartition(const Settings& settings, int all) {
  const long sms = settings.Integer("comp_sms");
  if (sms == 0 || sms == all || !settings.Has("sm_target")) return settings;
  return settings.With("sm_target", std::to_string(sms));
}

// Of a side, "comp" or "comm", as its axes have it.
Schedule::Lane LaneOf(const Work& work, const Settings& settings) {
  const std::string sms = work->name + "_sms";
  return {.name = ToString(work->work_class),
          .priority = static_cast<int>(settings.Integer(work->name + "_priority")),
          .sms = settings.Has(sms) ? static_cast<int>(settings.Integer(sms)) : 0};
}

Run AloneOn(const Schedule::Lane& lane, const Work& work) {
  Run run{.name = work->name};
  run.schedule.Add(run.schedule.AddLane(lane), work);
  return run;
}

// In the overlapped run the communication is enqueued first, as frameworks do: its few blocks are
// then placed before a large grid fills the SMs.
std::vector<Run> PairRuns(const WorkloadSpec& comm_spec, const WorkloadSpec& comp_spec,
                          const Settings& settings, int all_sms) {
  const Work comm = MakeWork(comm_spec, settings, "comm");
  const Work comp = MakeWork(comp_spec, ForPartition(settings, all_sms), "comp");
  const Schedule::Lane lane_of_comm = LaneOf(comm, settings);
  const Schedule::Lane lane_of_comp = LaneOf(comp, settings);
  Run both{.name = "overlap"};
  const std::size_t comm_lane = both.schedule.AddLane(lane_of_comm);
  const std::size_t comp_lane =
      settings.Text("streams") == "1" ? comm_lane : both.schedule.AddLane(lane_of_comp);
  both.schedule.Add(comm_lane, comm);
  both.schedule.Add(comp_lane, comp);
  if (settings.Text("first") != "none")
    both.schedule.leader = settings.Text("first") == "comm" ? comm_lane : comp_lane;
  std::vector<Run> runs = {AloneOn(lane_of_comp, comp), AloneOn(lane_of_comm, comm), both};
  for (Run& run : runs) run.timed = Timed::kSteps;
  return runs;
}

// With one stream the row is a negative control: all that counts is that nothing overlapped.
Remark Judge(const Sides& sides, double coverage, const Series& slowdown, bool is_control) {
  const double free_together = FreeTogether(sides);
  if (is_control) {
    return free_together < kLeastCoverage
               ? Remark::Control("one stream, and nothing overlapped")
               : Remark::Invalid("the negative control overlapped on one stream");
  }
  if (free_together < kLeastCoverage) {
    return Remark::Invalid(
        fmt::format("not overlapped: the streams were free together for {:.2g} of the shorter side",
                    free_together));
  }
  const auto interval = slowdown.interval();
  if (interval.has_value() && interval->high < 1 - kSoloNoise) {
    return Remark::Noisy(
        fmt::format("both together took {:.3g} of the longer side alone, which nothing can",
                    slowdown.median()));
  }
  if (coverage >= kLeastCoverage) return {};
  const char* const waited =
      sides.comp.end_ms < sides.comm.end_ms ? "communication" : "computation";
  return Remark::Serialized(
      fmt::format("{} waited for the other side (coverage {:.2g})", waited, coverage));
}

Remark ReportPair(const Measurement& measurement, benchmark::UserCounters& counters) {
  const Series C = measurement.Total_ms("comp");
  const Series M = measurement.Total_ms("comm");
  const Series T = measurement.Total_ms("overlap");
  const Series comm_ms = measurement.StepOwn_ms("overlap", "comm");
  const Series hidden_ms = C + M - T;
  Report(counters, "comp_ms", C);
  Report(counters, "comm_ms", M);
  Report(counters, "overlap_ms", T);
  const Series slowdown = T / LongerOf(C, M);
  Report(counters, "slowdown", slowdown);
  Report(counters, "speedup", (C + M) / T);
  Report(counters, "efficiency", hidden_ms / ShorterOf(C, M));
  Report(counters, "hidden_comm", hidden_ms / M);
  Report(counters, "comp_slowdown",
         measurement.StepOwn_ms("overlap", "comp") / measurement.StepOwn_ms("comp", "comp"));
  Report(counters, "comm_slowdown", comm_ms / measurement.StepOwn_ms("comm", "comm"));
  Report(counters, "exposed_comm_ms", T - C);
  ReportRates(measurement.CostOf("comm"), comm_ms, counters);
  const Sides sides{.comp_alone = measurement.Step("comp", "comp"),
                    .comm_alone = measurement.Step("comm", "comm"),
                    .comp = measurement.Step("overlap", "comp"),
                    .comm = measurement.Step("overlap", "comm")};
  const double coverage = Coverage(sides);
  counters["coverage"] = coverage;
  if (measurement.settings().Integer("comp_sms") > 0)
    counters["comp_sms_used"] = measurement.SmsUsed("overlap", "comp");
  return Judge(sides, coverage, slowdown, measurement.settings().Text("streams") == "1");
}

Scenario Pair(const Catalog& catalog, const std::string& communication,
              const std::string& computation, const Values& values) {
  const WorkloadSpec& comm = catalog.workloads.Find(communication);
  const WorkloadSpec& comp = catalog.workloads.Find(computation);
  Scenario scenario =
      ScenarioOf("Overlap/" + communication + "+" + computation, {&comm, &comp}, values);
  AppendAxes(scenario.axes, PairAxes(catalog.on_host()));
  SetValues(scenario.axes, values);
  const Device& device = catalog.device;
  scenario.excluded = [&comp, &device, of_workloads = scenario.excluded](const Settings& settings) {
    const std::string reason = of_workloads(settings);
    return reason.empty() ? ExcludedFromPairs(device, comp, settings) : reason;
  };
  scenario.runs = [&comm, &comp, &device](const Settings& settings) {
    return PairRuns(comm, comp, settings, device.info().multiprocessors);
  };
  scenario.report = ReportPair;
  // Each lane is a thread of its own on the host, and MPI takes collectives in one order only.
  if (catalog.on_host() && comm.collective && comp.collective && scenario.missing.empty())
    scenario.missing = "two collectives would race for MPI's communicator on the host backend";
  return scenario;
}

const WorkloadSpec& WorkloadOfPair(const Registry& workloads, const std::string& name) {
  constexpr std::string_view kFused = "Fused";
  std::vector<std::string> known;
  for (const WorkloadSpec& spec : workloads.specs()) {
    if (spec.name == name || spec.name == name + std::string(kFused)) return spec;
    known.push_back(spec.name);
    if (spec.name.ends_with(kFused))
      known.push_back(spec.name.substr(0, spec.name.size() - kFused.size()));
  }
  const std::string meant = DidYouMean(name, known);
  throw UsageError(fmt::format("--pair: there is no workload '{}'{} --list_axes lists them", name,
                               meant.empty() ? ";" : meant));
}

std::vector<Counter> PairCounters() {
  using enum Better;
  return {
      {"comp_ms", "ms", kLower, Range::kPositive, "C", "C: the computation alone"},
      {"comm_ms", "ms", kLower, Range::kPositive, "M", "M: the communication alone"},
      {"overlap_ms", "ms", kLower, Range::kPositive, "T", "T: both on two streams"},
      {"slowdown", "", kLower, Range::kPositive, "slowdown", "T / max(C, M); 1 is perfect overlap"},
      {"efficiency", "", kHigher, Range::kSigned, "efficiency",
       "(C + M - T) / min(C, M), not clamped; 1 is perfect, 0 one after the other", true},
      {"hidden_comm", "", kHigher, Range::kSigned, "hidden comm", "(C + M - T) / M"},
      {"comp_slowdown", "", kLower, Range::kNotNegative, "comp slowdown",
       "the computation's own time while overlapped / alone"},
      {"comm_slowdown", "", kLower, Range::kNotNegative, "comm slowdown",
       "the communication's own time while overlapped / alone"},
      {"exposed_comm_ms", "ms", kLower, Range::kSigned, "exposed comm", "T - C"},
      {"coverage", "", kNeither, Range::kNotNegative, "coverage",
       "share of the first-ended side's run during which the other is known to have run too"},
      {"comp_sms_used", "count", kNeither, Range::kPositive, "SMs used",
       "with comp_sms: the SMs on which the computation's stream was seen to run"},
  };
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const Defaults defaults = DefaultsOf(catalog.on_host());
  std::vector<Scenario> scenarios;
  const auto add = [&](const char* comm, const char* comp, const Values& values) {
    scenarios.push_back(Pair(catalog, comm, comp, values));
  };
  add("AllToAll", "Gemm", defaults.experiment_tile);
  add("AllToAll", "Gemm", defaults.experiment_full);
  if (!catalog.on_host()) {  // where nothing decides which side starts first, see the axis
    Values experiment = defaults.experiment_tile;
    experiment["first"] = "comm";
    add("AllToAll", "Gemm", experiment);
    for (const char* communication : {"AllToAll", "AllReduce"})
      add(communication, "CublasGemm", {{"bytes", "1G"}, {"first", "comm"}});
  }
  for (const char* communication : kPairCommunications) {
    for (const auto& [computation, values] : defaults.pair_computations)
      add(communication, computation.c_str(), defaults.OfPair(computation));
  }
  add("AllReduce", "CublasGemm",
      {{"bytes", "1G"}, {"repeat", "4"}, {"sm_target", SmTargets(catalog.device)}});
  add("SecondDelay", "Delay", {{"streams", "2,1"}});
  return scenarios;
}

}  // namespace

Scenario OverlapPair(const Catalog& catalog, const std::string& names) {
  const auto plus = names.find('+');
  const WorkloadSpec* comm = &WorkloadOfPair(catalog.workloads, names.substr(0, plus));
  const WorkloadSpec* comp = &WorkloadOfPair(catalog.workloads, names.substr(plus + 1));
  const auto place = [](const WorkloadSpec& spec) {
    return spec.work_class == WorkClass::kComm ? 0 : spec.work_class == WorkClass::kMemory ? 1 : 2;
  };
  if (place(*comp) < place(*comm)) std::swap(comm, comp);
  return Pair(catalog, comm->name, comp->name, DefaultsOf(catalog.on_host()).OfPair(comp->name));
}

namespace families {

Family Overlap() {
  return {.name = "Overlap",
          .about = "A computation beside a communication or copy: C and M alone, T both together.",
          .lead = {"slowdown", "efficiency", "comp_ms", "comm_ms", "overlap_ms"},
          .counters = PairCounters(),
          .scenarios = &Scenarios};
}

}  // namespace families
}  // namespace overlapbench
