#include "benchmarks/pair.h"

#include <fmt/core.h>

#include <cstdlib>

#include "fixtures/coverage.h"

namespace overlapbench {
namespace {

// More than any device has; ExcludedPartition checks against this one.
constexpr long kMostSms = 1024;

std::vector<Axis> PairAxes(bool host) {
  // On the host, the scheduler decides, and no side can lead.
  const char* const first = host ? "none" : "comp";
  return {ChoiceAxis("first", "which side starts some microseconds before the other",
                     {"comp", "comm", "none"}, first, first),
          ChoiceAxis("streams", "2: one per side; 1: both on one, a negative control", {"2", "1"},
                     "2", "2"),
          IntegerAxis("comp_sms", "SMs that the computation may use; 0: all, without a partition",
                      0, kMostSms, "0", "0"),
          PriorityAxis("comp", "of the computation's stream"),
          PriorityAxis("comm", "of the communication's stream"),
          IntegerAxis("connections",
                      "CUDA_DEVICE_MAX_CONNECTIONS of the process; 0: as set in the environment", 0,
                      32, "0", "0")};
}

// Checks the partition's size, and whether the computation heeds it.
std::string ExcludedPartition(const Device& device, const WorkloadSpec& comp,
                              const Settings& settings) {
  const auto sms = static_cast<int>(settings.Integer("comp_sms"));
  if (sms == 0) return "";
  const std::string fault = PartitionFault(device.info(), sms);
  if (!fault.empty()) return "comp_sms " + fault;
  if (comp.work_class != WorkClass::kCompute)
    return fmt::format("comp_sms is for computations, and {} is not one", comp.name);
  if (settings.Has("sm_target") && settings.Integer("sm_target") > 0)
    return "comp_sms sets the SM target itself: leave out sm_target";
  if (settings.Has("call") && settings.Text("call") == "graph")
    return "comp_sms needs call:loop: a recorded graph may ignore its stream's partition";
  return "";
}

// The driver reads the variable when it creates the context, so a process has one value.
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
       {ExcludedPriority(device, settings, "comp"), ExcludedPriority(device, settings, "comm"),
        ExcludedPartition(device, comp, settings),
        ExcludedConnections(device.backend() == Backend::kHost, settings)})
    if (!reason.empty()) return reason;
  return "";
}

// Sets the library's SM target to the partition's size, unless it has all SMs.
Settings ForPartition(const Settings& settings, int all) {
  const long sms = settings.Integer("comp_sms");
  if (sms == 0 || sms == all || !settings.Has("sm_target")) return settings;
  return settings.With("sm_target", std::to_string(sms));
}

// The lane of a side, "comp" or "comm", as its axes say. comm_sms is not a partition: it is the
// number of SMs that a transport's kernel takes.
Schedule::Lane LaneOf(const std::string& side, WorkClass work_class, const Settings& settings) {
  return {.name = ToString(work_class),
          .priority = static_cast<int>(settings.Integer(side + "_priority")),
          .sms = side == "comp" ? static_cast<int>(settings.Integer("comp_sms")) : 0};
}

}  // namespace

Run AloneRun(const Work& work, const Settings& settings) {
  Run run{.name = work->name, .timed = Timed::kSteps};
  run.schedule.Add(run.schedule.AddLane(LaneOf(work->name, work->work_class, settings)), work);
  return run;
}

// The communication is enqueued first, as frameworks do: its few blocks are then placed before a
// large grid fills the SMs.
Run BesideRun(const std::string& name, const Work& comm, const Work& comp,
              const Settings& settings) {
  Run run{.name = name, .timed = Timed::kSteps};
  const std::size_t comm_lane = run.schedule.AddLane(LaneOf("comm", comm->work_class, settings));
  const std::size_t comp_lane =
      settings.Text("streams") == "1"
          ? comm_lane
          : run.schedule.AddLane(LaneOf("comp", comp->work_class, settings));
  run.schedule.Add(comm_lane, comm);
  run.schedule.Add(comp_lane, comp);
  if (settings.Text("first") != "none")
    run.schedule.leader = settings.Text("first") == "comm" ? comm_lane : comp_lane;
  return run;
}

std::vector<Run> PairRuns(const Work& comm, const Work& comp, const Settings& settings) {
  return {AloneRun(comp, settings), AloneRun(comm, settings),
          BesideRun("overlap", comm, comp, settings)};
}

