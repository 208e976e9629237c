// Steps: output[i] = input[i] + steps, one step at a time. `steps` dependent multiply-adds for
// every element read and written, so `steps` sets whether memory or arithmetic is the bound.
//
// Values are whole numbers of float32 below 2^24, so every step is exact on any hardware and the
// result shows how many steps were taken. Cost: 2 · steps operations per element. FindFaultInSteps
// checks arrays on the device that FillSteps filled, part by part.
#pragma once

#include <string>

#include "workload/workload.h"

namespace overlapbench {

// With more steps, results may exceed the whole numbers that float32 represents exactly.
inline constexpr long kMostSteps = 16'000'000;

// `input` may be `output`. Both are in the device's memory.
void EnqueueSteps(Device& device, Stream& stream, float* output, const float* input, long count,
                  int steps);

// Fills `data` with random whole numbers from 1 to 256: those of an array from element `first` on.
void FillSteps(Stream& stream, float* data, long first, long count);
// Whether `data`, on the device, is what FillSteps writes from element `first` on, plus `steps`.
// Waits for `stream`.
Verdict FindFaultInSteps(const Machine& machine, Stream& stream, const float* data, long first,
                         long count, int steps);

}  // namespace overlapbench
