#include "benchmarks/injected_delay.h"

#include <regex>
#include <string>

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
  std::regex names;
  Settings settings;  // of the Delay
};

// The last colon separates, since names have colons too.
Injection Parse(std::string_view flag, const WorkloadSpec& delay) {
  const auto colon = flag.rfind(':');
  if (colon == std::string_view::npos) {
    throw UsageError("--inject_delay takes REGEX:MICROSECONDS, got '" + std::string(flag) + "'");
  }
  Injection injection;
  const Axis& axis = delay.axes.front();
  const std::string names(flag.substr(0, colon));
  try {
    injection.settings.Set(axis, axis.canonical(flag.substr(colon + 1)));
    injection.names.assign(names, std::regex::extended);
  } catch (const UsageError& error) {
    throw UsageError("--inject_delay: microseconds: " + std::string(error.what()));
  } catch (const std::regex_error&) {
    throw UsageError("--inject_delay: '" + names + "' is not a regular expression");
  }
  return injection;
}

}  // namespace

std::vector<std::unique_ptr<WorkloadSpec>> InjectDelay(std::string_view flag,
                                                       const Registry& registry,
                                                       std::vector<PlannedBenchmark>& benchmarks) {
  const WorkloadSpec& delay = registry.Find("Delay");
  const Injection injection = Parse(flag, delay);
  std::vector<std::unique_ptr<WorkloadSpec>> delayed;
  for (auto& [configuration, make_fixture] : benchmarks) {
    if (!std::regex_search(configuration.name, injection.names)) continue;
    auto spec = std::make_unique<WorkloadSpec>(*configuration.comp);
    spec->make = [make = spec->make, delay_of = delay.make,
                  settings = injection.settings](const Settings& own) {
      return std::make_unique<DelayedWorkload>(make(own), delay_of(settings));
    };
    configuration.comp = spec.get();
    delayed.push_back(std::move(spec));
  }
  if (delayed.empty()) {
    throw UsageError("--inject_delay=" + std::string(flag) +
                     " matches none of the benchmarks that were chosen");
  }
  return delayed;
}

}  // namespace overlapbench
