// Supply: a consumer on the device, fed with batches by producer threads on the host; and what it
// is held against: SupplyMake, the producers with nobody to consume, and SupplyConsume, the
// consumer with batches that are all there.
//
// A producer makes a batch by copying it from a data set into a free slot of page-locked memory,
// which takes `make_us` in all: what the copy leaves of it is spent working (source:work: decoding,
// augmenting) or sleeping (source:wait: storage, network). The consumer takes whichever batch is
// ready first, copies it to the device, computes on it, and waits for it, as a training step does
// that needs its loss. Each worker may be `prefetch` batches ahead. With no worker the consumer
// makes each batch itself.
//
// The host is part of what is measured, so samples are not gated. Every batch must have arrived
// once and whole.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "comm/batch_queue.h"
#include "comm/host_data.h"
#include "kernels/step_kernel.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;

enum class Part : std::uint8_t { kAll, kMake, kConsume };

struct Shape {
  explicit Shape(const Settings& settings)
      : workers(static_cast<int>(settings.Integer("workers"))),
        prefetch(settings.Integer("prefetch")),
        batches(settings.Integer("supply_batches")),
        count(settings.Integer("batch_bytes") / static_cast<long>(sizeof(float))),
        steps(static_cast<int>(settings.Integer("intensity"))),
        make_time(settings.Integer("make_us")),
        works(settings.Text("source") == "work") {}
  [[nodiscard]] std::size_t batch_bytes() const { return count * sizeof(float); }
  // What is made or consumed alone has room for all batches.
  [[nodiscard]] long slots(Part part) const {
    if (part != Part::kAll) return batches;
    return workers == 0 ? 1 : workers * prefetch;
  }

  int workers;
  long prefetch;
  long batches;
  long count;  // values of a batch
  int steps;
  std::chrono::microseconds make_time;
  bool works;
};

class SupplyWorkload : public Workload {
 public:
  SupplyWorkload(const Machine& machine, const Settings& settings, Part part)
      : machine_(machine),
        part_(part),
        shape_(settings),
        results_(machine.device.Allocate(AllBytes(), MemoryKind::kDevice)),
        data_set_(machine.device.Allocate(AllBytes(), MemoryKind::kPageable)) {
    for (long i = 0; i < shape_.slots(part); ++i)
      slots_.push_back(machine.device.Allocate(shape_.batch_bytes(), MemoryKind::kPinned));
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.copied_bytes = static_cast<double>(AllBytes());
    return cost;
  }
  [[nodiscard]] bool enqueue_waits() const override { return true; }

