#include "benchmarks/injected_delay.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "benchmarks/name_filter.h"

namespace overlapbench {
namespace {

class DelayedWorkload : public Workload {
 public:
  DelayedWorkload(std::unique_ptr<Workload> workload, std::unique_ptr<Workload> delay)
      : workload_(std::move(workload)), delay_(std::move(delay)) {}

  [[nodiscard]] Cost cost() const override { return workload_->cost(); }
  void Reset(Stream& stream) override { workload_->Reset(stream); }
  void Enqueue(Stream& stream) override {
    workload_->Enqueue(stream);
    delay_->Enqueue(stream);
  }
  // After the last part, however many there are.
  void EnqueuePart(Stream& stream, const Part& part) override {
    workload_->EnqueuePart(stream, part);
    if (part.index + 1 == part.count) delay_->Enqueue(stream);
  }
  [[nodiscard]] bool enqueue_waits() const override { return workload_->enqueue_waits(); }
  Verdict Verify(Stream& stream) override { return workload_->Verify(stream); }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return workload_->Fingerprint();
  }
  [[nodiscard]] std::string IneffectiveKnob() override { return workload_->IneffectiveKnob(); }

 private:
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Workload> delay_;
};

struct Injection {
  NameFilter names;
  Settings settings;  // of the Delay
};

// The last colon is the separator, since names have colons too.
Injection Parse(std::string_view flag, const WorkloadSpec& delay) {
  const auto colon = flag.rfind(':');
  if (colon == std::string_view::npos) {
    throw UsageError("--inject_delay takes REGEX:MICROSECONDS, got '" +
                     ShownFilter(std::string(flag)) + "'");
  }
  const Axis& axis = delay.axes.front();
  Settings settings;
  try {
    settings.Set(axis, axis.canonical(flag.substr(colon + 1)));
  } catch (const UsageError& error) {
    throw UsageError("--inject_delay: microseconds: " + std::string(error.what()));
  }
  return {NameFilter("--inject_delay", std::string(flag.substr(0, colon))), settings};
}

// The first computation of the benchmark's own run or, if there is none, its first work.
Work Delayable(const std::vector<Run>& runs) {
  const std::vector<Work> works = runs.back().schedule.works();
  const auto comp = std::ranges::find(works, WorkClass::kCompute, &WorkPlan::work_class);
  return comp != works.end() ? *comp : works.front();
}

std::vector<Run> Delay(std::vector<Run> runs, const WorkloadSpec& delay, const Settings& settings) {
  const Work work = Delayable(runs);
  WorkPlan delayed = *work;
  delayed.make = [make = work->make, delay_of = delay.make, settings] {
    return std::make_unique<DelayedWorkload>(make(), delay_of(settings));
  };
  const Work replacement = std::make_shared<const WorkPlan>(std::move(delayed));
  for (Run& run : runs) run.schedule = run.schedule.With(work, replacement);
  return runs;
}

}  // namespace

void RequireInjectable(std::string_view flag, const Registry& registry) {
  Parse(flag, registry.Find("Delay"));
}

bool InjectDelayIfAny(std::string_view flag, const Registry& registry,
                      std::vector<Benchmark>& benchmarks) {
  const WorkloadSpec& delay = registry.Find("Delay");
  const Injection injection = Parse(flag, delay);
  bool matched = false;
  for (Benchmark& benchmark : benchmarks) {
    if (!injection.names.Matches(benchmark.name)) continue;
    matched = true;
    benchmark.runs = [runs = benchmark.runs, &delay,
                      delay_of = injection.settings](const Settings& settings) {
      return Delay(runs(settings), delay, delay_of);
    };
  }
  return matched;
}

void InjectDelay(std::string_view flag, const Registry& registry,
                 std::vector<Benchmark>& benchmarks) {
  if (InjectDelayIfAny(flag, registry, benchmarks)) return;
  throw UsageError(fmt::format("--inject_delay={} matches none of the benchmarks that were chosen",
                               ShownFilter(std::string(flag))));
}

}  // namespace overlapbench
