// The ring of slots in a block's shared memory, through which the parts of softmax_parts.cu stream.
//
// A slot holds a part from its arrival until its results are written. Four barriers order what
// happens to it:
//
//   filled      the loader has filled it, or says that no part follows
//   summed      the workers have summed up a piece each
//   collected   the collector has seen this part's sum, and has the row's or leaves the part
//   emptied     the workers have read what they need
//
// A part passes each of them once, so all barriers of a slot have the same parity at a turn. The
// roles go around the ring at their own pace, each with a Cursor.
#pragma once

#include "device/cuda/barrier.cuh"
#include "kernels/cuda/softmax_part.cuh"

namespace overlapbench::softmax {

// How a block works on a part: kWorkers warps with a piece each, of kVectors vectors per lane.
// `kFewRows`: for rows so long that the SMs hold few.
template <int kVectorsOfShape, int kWorkersOfShape, bool kFewRowsOfShape = false>
struct Shape {
  static constexpr bool kFewRows = kFewRowsOfShape;
  static constexpr int kVectors = kVectorsOfShape;
  static constexpr int kWorkers = kWorkersOfShape;
  static constexpr int kPiece = 32 * kVectors;          // vectors
  static constexpr int kThreads = 32 * (kWorkers + 3);  // a loader, a publisher, a collector
};

template <class Shape, class T>
struct Slot {
  Barrier filled;
  Barrier summed;
  Barrier collected;
  Barrier emptied;

  // The part: its vectors from `first` to before `count`.
  unsigned number;  // Plan::parts and above mean that no part follows
  int first;
  int count;
  T* to;  // where the results of the slot's vector 0 go, or would go

  Partial of_workers[Shape::kWorkers];
  Partial of_row;
  bool is_left;  // of_row is not known

  __device__ void Initialize() {
    filled.Initialize(1);
    summed.Initialize(Shape::kWorkers);
    collected.Initialize(1);
    emptied.Initialize(Shape::kWorkers);
  }
};

// A place in the ring, and the parity of its barriers' current phase.
struct Cursor {
  unsigned turn = 0;
  int slot = 0;
  int parity = 0;
  __device__ void Advance(int slots) {
    ++turn;
    if (++slot < slots) return;
    slot = 0;
    parity ^= 1;
  }
};

// A block, as its roles see it.
template <class Shape, class T>
struct Ring {
  const Plan<T>& plan;
  Slot<Shape, T>* slots;
  uint4* vectors;  // those of all slots

  [[nodiscard]] __device__ Slot<Shape, T>& At(const Cursor& at) const { return slots[at.slot]; }
  [[nodiscard]] __device__ uint4* VectorsAt(const Cursor& at) const {
    return vectors + at.slot * plan.vectors;
  }
  // Waits for the part at a place. Returns false if no part follows.
  [[nodiscard]] __device__ bool Await(const Cursor& at) const {
    At(at).filled.Wait(at.parity);
    return At(at).number < plan.parts;
  }
};

}  // namespace overlapbench::softmax
