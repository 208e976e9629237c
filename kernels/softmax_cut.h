// How the fused softmax cuts its longest rows into parts, and how long they may be. The parts
// stream through the shared memory of all SMs (kernels/cuda/softmax_parts.cu).
//
// A launch is fast if the slots of the SMs that its blocks run on have room for a row. The longest
// row takes half of what a stream's SMs have. Another kernel may hold the other half, and so may
// another launch. With less room it gives up rows and writes them at its end.
#pragma once

namespace overlapbench {

// How a block works on a part: the number of warps, with a piece each. Sizes are in vectors of 16
// bytes.
struct SoftmaxPartShape {
  int piece;
  int workers;
  bool operator==(const SoftmaxPartShape&) const = default;
};
inline constexpr SoftmaxPartShape kSoftmaxPartShapes[] = {
    {32 * 3, 16}, {32 * 4, 16}, {32 * 5, 16}, {32 * 6, 10}};

inline constexpr int kMostSoftmaxSlots = 9;    // of a block, each with room for a part
inline constexpr int kSoftmaxLineVectors = 8;  // 128 bytes: parts are cut at lines

struct SoftmaxCut {
  int vectors = 0;  // of a part; a row's last one may have less
  unsigned parts_of_row = 0;
  int slots = 0;  // of a block
};

// Cuts a row into the fewest possible parts of one size. `on_lines`: whether every row begins at a
// line. `ring_bytes`: the shared memory that a block has for its slots.
SoftmaxCut CutSoftmaxRow(long row_bytes, bool on_lines, const SoftmaxPartShape& shape,
                         int ring_bytes);

// 0 if blocks have too little shared memory.
long LongestSoftmaxParts_bytes(long processors, int ring_bytes);

}  // namespace overlapbench
