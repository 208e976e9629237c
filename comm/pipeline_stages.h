// PipelineStages: what one rank does in pipeline parallelism, as workloads.
//
// A model is cut into stages. Stage s is on rank s mod ranks, so that a rank has one stage, or
// several `chunks`. A micro-batch goes forward through all stages and backward through all of them.
// What a stage makes it sends to the next one: activations forward, gradients backward.
//
//   stage s, forward     activation[s + 1] = activation[s] + 1
//   stage s, backward    gradient[s - 1]   = gradient[s] + 1
//
// beside a computation that takes its time and has data of its own. The last stage's activation is
// its gradient. All values are whole numbers, so each result tells which stages it has passed
// through, and is compared exactly. Every micro-batch has memory of its own.
//
// The works are those of all ranks, and each rank has its part in them. They are enqueued in parts,
// one for each chunk and micro-batch (PartOf). Link k ties rank k to the next one; the last link
// closes the ring, and is there only with several chunks. A transfer is one work for all links of a
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
  // What `stage` does for a micro-batch, or sends of it.
  [[nodiscard]] Part PartOf(int stage, int microbatch) const {
    return {static_cast<long>(ChunkOf(stage)) * microbatches + microbatch,
            static_cast<long>(chunks) * microbatches};
  }
};

// The stage that a pass comes to after this one, or from which it came.
constexpr int After(Pass pass, int stage) { return pass == Pass::kForward ? stage + 1 : stage - 1; }
constexpr int Before(Pass pass, int stage) {
  return pass == Pass::kForward ? stage - 1 : stage + 1;
}

// Links without a rank in common. In a ring of odd length the last link is a set of its own.
enum class LinkSet : std::uint8_t { kEven, kOdd, kLast };
LinkSet LinkSetOf(const PipelineShape& shape, int link);
const char* ToString(LinkSet set);

class PipelineStages {
 public:
  // `elements`: float32, of a micro-batch's activation.
  PipelineStages(const Machine& machine, const PipelineShape& shape, long elements);
  // The buffers of one rank.
  static Footprint FootprintOf(const PipelineShape& shape, long elements);

  // The stages' computation. `make` makes the workload that takes the time; it is enqueued `times`
  // over for each part.
  static std::unique_ptr<Workload> MakeCompute(
      std::shared_ptr<PipelineStages> stages, Pass pass,
      const std::function<std::unique_ptr<Workload>()>& make, long times);

  // What carries activations or gradients on the links of a set; settings are those of transports.
  static std::unique_ptr<Workload> MakeTransfer(std::shared_ptr<PipelineStages> stages, Pass pass,
                                                LinkSet set, std::shared_ptr<Transports> transports,
                                                const Settings& settings);

 private:
  class Compute;
  class Transfer;
  // Allocates the buffers, at the same offsets on all ranks, unless they are there. All ranks
  // together.
  void Connect(Communicator& communicator);
  // What this rank's chunks read and make in a pass; micro-batch by micro-batch, contiguous. What
  // they read they have received, but the last stage, whose activation is its gradient.
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
