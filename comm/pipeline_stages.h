// PipelineStages: one rank's work in pipeline parallelism, as workloads.
//
// A model is cut into stages. Stage s is on rank s mod ranks, so a rank has one stage, or several
// `chunks`. A micro-batch goes forward through all stages and backward through all of them. A stage
// sends its output to the next one: activations forward, gradients backward.
//
//   stage s, forward     activation[s + 1] = activation[s] + 1
//   stage s, backward    gradient[s - 1]   = gradient[s] + 1
//
// beside a computation that provides the duration and uses its own data. The last stage's
// activation is its gradient. All values are whole numbers, so each result shows how many stages it
// has passed through, and is compared exactly. Every micro-batch has memory of its own.
//
// All ranks share the same works, and each does its part of them. They are enqueued in parts, one
// for each chunk and micro-batch (PartOf). Link k connects rank k to the next one; the last link
// closes the ring and exists only with several chunks. A transfer is one work for all links of a
// set. A rank is at one end of at most one of them, and so either sends or receives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/transport.h"
#include "workload/workload.h"

namespace overlapbench {

enum class Pass : std::uint8_t { kForward, kBackward };

struct PipelineShape {
  int ranks = 2;
  int chunks = 1;  // stages of each rank
  int microbatches = 2;

  [[nodiscard]] int stages() const { return ranks * chunks; }
  [[nodiscard]] int RankOf(int stage) const { return stage % ranks; }
  [[nodiscard]] int ChunkOf(int stage) const { return stage / ranks; }
  [[nodiscard]] bool HasLink(int link) const { return link < ranks - 1 || chunks > 1; }
  // The part of a work that is `stage`'s computation or transfer for a micro-batch.
  [[nodiscard]] Part PartOf(int stage, int microbatch) const {
    return {static_cast<long>(ChunkOf(stage)) * microbatches + microbatch,
            static_cast<long>(chunks) * microbatches};
  }
};

// The next and the previous stage of a pass.
constexpr int After(Pass pass, int stage) { return pass == Pass::kForward ? stage + 1 : stage - 1; }
constexpr int Before(Pass pass, int stage) {
  return pass == Pass::kForward ? stage - 1 : stage + 1;
}

// Sets of links that share no rank. In a ring of odd length the last link is a set of its own.
enum class LinkSet : std::uint8_t { kEven, kOdd, kLast };
LinkSet LinkSetOf(const PipelineShape& shape, int link);
const char* ToString(LinkSet set);

class PipelineStages {
 public:
  // `elements`: float32, of a micro-batch's activation.
  PipelineStages(const Machine& machine, const PipelineShape& shape, long elements);
  // The memory of one rank's buffers.
  static Footprint FootprintOf(const PipelineShape& shape, long elements);

  // The stages' computation. `make` makes the workload that provides the duration; each part
  // enqueues it `times` times.
  static std::unique_ptr<Workload> MakeCompute(
      std::shared_ptr<PipelineStages> stages, Pass pass,
      const std::function<std::unique_ptr<Workload>()>& make, long times);

  // The transfer of activations or gradients on the links of a set. `settings`: the transport's.
  static std::unique_ptr<Workload> MakeTransfer(std::shared_ptr<PipelineStages> stages, Pass pass,
                                                LinkSet set, std::shared_ptr<Transports> transports,
                                                const Settings& settings);

 private:
  class Compute;
  class Transfer;
  // Allocates the buffers, at the same offsets on all ranks, unless they exist. Called by all ranks
  // together.
  void Connect(Communicator& communicator);
  // Inputs and outputs of this rank's chunks in a pass, contiguous by micro-batch. Inputs were
  // received, except the last stage's in the backward pass: its activation is its gradient.
  [[nodiscard]] float* Input(Pass pass, int chunk) const;
  [[nodiscard]] float* Output(Pass pass, int chunk) const;
  [[nodiscard]] float* Received(Pass pass, int chunk) const;
  [[nodiscard]] float* Array(int index, int chunk) const;
  [[nodiscard]] int StageOf(int chunk) const;
  // How many stages the input of `stage` has passed through.
  [[nodiscard]] int Passed(Pass pass, int stage) const;
  [[nodiscard]] long ChunkElements() const { return shape_.microbatches * elements_; }
  void Fill(Stream& stream, float* data, int passed) const;
  void PoisonChunk(Stream& stream, float* data) const;
  [[nodiscard]] Verdict Check(Stream& stream, const float* data, int passed) const;

  Machine machine_;
  PipelineShape shape_;
  long elements_;
  Buffer data_;
};

}  // namespace overlapbench
