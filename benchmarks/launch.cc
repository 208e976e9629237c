// Launch: what a kernel launch costs, and how long a kernel must be for that cost not to matter.
//
// EmptyKernel and Pieces are chains of kernels on one lane. Each has two runs. In the run behind
// the gate, the time to enqueue is the host's cost, and the time to run what is already enqueued is
// the device's cost. The run without the gate gives the row's time: the slower of the two sides
// determines it.
//
// - EmptyKernel: empty kernels. All of their time is cost.
// - Pieces: a fixed amount of arithmetic in several kernels, compared with all of it in one. The
//   extra time of the pieces is cost. A kernel shorter than the cost of its launch is dominated by
//   it.
// - RoundTrip: the time from a launch until the host knows that it is done.
//
// HandOver is a chain of empty kernels. Each begins when the one before has ended. They are all on
// one lane, or on two in turn, which wait for each other by events. The time per kernel is what a
// hand-over takes, the empty kernel included. Every run measures it at its start, too
// (benchmarks/self_test.h).
#include <algorithm>
#include <array>

#include "benchmarks/scenario.h"

namespace overlapbench::families {
namespace {

constexpr double kMicrosecondsInMillisecond = 1000;

// A chain of `work`'s parts, behind the gate and without it.
std::vector<Run> Chains(const Work& work, const Settings& settings) {
  const long launches = settings.Integer("launches");
  Run gated{.name = "gated", .as_graph = settings.Text("call") == "graph"};
  const std::size_t lane = gated.schedule.AddLane({"COMP"});
  for (long i = 0; i < launches; ++i) gated.schedule.Add(lane, work, {.part = {i, launches}});
  Run ungated = gated;
  ungated.name = "ungated";
  ungated.gated = false;
  return {gated, ungated};
}

double Launches(const Measurement& measurement) {
  return static_cast<double>(measurement.settings().Integer("launches"));
}

Remark ReportEmpty(const Measurement& measurement, Counters& counters) {
  constexpr double kMillisecondsInSecond = 1000;
  const double launches = Launches(measurement);
  const double us_each = kMicrosecondsInMillisecond / launches;
  Report(counters, "host_us_per_launch", us_each * measurement.Enqueue_ms("gated"));
  Report(counters, "device_us_per_launch", us_each * measurement.Total_ms("gated"));
  Report(counters, "launches_per_s", launches * kMillisecondsInSecond / measurement.Total_ms());
  return {};
}

Remark ReportPieces(const Measurement& measurement, Counters& counters) {
  const double launches = Launches(measurement);
  const double us_each = kMicrosecondsInMillisecond / launches;
  const Series whole_ms = measurement.Total_ms("whole");
  const Series kernel_us = us_each * whole_ms;
  const Series host_us = us_each * measurement.Enqueue_ms("gated");
  Series dominated_below_us = host_us;
  if (launches > 1) {  // for one launch, it is noise
    const double us_each_more = kMicrosecondsInMillisecond / (launches - 1);
    const Series device_us = us_each_more * (measurement.Total_ms("gated") - whole_ms);
    Report(counters, "device_us_per_launch", device_us);
    dominated_below_us = LongerOf(host_us, device_us);
  }
  Report(counters, "whole_ms", whole_ms);
  Report(counters, "pieces_slowdown", measurement.Total_ms() / whole_ms);
  Report(counters, "kernel_us", kernel_us);
  Report(counters, "host_us_per_launch", host_us);
  Report(counters, "dominated_below_us", dominated_below_us);
  return Remark::Finding(kernel_us.median() < dominated_below_us.median() ? "launches dominate"
                                                                          : "kernels dominate");
}

Remark ReportRoundTrip(const Measurement& measurement, Counters& counters) {
  Report(counters, "round_trip_us",
         kMicrosecondsInMillisecond * measurement.Enqueue_ms(measurement.own().name));
  return {};
}

std::vector<Run> HandOverRuns(const Work& empty, const Settings& settings) {
  const long kernels = settings.Integer("kernels");
  Run one{.name = "same"};
  Run two{.name = "other"};
  const std::size_t only = one.schedule.AddLane({"COMP"});
  const std::array lanes = {two.schedule.AddLane({"COMP"}), two.schedule.AddLane({"SECOND"})};
  std::vector<std::size_t> before;
  for (long i = 0; i < kernels; ++i) {
    one.schedule.Add(only, empty, {.part = {i, kernels}});
    before = {two.schedule.Add(lanes.at(i % 2), empty, {.part = {i, kernels}, .after = before})};
  }
  return {one, two};
}

Remark ReportHandOver(const Measurement& measurement, Counters& counters) {
  const double us_each =
      kMicrosecondsInMillisecond / static_cast<double>(measurement.settings().Integer("kernels"));
  Report(counters, "same_stream_us", us_each * measurement.Total_ms("same"));
  Report(counters, "other_stream_us", us_each * measurement.Total_ms("other"));
  return {};
}

Scenario HandOver(const WorkloadSpec& empty) {
  Scenario scenario{.name = "Launch/HandOver", .missing = empty.missing};
  scenario.axes = {IntegerAxis("kernels", "empty kernels of the chain", 2, 500, "100")};
  scenario.runs = [&empty](const Settings& settings) {
    const Settings of_empty = settings.With("launches", settings.Text("kernels"));
    return HandOverRuns(MakeWork(empty, of_empty), settings);
  };
  scenario.report = ReportHandOver;
  return scenario;
}

// A scenario of chains, with the axis `call` after the number of launches.
Scenario ChainScenario(const std::string& name, const WorkloadSpec& spec) {
  Scenario scenario{.name = "Launch/" + name, .missing = spec.missing, .axes = {spec.axes.front()}};
  scenario.axes.push_back(ChoiceAxis("call",
                                     "a launch for each, or one for a recorded graph of them",
                                     {"loop", "graph"}, "loop,graph"));
  AppendAxes(scenario.axes, spec.axes);
  scenario.excluded = spec.excluded;
  return scenario;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const WorkloadSpec& empty = catalog.workloads.Find("EmptyKernel");
  const WorkloadSpec& pieces = catalog.workloads.Find("Pieces");
  Scenario round_trip = Baseline("Launch/RoundTrip", catalog.workloads.Find("RoundTrip"));
  round_trip.report = ReportRoundTrip;
  Scenario empty_kernel = ChainScenario("EmptyKernel", empty);
  empty_kernel.runs = [&empty](const Settings& settings) {
    return Chains(MakeWork(empty, settings), settings);
  };
  empty_kernel.report = ReportEmpty;
  Scenario in_pieces = ChainScenario("Pieces", pieces);
  in_pieces.runs = [&pieces](const Settings& settings) {
    const Work work = MakeWork(pieces, settings, "whole");
    std::vector<Run> runs = Chains(work, settings);
    runs.insert(runs.begin(), SoloRun(work));
    return runs;
  };
  in_pieces.report = ReportPieces;
  return {round_trip, empty_kernel, in_pieces, HandOver(empty)};
}

}  // namespace

Family Launch() {
  using enum Better;
  Family family{.name = "Launch",
                .about =
                    "What a launch costs the host and the device, and how short a kernel may "
                    "be.",
                .lead = {"time", "host_us_per_launch", "device_us_per_launch", "round_trip_us",
                         "launches_per_s", "kernel_us", "pieces_slowdown", "dominated_below_us",
                         "same_stream_us", "other_stream_us"}};
  family.counters = {
      {"host_us_per_launch", "us", kLower, Range::kNotNegative, "host per launch",
       "the host's time to enqueue / launches, behind the gate"},
      {"device_us_per_launch", "us", kLower, Range::kSigned, "device per launch",
       "time behind the gate / launches; of Pieces (time - whole) / (launches - 1)"},
      {"launches_per_s", "1/s", kHigher, Range::kNotNegative, "launches",
       "launches / T, without the gate"},
      {"round_trip_us", "us", kLower, Range::kNotNegative, "round trip",
       "from a launch until the host knows that it is done"},
      {"whole_ms", "ms", kLower, Range::kPositive, "whole", "the same arithmetic in one kernel"},
      {"pieces_slowdown", "", kLower, Range::kPositive, "slowdown", "T / whole"},
      {"kernel_us", "us", kNeither, Range::kPositive, "kernel", "whole / launches"},
      {"dominated_below_us", "us", kLower, Range::kNotNegative, "dominated below",
       "the greater of the host's and the device's cost of a launch"},
      {"same_stream_us", "us", kLower, Range::kPositive, "same stream",
       "an empty kernel and the hand-over from the one before it on the same stream"},
      {"other_stream_us", "us", kLower, Range::kPositive, "other stream",
       "the same, if the one before is on another stream"},
  };
  family.scenarios = &Scenarios;
  return family;
}

}  // namespace overlapbench::families
