// What the warps of a block of softmax_parts.cu do: the loader, the workers, the publisher and the
// collector. They meet in the slots (softmax_ring.cuh), each at its own pace.
//
// Where the SMs hold only two or three rows (Shape::kFewRows), memory would idle while a row's last
// parts arrive and its sums meet. So these rows have smaller parts, and a block loads only two at a
// time: a row's last parts then do not compete with the next row's. Workers sum up parts before
// they write any.
#pragma once

#include "kernels/cuda/softmax_ring.cuh"
#include "kernels/cuda/softmax_sums.cuh"

namespace overlapbench::softmax {

template <class T>
using PartNormalizer = Normalizer<typename Format<T>::FastExponentials>;

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

// ---- The loader takes a part for every slot that becomes free and starts copying it there. One
// thread.

// Returns false if there was no such part.
template <class Shape, class T>
__device__ bool Load(const Ring<Shape, T>& ring, const Cursor& at, unsigned number) {
  Slot<Shape, T>& slot = ring.At(at);
  slot.number = number;
  if (number >= ring.plan.parts) {
    slot.filled.Arrive();
    return false;
  }
  const Row<T> row(ring.plan, number);
  const Place<T> place(ring.plan, row);
  slot.first = place.first;
  slot.count = place.count;
  slot.to = place.To(row);
  if (place.first < place.count) {
    const std::uint32_t bytes = 16 * (place.count - place.first);
    slot.filled.Expect(bytes);
    slot.filled.Load(ring.VectorsAt(at) + place.first, place.vectors + place.start + place.first,
                     bytes);
  } else {
    slot.filled.Arrive();
  }
  return true;
}

// It takes its first parts one after another. Taken at once, each would arrive later, and all SMs
// would then read and write in step.
template <class Shape, class T>
__device__ void LoadParts(const Ring<Shape, T>& ring) {
  constexpr unsigned kMostInFlight = 2;
  Cursor at;
  Cursor arriving;
  for (bool more = true; more; at.Advance(ring.plan.slots)) {
    if (Shape::kFewRows && at.turn - arriving.turn == kMostInFlight) {
      ring.At(arriving).filled.Wait(arriving.parity);
      arriving.Advance(ring.plan.slots);
    }
    // A slot becomes free when its row is complete. In the first round these waits end at once.
    ring.At(at).collected.Wait(at.parity ^ 1);
    const unsigned number = atomicAdd(&ring.plan.workspace->taken_parts, 1U);
    ring.At(at).emptied.Wait(at.parity ^ 1);
    more = Load(ring, at, number);
  }
}

// ---- A worker sums up its piece of a part that has arrived, and, once the row's sum is there,
// writes the piece's results. One warp.

template <class Shape, class T>
class Worker {
 public:
  __device__ Worker(const Ring<Shape, T>& ring, int number) : ring_(ring), number_(number) {}

  // Writing is more urgent, since it frees slots, but see kFewRows.
  __device__ void Run() {
    while (more_ || storing_.turn != summing_.turn) {
      const bool worked = Shape::kFewRows ? Sum() || Store() : Store() || Sum();
      if (!worked) Rest();
    }
  }

 private:
  // Both return whether there was something to do.
  __device__ __forceinline__ bool Sum() {
    Slot<Shape, T>& slot = ring_.At(summing_);
    const bool has_slot = static_cast<int>(summing_.turn - storing_.turn) < ring_.plan.slots;
    if (!more_ || !has_slot || !slot.filled.Test(summing_.parity)) return false;
    more_ = slot.number < ring_.plan.parts;
    if (!more_) return true;
    SumPiece(slot);
    summing_.Advance(ring_.plan.slots);
    return true;
  }
  __device__ __forceinline__ bool Store() {
    Slot<Shape, T>& slot = ring_.At(storing_);
    if (storing_.turn == summing_.turn || !slot.collected.Test(storing_.parity)) return false;
    if (slot.is_left) {
      __syncwarp();  // all lanes have seen it
      if (Lane() == 0) slot.emptied.Arrive();
    } else {
      StorePiece(slot);
    }
    storing_.Advance(ring_.plan.slots);
    return true;
  }
  __device__ __forceinline__ void Rest() const {
    if (storing_.turn != summing_.turn) {
      ring_.At(storing_).collected.Rest(storing_.parity);
    } else {
      ring_.At(summing_).filled.Rest(summing_.parity);
    }
  }

