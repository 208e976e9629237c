#include "benchmarks/against_copy.h"

#include <algorithm>

#include "workload/element.h"

namespace overlapbench {
namespace {

constexpr const char* kCopy = "copy";
constexpr const char* kFused = "fused";

Remark ReportCopyShare(const Measurement& measurement, Counters& counters) {
  constexpr double kPercent = 100;
  ReportOwnRates(measurement, counters);
  const Series own_ms = measurement.Total_ms();
  const Series copy_ms = measurement.Total_ms(kCopy);
  Report(counters, "copy_ms", copy_ms);
  Report(counters, "pct_of_copy", kPercent * (copy_ms / own_ms));
  if (!measurement.Has(kFused)) return {};
  const Series fused_ms = measurement.Total_ms(kFused);
  Report(counters, "fused_ms", fused_ms);
  Report(counters, "fused_speedup", own_ms / fused_ms);
  counters["predicted_speedup"] = measurement.CostOf(measurement.own().name).moved_bytes /
                                  measurement.CostOf(kFused).moved_bytes;
  return {};
}

Work CopyWork(const WorkloadSpec& copy, long bytes) {
  constexpr long kWord = 4;
  const long words = std::max(1L, (bytes + kWord - 1) / kWord);
  return MakeWork(copy, SettingsOf(copy.axes, {{"bytes", std::to_string(words * kWord)}}), kCopy);
}

}  // namespace

std::vector<Counter> FormCounters() {
  using enum Better;
  return {
      {"copy_ms", "ms", kLower, Range::kPositive, "copy",
       "a device copy that reads and writes as many bytes as the kernel must"},
      {"pct_of_copy", "%", kHigher, Range::kNotNegative, "of a copy", "100 x copy / T", true},
      {"fused_ms", "ms", kLower, Range::kPositive, "fused", "the fused form"},
      {"fused_speedup", "", kHigher, Range::kPositive, "fused speedup", "T / fused"},
      {"predicted_speedup", "", kHigher, Range::kPositive, "predicted",
       "bytes that this form moves / bytes that the fused form moves"},
      {"sync_cost_ms", "ms", kLower, Range::kSigned, "cost of waiting",
       "with tie:host: T - T of the same steps with tie:events"},
      {"identical", "bool", kHigher, Range::kFlag, "identical",
       "1 if the result equals the sequential run's bit for bit; 0 makes the row invalid unless "
       "the arithmetic differs, as it does for micro-batches of another size"},
  };
}

Scenario ScenarioOf(const Catalog& catalog, const AgainstCopy& against) {
  std::vector<const WorkloadSpec*> workloads = {&against.kernel};
  if (against.fused != nullptr) workloads.push_back(against.fused);
  Scenario scenario = ScenarioOf(against.name, workloads, against.values);
  const WorkloadSpec& copy = catalog.workloads.Find("DeviceCopy");
  scenario.runs = [&copy, &kernel = against.kernel, fused = against.fused,
                   copied_bytes = against.copied_bytes](const Settings& settings) {
    std::vector<Run> runs = {SoloRun(CopyWork(copy, copied_bytes(settings)))};
    if (fused != nullptr) runs.push_back(SoloRun(MakeWork(*fused, settings, kFused)));
    runs.push_back(SoloRun(MakeWork(kernel, settings)));
    return runs;
  };
  scenario.report = ReportCopyShare;
  return scenario;
}

long ElementBytes(const Settings& settings) {
  return static_cast<long>(SizeOf(ElementNamed(settings.Text("precision"))));
}

}  // namespace overlapbench
