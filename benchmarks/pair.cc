#include "benchmarks/pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "fixtures/coverage.h"

namespace overlapbench {
namespace {

// More than any device has; ExcludedPartition checks against this one.
constexpr long kMostSms = 1024;

// The sides of a row.
constexpr const char* kComm = "comm";
constexpr const char* kSecond = "second";
constexpr const char* kComp = "comp";

constexpr const char* kSame = "same";

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

// The lane of a side, as its axes say: communications share theirs. comm_sms is not a partition: it
// is the number of SMs that a transport's kernel takes.
Schedule::Lane LaneOf(const Work& side, const Settings& settings) {
  const bool computes = side->name == kComp;
  const std::string more = side->name == kSecond ? " 2" : "";
  return {
      .name = ToString(side->work_class) + more,
      .priority = static_cast<int>(settings.Integer(computes ? "comp_priority" : "comm_priority")),
      .sms = computes ? static_cast<int>(settings.Integer("comp_sms")) : 0,
      .with_leader = side->name == kSecond && settings.Text("first") == "comm"};
}

// The axes of the first communication that the second one may have at values of its own.
constexpr std::array kOfSecond = {"bytes", "transport"};

std::string OfSecond(const std::string& axis) { return "second_" + axis; }

// The settings of a side. Collectives beside each other need a channel each (comm/communicator.h).
Settings OfSide(std::size_t place, const std::string& name, const Settings& settings) {
  Settings own = settings;
  if (place > 0) own = own.With("channel", std::to_string(place));
  if (name != kSecond) return own;
  for (const std::string axis : kOfSecond) {
    const std::string of_second = OfSecond(axis);
    if (!own.Has(of_second) || own.Text(of_second) == kSame) continue;
    own = own.With(axis, own.Text(of_second));
    // The knobs of the other transport.
    if (axis == "transport") own = own.With("comm_ctas", "0").With("comm_sms", "0");
  }
  return own;
}

std::vector<Axis> AxesOfSecond(const WorkloadSpec& first, const WorkloadSpec& second) {
  std::vector<Axis> axes;
  for (const std::string name : kOfSecond) {
    const auto own = std::ranges::find(second.axes, name, &Axis::name);
    const auto known = std::ranges::find(first.axes, name, &Axis::name);
    if (own == second.axes.end() || known == first.axes.end()) continue;
    std::vector<std::string> choices = own->choices;
    if (!choices.empty()) choices.emplace_back(kSame);
    Axis axis = choices.empty() ? OrWord(*own, kSame, kSame, kSame)
                                : ChoiceAxis("", "", choices, kSame, kSame);
    axis.name = OfSecond(name);
    axis.help = name + " of the second communication or copy; same: as the first's";
    axis.size = [name](const Settings& settings) {
      const std::string of_second = OfSecond(name);
      return settings.Integer(settings.Text(of_second) == kSame ? name : of_second);
    };
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Run AloneRun(const Work& work, const Settings& settings) {
  Run run{.name = work->name, .timed = Timed::kSteps};
  run.schedule.Add(run.schedule.AddLane(LaneOf(work, settings)), work);
  return run;
}

// Communications are enqueued first, as frameworks do: their few blocks are then placed before a
// large grid fills the SMs.
Run BesideRun(const std::string& name, const std::vector<Work>& sides, const Settings& settings) {
  Run run{.name = name, .timed = Timed::kSteps};
  Schedule& schedule = run.schedule;
  for (const Work& side : sides) {
    const bool has_lane = schedule.lanes().empty() || settings.Text("streams") == "2";
    if (has_lane) schedule.AddLane(LaneOf(side, settings));
    schedule.Add(schedule.lanes().size() - 1, side);
  }
  const std::string& first = settings.Text("first");
  if (first == "comm" || (first == "comp" && sides.back()->name == kComp))
    schedule.leader = first == "comm" ? 0 : schedule.lanes().size() - 1;
  return run;
}

std::vector<Run> PairRuns(const std::vector<Work>& sides, const Settings& settings) {
  std::vector<Run> runs = {AloneRun(sides.back(), settings)};
  for (std::size_t i = 0; i + 1 < sides.size(); ++i) runs.push_back(AloneRun(sides[i], settings));
  for (std::size_t i = 0; sides.size() > 2 && i < sides.size(); ++i) {
    for (std::size_t k = i + 1; k < sides.size(); ++k) {
      runs.push_back(
          BesideRun(BesideName(sides[i]->name, sides[k]->name), {sides[i], sides[k]}, settings));
      runs.back().is_verified = false;  // by the run of all sides
    }
  }
  runs.push_back(BesideRun("overlap", sides, settings));
  return runs;
}

namespace {

// The sides of a row, in the order of its name.
std::vector<std::string> SidesOf(const Measurement& measurement) {
  std::vector<std::string> sides;
  for (const Work& work : measurement.own().schedule.works()) sides.push_back(work->name);
  return sides;
}

std::string Described(const std::string& side) {
  return side == kComp ? "computation" : side == kComm ? "communication" : "second communication";
}

// The run of two of three sides.
TimeSpan StepBeside(const Measurement& measurement, const std::string& side,
                    const std::string& other) {
  const std::string run = BesideName(side, other);
  return measurement.Step(measurement.Has(run) ? run : BesideName(other, side), side);
}

// Says if all together took less time than the longest side alone, and what that side's own time
// was; "" if they did not. Interference saves no time, but what runs beside a kernel changes when
// its blocks start, and with that how they share caches and fill the last wave: a StandIn that
// sends nothing does the same (docs/metrics.md).
std::string FasterThanAlone(const Measurement& measurement, const Series& T) {
  const std::vector<std::string> sides = SidesOf(measurement);
  std::string longest = kComp;
  for (const std::string& side : sides) {
    if (measurement.Total_ms(side).median() > measurement.Total_ms(longest).median())
      longest = side;
  }
  const Series alone = measurement.Total_ms(longest);
  if (!IsShorter(T, alone)) return "";
  const Series own =
      measurement.StepOwn_ms("overlap", longest) / measurement.StepOwn_ms(longest, longest);
  const bool two = sides.size() == 2;
  return fmt::format(
      "{} together took {:.3f} of the {} alone, whose own time beside the other side{} is {:.3f} "
      "of that alone: it is faster disturbed, which no overlap explains",
      two ? "both" : "all", (T / alone).median(), Described(longest), two ? "" : "s", own.median());
}

// How many times as long a side takes while another one runs beside it: the time for which both
// ran, over the work that it did meanwhile.
double SlowdownBeside(const Measurement& measurement, const std::string& side,
                      const std::string& other) {
  constexpr double kMost = 100;  // it did not move
  const TimeSpan own = StepBeside(measurement, side, other);
  const TimeSpan others = StepBeside(measurement, other, side);
  const double both_ms =
      std::min(own.end_ms, others.end_ms) - std::max(own.begin_ms, others.begin_ms);
  if (both_ms <= 0) return 1;
  const double done_ms = measurement.Step(side, side).own_ms() - (own.own_ms() - both_ms);
  return done_ms > both_ms / kMost ? both_ms / done_ms : kMost;
}

// How much the side that ended first had of the other one. With two others, the one that it had
// less of counts.
struct Together {
  double coverage = 0;
  double free = 0;  // FreeTogether
  std::string waited;
};

// The coverage of the first of three sides by another one, as if the third were not there: what
// held the first one up is counted beyond what the third alone does, and the time that the third
// costs the other one after the first has ended is not counted.
Sides WithoutThird(const Measurement& measurement, const std::string& first,
                   const std::string& other, const std::string& third) {
  const auto in_all = [&](const std::string& side) { return measurement.Step("overlap", side); };
  const double left_ms =
      std::min(in_all(other).end_ms, in_all(third).end_ms) - in_all(first).end_ms;
  const double slowdown = std::max(1.0, SlowdownBeside(measurement, other, third));
  TimeSpan alone = measurement.Step(other, other);
  alone.end_ms += std::max(0.0, left_ms) * (1 - 1 / slowdown);
  return {StepBeside(measurement, first, third), alone, in_all(first), in_all(other)};
}

Together TogetherOf(const Measurement& measurement) {
  const auto in_all = [&](const std::string& side) { return measurement.Step("overlap", side); };
  const auto alone = [&](const std::string& side) { return measurement.Step(side, side); };
  std::vector<std::string> sides = SidesOf(measurement);
  std::ranges::stable_sort(sides, {}, [&](const std::string& side) {
    return std::pair(in_all(side).end_ms, side != kComp);
  });
  const std::string& first = sides.front();
  std::vector<Together> found;
  for (std::size_t i = 1; i < sides.size(); ++i) {
    const std::string& other = sides[i];
    const Sides two = sides.size() == 2
                          ? Sides{alone(first), alone(other), in_all(first), in_all(other)}
                          : WithoutThird(measurement, first, other, sides[sides.size() - i]);
    found.push_back({Coverage(two), FreeTogether(two), Described(other)});
  }
  return *std::ranges::min_element(found, {}, &Together::coverage);
}

// With one stream the row is a negative control: all that counts is that nothing overlapped.
Remark Judge(const Together& together, const std::string& faster, bool is_control) {
  if (is_control) {
    return together.free < kLeastCoverage
               ? Remark::Control("one stream, and nothing overlapped")
               : Remark::Invalid("the negative control overlapped on one stream");
  }
  if (together.free < kLeastCoverage) {
    return Remark::Invalid(
        fmt::format("not overlapped: the streams were free together for {:.2g} of the shorter side",
                    together.free));
  }
  if (!faster.empty()) return Remark::Noisy(faster);
  if (together.coverage >= kLeastCoverage) return {};
  return Remark::Serialized(fmt::format("{} waited for the other side (coverage {:.2g})",
                                        together.waited, together.coverage));
}

// T if a side that has both others beside it takes as many times as long as each of them makes it
// take alone, multiplied.
double ByProduct_ms(const Measurement& measurement) {
  Schedule schedule;
  std::vector<double> step_ms;
  std::vector<Contention> contentions;
  const std::vector<std::string> sides = SidesOf(measurement);
  for (const std::string& side : sides) {
    const Work& work = measurement.run(side).schedule.steps().front().work;
    const std::size_t lane = schedule.AddLane({side});
    schedule.Add(lane, work, {.engine = side + " has not begun"});
    step_ms.push_back(measurement.Step("overlap", side).begin_ms);
    schedule.Add(lane, work, {.engine = side});
    step_ms.push_back(measurement.Step(side, side).own_ms());
    for (const std::string& other : sides) {
      if (other != side)
        contentions.push_back({side, other, SlowdownBeside(measurement, side, other)});
    }
  }
  return ContendedBound_ms(schedule, step_ms, contentions);
}

}  // namespace

std::vector<Counter> PairCounters() {
  using enum Better;
  return {
      {"comp_ms", "ms", kLower, Range::kPositive, "C", "C: the computation alone"},
      {"comm_ms", "ms", kLower, Range::kPositive, "M", "M: the communication alone"},
      {"overlap_ms", "ms", kLower, Range::kPositive, "T", "T: both on two streams"},
      {"second_ms", "ms", kLower, Range::kPositive, "second",
       "of three sides, the second communication alone"},
      {"slowdown", "", kLower, Range::kPositive, "slowdown", "T / max(C, M); 1 is perfect overlap"},
      {"efficiency", "", kHigher, Range::kSigned, "efficiency",
       "(C + M - T) / min(C, M), not clamped; 1 is perfect, 0 one after the other", true},
      {"hidden_comm", "", kHigher, Range::kSigned, "hidden comm",
       "(C + M - T) / M; in training steps, C is the pattern's computation"},
      {"comp_slowdown", "", kLower, Range::kNotNegative, "comp ×",
       "the computation's own time while overlapped / alone"},
      {"comm_slowdown", "", kLower, Range::kNotNegative, "comm ×",
       "the communication's own time while overlapped / alone"},
      {"second_slowdown", "", kLower, Range::kNotNegative, "second ×",
       "the second communication's own time while overlapped / alone"},
      {"exposed_comm_ms", "ms", kLower, Range::kSigned, "exposed comm", "T - C"},
      {"coverage", "", kNeither, Range::kNotNegative, "coverage",
       "share of the run of the side that ended first in which the other certainly ran too"},
      {"product_slowdown", "", kNeither, Range::kPositive, "by product",
       "of three sides, the slowdown if those that two sides cause a third multiplied"},
      {"product_error", "", kNeither, Range::kSigned, "product error",
       "product_slowdown / slowdown - 1"},
      {"comp_sms_used", "count", kNeither, Range::kPositive, "SMs used",
       "with comp_sms: number of SMs on which the computation's stream ran"},
  };
}

Remark ReportPair(const Measurement& measurement, Counters& counters) {
  const std::vector<std::string> sides = SidesOf(measurement);
  const Series C = measurement.Total_ms(kComp);
  const Series T = measurement.Total_ms("overlap");
  Report(counters, "comp_ms", C);
  Series M = measurement.Total_ms(kComm);
  Report(counters, "comm_ms", M);
  Series longest = LongerOf(C, M);
  Series shorter = ShorterOf(C, M);  // all sides but the longest
  if (sides.size() > 2) {
    const Series second = measurement.Total_ms(kSecond);
    Report(counters, "second_ms", second);
    shorter = shorter + ShorterOf(longest, second);
    longest = LongerOf(longest, second);
    M = M + second;
  }
  const Series hidden_ms = C + M - T;
  Report(counters, "overlap_ms", T);
  const Series slowdown = T / longest;
  Report(counters, "slowdown", slowdown);
  Report(counters, "speedup", (C + M) / T);
  Report(counters, "efficiency", hidden_ms / shorter);
  Report(counters, "hidden_comm", hidden_ms / M);
  for (const std::string& side : sides) {
    Report(counters, side + "_slowdown",
           measurement.StepOwn_ms("overlap", side) / measurement.StepOwn_ms(side, side));
  }
  Report(counters, "exposed_comm_ms", T - C);
  ReportRates(measurement.CostOf(kComm), measurement.StepOwn_ms("overlap", kComm), counters);
  const Together together = TogetherOf(measurement);
  counters["coverage"] = together.coverage;
  if (sides.size() > 2) {
    ReportBound(measurement, counters);
    const Series by_product = ByProduct_ms(measurement) / longest;
    Report(counters, "product_slowdown", by_product);
    Report(counters, "product_error", (by_product - slowdown) / slowdown);
  }
  if (measurement.settings().Integer("comp_sms") > 0)
    counters["comp_sms_used"] = measurement.SmsUsed("overlap", kComp);
  return Judge(together, FasterThanAlone(measurement, T),
               measurement.settings().Text("streams") == "1");
}

Scenario PairScenario(const Catalog& catalog, const std::string& family,
                      const std::vector<std::string>& workloads, const Values& values) {
  std::vector<const WorkloadSpec*> specs;
  for (const std::string& name : workloads) specs.push_back(&catalog.workloads.Find(name));
  std::vector<std::string> sides = {kComm, kComp};
  if (specs.size() > 2) sides.insert(sides.begin() + 1, kSecond);
  Scenario scenario =
      ScenarioOf(fmt::format("{}/{}", family, fmt::join(workloads, "+")), specs, values);
  AppendAxes(scenario.axes, PairAxes(catalog.on_host()));
  if (specs.size() > 2) AppendAxes(scenario.axes, AxesOfSecond(*specs[0], *specs[1]));
  SetValues(scenario.axes, values);
  const Device& device = catalog.device;
  scenario.excluded = [specs, sides, &device](const Settings& settings) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Settings own = OfSide(i, sides[i], settings);
      const std::string reason = specs[i]->excluded ? specs[i]->excluded(own) : "";
      if (!reason.empty()) return reason;
    }
    return ExcludedFromPairs(device, *specs.back(), settings);
  };
  scenario.runs = [specs, sides, &device](const Settings& settings) {
    std::vector<Work> works;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Settings own = OfSide(i, sides[i], settings);
      if (sides[i] == kComp) own = ForPartition(own, device.info().multiprocessors);
      works.push_back(MakeWork(*specs[i], own, sides[i]));
    }
    return PairRuns(works, settings);
  };
  scenario.report = ReportPair;
  return scenario;
}

}  // namespace overlapbench
