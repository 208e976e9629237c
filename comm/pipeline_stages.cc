#include "comm/pipeline_stages.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "workload/data.h"
#include "workload/steps.h"

namespace overlapbench {
namespace {

constexpr int kArraysOfChunk = 4;  // input and output of each pass

}  // namespace

LinkSet LinkSetOf(const PipelineShape& shape, int link) {
  if (link == shape.ranks - 1 && shape.ranks % 2 == 1) return LinkSet::kLast;
  return link % 2 == 0 ? LinkSet::kEven : LinkSet::kOdd;
}

const char* ToString(LinkSet set) {
  constexpr std::array<const char*, 3> kNames = {"even", "odd", "last"};
  return kNames.at(static_cast<std::size_t>(set));
}

PipelineStages::PipelineStages(const Machine& machine, const PipelineShape& shape, long elements)
    : machine_(machine), shape_(shape), elements_(elements) {}

void PipelineStages::Connect(Communicator& communicator) {
  if (data_.data() == nullptr)
    data_ = communicator.Allocate(FootprintOf(shape_, elements_).device_bytes);
}

Footprint PipelineStages::FootprintOf(const PipelineShape& shape, long elements) {
  return {kArraysOfChunk * sizeof(float) * shape.chunks * shape.microbatches * elements, 0};
}

int PipelineStages::StageOf(int chunk) const {
  return chunk * shape_.ranks + machine_.ranks.rank();
}

int PipelineStages::Passed(Pass pass, int stage) const {
  return pass == Pass::kForward ? stage : 2 * shape_.stages() - 1 - stage;
}

float* PipelineStages::Array(int index, int chunk) const {
  return static_cast<float*>(data_.data()) + (index * shape_.chunks + chunk) * ChunkElements();
}

float* PipelineStages::Input(Pass pass, int chunk) const {
  const bool is_last = StageOf(chunk) == shape_.stages() - 1;
  return pass == Pass::kBackward && is_last ? Output(Pass::kForward, chunk) : Received(pass, chunk);
}

float* PipelineStages::Received(Pass pass, int chunk) const {
  return Array(pass == Pass::kForward ? 0 : 2, chunk);
}

float* PipelineStages::Output(Pass pass, int chunk) const {
  return Array(pass == Pass::kForward ? 1 : 3, chunk);
}

void PipelineStages::Fill(Stream& stream, float* data, int passed) const {
  FillSteps(stream, data, 0, ChunkElements());
  if (passed > 0) EnqueueSteps(machine_.device, stream, data, data, ChunkElements(), passed);
}

void PipelineStages::PoisonChunk(Stream& stream, float* data) const {
  Poison(stream, data, ChunkElements() * sizeof(float));
}

Verdict PipelineStages::Check(Stream& stream, const float* data, int passed) const {
  return FindFaultInSteps(machine_, stream, data, 0, ChunkElements(), passed);
}

class PipelineStages::Compute : public Workload {
 public:
  Compute(std::shared_ptr<PipelineStages> stages, Pass pass, std::unique_ptr<Workload> takes_time,
          long times)
      : stages_(std::move(stages)),
        pass_(pass),
        takes_time_(std::move(takes_time)),
        times_(times) {}

  void Connect() override { takes_time_->Connect(); }

  [[nodiscard]] Cost cost() const override {
    const auto parts = static_cast<double>(times_ * shape().chunks * shape().microbatches);
    Cost cost = takes_time_->cost();
    for (double* of_one : {&cost.flops, &cost.moved_bytes, &cost.cached_bytes}) *of_one *= parts;
    return cost;
  }

  void Reset(Stream& stream) override {
    takes_time_->Reset(stream);
    for (int chunk = 0; chunk < shape().chunks; ++chunk)
      stages_->Fill(stream, stages_->Input(pass_, chunk), Passed(chunk));
    PoisonResult(stream);
  }
  void PoisonResult(Stream& stream) override {
    for (int chunk = 0; chunk < shape().chunks; ++chunk)
      stages_->PoisonChunk(stream, stages_->Output(pass_, chunk));
  }

  void Enqueue(Stream& stream) override {
    const long parts = shape().PartOf(0, 0).count;
    for (long part = 0; part < parts; ++part) EnqueuePart(stream, {part, parts});
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    for (long i = 0; i < times_; ++i) takes_time_->Enqueue(stream);
    const auto chunk = static_cast<int>(part.index / shape().microbatches);
    const long first = part.index % shape().microbatches * stages_->elements_;
    EnqueueSteps(stages_->machine_.device, stream, stages_->Output(pass_, chunk) + first,
                 stages_->Input(pass_, chunk) + first, stages_->elements_, 1);
  }

  Verdict Verify(Stream& stream) override {
    Verdict verdict = takes_time_->Verify(stream);
    for (int chunk = 0; chunk < shape().chunks && verdict.fault.empty(); ++chunk) {
      verdict.fault =
          stages_->Check(stream, stages_->Output(pass_, chunk), Passed(chunk) + 1).fault;
    }
    // All micro-batches are right; the last one of the last chunk represents them.
    const float* const chunk = stages_->Output(pass_, shape().chunks - 1);
    result_.resize(stages_->elements_);
    stream.Copy(result_.data(), chunk + stages_->ChunkElements() - stages_->elements_,
                result_.size() * sizeof(float));
    stream.Synchronize(stages_->machine_.timeout, "verifying a pipeline's stage");
    return verdict;
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return FingerprintOf(result_.data(), result_.size() * sizeof(float));
  }
  [[nodiscard]] std::string IneffectiveKnob() override { return takes_time_->IneffectiveKnob(); }

 private:
  [[nodiscard]] const PipelineShape& shape() const { return stages_->shape_; }
  [[nodiscard]] int Passed(int chunk) const {
    return stages_->Passed(pass_, stages_->StageOf(chunk));
  }