  // This worker's first vector in a part. It changes every turn, because a part may lack the last
  // pieces.
  [[nodiscard]] __device__ __forceinline__ int PieceAt(const Cursor& at) const {
    constexpr unsigned kStep = 5;
    const unsigned piece = (static_cast<unsigned>(number_) + kStep * at.turn) % Shape::kWorkers;
    return static_cast<int>(piece) * Shape::kPiece;
  }

  __device__ __forceinline__ void SumPiece(Slot<Shape, T>& slot) const {
    const int start = PieceAt(summing_);
    const int from = start + Lane();
    Partial partial = NoPartial();
    if (start < slot.count) {
      Vectors<T, Shape::kVectors> vectors;
      vectors.Load(ring_.VectorsAt(summing_) + from, slot.count - from, 32, slot.first - from);
      partial.max = MaxOverLanes<32>(vectors.Max());
      partial.sum = SumOverLanes<32>(
          vectors.Sum(typename Format<T>::FastExponentials(Reference(partial.max))));
    }
    if (Lane() != 0) return;
    slot.of_workers[number_] = partial;
    slot.summed.Arrive();
  }

  __device__ __forceinline__ void StorePiece(Slot<Shape, T>& slot) const {
    const PartNormalizer<T> normalizer(slot.of_row);
    const int start = PieceAt(storing_);
    const int from = start + Lane();
    const int first = slot.first - from;
    const int count = slot.count - from;
    const bool exists = start < slot.count;
    T* to = slot.to + static_cast<long>(from) * Span<T>::kVector;
    Vectors<T, Shape::kVectors> vectors;
    if (exists) vectors.Load(ring_.VectorsAt(storing_) + from, count, 32, first);
    __syncwarp();  // all lanes have read what they need of the slot
    if (Lane() == 0) slot.emptied.Arrive();
    if (exists) vectors.Store(to, count, 32, normalizer, first);
  }

  const Ring<Shape, T>& ring_;
  int number_;
  Cursor summing_;
  Cursor storing_;
  bool more_ = true;  // parts to sum up
};

// ---- The publisher writes the sums of parts to device memory, with the edges, which are not in
// the slots. One warp.

template <class Shape, class T>
__device__ void PublishParts(const Ring<Shape, T>& ring, unsigned tag) {
  for (Cursor at; ring.Await(at); at.Advance(ring.plan.slots)) {
    Slot<Shape, T>& slot = ring.At(at);
    const Row<T> row(ring.plan, slot.number);
    const Partial edge = {LoadEdge(row.start, row.Edge(Lane())), 1};
    slot.summed.Wait(at.parity);
    const Partial of_worker = Lane() < Shape::kWorkers ? slot.of_workers[Lane()] : NoPartial();
    const Partial sum = MergeOverWarp(Merge(of_worker, edge));
    if (Lane() == 0) Publish(row.Sums(ring.plan) + row.part, sum, tag);
  }
}

// ---- The collector waits for the sums of all parts of a row. If they do not come, it leaves its
// parts of the row to the last block, which frees their slots. One warp.

template <class T>
__device__ void LeavePart(const Plan<T>& plan, unsigned number) {
  const unsigned left = atomicAdd(&plan.workspace->left_parts, 1U);
  if (left < PartsWorkspace::kMostParts) plan.left()[left] = number;
}

template <class Shape, class T>
__device__ void CollectRows(const Ring<Shape, T>& ring, unsigned tag) {
  unsigned collected = ring.plan.parts;  // the row of `sum`; at first a number that no row has
  Partial sum = NoPartial();
  bool complete = false;
  unsigned most_looks = kMostLooks;
  for (Cursor at; ring.Await(at); at.Advance(ring.plan.slots)) {
    Slot<Shape, T>& slot = ring.At(at);
    const Row<T> row(ring.plan, slot.number);
    const int edge = row.Edge(Lane());
    const float edge_value = LoadEdge(row.start, edge);
    if (row.number != collected) {
      complete = Collect<8>(row.Sums(ring.plan), ring.plan.parts_of_row, tag, most_looks, sum);
      // Where one row was left, others will be.
      most_looks = complete ? kMostLooks : max(most_looks / 2, 64U);
    }
    collected = row.number;
    // Its own sum must be out: its slot will be used again, and the block soon counts as finished.
    if (!complete) AwaitOwn(row.Sums(ring.plan) + row.part, tag);
    __syncwarp();
    if (Lane() == 0) {
      if (!complete) LeavePart(ring.plan, slot.number);
      slot.of_row = sum;
      slot.is_left = !complete;
      slot.collected.Arrive();
    }
    if (complete) StoreEdge(row.to, edge, edge_value, PartNormalizer<T>(sum));
  }
}

}  // namespace overlapbench::softmax
