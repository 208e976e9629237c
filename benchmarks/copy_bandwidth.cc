// Copy/Bandwidth: every route alone, and both directions of the bus at once; kinds of host memory,
// sizes, copy engine against SMs.
#include <functional>

#include "benchmarks/copy.h"

namespace overlapbench::copy {
namespace {

// Copies in both directions at once, and each direction alone, to report its rate and slowdown.
std::vector<Run> DuplexRuns(const WorkloadSpec& in, const WorkloadSpec& out,
                            const Settings& settings) {
  Run both{.name = "both", .timed = Timed::kLanes};
  for (const WorkloadSpec* spec : {&in, &out})
    both.schedule.Add(both.schedule.AddLane({spec->name}), MakeWork(*spec, settings));
  return WithSoloRuns(both);
}

Remark ReportDuplex(const Measurement& measurement, Counters& counters) {
  constexpr double kGBpsFromBytesPerMs = 1e-6;
  struct Direction {
    const char* copy;
    const char* rate;
    const char* slowdown;
  };
  constexpr Direction kDirections[] = {
      {"HostToDevice", "host_to_device_GBps", "host_to_device_slowdown"},
      {"DeviceToHost", "device_to_host_GBps", "device_to_host_slowdown"}};
  Series sum_GBps(std::vector<double>(measurement.groups().size()));
  for (const auto& [copy, rate, slowdown] : kDirections) {
    const Series own_ms = measurement.LaneOwn_ms("both", copy);
    const Series GBps = measurement.CostOf(copy).copied_bytes * kGBpsFromBytesPerMs / own_ms;
    Report(counters, rate, GBps);
    Report(counters, slowdown, own_ms / measurement.LaneOwn_ms(copy, copy));
    sum_GBps = sum_GBps + GBps;
  }
  Report(counters, "GBps", sum_GBps);
  return {};
}

Scenario BothDirections(const std::string& name, const WorkloadSpec& in, const WorkloadSpec& out,
                        const Values& values) {
  Scenario both = ScenarioOf(name, {&in, &out}, values);
  both.runs = std::bind_front(DuplexRuns, std::cref(in), std::cref(out));
  both.report = ReportDuplex;
  return both;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const char* const all_bytes =  // a curve of bandwidth against size
      catalog.on_host() ? "64K,1M,16M" : "4K,64K,1M,16M,64M,256M,1G";
  const char* const few_bytes =  // the ends and the bend of the curve only
      catalog.on_host() ? "64K,16M" : "64K,1M,64M,1G";
  const Values pinned = {{"bytes", all_bytes}};
  const Values others = {{"bytes", few_bytes}, {"memory", "registered,pageable"}};
  const Values by_sm = {{"bytes", few_bytes}, {"engine", "sm"}};
  const std::string name = "Copy/Bandwidth/direction:";
  const Registry& workloads = catalog.workloads;
  const WorkloadSpec& in = workloads.Find("HostToDevice");
  const WorkloadSpec& out = workloads.Find("DeviceToHost");
  std::vector<Scenario> scenarios;
  for (const Values& values : {pinned, others, by_sm}) {
    scenarios.push_back(Baseline(name + "host_to_device", in, values));
    scenarios.push_back(Baseline(name + "device_to_host", out, values));
    scenarios.push_back(BothDirections(name + "both", in, out, values));
  }
  for (const Values& values : {pinned, by_sm}) {
    scenarios.push_back(Baseline(name + "device_local", workloads.Find("DeviceCopy"), values));
    scenarios.push_back(Baseline(name + "peer", workloads.Find("PeerCopy"), values));
  }
  return scenarios;
}

}  // namespace

Experiment Bandwidth() {
  using enum Better;
  return {Scenarios,
          {{"host_to_device_GBps", "GB/s", kHigher, Range::kNotNegative, "in",
            "bytes / the copy's own time while both directions run; GBps is the sum of both"},
           {"device_to_host_GBps", "GB/s", kHigher, Range::kNotNegative, "out",
            "the same for the other direction"},
           {"host_to_device_slowdown", "", kLower, Range::kNotNegative, "in slowdown",
            "the copy's own time while both directions run / alone"},
           {"device_to_host_slowdown", "", kLower, Range::kNotNegative, "out slowdown",
            "the same for the other direction"}}};
}

}  // namespace overlapbench::copy
