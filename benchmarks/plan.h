// Plan: which benchmarks exist on this machine, and which of them a run measures.
//
// Every scenario yields a benchmark for each combination of its axes' values. --axis replaces the
// values of an axis in every scenario that has it. Scenarios that cannot run here are kept with the
// reason.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/scenario.h"
#include "report/screen.h"

namespace overlapbench {

class Plan {
 public:
  explicit Plan(std::vector<AxisOverride> overrides) : overrides_(std::move(overrides)) {}

  void Add(Scenario scenario);
  // Adds axes of something that has no scenario here to the known ones.
  void Know(const std::vector<Axis>& axes) { AppendAxes(axes_, axes); }
  // Throws UsageError for an unknown axis, and for values that no scenario accepts. Call this after
  // everything has been added.
  void RequireKnownAxes() const;

  [[nodiscard]] const std::vector<Benchmark>& benchmarks() const { return benchmarks_; }
  // Every axis of every scenario, with the default values of the first that has it.
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  // "Overlap/AllToAll+Gemm: needs at least 2 GPUs": names that cannot run here, with the reason.
  struct Unavailable {
    std::string name;
    std::string reason;
  };
  [[nodiscard]] const std::vector<Unavailable>& unavailable() const { return unavailable_; }

 private:
  // What to do instead if an override that no scenario accepts looks like a part of names, such as
  // "direction" in "Copy/Bandwidth/direction:both", which is not an axis; "" otherwise.
  [[nodiscard]] std::string HintAtNames(const AxisOverride& one) const;
  // Gives the axes the values that the user chose. Returns why an axis does not accept them, or "".
  std::string Replace(std::vector<Axis>& axes);
  // `written`: before its sizes are rounded to units.
  void AddRow(const Scenario& scenario, const Settings& written);

  std::vector<AxisOverride> overrides_;
  std::vector<Axis> axes_;
  std::set<std::string> taken_;                 // the overrides that some scenario accepts
  std::map<std::string, std::string> refused_;  // override -> why the first refused it
  std::vector<Benchmark> benchmarks_;
  std::vector<Unavailable> unavailable_;
};

// The benchmarks that --benchmark_filter selects, and those among its matches that cannot run here.
struct Selection {
  std::vector<Benchmark> benchmarks;
  // "not available: NAME and 3 more: needs at least 2 GPUs": a line for each reason.
  std::vector<std::string> unavailable;
};

// `filter`: see name_filter.h. Throws UsageError if it is not a regular expression.
Selection Select(const Plan& plan, const std::string& filter);

// The lines about what cannot run. Like rows, they are wrapped on a terminal only.
std::string ShownUnavailable(const Selection& selection, const Screen& screen);

// Throws UsageError, saying why, if nothing was selected.
void RequireSomething(const Plan& plan, const Selection& selection, const std::string& filter);

}  // namespace overlapbench
