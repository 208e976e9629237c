// Copy/Fragmented: one large transfer against many small ones. The host's time for the calls is
// part of the question, and more calls than a stream's queue holds would block at a closed gate.
// These samples are therefore not gated.
#include <functional>

#include "benchmarks/copy.h"

namespace overlapbench::copy {
namespace {

std::vector<Run> Runs(const WorkloadSpec& copy, const WorkloadSpec& batch,
                      const Settings& settings) {
  const Work one = MakeWork(copy, settings, "one transfer");
  const long fragments = settings.Integer("fragments");
  Run run{.name = "fragmented", .gated = false, .as_graph = settings.Text("call") == "graph"};
  const std::size_t lane = run.schedule.AddLane({"MEM"});
  if (settings.Text("call") == "batch") {
    run.schedule.Add(lane, MakeWork(batch, settings, "fragments"));
  } else {
    for (long i = 0; i < fragments; ++i) run.schedule.Add(lane, one, {.part = {i, fragments}});
  }
  return {SoloRun(one, false), run};
}

Remark ReportFragmented(const Measurement& measurement, Counters& counters) {
  constexpr double kMicrosecondsInMillisecond = 1000;
  constexpr double kLatencyBound = 1.5;
  ReportOwnRates(measurement, counters);
  const double us_each =
      kMicrosecondsInMillisecond / static_cast<double>(measurement.settings().Integer("fragments"));
  const Series one_ms = measurement.Total_ms("one transfer");
  const Series slowdown = measurement.Total_ms() / one_ms;
  Report(counters, "one_transfer_ms", one_ms);
  Report(counters, "fragmented_slowdown", slowdown);
  Report(counters, "us_per_fragment", us_each * measurement.Total_ms());
  Report(counters, "host_us_per_fragment", us_each * measurement.Enqueue_ms("fragmented"));
  return Remark::Finding(slowdown.median() > kLatencyBound ? "latency-bound" : "bandwidth-bound");
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const WorkloadSpec& copy = catalog.workloads.Find("HostToDevice");
  const WorkloadSpec& batch = catalog.workloads.Find("BatchCopy");
  Scenario scenario{.name = "Copy/Fragmented", .axes = batch.axes};
  scenario.axes.push_back(ChoiceAxis("call",
                                     "a call for each copy, one for all, or a recorded graph",
                                     {"loop", "batch", "graph"}, "loop,batch,graph"));
  scenario.excluded = [&batch](const Settings& settings) -> std::string {
    if (settings.Text("call") == "batch") return batch.excluded(settings);
    return settings.Integer("bytes") % (4 * settings.Integer("fragments")) == 0
               ? ""
               : "bytes must be a multiple of 4 * fragments";
  };
  scenario.runs = std::bind_front(Runs, std::cref(copy), std::cref(batch));
  scenario.report = ReportFragmented;
  return {scenario};
}

}  // namespace

Experiment Fragmented() {
  using enum Better;
  return {Scenarios,
          {{"one_transfer_ms", "ms", kLower, Range::kPositive, "one transfer",
            "the same bytes in one copy"},
           {"fragmented_slowdown", "", kLower, Range::kPositive, "slowdown", "T / one transfer"},
           {"us_per_fragment", "us", kLower, Range::kPositive, "per fragment", "T / fragments"},
           {"host_us_per_fragment", "us", kLower, Range::kNotNegative, "host per fragment",
            "the host's time to enqueue / fragments"}}};
}

}  // namespace overlapbench::copy
