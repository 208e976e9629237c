#include "benchmarks/imitation.h"

#include <optional>

#include "comm/stand_in.h"
#include "ranks/ranks.h"
#include "workload/own_time.h"

namespace overlapbench {
namespace {

// The workload's time on the slowest rank.
double Time_us(const Machine& machine, Workload& workload) {
  constexpr int kRuns = 7;
  constexpr const char* kWhat = "the communication alone";
  double time_us = 0;
  machine.ranks.Together(std::string("timing ") + kWhat, [&] {
    const auto stream = machine.device.CreateStream();
    workload.Reset(*stream);
    time_us = ShortestTime_us(machine, *stream, kRuns, kWhat, [&] { workload.Enqueue(*stream); });
  });
  return machine.ranks.Max(time_us, std::string("timing ") + kWhat);
}

}  // namespace

struct Imitation::Model {
  Workload* comm = nullptr;
  std::optional<StandInOptions> found;

  const StandInOptions& Find(const Machine& machine);
};

const StandInOptions& Imitation::Model::Find(const Machine& machine) {
  constexpr int kSmsOfEngines = 16;
  if (found) return *found;
  StandInOptions options;
  options.duration_us = Time_us(machine, *comm);
  // This also determines how many SMs it takes. The session will report any fault it finds.
  comm->IneffectiveKnob();
  options.sms = static_cast<int>(comm->sms().value_or(0));
  if (options.sms == 0) options.sms = kSmsOfEngines;
  const Cost cost = comm->cost();
  options.moved_bytes = static_cast<std::size_t>(cost.memory_bytes + cost.moved_bytes);
  return found.emplace(options);
}

Imitation::Imitation(const Machine& machine, const Work& comm)
    : machine_(machine), model_(std::make_shared<Model>()) {
  WorkPlan plan = *comm;
  plan.make = [make = comm->make, model = model_] {
    auto workload = make();
    model->comm = workload.get();
    return workload;
  };
  comm_ = std::make_shared<const WorkPlan>(std::move(plan));
}

Work Imitation::StandIn(const std::string& name, std::size_t span_bytes) const {
  const std::size_t most_bytes = span_bytes == 0 ? 0 : kMostSpan;
  WorkPlan plan{.name = name, .work_class = WorkClass::kComm, .footprint = {most_bytes}};
  plan.make = [machine = machine_, model = model_, span_bytes, most_bytes] {
    return MakeStandIn(machine, most_bytes, [machine, model, span_bytes] {
      StandInOptions options = model->Find(machine);
      options.span_bytes = span_bytes;
      if (span_bytes == 0) options.moved_bytes = 0;
      return options;
    });
  };
  return std::make_shared<const WorkPlan>(std::move(plan));
}

}  // namespace overlapbench
