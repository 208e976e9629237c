#include "benchmarks/copy_stages.h"

#include <utility>

namespace overlapbench::copy {

Stages StagesOf(const Machine& machine, const StagedShape& shape) {
  const auto array = std::make_shared<std::weak_ptr<StagedArray>>();
  const auto stage = [&](const char* name, WorkClass work_class, Stage which, Footprint footprint) {
    WorkPlan plan{.name = name, .work_class = work_class, .footprint = footprint};
    plan.make = [array, machine, shape, which] {
      std::shared_ptr<StagedArray> made = array->lock();
      if (made == nullptr) *array = made = std::make_shared<StagedArray>(machine, shape);
      return StagedArray::MakeStage(std::move(made), which);
    };
    return std::make_shared<const WorkPlan>(std::move(plan));
  };
  return {stage("in", WorkClass::kMemory, Stage::kIn, shape.footprint()),
          stage("compute", WorkClass::kCompute, Stage::kCompute, {}),
          stage("out", WorkClass::kMemory, Stage::kOut, {})};
}

StagedShape ShapeOf(const Settings& settings, const char* elements, long parts, long slots) {
  return {parts, slots, settings.Integer(elements), static_cast<int>(settings.Integer("intensity")),
          MemoryKindNamed(settings.Text("memory"))};
}

Axis MemoryAxis() {
  return ChoiceAxis("memory", "kind of host memory", {"pinned", "registered", "pageable"}, "pinned",
                    "pinned");
}

Axis IntensityAxis(long most, const char* values) {
  return IntegerAxis("intensity", "multiply-adds for each value", 1, most, values);
}

void AddInTurn(Schedule& schedule, std::size_t lane, const Stages& stages, const Part& part) {
  const std::size_t in = schedule.Add(lane, stages.in, {.part = part, .engine = kInEngine});
  const std::size_t compute =
      schedule.Add(lane, stages.compute, {.part = part, .after = {in}, .engine = kComputeEngine});
  schedule.Add(lane, stages.out, {.part = part, .after = {compute}, .engine = kOutEngine});
}

Run SequentialRun(const std::string& name, const Stages& stages, long parts) {
  Run run{.name = name};
  const std::size_t lane = run.schedule.AddLane({"sequential"});
  for (long part = 0; part < parts; ++part) AddInTurn(run.schedule, lane, stages, {part, parts});
  return run;
}

bool ReportStages(const Measurement& measurement, Counters& counters) {
  const bool identical = measurement.Identical("sequential", measurement.own().name);
  ReportBound(measurement, counters);
  for (const char* const run : {"sequential", "in", "compute", "out"})
    Report(counters, std::string(run) + "_ms", measurement.Total_ms(run));
  Report(counters, "speedup", measurement.Total_ms("sequential") / measurement.Total_ms());
  counters["identical"] = identical ? 1 : 0;
  return identical;
}

Remark NotIdentical() { return Remark::Invalid("the result is not that of the sequential run"); }

}  // namespace overlapbench::copy
