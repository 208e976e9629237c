#include "interface/user_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "benchmarks/pair.h"

namespace overlapbench {
namespace {

constexpr const char* kSequential = "sequential";
constexpr const char* kComputation = "computation";
constexpr const char* kPattern = "pattern";

std::string EmptyFormOf(const std::string& run) { return run + ", empty"; }

// A label is an axis that has one value.
std::vector<Axis> LabelAxes(const UserRow& row) {
  std::vector<Axis> axes;
  for (const auto& [name, value] : row.labels)
    axes.push_back(ChoiceAxis(name, "a label of the row", {value}, value));
  if (std::ranges::any_of(row.works, &Callable::waits))
    axes.push_back(ChoiceAxis("gate", "whether samples start behind a gate", {"off"}, "off"));
  return axes;
}

// A pair names its row by these. The works of a schedule have names of their own.
std::string SpecName(const UserRow& row, const Callable& work) {
  if (row.kind != OVERLAPBENCH_PAIR) return row.name;
  return row.name + (work.work_class == WorkClass::kCompute ? "Comp" : "Comm");
}

Run SequenceOf(const Schedule& pattern) {
  Run run{.name = kSequential};
  const std::size_t lane = run.schedule.AddLane({"sequence"});
  for (const Schedule::Step& step : pattern.steps())
    run.schedule.Add(lane, step.work, {.name = step.name});
  return run;
}

Schedule PatternOf(const UserRow& row, const std::vector<Work>& works) {
  Schedule schedule;
  std::map<std::string, std::size_t> lanes;
  for (const UserStep& step : row.steps) {
    if (!lanes.contains(step.lane)) lanes[step.lane] = schedule.AddLane({step.lane});
    schedule.Add(lanes[step.lane], works.at(step.work), {.after = step.after, .name = step.name});
  }
  return schedule;
}

// Marks as results all works that can be verified, even if other works wait for them.
std::vector<Work> WorksOf(const UserRow& row, const Registry& registry, const Settings& settings) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < row.works.size(); ++i) {
    WorkPlan plan = *MakeWork(registry.specs().at(i), settings, row.works[i].name);
    plan.is_result = row.works[i].callbacks.verify != nullptr;
    works.push_back(std::make_shared<const WorkPlan>(std::move(plan)));
  }
  return works;
}

std::vector<Run> ScheduleRuns(const UserRow& row, const std::vector<Work>& works) {
  std::vector<Run> runs = WithSoloRuns({.name = kPattern, .schedule = PatternOf(row, works)});
  const Schedule& pattern = runs.back().schedule;
  std::vector<Run> others = {SequenceOf(pattern)};
  Schedule computation = pattern.Only({WorkClass::kCompute});
  if (!computation.steps().empty())
    others.push_back({.name = kComputation, .schedule = std::move(computation)});
  runs.insert(runs.end() - 1, others.begin(), others.end());
  return runs;
}

Remark ReportSchedule(const Measurement& measurement, Counters& counters) {
  const Series T = measurement.Total_ms();
  const Series sequential_ms = measurement.Total_ms(kSequential);
  const Series bound_ms = ReportBound(measurement, counters);
  Report(counters, "sequential_ms", sequential_ms);
  Report(counters, "speedup", sequential_ms / T);
  Report(counters, "interference_ms", T - bound_ms);
  if (measurement.Has(kComputation))
    Report(counters, "exposed_comm_ms", T - measurement.Total_ms(kComputation));
  return {};
}

Scenario ScheduleScenario(const UserRow& row, const Registry& registry) {
  std::vector<const WorkloadSpec*> specs;
  for (const WorkloadSpec& spec : registry.specs()) specs.push_back(&spec);
  Scenario scenario = ScenarioOf("Schedule/" + row.name, specs);
  scenario.runs = [row, &registry](const Settings& settings) {
    return ScheduleRuns(row, WorksOf(row, registry, settings));
  };
  scenario.report = ReportSchedule;
  return scenario;
}

Scenario ScenarioOfRow(const UserRow& row, const Catalog& catalog) {
  const std::vector<WorkloadSpec>& specs = catalog.workloads.specs();
  switch (row.kind) {
    case OVERLAPBENCH_ALONE: {
      const bool computes = specs.at(0).work_class == WorkClass::kCompute;
      return Baseline((computes ? "Compute/" : "Comm/") + row.name, specs.at(0));
    }
    case OVERLAPBENCH_PAIR:
      return PairScenario(catalog, "Overlap", {specs.at(1).name, specs.at(0).name}, {});
    case OVERLAPBENCH_SCHEDULE:
      return ScheduleScenario(row, catalog.workloads);
  }
  throw UsageError(fmt::format("there is no kind of row {}", static_cast<int>(row.kind)));
}

bool IsAlone(const Run& run) {
  const std::vector<Work> works = run.schedule.works();
  return works.size() == 1 && works.front()->name == run.name;
}

// Inserts before each work's solo run one of the same form that does nothing. Work that a callable
// enqueues elsewhere can still keep the device busy when the gate opens, and an empty lane then
// takes as long as a small kernel, so both are also compared in quiet. On the host the callable
// itself is behind the gate, so it cannot have started work elsewhere before that opens.
std::vector<Run> WithEmptyForms(std::vector<Run> runs, const Callable& nothing, CallLog& log,
                                bool on_host) {
  std::vector<Run> all;
  for (Run& run : runs) {
    if (IsAlone(run)) {
      const Work work = run.schedule.works().front();
      const auto empty = std::make_shared<const WorkPlan>(WorkPlan{
          .name = EmptyFormOf(work->name), .work_class = work->work_class, .make = [nothing, &log] {
            return std::make_unique<CallableWorkload>(nothing, log);
          }});
      all.push_back({.name = EmptyFormOf(run.name),
                     .schedule = run.schedule.With(work, empty),
                     .gated = run.gated,
                     .timed = run.timed,
                     .is_empty = true});
      if (!on_host) run.empty_form = all.back().name;
    }
    all.push_back(std::move(run));
  }
  return all;
}

