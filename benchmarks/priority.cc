// Priority: identical work on a stream of high priority and on one of equal priority, under a load.
//
// Names read Priority/<work>+<load>. The load starts first and fills the device. Priority decides
// which pending block is placed when an SM has room. It never preempts running blocks, and copies
// ignore it (CUDA C++ Programming Guide, "Stream Priorities"). If SMs become free all the time
// (ShortBlocks), it must help. If the load stays until its end (ResidentGrid), or for copies, it
// cannot, and the rows say so. Each has its negative control, priority:equal, which must show no
// gain.
//
// Latency is from the moment the work could start to its end. The runs are each side alone, both on
// lanes of equal priority, and both with the prioritized work on a lane of the highest priority.
#include <fmt/core.h>

#include <functional>

#include "benchmarks/scenario.h"

namespace overlapbench::families {
namespace {

// A gain this close to 1 is none.
constexpr double kNoGain = 0.10;

struct Pair {
  const char* work;
  const char* load;
};
constexpr Pair kPairs[] = {{"ShortBlocks", "ShortBlocks"},
                           {"ShortBlocks", "ResidentGrid"},
                           {"ShortBlocks", "HostToDevice"},
                           {"HostToDevice", "ShortBlocks"},
                           {"HostToDevice", "HostToDevice"}};

bool IsControl(const Settings& settings) { return settings.Text("priority") == "equal"; }

Run Loaded(const char* name, const Work& work, const Work& load, int priority) {
  Run run{.name = name, .timed = Timed::kLanes};
  run.schedule.Add(run.schedule.AddLane({"work", priority}), work);
  const std::size_t load_lane = run.schedule.AddLane({"load"});
  run.schedule.Add(load_lane, load);
  run.schedule.leader = load_lane;
  return run;
}

std::vector<Run> PriorityRuns(const WorkloadSpec& work_spec, const WorkloadSpec& load_spec,
                              int highest, const Settings& settings) {
  const Work work = MakeWork(work_spec, settings, "work");
  const Work load = MakeWork(load_spec, settings, "load");
  std::vector<Run> runs = WithSoloRuns(Loaded("equal", work, load, 0));
  runs.push_back(Loaded("prioritized", work, load, IsControl(settings) ? 0 : highest));
  return runs;
}

Remark Judge(double gain, bool is_control, bool copies) {
  const bool none = gain > 1 - kNoGain && gain < 1 + kNoGain;
  if (is_control && none) return Remark::Finding("control: equal priorities, no gain");
  if (is_control)
    return Remark::Invalid(fmt::format("the negative control shows a gain of {:.3g}", gain));
  if (!none) return {};
  return Remark::Finding(copies ? "no gain: copies ignore priority"
                                : "no gain: running blocks are not preempted");
}

Remark ReportPriority(const Measurement& measurement, bool copies, Counters& counters) {
  const Series work_alone_ms = measurement.LaneOwn_ms("work", "work");
  const Series load_alone_ms = measurement.LaneOwn_ms("load", "load");
  const Series equal_ms = measurement.LaneOwn_ms("equal", "work");
  const Series prioritized_ms = measurement.LaneOwn_ms("prioritized", "work");
  const Series gain = equal_ms / prioritized_ms;
  Report(counters, "latency_alone_ms", work_alone_ms);
  Report(counters, "latency_equal_ms", equal_ms);
  Report(counters, "latency_ms", prioritized_ms);
  Report(counters, "gain", gain);
  Report(counters, "work_slowdown_equal", equal_ms / work_alone_ms);
  Report(counters, "work_slowdown", prioritized_ms / work_alone_ms);
  Report(counters, "load_alone_ms", load_alone_ms);
  Report(counters, "load_slowdown_equal", measurement.LaneOwn_ms("equal", "load") / load_alone_ms);
  Report(counters, "load_slowdown", measurement.LaneOwn_ms("prioritized", "load") / load_alone_ms);
  return Judge(gain.median(), IsControl(measurement.settings()), copies);
}

Scenario ScenarioOfPair(const Catalog& catalog, const Pair& pair) {
  const WorkloadSpec& work = catalog.workloads.Find(pair.work);
  const WorkloadSpec& load = catalog.workloads.Find(pair.load);
  const std::string name = fmt::format("Priority/{}+{}", pair.work, pair.load);
  Scenario scenario = ScenarioOf(name, {&work, &load}, {{"bytes", "64M"}});
  scenario.axes.push_back(ChoiceAxis("priority",
                                     "of the work that matters; equal is a negative control",
                                     {"high", "equal"}, "high,equal"));
  const int highest = catalog.device.info().priorities - 1;
  if (highest < 1) {
    scenario.missing =
        "streams have no priorities here: an unprivileged process cannot raise a thread's, and "
        "some GPUs have none";
  }
  scenario.runs = std::bind_front(PriorityRuns, std::cref(work), std::cref(load), highest);
  const bool copies =
      work.work_class == WorkClass::kMemory || load.work_class == WorkClass::kMemory;
  scenario.report = [copies](const Measurement& measurement, Counters& counters) {
    return ReportPriority(measurement, copies, counters);
  };
  return scenario;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> scenarios;
  for (const Pair& pair : kPairs) scenarios.push_back(ScenarioOfPair(catalog, pair));
  return scenarios;
}

}  // namespace

Family Priority() {
  using enum Better;
  Family family{.name = "Priority",
                .about =
                    "Latency of the work that matters: alone, beside a load, and beside it "
                    "with priority. priority:equal is the negative control.",
                .lead = {"gain", "latency_alone_ms", "latency_equal_ms", "latency_ms",
                         "work_slowdown", "load_slowdown"}};
  family.counters = {
      {"latency_alone_ms", "ms", kLower, Range::kPositive, "alone", "the work's own time alone"},
      {"latency_equal_ms", "ms", kLower, Range::kPositive, "equal",
       "the work's own time beside the load with equal priorities"},
      {"latency_ms", "ms", kLower, Range::kPositive, "prioritized",
       "the work's own time beside the load with priority"},
      {"gain", "", kHigher, Range::kPositive, "gain", "latency_equal / latency"},
      {"work_slowdown_equal", "", kLower, Range::kNotNegative, "slowdown, equal",
       "latency_equal / latency_alone"},
      {"work_slowdown", "", kLower, Range::kNotNegative, "slowdown", "latency / latency_alone"},
      {"load_alone_ms", "ms", kLower, Range::kPositive, "load alone", "the load's own time alone"},
      {"load_slowdown_equal", "", kLower, Range::kNotNegative, "load slowdown, equal",
       "the load's own time beside the work with equal priorities / alone"},
      {"load_slowdown", "", kLower, Range::kNotNegative, "load slowdown",
       "the load's own time beside the work with priority / alone"},
  };
  family.scenarios = &Scenarios;
  return family;
}

}  // namespace overlapbench::families