  void Reset(Stream& stream) override {
    FillAsHostData(stream, Result(0), shape_.batches * shape_.count);
    stream.Copy(data_set_.data(), results_.data(), AllBytes());
    Poison(stream, results_.data(), results_.bytes());
    stream.Synchronize(machine_.ranks.timeout(), "filling the data set");
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (part_ == Part::kConsume)
        std::memcpy(slots_[i].data(), DataSet(static_cast<long>(i)), shape_.batch_bytes());
      else
        std::memset(slots_[i].data(), 0xFF, shape_.batch_bytes());
    }
  }

  void Enqueue(Stream& stream) override {
    if (part_ == Part::kConsume || shape_.workers == 0)
      EnqueueWithoutWorkers(stream);
    else
      EnqueueWithWorkers(stream);
  }

  Verdict Verify(Stream& stream) override {
    if (part_ == Part::kMake) {
      for (std::size_t i = 0; i < slots_.size(); ++i)
        stream.Copy(Result(static_cast<long>(i)), slots_[i].data(), shape_.batch_bytes());
    }
    const std::string fault =
        FindFaultInSteps(machine_, stream, Result(0), shape_.batches * shape_.count,
                         part_ == Part::kMake ? 0 : shape_.steps);
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  void EnqueueWithoutWorkers(Stream& stream) {
    for (long index = 0; index < shape_.batches; ++index) {
      const BatchQueue::Batch batch{index, static_cast<int>(index % std::ssize(slots_))};
      if (part_ != Part::kConsume) Make(batch);
      if (part_ != Part::kMake) Consume(stream, batch);
    }
  }

  // Closing the queue ends the producers, whoever failed; leaving the scope waits for them.
  void EnqueueWithWorkers(Stream& stream) {
    BatchQueue queue(shape_.batches, static_cast<int>(slots_.size()), machine_.ranks.timeout());
    std::vector<std::jthread> producers;
    for (int i = 0; i < shape_.workers; ++i) producers.emplace_back([&] { Produce(queue); });
    try {
      for (long taken = 0; taken < shape_.batches; ++taken) {
        const BatchQueue::Batch batch = queue.Take();
        if (part_ == Part::kMake) continue;
        Consume(stream, batch);
        queue.Release(batch);
      }
    } catch (const std::exception& error) {
      queue.Close(error.what());
      throw;
    }
  }

  void Produce(BatchQueue& queue) {
    try {
      while (const auto batch = queue.TakeTicket()) {
        Make(*batch);
        queue.Put(*batch);
      }
    } catch (const std::exception& error) {
      queue.Close(error.what());
    }
  }

  void Make(const BatchQueue::Batch& batch) {
    const auto done = Clock::now() + shape_.make_time;
    std::memcpy(slots_[batch.slot].data(), DataSet(batch.index), shape_.batch_bytes());
    if (!shape_.works) std::this_thread::sleep_until(done);
    while (Clock::now() < done) {
    }
  }

  void Consume(Stream& stream, const BatchQueue::Batch& batch) {
    float* result = Result(batch.index);
    stream.Copy(result, slots_[batch.slot].data(), shape_.batch_bytes());
    EnqueueSteps(machine_.device, stream, result, result, shape_.count, shape_.steps);
    stream.Synchronize(machine_.ranks.timeout(), "consuming a batch");
  }

  [[nodiscard]] std::size_t AllBytes() const { return shape_.batches * shape_.batch_bytes(); }
  float* Result(long index) { return static_cast<float*>(results_.data()) + index * shape_.count; }
  float* DataSet(long index) {
    return static_cast<float*>(data_set_.data()) + index * shape_.count;
  }

  Machine machine_;
  Part part_;
  Shape shape_;
  Buffer results_;
  Buffer data_set_;
  std::vector<Buffer> slots_;
};

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary, Part part) {
  const bool host = machine.device.backend() == Backend::kHost;
  constexpr long kMostSteps = 16'000'000;  // below 2^24, see kernels/step_kernel.h
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kMemory;
  spec.summary = summary;
  spec.baseline = false;
  spec.axes = {IntegerAxis("workers", "producer threads; 0: the consumer makes its batches", 0, 256,
                           "0,1,2,4,8"),
               IntegerAxis("prefetch", "batches that a worker may be ahead", 1, 64, "2"),
               IntegerAxis("make_us", "what a batch takes to make, in microseconds", 1, 10'000'000,
                           host ? "4000" : "2000"),
               ChoiceAxis("source", "a worker works on a batch, or waits for it", {"work", "wait"},
                          host ? "wait" : "work"),
               BytesAxis("batch_bytes", "size of a batch", host ? "256K" : "4M"),
               IntegerAxis("supply_batches", "batches of a sample", 1, 4096, "32"),
               IntegerAxis("intensity", "multiply-adds for each value", 1, kMostSteps,
                           host ? "8" : "16384")};
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("batch_bytes") % 4 == 0 ? "" : "batch_bytes must be a multiple of 4";
  };
  spec.footprint = [part](const Settings& settings) {
    const Shape shape(settings);
    const std::size_t all_bytes = shape.batches * shape.batch_bytes();
    return Footprint{all_bytes, all_bytes + shape.slots(part) * shape.batch_bytes()};
  };
  spec.make = [machine, part](const Settings& settings) {
    return std::make_unique<SupplyWorkload>(machine, settings, part);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> SupplyOfBatches(Machine& machine) {
  return {SpecOf(machine, "Supply", "batches made by host threads and consumed by the device",
                 Part::kAll),
          SpecOf(machine, "SupplyMake", "the making of the batches, alone", Part::kMake),
          SpecOf(machine, "SupplyConsume", "their consumption, alone", Part::kConsume)};
}

}  // namespace overlapbench
