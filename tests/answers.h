// Callables of the C interface that are functions of a test.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "interface/overlapbench.h"

namespace overlapbench {

using Answering = std::function<int32_t(overlapbench_answer& answer)>;
inline Answering Sleeping(std::chrono::microseconds time) {
  return [time](overlapbench_answer&) {
    std::this_thread::sleep_for(time);
    return 0;
  };
}

// An Answering is its context.
inline int32_t Call(void* context, void* /*stream*/, overlapbench_answer* answer) {
  return (*static_cast<Answering*>(context))(*answer);
}

inline constexpr const char* kOneIsEnough = "several ranks tell no more";

}  // namespace overlapbench