namespace {

// Says if both together took less time than the longer side alone, and what that side's own time
// was; "" if they did not. Interference saves no time, but what runs beside a kernel changes when
// its blocks start, and with that how they share caches and fill the last wave.
std::string FasterThanAlone(const Series& T, const Series& C, const Series& M,
                            const Series& comp_slowdown, const Series& comm_slowdown) {
  const Series& longer = LongerOf(C, M);
  if (!IsShorter(T, longer)) return "";
  const bool is_comp = C.median() >= M.median();
  const double own = (is_comp ? comp_slowdown : comm_slowdown).median();
  return fmt::format(
      "both together took {:.3f} of the {} alone, whose own time beside the other side is "
      "{:.3f} of that alone: it is faster disturbed, which no overlap explains",
      (T / longer).median(), is_comp ? "computation" : "communication", own);
}

// With one stream the row is a negative control: all that counts is that nothing overlapped.
Remark Judge(const Sides& sides, double coverage, const std::string& faster, bool is_control) {
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
  if (!faster.empty()) return Remark::Noisy(faster);
  if (coverage >= kLeastCoverage) return {};
  const char* const waited =
      sides.comp.end_ms < sides.comm.end_ms ? "communication" : "computation";
  return Remark::Serialized(
      fmt::format("{} waited for the other side (coverage {:.2g})", waited, coverage));
}

}  // namespace

std::vector<Counter> PairCounters() {
  using enum Better;
  return {
      {"comp_ms", "ms", kLower, Range::kPositive, "C", "C: the computation alone"},
      {"comm_ms", "ms", kLower, Range::kPositive, "M", "M: the communication alone"},
      {"overlap_ms", "ms", kLower, Range::kPositive, "T", "T: both on two streams"},
      {"slowdown", "", kLower, Range::kPositive, "slowdown", "T / max(C, M); 1 is perfect overlap"},
      {"efficiency", "", kHigher, Range::kSigned, "efficiency",
       "(C + M - T) / min(C, M), not clamped; 1 is perfect, 0 one after the other", true},
      {"hidden_comm", "", kHigher, Range::kSigned, "hidden comm",
       "(C + M - T) / M; in training steps, C is the pattern's computation"},
      {"comp_slowdown", "", kLower, Range::kNotNegative, "comp slowdown",
       "the computation's own time while overlapped / alone"},
      {"comm_slowdown", "", kLower, Range::kNotNegative, "comm slowdown",
       "the communication's own time while overlapped / alone"},
      {"exposed_comm_ms", "ms", kLower, Range::kSigned, "exposed comm", "T - C"},
      {"coverage", "", kNeither, Range::kNotNegative, "coverage",
       "share of the run of the side that ended first in which the other certainly ran too"},
      {"comp_sms_used", "count", kNeither, Range::kPositive, "SMs used",
       "with comp_sms: number of SMs on which the computation's stream ran"},
  };
}

Remark ReportPair(const Measurement& measurement, Counters& counters) {
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
  const Series comp_slowdown =
      measurement.StepOwn_ms("overlap", "comp") / measurement.StepOwn_ms("comp", "comp");
  const Series comm_slowdown = comm_ms / measurement.StepOwn_ms("comm", "comm");
  Report(counters, "comp_slowdown", comp_slowdown);
  Report(counters, "comm_slowdown", comm_slowdown);
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
  return Judge(sides, coverage, FasterThanAlone(T, C, M, comp_slowdown, comm_slowdown),
               measurement.settings().Text("streams") == "1");
}

Scenario PairScenario(const Catalog& catalog, const std::string& family,
                      const std::string& communication, const std::string& computation,
                      const Values& values) {
  const WorkloadSpec& comm = catalog.workloads.Find(communication);
  const WorkloadSpec& comp = catalog.workloads.Find(computation);
  Scenario scenario =
      ScenarioOf(family + "/" + communication + "+" + computation, {&comm, &comp}, values);
  AppendAxes(scenario.axes, PairAxes(catalog.on_host()));
  SetValues(scenario.axes, values);
  const Device& device = catalog.device;
  scenario.excluded = [&comp, &device, of_workloads = scenario.excluded](const Settings& settings) {
    const std::string reason = of_workloads(settings);
    return reason.empty() ? ExcludedFromPairs(device, comp, settings) : reason;
  };
  scenario.runs = [&comm, &comp, &device](const Settings& settings) {
    const Settings of_comp = ForPartition(settings, device.info().multiprocessors);
    return PairRuns(MakeWork(comm, settings, "comm"), MakeWork(comp, of_comp, "comp"), settings);
  };
  scenario.report = ReportPair;
  // On the host, each lane is a thread, and MPI accepts collectives in one order only.
  if (catalog.on_host() && comm.collective && comp.collective && scenario.missing.empty())
    scenario.missing = "two collectives would race for MPI's communicator on the host backend";
  return scenario;
}

}  // namespace overlapbench
