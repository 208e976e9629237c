// StepKernel: output[i] = input[i] + steps, one step at a time: `steps` dependent multiply-adds for
// every element read and written, so that a number sets whether memory or arithmetic bounds it.
//
// Its values are whole numbers of float32 below 2^24, so that every step is exact on any hardware
// and the result tells how many steps were taken. Cost: 2 · steps operations an element.
#pragma once

#include "device/device.h"

namespace overlapbench {

// `input` may be `output`. Both are in the device's memory.
void EnqueueSteps(Device& device, Stream& stream, float* output, const float* input, long count,
                  int steps);

}  // namespace overlapbench
