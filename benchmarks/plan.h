// Plan: which benchmarks exist on this machine, before any is chosen.
//
// A scenario adds Cases: a workload or a pair, with the values its axes take by default. --axis
// replaces values wherever the axis occurs. What cannot run here is kept with the reason.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fixtures/timed_fixture.h"
#include "workload/registry.h"

namespace overlapbench {

struct Case {
  std::string comm;  // "" in a baseline
  std::string comp;  // the only workload of a baseline, whichever side it is on
  std::map<std::string, std::string> values;  // axis → "V1,V2", in place of the workload's defaults
  // What it is held against in the same group of samples. They take the case's own settings, or
  // what `reference_settings` makes of those.
  std::vector<std::string> references = {};
  // How it is named, where not by its workloads: "Bandwidth/direction:both".
  std::string title = "";
  std::function<Settings(const WorkloadSpec& reference, const Settings&)> reference_settings = {};
};

struct PlannedBenchmark {
  Configuration configuration;
  std::function<std::shared_ptr<TimedFixture>(Suite&, const Configuration&)> make_fixture;
};

class Plan {
 public:
  Plan(const Registry& registry, Backend backend, const std::vector<AxisOverride>& overrides);

  // Adds every combination of the case's axes, measured by `Fixture`.
  template <class Fixture>
  void Add(const std::string& family, const Case& one) {
    AddCombinations(family, one, Fixture::Axes(backend_), &Fixture::MakeScene,
                    [](Suite& suite, const Configuration& configuration) {
                      return std::make_shared<Fixture>(suite, configuration);
                    });
  }

  [[nodiscard]] const std::vector<PlannedBenchmark>& benchmarks() const { return benchmarks_; }
  // The axes that belong to the method and not to a workload: of every sample, and of the fixtures
  // that were added.
  [[nodiscard]] const std::vector<Axis>& method_axes() const { return method_axes_; }
  // Throws UsageError if the user named an axis that nothing has, or values that nothing takes.
  // Called when all has been added.
  void RequireKnownAxes() const;
  // Says why a whole family, measured by `Fixture`, cannot run here.
  template <class Fixture>
  void AddUnavailable(const std::string& name, const std::string& reason) {
    Know(Fixture::Axes(backend_));
    unavailable_.push_back({name, reason});
  }

  // "Overlap/AllToAll+Gemm: needs at least 2 GPUs": names that cannot run here, with the reason.
  struct Unavailable {
    std::string name;
    std::string reason;
  };
  [[nodiscard]] const std::vector<Unavailable>& unavailable() const { return unavailable_; }

 private:
  void Know(const std::vector<Axis>& fixture_axes);
  void AddCombinations(const std::string& family, const Case& one,
                       const std::vector<Axis>& fixture_axes,
                       decltype(Configuration::make_scene) make_scene,
                       const decltype(PlannedBenchmark::make_fixture)& make_fixture);
  [[nodiscard]] std::vector<Axis> AxesOf(const Case& one, const std::vector<Axis>& fixture_axes);
  // What to do instead where an override that nothing takes reads like a part of names, as
  // "direction" in "Copy/Bandwidth/direction:both", which is no axis; "" where it does not.
  [[nodiscard]] std::string HintAtNames(const AxisOverride& one) const;
  // Gives the axes the values that the user chose. Returns why one does not take them, or "".
  std::string Replace(std::vector<Axis>& axes);

  const Registry& registry_;
  Backend backend_;
  std::vector<AxisOverride> overrides_;
  std::vector<Axis> method_axes_;
  std::set<std::string> taken_;                 // the overrides that some case takes
  std::map<std::string, std::string> refused_;  // and why the first case that does not, does not
  std::vector<PlannedBenchmark> benchmarks_;
  std::vector<Unavailable> unavailable_;
};

// Every scenario's cases. Throws UsageError if the user named an axis that nothing has, or values
// that nothing takes.
Plan MakePlan(const Registry& registry, const std::vector<AxisOverride>& overrides,
              const Device& device);

// The scenarios, one file each.
void PlanCompute(Plan& plan, const Registry& registry);
void PlanComm(Plan& plan, const Registry& registry);
void PlanOverlap(Plan& plan, Backend backend);
void PlanCopy(Plan& plan, Backend backend);
void PlanPriority(Plan& plan, const Device& device);
void PlanSupply(Plan& plan);
void PlanLaunch(Plan& plan);
void PlanGelu(Plan& plan, Backend backend);
void PlanSoftmax(Plan& plan, Backend backend);
void PlanMlp(Plan& plan);

}  // namespace overlapbench
