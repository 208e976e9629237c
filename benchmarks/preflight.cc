#include "benchmarks/preflight.h"

#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "benchmarks/name_filter.h"
#include "benchmarks/plan.h"
#include "benchmarks/prologue.h"
#include "report/result_file.h"
#include "report/trace_file.h"

namespace overlapbench {
namespace {

// What two ranks of the host backend would list, without starting them.
class HostPlan {
 public:
  HostPlan() { FillRegistry(registry_, machine_); }
  [[nodiscard]] const Registry& registry() const { return registry_; }
  [[nodiscard]] Plan With(const std::vector<AxisOverride>& axes,
                          const std::vector<std::string>& pairs) const {
    return MakePlan({registry_, *device_, machine_}, axes, pairs);
  }

 private:
  Progress progress_{0, 2};
  Ranks ranks_{RankPlace{.rank = 0, .size = 2}, progress_};
  std::unique_ptr<Device> device_ = OpenHostDevice(1);
  Machine machine_{*device_, ranks_};
  Registry registry_;
};

// The folder of --trace_out for as long as it lives, and longer only if it was there before.
class TrialFolder {
 public:
  explicit TrialFolder(const std::string& path)
      : path_(path), is_new_(!std::filesystem::exists(path)) {
    const TraceFiles folder(path);
  }
  ~TrialFolder() {
    std::error_code ignored;
    if (is_new_) std::filesystem::remove(path_, ignored);
  }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;

 private:
  std::string path_;
  bool is_new_;
};

// All are open at the same time, so two flags that name one file are refused, whatever the paths.
void RequireOutputs(const Options& options) {
  std::optional<TrialFolder> folder;
  if (!options.trace_out.empty()) folder.emplace(options.trace_out);
  std::list<ResultFile> files;
  for (const std::string* path :
       {&options.out, &options.samples_out, &options.rank_times_out, &options.resources_out})
    if (!path->empty()) files.emplace_back(*path);
}

}  // namespace

void RequireUsableFilters(const Options& options) {
  const auto names = [] {
    const HostPlan host;
    const Plan plan = host.With({}, {});
    std::vector<std::string> all;
    for (const Benchmark& benchmark : plan.benchmarks()) all.push_back(benchmark.name);
    return all;
  };
  RequireUsableFilter("--benchmark_filter", options.filter, names);
  const std::string& delay = options.inject_delay;
  RequireUsableFilter("--inject_delay", delay.substr(0, delay.rfind(':')), names);
}

void RequireUsable(const Options& options, const std::function<void(const Registry&)>& others) {
  const bool lists = options.list_axes || options.list_tests || options.dry_run;
  if (!lists) RequireOutputs(options);
  const HostPlan host;
  others(host.registry());
  if (!ChoosesCuda(options)) static_cast<void>(host.With(options.axes, options.pairs));
}

std::vector<Axis> KnownAxes() {
  const HostPlan host;
  std::vector<Axis> axes;
  for (const WorkloadSpec& spec : host.registry().specs())
    axes.insert(axes.end(), spec.axes.begin(), spec.axes.end());
  const Plan plan = host.With({}, {});
  axes.insert(axes.end(), plan.axes().begin(), plan.axes().end());
  return axes;
}

}  // namespace overlapbench