  std::shared_ptr<PipelineStages> stages_;
  Pass pass_;
  std::unique_ptr<Workload> takes_time_;
  long times_;
  std::vector<float> result_;
};

class PipelineStages::Transfer : public Workload {
 public:
  Transfer(std::shared_ptr<PipelineStages> stages, Pass pass, LinkSet set,
           std::shared_ptr<Transports> transports, Settings settings)
      : stages_(std::move(stages)),
        pass_(pass),
        channel_(2 * static_cast<int>(set) + static_cast<int>(pass)),
        transports_(std::move(transports)),
        settings_(std::move(settings)) {
    const int rank = stages_->machine_.ranks.rank();
    const int before = (rank + shape().ranks - 1) % shape().ranks;
    for (const int link : {rank, before}) {
      if (!shape().HasLink(link) || LinkSetOf(shape(), link) != set) continue;
      const bool is_lower_end = link == rank;
      sends_ = is_lower_end == (pass == Pass::kForward);
      peer_ = is_lower_end ? (rank + 1) % shape().ranks : before;
    }
  }

  void Connect() override {
    communicator_ = transports_->Connect(settings_, channel_);
    stages_->Connect(*communicator_);
  }

  [[nodiscard]] Cost cost() const override {
    return {.memory_bytes = static_cast<double>(sizeof(float) * shape().PartOf(0, 0).count) *
                            static_cast<double>(stages_->elements_)};
  }

  void Reset(Stream& stream) override {
    if (sends_) {
      ForEachChunk([&](int sender, int /*receiver*/) {
        stages_->Fill(stream, stages_->Output(pass_, sender), Passed(sender) + 1);
      });
    }
    PoisonResult(stream);
  }
  void PoisonResult(Stream& stream) override {
    if (sends_) return;
    ForEachChunk([&](int /*sender*/, int receiver) {
      stages_->PoisonChunk(stream, stages_->Input(pass_, receiver));
    });
  }

  void Enqueue(Stream& stream) override {
    const long microbatches = shape().microbatches;
    ForEachChunk([&](int sender, int /*receiver*/) {
      for (long i = 0; i < microbatches; ++i)
        EnqueuePart(stream, {sender * microbatches + i, shape().chunks * microbatches});
    });
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    const auto sender = static_cast<int>(part.index / shape().microbatches);
    communicator_->Enqueue(stream, CallOf(sender, part.index % shape().microbatches));
  }

  Verdict Verify(Stream& stream) override {
    Verdict verdict;
    if (sends_) return verdict;
    ForEachChunk([&](int /*sender*/, int receiver) {
      if (verdict.fault.empty())
        verdict = stages_->Check(stream, stages_->Input(pass_, receiver), Passed(receiver));
    });
    return verdict;
  }

  std::string IneffectiveKnob() override {
    CollectiveCall call;  // stays empty if this rank has no such link
    ForEachChunk([&](int sender, int /*receiver*/) {
      if (call.count == 0) call = CallOf(sender, 0);
    });
    const Communicator::Proof proof = communicator_->Prove(call);
    sms_ = proof.sms;
    return proof.fault;
  }
  [[nodiscard]] std::optional<long> sms() const override { return sms_; }

 private:
  [[nodiscard]] const PipelineShape& shape() const { return stages_->shape_; }
  [[nodiscard]] int Passed(int chunk) const {
    return stages_->Passed(pass_, stages_->StageOf(chunk));
  }

  // Visits the pairs of chunks (sender's, receiver's) between which this rank's link carries data.
  template <class Visit>
  void ForEachChunk(const Visit& visit) const {
    const int rank = stages_->machine_.ranks.rank();
    for (int chunk = 0; chunk < shape().chunks && peer_ >= 0; ++chunk) {
      const int sender = sends_ ? rank : peer_;
      const int next = After(pass_, chunk * shape().ranks + sender);
      if (next < 0 || next >= shape().stages()) continue;
      if (shape().RankOf(next) == (sends_ ? peer_ : rank)) visit(chunk, shape().ChunkOf(next));
    }
  }
  [[nodiscard]] CollectiveCall CallOf(int sender, long microbatch) const {
    const int rank = stages_->machine_.ranks.rank();
    const int next = After(pass_, sender * shape().ranks + (sends_ ? rank : peer_));
    CollectiveCall call;
    call.operation = sends_ ? Operation::kSend : Operation::kReceive;
    call.count = stages_->elements_;
    call.peer = peer_;
    const long first = microbatch * stages_->elements_;
    if (sends_) call.send = stages_->Output(pass_, sender) + first;
    call.receive = stages_->Received(pass_, shape().ChunkOf(next)) + first;
    return call;
  }

  std::shared_ptr<PipelineStages> stages_;
  Pass pass_;
  int channel_;
  std::shared_ptr<Transports> transports_;
  Settings settings_;
  std::shared_ptr<Communicator> communicator_;
  bool sends_ = false;
  int peer_ = -1;  // −1: this rank has no link of the set
  std::optional<long> sms_;
};

std::unique_ptr<Workload> PipelineStages::MakeCompute(
    std::shared_ptr<PipelineStages> stages, Pass pass,
    const std::function<std::unique_ptr<Workload>()>& make, long times) {
  return std::make_unique<Compute>(std::move(stages), pass, make(), times);
}

std::unique_ptr<Workload> PipelineStages::MakeTransfer(std::shared_ptr<PipelineStages> stages,
                                                       Pass pass, LinkSet set,
                                                       std::shared_ptr<Transports> transports,
                                                       const Settings& settings) {
  return std::make_unique<Transfer>(std::move(stages), pass, set, std::move(transports), settings);
}

}  // namespace overlapbench
