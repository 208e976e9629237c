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
#include "benchmarks/overlap.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

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

std::vector<Axis> PairAxes(bool host) {
  // On the host the scheduler decides, and there is nothing to lead by.
  const char* const first = host ? "none" : "comp";
  return {ChoiceAxis("first", "which side starts some microseconds before the other",
                     {"comp", "comm", "none"}, first, first),
          ChoiceAxis("streams", "2: one a side; 1: both on one, a negative control", {"2", "1"},
                     "2", "2")};
}

// In the overlapped run the communication is enqueued first, as frameworks do: its few blocks are
// then placed before a large grid fills the SMs.
std::vector<Run> PairRuns(const WorkloadSpec& comm_spec, const WorkloadSpec& comp_spec,
                          const Settings& settings) {
  const Work comm = MakeWork(comm_spec, settings, "comm");
  const Work comp = MakeWork(comp_spec, settings, "comp");
  Run both{.name = "overlap"};
  const std::size_t comm_lane = both.schedule.AddLane({ToString(comm->work_class)});
  const std::size_t comp_lane = settings.Text("streams") == "1"
                                    ? comm_lane
                                    : both.schedule.AddLane({ToString(comp->work_class)});
  both.schedule.Add(comm_lane, comm);
  both.schedule.Add(comp_lane, comp);
  if (settings.Text("first") != "none")
    both.schedule.leader = settings.Text("first") == "comm" ? comm_lane : comp_lane;
  std::vector<Run> runs = {SoloRun(comp), SoloRun(comm), both};
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
  scenario.runs = [&comm, &comp](const Settings& settings) {
    return PairRuns(comm, comp, settings);
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
