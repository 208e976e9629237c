// ComputeTransfer: batches that come in, are computed and go out, with one stream for transfers and
// one for computation; and what it is held against: the same in turn, and the same tied by events.
//
// Double buffering: while batch s − 1 is computed, batch s − 2 goes out and batch s comes in. In
// step s, with `buffers` of a batch each on the device:
//
//   transfer stream   out(s − 2)  in(s)
//   compute stream    compute(s − 1)
//
// Batch b lives in buffer b mod buffers. With two buffers in(s) takes the place of out(s − 2) and
// must be behind it; with more it goes first. tie:events orders the streams by events alone.
// tie:host makes the host wait for both streams after every step instead, which is what
// synchronizing the whole device does. With one buffer nothing can overlap, and all work is on one
// stream.

#include "comm/host_data.h"
#include "kernels/step_kernel.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

enum class Tie : std::uint8_t { kEvents, kHost };

class ComputeTransferWorkload : public Workload {
 public:
  ComputeTransferWorkload(const Machine& machine, const Settings& settings, long buffers, Tie tie)
      : machine_(machine),
        tie_(tie),
        batches_(settings.Integer("batches")),
        count_(settings.Integer("batch_elements")),
        steps_(static_cast<int>(settings.Integer("intensity"))),
        memory_(MemoryKindNamed(settings.Text("memory"))),
        data_(machine, batches_ * count_, memory_),
        compute_stream_(machine.device.CreateStream()),
        fork_(machine.device.CreateEvent()) {
    for (long i = 0; i < buffers; ++i) {
      slots_.push_back({machine.device.Allocate(batch_bytes(), MemoryKind::kDevice),
                        machine.device.CreateEvent(), machine.device.CreateEvent()});
    }
  }

  [[nodiscard]] Cost cost() const override {
    const auto elements = static_cast<double>(batches_ * count_);
    Cost cost;
    cost.flops = 2.0 * elements * steps_;
    cost.copied_bytes = 2.0 * elements * sizeof(float);
    return cost;
  }
  [[nodiscard]] bool enqueue_waits() const override {
    return tie_ == Tie::kHost || memory_ == MemoryKind::kPageable;
  }

  void Reset(Stream& stream) override {
    data_.Reset(stream);
    for (const Slot& slot : slots_) Poison(stream, slot.values.data(), slot.values.bytes());
  }

  void Enqueue(Stream& stream) override {
    if (slots_.size() == 1) {
      for (long batch = 0; batch < batches_; ++batch) {
        In(stream, batch);
        Compute(stream, batch);
        Out(stream, batch);
      }
      return;
    }
    stream.Record(*fork_);
    compute_stream_->Wait(*fork_);
    for (long step = 0; step < batches_ + 2; ++step) EnqueueStep(stream, step);
  }

