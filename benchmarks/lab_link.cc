// Lab/Link and Lab/Knee: how many SMs does the link between GPUs take?
//
// A row of Lab/Link is one point of a curve: the bandwidth of a transport that takes a number of
// SMs (NCCL: CTAs). A broadcast loads the link one way, a ring of sends and receives both ways.
// NCCL's copy engines and symmetric kernels carry neither, so an all-gather stands in for them.
//
// A row of Lab/Knee measures a whole curve, all points in turn. knee_sms is the fewest SMs that
// reach 95 % of the plateau, the highest point. Libraries hard-code such figures
// (docs/laboratory.md compares them).
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "benchmarks/scenario.h"
#include "comm/transport.h"

namespace overlapbench::families {
namespace {

constexpr const char* kPoints = "Lab/Link";
constexpr const char* kCurves = "Lab/Knee";

// Transports that have the same knob for their SMs.
struct Knob {
  std::string collective;
  std::string transports;
  std::string axis;  // "" if they take no SMs, or a fixed number
  long most = 0;     // of the axis; 0: all SMs, up to kMostCommSms
  std::string place = "out";
};

// A broadcast in place copies nothing within its root. NCCL takes at most 16 CTAs for a send and a
// receive between two GPUs.
const std::vector<Knob>& AllKnobs() {
  static const std::vector<Knob> knobs = {
      {"Broadcast", "sm_load,sm_store,sm_bulk", "comm_sms", 0, "in"},
      {"Broadcast", "nccl", "comm_ctas", 32, "in"},
      {"Broadcast", "copy", "", 0, "in"},
      {"SendRecv", "sm_load,sm_store,sm_bulk", "comm_sms"},
      {"SendRecv", "nccl", "comm_ctas", 16},
      {"SendRecv", "copy", ""},
      {"AllGather", "nccl,nccl_sym", "comm_ctas", 32},
      {"AllGather", "nccl_ce,copy", ""},
  };
  return knobs;
}

std::vector<long> Ladder(const Knob& knob, const Device& device) {
  // From eight on, CTAs form clusters of four (comm/transport.cc).
  std::vector<long> ladder = knob.axis == "comm_ctas"
                                 ? std::vector<long>{1, 2, 4, 8, 16, 24}
                                 : std::vector<long>{1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64};
  const long most =
      knob.most > 0 ? knob.most : std::min<long>(device.info().multiprocessors, kMostCommSms);
  std::erase_if(ladder, [most](long sms) { return sms >= most; });
  ladder.push_back(most);
  return ladder;
}

Values ValuesOf(const Catalog& catalog, const Knob& knob) {
  if (catalog.on_host()) return {{"bytes", "1M"}};
  return {{"bytes", "512M"}, {"transport", knob.transports}, {"place", knob.place}};
}

Remark ReportPoint(const Measurement& measurement, Counters& counters) {
  const Series rate = BusGBps(measurement.CostOf(measurement.own().name), measurement.Total_ms());
  Report(counters, "GBps", rate);
  if (const long sms = measurement.comm_sms().value_or(0); sms > 0)
    Report(counters, "GBps_per_sm", rate / static_cast<double>(sms));
  return {};
}

// The first point of each group's curve that reaches the plateau's 95 %.
Series Knees(const std::vector<long>& ladder, const std::vector<Series>& rates, double plateau) {
  constexpr double kShare = 0.95;
  std::vector<double> knees;
  for (std::size_t sample = 0; sample < rates.front().values().size(); ++sample) {
    const auto reached = std::ranges::find_if(
        rates, [&](const Series& rate) { return rate.values()[sample] >= kShare * plateau; });
    const std::size_t place = std::min<std::size_t>(reached - rates.begin(), ladder.size() - 1);
    knees.push_back(static_cast<double>(ladder[place]));
  }
  return Series(std::move(knees));
}

Remark ReportCurve(const std::vector<long>& ladder, const Measurement& measurement,
                   Counters& counters) {
  std::vector<Series> rates;
  for (const long sms : ladder) {
    const std::string run = std::to_string(sms);
    rates.push_back(BusGBps(measurement.CostOf(run), measurement.Total_ms(run)));
  }
  const Series& plateau = *std::ranges::max_element(rates, {}, &Series::median);
  Report(counters, "GBps", plateau);
  Report(counters, "GBps_per_sm", rates.front() / static_cast<double>(ladder.front()));
  Report(counters, "knee_sms", Knees(ladder, rates, plateau.median()));
  return Remark::Finding(fmt::format("peak {:.0f} GB/s, {:.0f} with all {}", plateau.median(),
                                     rates.back().median(), ladder.back()));
}

Scenario PointsOf(const Catalog& catalog, const Knob& knob) {
  Values values = ValuesOf(catalog, knob);
  if (!catalog.on_host() && !knob.axis.empty())
    values[knob.axis] = fmt::format("{}", fmt::join(Ladder(knob, catalog.device), ","));
  Scenario scenario = Baseline(fmt::format("{}/{}", kPoints, knob.collective),
                               catalog.workloads.Find(knob.collective), values);
  scenario.report = ReportPoint;
  return scenario;
}

Scenario CurvesOf(const Catalog& catalog, const Knob& knob) {
  const WorkloadSpec& spec = catalog.workloads.Find(knob.collective);
  Scenario scenario =
      ScenarioOf(fmt::format("{}/{}", kCurves, knob.collective), {&spec}, ValuesOf(catalog, knob));
  if (catalog.on_host()) {
    scenario.missing = "the host backend has no SMs to count";
    return scenario;
  }
  const std::vector<long> ladder = Ladder(knob, catalog.device);
  std::erase_if(scenario.axes, [&](const Axis& axis) { return axis.name == knob.axis; });
  const auto at = [axis = knob.axis](const Settings& settings, long sms) {
    return settings.With(axis, std::to_string(sms));
  };
  scenario.excluded = [of_workload = scenario.excluded, at, ladder](const Settings& settings) {
    return of_workload(at(settings, ladder.back()));
  };
  scenario.runs = [&spec, at, ladder](const Settings& settings) {
    std::vector<Run> runs;
    for (const long sms : ladder)
      runs.push_back(SoloRun(MakeWork(spec, at(settings, sms), std::to_string(sms))));
    return runs;
  };
  scenario.report = std::bind_front(ReportCurve, ladder);
  return scenario;
}

template <class Make>
std::vector<Scenario> ForAll(const Catalog& catalog, bool only_curves, const Make& make) {
  std::vector<Scenario> scenarios;
  for (const Knob& knob : AllKnobs()) {
    if (only_curves && knob.axis.empty()) continue;
    scenarios.push_back(make(catalog, knob));
  }
  return scenarios;
}

}  // namespace

Family LabLink() {
  using enum Better;
  return {.name = kPoints,
          .about = "Bandwidth of the link against the SMs that drive it, one row a point.",
          .lead = {"GBps", "GBps_per_sm", "comm_sms", "time"},
          .counters = {{"GBps_per_sm", "GB/s", kHigher, Range::kPositive, "per SM",
                        "GBps / comm_sms; in Lab/Knee of the curve's first point"}},
          .scenarios = [](const Catalog& catalog) { return ForAll(catalog, false, PointsOf); }};
}

Family LabKnee() {
  using enum Better;
  return {.name = kCurves,
          .about = "The plateau of a link's bandwidth, and the fewest SMs that reach it.",
          .lead = {"knee_sms", "GBps", "GBps_per_sm"},
          .counters = {{"knee_sms", "count", kLower, Range::kPositive, "knee",
                        "fewest SMs (NCCL: CTAs) that reach 95 % of the plateau's bandwidth"}},
          .scenarios = [](const Catalog& catalog) { return ForAll(catalog, true, CurvesOf); }};
}

}  // namespace overlapbench::families
