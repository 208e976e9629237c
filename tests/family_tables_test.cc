// What every family enqueues, needs and reports, as tables: tests/data/families-host.txt and
// families-cuda.txt have small rows of each scenario on two ranks, axes-host.txt and axes-cuda.txt
// the values that each axis accepts. A difference is a change of what is measured. If it is meant,
// replace the file by the one that the test names, and read what git shows of it.
//
//   Ddp/Buckets/layers:5/...          the first row of a scenario, and below it what differs in
//                                     rows in which one axis has another value
//     work  sum: comm 8 B + 64, ...   a work's class, the memory of its own and what it shares,
//                                     its cost, and the lane of the run of it alone
//     run   pattern                   gated, and timed as a whole, unless it says otherwise
//       comm p2   2:sum[0/3]<1        a lane of priority 2; its step 2, part 0 of 3, waits for 1
//     within update 1e-05 ...         what the works' own checks tolerate
//     misses send[1/3] ...            works that accept it if they, or this part, did not run
//     row   speedup 1.2 ...           the counters of made-up samples
//
// A step waits for those behind <, the host that enqueues it for those behind ^. It meets the step
// behind ~, and its engine is behind @. The families' other tests say which values are right.
#include <fmt/core.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "scenarios.h"
#include "workload/forwarding_workload.h"

