// A random schedule of delays, for what must hold of any schedule. The same on all ranks.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fixtures/benchmark.h"
#include "workload/data.h"

namespace overlapbench {

// Up to 4 lanes and 15 steps of all classes, which wait for each other. `delay` makes a work of a
// given name, class and time.
struct DrawnSchedule {
  template <class MakeDelay>
  DrawnSchedule(std::uint32_t seed, const MakeDelay& delay) {
    const auto below = [&](std::size_t limit) { return Random(seed, draws++) % limit; };
    const std::size_t lanes = 1 + below(4);
    const std::size_t steps = 1 + below(15);
    for (std::size_t i = 0; i < lanes; ++i) run.schedule.AddLane({fmt::format("lane {}", i)});
    for (std::size_t i = 0; i < steps; ++i) {
      delay_ms.push_back(0.5 + 0.1 * static_cast<double>(below(20)));
      Schedule::StepOptions options;
      while (i > 0 && below(2) == 0) options.after.push_back(below(i));
      if (i > 0 && below(4) == 0) options.host_after.push_back(below(i));
      run.schedule.Add(below(lanes),
                       delay(fmt::format("step {}", i), static_cast<WorkClass>(below(3)),
                             std::chrono::microseconds(std::lround(delay_ms.back() * 1000))),
                       options);
    }
    if (below(3) == 0) run.schedule.leader = below(lanes);
  }

  Run run{.name = "random"};
  std::vector<double> delay_ms;
  long draws = 0;
};

}  // namespace overlapbench
