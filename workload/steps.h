// Steps: output[i] = input[i] + steps, one step at a time. `steps` dependent multiply-adds for
// every element read and written, so a number sets whether memory or arithmetic bounds it.
//
// Values are whole numbers of float32 below 2^24, so every step is exact on any hardware and the
// result tells how many steps were taken. Cost: 2 · steps operations an element. An array on the
// device that starts as FillSteps leaves it is checked by FindFaultInSteps, part by part.
#pragma once

#include <string>

#include "workload/workload.h"

namespace overlapbench {

// More steps than this may leave the whole numbers that float32 holds exactly.
inline constexpr long kMostSteps = 16'000'000;

// `input` may be `output`. Both are in the device's memory.
void EnqueueSteps(Device& device, Stream& stream, float* output, const float* input, long count,
                  int steps);

// Random whole numbers from 1 to 256: those of an array from its element `first` on.
void FillSteps(Stream& stream, float* data, long first, long count);
// Whether `data`, on the device, is what FillSteps gives from element `first` on, plus `steps`.
// Waits for `stream`.
Verdict FindFaultInSteps(const Machine& machine, Stream& stream, const float* data, long first,
                         long count, int steps);

}  // namespace overlapbench