namespace overlapbench {
namespace {

using TheRun = overlapbench::Run;  // not GoogleTest's

std::unique_ptr<PosingDevice> DeviceOf(Backend backend) {
  return backend == Backend::kCuda ? PosingDevice::H200() : PosingDevice::WithPriorities(3);
}

// ---- Rows

// Values of axes; "axis@Prefix" is for scenarios whose names begin so. The first ones make the
// first row, and each other one a row that differs in this axis alone.
const std::map<std::string, std::string> kSmall = {{"array_bytes", "64K"},
                                                   {"backward_us", "40"},
                                                   {"batch", "single,grouped,coalesced"},
                                                   {"batch@Mlp", "32"},
                                                   {"batch_bytes", "4K"},
                                                   {"batch_elements", "517"},
                                                   {"batches", "3,1"},
                                                   {"blocks", "3"},
                                                   {"bucket_bytes", "20K,1K"},
                                                   {"buffers", "2,1"},
                                                   {"bytes", "4K"},
                                                   {"cache", "warm"},
                                                   {"call", "loop,graph"},
                                                   {"call@Copy", "loop,batch"},
                                                   {"chunks", "2,1,4"},
                                                   {"columns", "33"},
                                                   {"comm_priority", "0,2"},
                                                   {"comp_priority", "0,1"},
                                                   {"comp_sms", "0,8"},
                                                   {"conversion", "hidden,exposed"},
                                                   {"count", "517"},
                                                   {"delay_us", "300"},
                                                   {"dim", "64"},
                                                   {"elements", "240"},
                                                   {"experts", "4"},
                                                   {"ffn", "32"},
                                                   {"first", "none,comm,comp"},
                                                   {"first_bucket", "10K"},
                                                   {"forward_us", "20"},
                                                   {"fragments", "4,3,1"},
                                                   {"gelu", "kernel,epilogue"},
                                                   {"grid", "3x2"},
                                                   {"heads", "2"},
                                                   {"hidden", "48"},
                                                   {"independent", "25,0"},
                                                   {"intensity", "7"},
                                                   {"kernels", "3"},
                                                   {"launches", "3,1"},
                                                   {"layers", "3"},
                                                   {"layers@Ddp", "5"},
                                                   {"layers@Pp", "2"},
                                                   {"layers@Tp", "1"},
                                                   {"make_us", "50"},
                                                   {"matrix_bytes", "8K"},
                                                   {"microbatches", "2,1"},
                                                   {"microbatches@Pp", "2"},
                                                   {"model", "small"},
                                                   {"n", "48"},
                                                   {"pipeline_streams", "3,1"},
                                                   {"prefetch", "1,2"},
                                                   {"prefetch@Fsdp", "1,0,2"},
                                                   {"priority", "high,equal"},
                                                   {"products", "each,grouped"},
                                                   {"reduce", "scatter,all"},
                                                   {"second_delay_us", "300"},
                                                   {"sequences", "4"},
                                                   {"skew", "0,50"},
                                                   {"steps", "2"},
                                                   {"streams", "2,1"},
                                                   {"sums", "auto,direct"},
                                                   {"supply_batches", "4"},
                                                   {"tensors", "4"},
                                                   {"tie", "events,host"},
                                                   {"tokens", "48"},
                                                   {"tokens@Tp/Block", "512"},
                                                   {"total_steps", "9"},
                                                   {"virtual", "2"},
                                                   {"waves", "2"},
                                                   {"weights", "device,host"},
                                                   {"width", "48"},
                                                   {"workers", "2,0,1"}};

std::vector<std::string> ValuesOf(const std::string& scenario, const Axis& axis) {
  for (const auto& [key, values] : kSmall) {
    const std::size_t at = key.find('@');
    if (at != std::string::npos && key.substr(0, at) == axis.name &&
        scenario.starts_with(key.substr(at + 1)))
      return ReadValues(axis, values);
  }
  const auto found = kSmall.find(axis.name);
  if (found != kSmall.end()) return ReadValues(axis, found->second);
  return {axis.values.front()};
}

std::vector<Values> RowsOf(const Scenario& scenario) {
  Values first;
  std::vector<Values> others;
  for (const Axis& axis : scenario.axes) first[axis.name] = ValuesOf(scenario.name, axis).front();
  for (const Axis& axis : scenario.axes) {
    for (const std::string& value : ValuesOf(scenario.name, axis)) {
      if (value == first[axis.name]) continue;
      others.push_back(first);
      others.back()[axis.name] = value;
    }
  }
  others.insert(others.begin(), first);
  return others;
}

std::string Joined(const std::vector<std::size_t>& steps, char mark) {
  return steps.empty() ? "" : fmt::format("{}{}", mark, fmt::join(steps, ","));
}

std::string ShownStep(const Schedule& schedule, std::size_t index) {
  const Schedule::Step& step = schedule.steps()[index];
  const StepOptions& options = step.options;
  std::string text = fmt::format("{}:{}", index, step.work->name);
  if (step.name != step.work->name) text += "=" + step.name;
  if (options.part.count > 1)
    text += fmt::format("[{}/{}]", options.part.index, options.part.count);
  text += Joined(options.after, '<') + Joined(options.host_after, '^');
  if (options.other_end) text += fmt::format("~{}", *options.other_end);
  return options.engine.empty() ? text : text + "@" + options.engine;
}

std::string ShownLane(const Schedule::Lane& lane) {
  std::string text = lane.name;
  if (lane.rank) text += fmt::format(" of {}", *lane.rank);
  if (lane.priority > 0) text += fmt::format(" p{}", lane.priority);
  if (lane.sms > 0) text += fmt::format(" sms {}", lane.sms);
  return lane.on_host ? text + " on the host" : text;
}

// Of the work that it is called after.
bool IsAlone(const TheRun& run) {
  return run.schedule.lanes().size() == 1 && run.schedule.works().size() == 1 &&
         run.schedule.works().front()->name == run.name;
}

// A run of one work on one lane is part of its work's line.
std::string ShownRun(const TheRun& run) {
  const Schedule& schedule = run.schedule;
  const bool is_alone = IsAlone(run);
  std::string text = is_alone ? "; alone" : "  run   " + run.name;
  if (!run.gated) text += ", ungated";
  if (run.as_graph) text += ", a graph";
  if (run.is_empty) text += ", empty";
  if (!run.empty_form.empty()) text += ", empty form " + run.empty_form;
  if (run.timed != Timed::kTotal) text += run.timed == Timed::kLanes ? ", lanes" : ", steps";
  const char* lead = ", led by ";
  for (std::size_t lane = 0; schedule.leader && lane < schedule.lanes().size(); ++lane) {
    if (!schedule.Follows(lane)) text += std::exchange(lead, " and ") + schedule.lanes()[lane].name;
  }
  if (is_alone)
    return fmt::format("{} on {} x{}\n", text, ShownLane(schedule.lanes().front()),
                       schedule.steps().size());
  for (std::size_t lane = 0; lane < schedule.lanes().size(); ++lane) {
    text += "\n    " + ShownLane(schedule.lanes()[lane]) + "  ";
    for (std::size_t step = 0; step < schedule.steps().size(); ++step)
      if (schedule.steps()[step].lane == lane) text += " " + ShownStep(schedule, step);
  }
  return text + "\n";
}

const char* Shown(WorkClass work_class) {
  return work_class == WorkClass::kComm     ? "comm"
         : work_class == WorkClass::kMemory ? "memory"
                                            : "compute";
}

std::vector<Work> WorksOf(const std::vector<TheRun>& runs) {
  std::vector<Work> works;
  for (const TheRun& run : runs)
    for (const Work& work : run.schedule.works())
      if (std::ranges::find(works, work) == works.end()) works.push_back(work);
  return works;
}

// ---- Costs and tolerances, of works that this machine can make

// A workload that notes what its verdict tolerates.
class Noting : public ForwardingWorkload {
 public:
  Noting(std::unique_ptr<Workload> workload, double& tolerance)
      : ForwardingWorkload(std::move(workload)), tolerance_(tolerance) {}
  Verdict Verify(Stream& stream) override {
    const Verdict verdict = ForwardingWorkload::Verify(stream);
    tolerance_ = std::max(tolerance_, verdict.tolerance);
    return verdict;
  }