  Verdict Verify(Stream& stream) override { return data_.Verify(stream, steps_); }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return data_.Fingerprint();
  }

 private:
  struct Slot {
    Buffer values;
    std::unique_ptr<Event> copied_in;
    std::unique_ptr<Event> computed;
  };

  void EnqueueStep(Stream& transfer, long step) {
    constexpr std::size_t kEnoughToGoFirst = 3;
    const bool in_first = slots_.size() >= kEnoughToGoFirst;
    if (in_first) TiedIn(transfer, step);
    TiedOut(transfer, step - 2);
    if (!in_first) TiedIn(transfer, step);
    TiedCompute(step - 1);
    if (tie_ != Tie::kHost) return;
    for (Stream* stream : {&transfer, compute_stream_.get()})
      stream->Synchronize(machine_.ranks.timeout(), "waiting for a step's end");
  }

  void TiedIn(Stream& transfer, long batch) {
    if (!Exists(batch)) return;
    In(transfer, batch);
    transfer.Record(*SlotOf(batch).copied_in);
  }
  void TiedCompute(long batch) {
    if (!Exists(batch)) return;
    if (tie_ == Tie::kEvents) compute_stream_->Wait(*SlotOf(batch).copied_in);
    Compute(*compute_stream_, batch);
    compute_stream_->Record(*SlotOf(batch).computed);
  }
  void TiedOut(Stream& transfer, long batch) {
    if (!Exists(batch)) return;
    if (tie_ == Tie::kEvents) transfer.Wait(*SlotOf(batch).computed);
    Out(transfer, batch);
  }

  void In(Stream& stream, long batch) {
    stream.Copy(Values(batch), data_.input() + batch * count_, batch_bytes());
  }
  void Compute(Stream& stream, long batch) {
    EnqueueSteps(machine_.device, stream, Values(batch), Values(batch), count_, steps_);
  }
  void Out(Stream& stream, long batch) {
    stream.Copy(data_.result() + batch * count_, Values(batch), batch_bytes());
  }

  [[nodiscard]] bool Exists(long batch) const { return batch >= 0 && batch < batches_; }
  Slot& SlotOf(long batch) { return slots_[batch % slots_.size()]; }
  float* Values(long batch) { return static_cast<float*>(SlotOf(batch).values.data()); }
  [[nodiscard]] std::size_t batch_bytes() const { return count_ * sizeof(float); }

  Machine machine_;
  Tie tie_;
  long batches_;
  long count_;
  int steps_;
  MemoryKind memory_;
  HostData data_;
  std::unique_ptr<Stream> compute_stream_;
  std::unique_ptr<Event> fork_;
  std::vector<Slot> slots_;
};

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary) {
  const bool host = machine.device.backend() == Backend::kHost;
  constexpr long kMostSteps = 16'000'000;  // below 2^24, see kernels/step_kernel.h
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kMemory;
  spec.summary = summary;
  spec.baseline = false;
  spec.axes = {
      IntegerAxis("batches", "batches of one Enqueue", 1, 1024, "4"),
      IntegerAxis("batch_elements", "float32 values of a batch", 1, 1L << 30, "524288"),
      IntegerAxis("buffers", "batches that the device has room for", 1, 64, "1,2,3"),
      ChoiceAxis("tie", "what orders the two streams: events, or the host waiting for both",
                 {"events", "host"}, "events", "events"),
      ChoiceAxis("memory", "kind of host memory", {"pinned", "registered", "pageable"}, "pinned",
                 "pinned"),
      IntegerAxis("intensity", "multiply-adds for each value", 1, kMostSteps, host ? "4" : "4096")};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return NoSuchMemory(device, settings);
  };
  spec.footprint = [](const Settings& settings) {
    const std::size_t batch_bytes = settings.Integer("batch_elements") * sizeof(float);
    const std::size_t all_bytes = settings.Integer("batches") * batch_bytes;
    // Comparing a result takes as much as the result.
    return Footprint{settings.Integer("buffers") * batch_bytes + all_bytes, 2 * all_bytes};
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> ComputeTransfer(Machine& machine) {
  WorkloadSpec tied =
      SpecOf(machine, "ComputeTransfer", "batches in and out on one stream, computed on another");
  tied.make = [machine](const Settings& settings) {
    const Tie tie = settings.Text("tie") == "host" ? Tie::kHost : Tie::kEvents;
    return std::make_unique<ComputeTransferWorkload>(machine, settings, settings.Integer("buffers"),
                                                     tie);
  };
  WorkloadSpec in_turn = SpecOf(machine, "ComputeTransferInTurn", "the same on one stream");
  in_turn.make = [machine](const Settings& settings) {
    return std::make_unique<ComputeTransferWorkload>(machine, settings, 1, Tie::kEvents);
  };
  WorkloadSpec by_events = SpecOf(machine, "ComputeTransferByEvents", "the same tied by events");
  by_events.make = [machine](const Settings& settings) {
    return std::make_unique<ComputeTransferWorkload>(machine, settings, settings.Integer("buffers"),
                                                     Tie::kEvents);
  };
  return {tied, in_turn, by_events};
}

}  // namespace overlapbench
