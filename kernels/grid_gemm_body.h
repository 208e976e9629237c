// The kernel of the grid-controlled matrix product, for grid_gemm.cu, which describes it, and for
// the C library.
#pragma once

#include "device/body.h"

namespace overlapbench::grid_gemm {

constexpr int kTile = 16;

struct Body {
  static constexpr int kThreads = kTile * kTile;
  const float* a;
  const float* b;
  float* c;
  long n;
  int grid_x;
  int grid_y;
  int tiles_x;  // tiles of C to compute, counted over the whole grid
  int tiles_y;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    const int block_x = block.index % grid_x;
    const int block_y = block.index / grid_x;
    for (int tile_y = block_y; tile_y < tiles_y; tile_y += grid_y) {
      for (int tile_x = block_x; tile_x < tiles_x; tile_x += grid_x) {
        for (int t = block.thread; t < kTile * kTile; t += block.threads) {
          Element(tile_y * kTile + t / kTile, tile_x * kTile + t % kTile);
        }
      }
    }
  }

  // Keeps the loads of eight steps in flight: with one at a time, a lone block takes four times as
  // long.
  OVERLAPBENCH_BODY void Element(long row, long column) const {
    constexpr int kInFlight = 8;  // divides n, which is a multiple of 16
    const float* a_row = a + row * n;
    const float* b_column = b + column;
    float sum = 0;
    for (long i = 0; i < n; i += kInFlight) {
      float a_values[kInFlight];
      float b_values[kInFlight];
      for (int step = 0; step < kInFlight; ++step) {
        a_values[step] = a_row[i + step];
        b_values[step] = b_column[(i + step) * n];
      }
      for (int step = 0; step < kInFlight; ++step) sum += a_values[step] * b_values[step];
    }
    c[row * n + column] = sum;
  }
};

}  // namespace overlapbench::grid_gemm