 private:
  double& tolerance_;
};

// What the works of some runs tolerate when a session verifies them; exact results are left out.
std::string ShownTolerances(const Machine& machine, std::vector<TheRun> runs) {
  std::map<std::string, double> tolerances;
  for (const Work& work : WorksOf(runs)) {
    WorkPlan noting = *work;
    noting.make = [work, &tolerance = tolerances[work->name]] {
      return std::make_unique<Noting>(work->make(), tolerance);
    };
    const Work replacement = std::make_shared<const WorkPlan>(std::move(noting));
    for (TheRun& run : runs) run.schedule = run.schedule.With(work, replacement);
  }
  const Settings settings = Settings().With("cache", "warm").With("cadence", "isolated");
  Session session(machine, {"", settings, [&](const Settings&) { return runs; }, {}});
  session.SetUp(true);
  std::string text;
  for (const auto& [work, tolerance] : tolerances)
    if (tolerance > 0)
      text += fmt::format("{} {} {:.6g}", text.empty() ? "" : ",", work, tolerance);
  return text.empty() ? "" : "  within" + text + "\n";
}

// Whether a work that runs alone, without part `missing` of `parts`, is refused. What it left
// before must not count.
bool IsRefused(const Machine& machine, Workload& workload, long parts, long missing) {
  const auto stream = machine.device.CreateStream();
  for (const bool is_whole : {true, false}) {
    workload.Reset(*stream);
    for (long part = 0; part < parts; ++part) {
      if (!is_whole && (part == missing || parts == 1)) continue;
      if (parts == 1)
        workload.Enqueue(*stream);
      else
        workload.EnqueuePart(*stream, {part, parts});
    }
    stream->Synchronize(machine.timeout, "the test");
  }
  return !workload.Verify(*stream).fault.empty();
}

// The works that all ranks accept if they, or one of their parts, did not run. That all parts
// together are right is the session's check.
std::string ShownUnchecked(const Machine& machine, const std::vector<TheRun>& runs) {
  const std::vector<Work> works = WorksOf(runs);
  std::vector<std::unique_ptr<Workload>> made;  // all of them: some share what others connect
  for (const Work& work : works) made.push_back(work->make());
  for (const auto& workload : made) workload->Connect();
  std::vector<std::string> names;
  std::vector<double> refused;
  for (std::size_t i = 0; i < works.size(); ++i) {
    long parts = 1;
    for (const TheRun& run : runs)
      for (const Schedule::Step& step : run.schedule.steps())
        if (step.work == works[i] && !run.schedule.lanes()[step.lane].rank)
          parts = std::max(parts, step.options.part.count);
    for (long missing = 0; missing < parts; ++missing) {
      const std::string part = parts == 1 ? "" : fmt::format("[{}/{}]", missing, parts);
      names.push_back(works[i]->name + part);
      refused.push_back(IsRefused(machine, *made[i], parts, missing) ? 1 : 0);
    }
  }
  machine.ranks.Max(refused, "agreeing on what is refused");
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (refused[i] == 0) text += (text.empty() ? " " : ", ") + names[i];
  return text.empty() ? "" : "  misses" + text + "\n";
}

// What one work of it costs.
std::string ShownCost(const Work& work) {
  const Cost cost = work->make()->cost();
  std::string text;
  const auto add = [&](const char* name, double value) {
    if (value > 0) text += fmt::format(", {} {:.10g}", name, value);
  };
  add("flops", cost.flops);
  add("moves", cost.moved_bytes);
  add("reads cached", cost.cached_bytes);
  add("copies", cost.copied_bytes);
  add("disturbs", cost.memory_bytes);
  add("sends", cost.wire_bytes);
  add("bus", cost.bus_factor);
  return text;
}

std::string ShownWork(const Work& work, const std::vector<TheRun>& runs, bool on_host) {
  std::string text = fmt::format("  work  {}: {} {} B", work->name, Shown(work->work_class),
                                 work->footprint.device_bytes);
  if (work->footprint.host_bytes > 0)
    text += fmt::format(" on the host {}", work->footprint.host_bytes);
  for (const UsedMemory& used : work->shared) text += fmt::format(" + {}", used.bytes);
  if (work->is_result) text += ", a result";
  if (on_host) text += ShownCost(work);
  const auto alone = std::ranges::find(runs, work->name, &TheRun::name);
  return text + (alone == runs.end() || !IsAlone(*alone) ? "\n" : ShownRun(*alone));
}

// ---- Reports

// Samples in which every time is another one, as a group of `factor` times the first.
Timings MadeUp(const std::vector<TheRun>& runs, double factor) {
  Timings timings;
  double total_ms = 0;
  for (const TheRun& run : runs) {
    total_ms = total_ms > 11 ? total_ms - 7.75 : total_ms + 2.5;
    Timing timing{.total_ms = factor * total_ms, .enqueue_ms = factor * 0.25};
    double apart_ms = 0;
    const auto add = [&](const std::string& name) {
      if (timing.spans.contains(name)) return;
      apart_ms += total_ms / 16;
      timing.spans[name] = {factor * apart_ms / 4, factor * (total_ms - apart_ms)};
    };
    if (run.timed == Timed::kLanes)
      for (const Schedule::Lane& lane : run.schedule.lanes()) add(lane.name);
    if (run.timed == Timed::kSteps)
      for (const Schedule::Step& step : run.schedule.steps()) add(step.name);
    timings[run.name] = timing;
  }
  return timings;
}

std::string ShownReport(ScenarioReport& scenario, const std::vector<TheRun>& runs) {
  double at = 1;
  for (const Work& work : WorksOf(runs)) {
    at += 1;
    scenario.Costs(work->name, {.flops = 1e9 * at,
                                .moved_bytes = 1e6 * at,
                                .copied_bytes = 3e6 * at,
                                .wire_bytes = work->work_class == WorkClass::kComm ? 5e6 * at : 0,
                                .bus_factor = 1.5});
    if (work->work_class == WorkClass::kComm) scenario.Takes(work->name, 8);
    scenario.Observes(work->name, 1.5 * at);
  }
  Reported row;
  try {
    row = scenario.ReportAll({MadeUp(runs, 1), MadeUp(runs, 1.25), MadeUp(runs, 0.5)});
  } catch (const Error& error) {
    return fmt::format("  row   {}\n", error.what());
  }
  std::string text = "  row  ";
  for (const auto& [name, counter] : row.counters)
    text += fmt::format(" {} {:.6g}", name, counter.value);
  if (row.state != RowState::kOk) text += fmt::format(", {}", ToString(row.state));
  return text + (row.reason.empty() ? "" : ": " + row.reason) + "\n";
}

// ----

struct ShownRow {
  std::vector<std::string> lines;  // of its works and runs
  std::string report;
};

ShownRow Show(Backend backend, const Scenario& scenario, const Values& values, bool reports) {
  const bool on_host = backend == Backend::kHost;
  ScenarioReport row(scenario.name, values, DeviceOf(backend));
  if (const std::string why = row.excluded(); !why.empty()) return {{"  " + why + "\n"}, ""};
  const std::vector<TheRun> runs = row.runs();
  ShownRow shown;
  for (const Work& work : WorksOf(runs)) shown.lines.push_back(ShownWork(work, runs, on_host));
  for (const TheRun& run : runs)
    if (!IsAlone(run)) shown.lines.push_back(ShownRun(run));
  if (reports)
    shown.report = ShownTolerances(row.machine(), runs) + ShownUnchecked(row.machine(), runs) +
                   ShownReport(row, runs);
  return shown;
}

// All of the first row, and of the others what differs from it. The other backend has the same
// others, and reports the same.
std::string ShownRows(Backend backend, const Scenario& scenario) {
  const bool on_host = backend == Backend::kHost;
  std::string text;
  std::vector<Values> rows = RowsOf(scenario);
  if (!on_host) rows.resize(1);
  const ShownRow first = Show(backend, scenario, rows.front(), on_host);
  for (const Values& values : rows) {
    const bool is_first = &values == &rows.front();
    text += scenario.name;
    for (const auto& [axis, value] : values) {
      const std::string& standing = std::ranges::find(scenario.axes, axis, &Axis::name)->standing;
      if (value != (is_first ? standing : rows.front().at(axis)))
        text += fmt::format("/{}:{}", axis, value);
    }
    text += "\n";
    const ShownRow shown = is_first ? first : Show(backend, scenario, values, false);
    for (const std::string& line : shown.lines) {
      const bool is_new = std::ranges::find(first.lines, line) == first.lines.end();
      if (is_first || is_new) text += line;
    }
    text += shown.report;
  }
  return text;
}

bool BeginsWith(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::ranges::any_of(beginnings, [&](const char* one) { return text.starts_with(one); });
}

// The scenarios of these families differ in their workloads alone: one shows the others.
bool IsAlike(const std::string& scenario, std::set<std::string>& seen) {
  return BeginsWith(scenario, {"Overlap/", "Lab/"}) &&
         !seen.insert(scenario.substr(0, scenario.rfind('/'))).second;
}

// Whether its rows are the same in every build. What a GPU's own workloads need, only a GPU knows.
bool IsShown(Backend backend, const Scenario& scenario) {
  if (backend == Backend::kHost) return scenario.missing.empty();
  return BeginsWith(scenario.name, {"Ddp/", "Fsdp/", "Layers/", "MixedPrecision/", "Moe/",
                                    "Overlap/SecondDelay", "Prefetch/", "Supply/", "Tp/"}) ||
         scenario.name.ends_with("/Delay");
}

// A text against a file in tests/data/, line by line.
void ExpectText(const std::string& text, const std::string& name) {
  const std::string path = std::string(TEST_DATA) + "/" + name;
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  if (expected.str() == text) return;
  const auto found = std::filesystem::temp_directory_path() / name;
  std::ofstream(found) << text;
  std::istringstream is(text);
  std::string line;
  std::string was;
  for (int number = 1; std::getline(is, line); ++number) {
    if (std::getline(expected, was) && was == line) continue;
    ADD_FAILURE() << path << ":" << number << " differs:\n  was " << was << "\n  is  " << line
                  << "\nall of it is in " << found;
    return;
  }
  ADD_FAILURE() << path << " has more lines than " << found;
}

class FamilyTables : public testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Backends, FamilyTables, testing::Values(Backend::kHost, Backend::kCuda),
                         [](const auto& instance) { return ToString(instance.param); });

TEST_P(FamilyTables, RowsAreUnchanged) {
  const auto device = DeviceOf(GetParam());
  Machine machine{*device, TestRanks()};
  Registry workloads;
  FillRegistry(workloads, machine);
  std::set<std::string> alike;
  std::set<std::string> names;
  std::string text;
  for (const Scenario& scenario : AllScenarios({workloads, *device, machine})) {
    if (IsShown(GetParam(), scenario) && names.insert(scenario.name).second &&
        !IsAlike(scenario.name, alike))
      text += ShownRows(GetParam(), scenario);
  }
  if (TestRanks().is_root())
    ExpectText(text, std::string("families-") + ToString(GetParam()) + ".txt");
}

// ---- Axes

std::string ShownAxis(const Axis& axis) {
  std::string accepted;
  try {
    accepted = axis.canonical("?");
  } catch (const UsageError& error) {
    accepted = error.what();
  }
  const std::string standing = axis.standing.empty() ? "" : ", standing " + axis.standing;
  return fmt::format("  {} = {}{}: {}\n", axis.name, fmt::join(axis.values, ","), standing,
                     accepted);
}

// Those that were not shown before. Names show the others' values.
std::string ShownAxes(const std::vector<Axis>& axes, std::set<std::string>& seen) {
  std::string text;
  for (const Axis& axis : axes) {
    const std::string line = ShownAxis(axis);
    if (seen.insert(line).second) text += line;
  }
  return text;
}

std::string ShownSpec(const WorkloadSpec& spec, Backend backend) {
  const Settings defaults = SettingsOf(spec.axes, {});
  std::string text = fmt::format("{}: {}", spec.name, Shown(spec.work_class));
  if (spec.collective) text += ", collective";
  if (!spec.baseline) text += ", no baseline";
  if (spec.by_copy_engine && spec.by_copy_engine(defaults)) text += ", by copy engine";
  if (backend != Backend::kHost) return text + "\n";
  const Footprint needs = spec.footprint(defaults);
  text += fmt::format(", {} B", needs.device_bytes);
  if (needs.host_bytes > 0) text += fmt::format(" on the host {}", needs.host_bytes);
  return text + "\n";
}

TEST_P(FamilyTables, AxesAreUnchanged) {
  const auto device = DeviceOf(GetParam());
  Machine machine{*device, TestRanks()};
  Registry workloads;
  FillRegistry(workloads, machine);
  std::set<std::string> seen;
  std::string text;
  for (const WorkloadSpec& spec : workloads.specs()) {
    EXPECT_NE(spec.summary, "") << spec.name;
    if (spec.axes.empty() || BeginsWith(spec.name, {"Cublas", "Mlp", "PeerCopy", "StandIn"}))
      continue;  // only builds with CUDA have them
    text += ShownSpec(spec, GetParam()) + ShownAxes(spec.axes, seen);
  }
  for (const Scenario& scenario : AllScenarios({workloads, *device, machine})) {
    const bool is_long = BeginsWith(scenario.name, {"Decode/"});  // its rows, as on the host
    if (!IsShown(GetParam(), scenario) && !is_long) continue;
    if (const std::string axes = ShownAxes(scenario.axes, seen); !axes.empty())
      text += scenario.name + "\n" + axes;
  }
  if (TestRanks().is_root()) ExpectText(text, std::string("axes-") + ToString(GetParam()) + ".txt");
}

// ---- Parts

// What a work of a small row says when a seventh of it is to be enqueued.
std::string RefusalOfSevenths(const std::string& scenario_name, const std::string& name) {
  const auto device = DeviceOf(Backend::kHost);
  Machine machine{*device, TestRanks()};
  const Registry workloads = AllWorkloads(machine);
  const std::vector<Scenario> all = AllScenarios({workloads, *device, machine});
  const Scenario& scenario = *std::ranges::find(all, scenario_name, &Scenario::name);
  ScenarioReport row(scenario_name, RowsOf(scenario).front(), DeviceOf(Backend::kHost));
  const std::vector<Work> works = WorksOf(row.runs());
  const std::unique_ptr<Workload> workload =
      (*std::ranges::find_if(works, [&](const Work& work) { return work->name == name; }))->make();
  workload->Connect();
  const auto stream = device->CreateStream({});
  try {
    workload->EnqueuePart(*stream, {0, 7});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Parts, AreRefusedWhereTheyDoNotDivideTheWork) {
  const auto refused = RefusalOfSevenths;
  EXPECT_EQ(refused("Ddp/Buckets", "forward"), "5 products cannot be cut into 7 parts");
  EXPECT_EQ(refused("Layers/CrossLayer", "free"), "3 layers cannot be cut into 7 parts");
  EXPECT_EQ(refused("MixedPrecision/Step", "update"), "144 rows cannot be cut into 7 parts");
  EXPECT_EQ(refused("Moe/DispatchCombine", "experts"),
            "2 micro-batches cannot be cut into 7 parts");
  EXPECT_EQ(refused("Fsdp/Prefetch", "forward"), "3 products cannot be cut into 7 parts");
  EXPECT_EQ(refused("Fsdp/Prefetch", "gather"), "6 calls cannot be cut into 7 parts");
  EXPECT_EQ(refused("Tp/RowParallel", "multiply"), "48 rows cannot be cut into 7 parts");
  EXPECT_EQ(refused("Tp/RowParallel", "send"), "24 rows cannot be cut into 7");
  EXPECT_EQ(refused("Tp/Block/Forward", "ffn 1 norm"), "512 rows cannot be cut into 7 parts");
}

}  // namespace
}  // namespace overlapbench
