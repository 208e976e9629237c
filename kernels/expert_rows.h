// Rows of tokens on their way to experts and back: the kernels before a dispatch and after a
// combination.
//
// Rows have a multiple of 16 elements, of float32, bfloat16 or float16. Both kernels are bound by
// memory: they read and write each row once.
#pragma once

#include <cstdint>

#include "workload/element.h"
#include "workload/workload.h"

namespace overlapbench {

// output[i] = input[source[i]]; zeros where `source` is -1.
struct RowCopy {
  Element element = Element::kFloat32;
  long columns = 0;
  long rows = 0;  // of the output
  void* output = nullptr;
  const void* input = nullptr;
  const std::int32_t* source = nullptr;
};
void EnqueueRowCopy(Stream& stream, const RowCopy& copy);

// output[i] = Σ weight[i·terms + k] · row source[i·terms + k] over `terms` rows, in float32.
// Sources from `input_rows` on are rows of `more`, counted from there.
struct RowSum {
  Element element = Element::kFloat32;
  long columns = 0;
  long rows = 0;  // of the output
  long terms = 0;
  void* output = nullptr;
  const void* input = nullptr;
  long input_rows = 0;
  const void* more = nullptr;
  const std::int32_t* source = nullptr;
  const float* weight = nullptr;
};
void EnqueueRowSum(Stream& stream, const RowSum& sum);

}  // namespace overlapbench