// On the host, calling a callable takes 10 us on a core that is awake, and several times as long on
// one that must wake up or is taken. In a few samples, the medians of two that do nothing therefore
// differ by more than a half. But work makes every sample longer: the shortest tells.
double TookAlone_ms(const Measurement& measurement, const std::string& work) {
  const Series times_ms = measurement.Total_ms(work);
  return measurement.device().backend() == Backend::kHost ? std::ranges::min(times_ms.values())
                                                          : times_ms.median();
}

// Times of a work alone and of its empty form: in the row's samples, and in quiet.
std::vector<QuietTimes> TimesToCompare(const Measurement& measurement, const std::string& work) {
  std::vector<QuietTimes> times = {
      {TookAlone_ms(measurement, work), measurement.Total_ms(EmptyFormOf(work)).median()}};
  if (const auto& quiet = measurement.Quiet(work)) times.push_back(*quiet);
  return times;
}

// Invalid if a work took no longer than its empty form.
Remark JudgeEmptiness(const Measurement& measurement, const Remark& otherwise) {
  constexpr double kMicrosecondsInMillisecond = 1000;
  for (const Work& work : measurement.own().schedule.works()) {
    for (const auto& [took_ms, empty_ms] : TimesToCompare(measurement, work->name)) {
      if (took_ms > LongestEmpty_ms(measurement.device().backend(), empty_ms)) continue;
      return Remark::Invalid(fmt::format(
          "'{}' left its lane empty: alone it took {:.1f} us, and an empty callable {:.1f} us; {}",
          work->name, took_ms * kMicrosecondsInMillisecond, empty_ms * kMicrosecondsInMillisecond,
          measurement.device().backend() == Backend::kHost
              ? "work this short cannot be measured"
              : "it must enqueue on the stream passed to it"));
    }
  }
  return otherwise;
}

Scenario Watched(Scenario scenario, const Callable& nothing, CallLog& log, bool on_host) {
  scenario.runs = [runs = std::move(scenario.runs), nothing, &log,
                   on_host](const Settings& settings) {
    return WithEmptyForms(runs(settings), nothing, log, on_host);
  };
  scenario.report = [report = std::move(scenario.report)](const Measurement& measurement,
                                                          Counters& counters) {
    return JudgeEmptiness(measurement, report(measurement, counters));
  };
  return scenario;
}

void RequireWorks(const UserRow& row) {
  const auto require = [&](bool met, const char* what) {
    if (!met) throw UsageError(fmt::format("{}: {}", row.name, what));
  };
  std::set<std::string> names;
  for (const Callable& work : row.works) {
    require(work.callbacks.enqueue != nullptr, "a work has no callback that enqueues it");
    require(names.insert(work.name).second, "two works have the same name");
  }
  const auto of_class = [&](std::size_t i) { return row.works[i].work_class; };
  if (row.kind == OVERLAPBENCH_ALONE) require(row.works.size() == 1, "it needs exactly one work");
  if (row.kind == OVERLAPBENCH_PAIR) {
    require(row.works.size() == 2 && of_class(0) == WorkClass::kCompute &&
                of_class(1) != WorkClass::kCompute,
            "a pair needs a computation first, then a communication or copy");
  }
  if (row.kind != OVERLAPBENCH_SCHEDULE) return;
  require(!row.steps.empty(), "it has no steps");
  for (const UserStep& step : row.steps)
    require(step.work < row.works.size(), "a step has no work");
}

}  // namespace

double LongestEmpty_ms(Backend backend, double empty_ms) {
  constexpr double kLessThanAnyKernel_ms = 0.0008;
  return backend == Backend::kHost ? 1.5 * empty_ms : empty_ms + kLessThanAnyKernel_ms;
}

FamilyText ScheduleFamily() {
  return {.name = "Schedule",
          .about = "The user's steps on named lanes, against their sequential run and their bound.",
          .lead = {"pct_of_bound", "speedup", "bound_ms", "sequential_ms", "exposed_comm_ms"}};
}

Registry RegistryOf(const UserRow& row, CallLog& log) {
  RequireWorks(row);
  Registry registry;
  for (const Callable& work : row.works) {
    WorkloadSpec spec;
    spec.name = SpecName(row, work);
    spec.work_class = work.work_class;
    spec.axes = LabelAxes(row);
    spec.footprint = [](const Settings&) { return Footprint{}; };
    spec.make = [work, &log](const Settings&) {
      return std::make_unique<CallableWorkload>(work, log);
    };
    registry.Add(std::move(spec));
  }
  return registry;
}

Benchmark BenchmarkOf(const UserRow& row, const Catalog& catalog, CallLog& log) {
  Scenario scenario = ScenarioOfRow(row, catalog);
  if (row.nothing.callbacks.enqueue != nullptr)
    scenario = Watched(std::move(scenario), row.nothing, log, catalog.on_host());
  Plan plan(row.axes);
  plan.Add(scenario);
  plan.RequireKnownAxes();
  if (!plan.unavailable().empty())
    throw UsageError(plan.unavailable().front().name + ": " + plan.unavailable().front().reason);
  if (plan.benchmarks().size() != 1) throw UsageError(scenario.name + ": give each axis one value");
  return plan.benchmarks().front();
}

}  // namespace overlapbench
