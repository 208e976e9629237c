// Schedules of tests: works that only have names, and schedules that are built step by step.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/schedule.h"

namespace overlapbench {

inline Work WorkNamed(const std::string& name, const Footprint& footprint = {}) {
  return std::make_shared<const WorkPlan>(WorkPlan{.name = name, .footprint = footprint});
}
inline Work WorkOfClass(WorkClass work_class, const std::string& name) {
  return std::make_shared<const WorkPlan>(WorkPlan{.name = name, .work_class = work_class});
}

// Steps named by their works, a lane each unless `lane` says otherwise.
class ScheduleBuilder {
 public:
  std::size_t Add(const std::string& name, Schedule::StepOptions options = {},
                  const std::string& lane = "") {
    const std::string lane_name = lane.empty() ? name : lane;
    const auto known = lanes_.find(lane_name);
    const std::size_t place =
        known != lanes_.end() ? known->second : lanes_[lane_name] = schedule.AddLane({lane_name});
    Work& work = works_[name];
    if (work == nullptr) work = WorkNamed(name);
    return schedule.Add(place, work, std::move(options));
  }
  [[nodiscard]] const Work& work(const std::string& name) const { return works_.at(name); }

  Schedule schedule;

 private:
  std::map<std::string, std::size_t> lanes_;
  std::map<std::string, Work> works_;
};

}  // namespace overlapbench
