// Pipelined: copy in, compute, copy out, an array in as many parts as there are streams; and what
// it is held against: Sequential, the same on one stream in one piece, and each stage alone.
//
// Each stream takes one part through all three stages, so that while one part is computed, another
// comes in and a third goes out: two copy engines and the SMs at once. The result must be that of
// the sequential run to the bit. With pageable memory every copy makes the enqueueing thread wait,
// and nothing can overlap.

#include "comm/host_data.h"
#include "kernels/step_kernel.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

struct Shape {
  explicit Shape(const Settings& settings)
      : count(settings.Integer("elements")),
        steps(static_cast<int>(settings.Integer("intensity"))),
        memory(MemoryKindNamed(settings.Text("memory"))) {}
  [[nodiscard]] std::size_t bytes() const { return count * sizeof(float); }
  [[nodiscard]] double flops() const { return 2.0 * static_cast<double>(count) * steps; }

  long count;
  int steps;
  MemoryKind memory;
};

class PipelineWorkload : public Workload {
 public:
  // One stream is the one that Enqueue is given.
  PipelineWorkload(const Machine& machine, const Settings& settings, int streams)
      : machine_(machine),
        shape_(settings),
        data_(machine, shape_.count, shape_.memory),
        device_(machine.device.Allocate(shape_.bytes(), MemoryKind::kDevice)),
        fork_(machine.device.CreateEvent()) {
    for (int i = 0; streams > 1 && i < streams; ++i) {
      streams_.push_back(machine.device.CreateStream());
      done_.push_back(machine.device.CreateEvent());
    }
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.flops = shape_.flops();
    cost.copied_bytes = 2 * static_cast<double>(shape_.bytes());
    return cost;
  }
  [[nodiscard]] bool enqueue_waits() const override {
    return shape_.memory == MemoryKind::kPageable;
  }

  void Reset(Stream& stream) override {
    data_.Reset(stream);
    Poison(stream, device_.data(), device_.bytes());
  }

  void Enqueue(Stream& stream) override {
    if (streams_.empty()) {
      EnqueuePart(stream, 0, shape_.count);
      return;
    }
    const long part = shape_.count / static_cast<long>(streams_.size());
    stream.Record(*fork_);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      streams_[i]->Wait(*fork_);
      EnqueuePart(*streams_[i], static_cast<long>(i) * part, part);
      streams_[i]->Record(*done_[i]);
    }
    for (const auto& done : done_) stream.Wait(*done);
  }

  Verdict Verify(Stream& stream) override { return data_.Verify(stream, shape_.steps); }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
    return data_.Fingerprint();
  }

 private:
  void EnqueuePart(Stream& stream, long first, long count) {
    auto* values = static_cast<float*>(device_.data()) + first;
    const std::size_t bytes = count * sizeof(float);
    stream.Copy(values, data_.input() + first, bytes);
    EnqueueSteps(machine_.device, stream, values, values, count, shape_.steps);
    stream.Copy(data_.result() + first, values, bytes);
  }

  Machine machine_;
  Shape shape_;
  HostData data_;
  Buffer device_;
  std::unique_ptr<Event> fork_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> done_;
};

enum class Stage : std::uint8_t { kIn, kCompute, kOut };

class StageWorkload : public Workload {
 public:
  StageWorkload(const Machine& machine, const Settings& settings, Stage stage)
      : machine_(machine),
        shape_(settings),
        stage_(stage),
        host_(machine.device.Allocate(shape_.bytes(), shape_.memory)),
        output_(machine.device.Allocate(shape_.bytes(), MemoryKind::kDevice)),
        input_(machine.device.Allocate(shape_.bytes(), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    if (stage_ == Stage::kCompute)
      cost.flops = shape_.flops();
    else
      cost.copied_bytes = static_cast<double>(shape_.bytes());
    return cost;
  }
  [[nodiscard]] bool enqueue_waits() const override {
    return shape_.memory == MemoryKind::kPageable;
  }

  void Reset(Stream& stream) override {
    FillAsHostData(stream, input(), shape_.count);
    Poison(stream, output_.data(), output_.bytes());
    stream.Copy(host_.data(), stage_ == Stage::kIn ? input_.data() : output_.data(),
                shape_.bytes());
  }

  void Enqueue(Stream& stream) override {
    switch (stage_) {
      case Stage::kIn:
        return stream.Copy(output_.data(), host_.data(), shape_.bytes());
      case Stage::kCompute:
        return EnqueueSteps(machine_.device, stream, output(), input(), shape_.count, shape_.steps);
      case Stage::kOut:
        return stream.Copy(host_.data(), input_.data(), shape_.bytes());
    }
  }

  Verdict Verify(Stream& stream) override {
    if (stage_ == Stage::kOut) stream.Copy(output_.data(), host_.data(), shape_.bytes());
    const std::string fault = FindFaultInSteps(machine_, stream, output(), shape_.count,
                                               stage_ == Stage::kCompute ? shape_.steps : 0);
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  float* input() { return static_cast<float*>(input_.data()); }
  float* output() { return static_cast<float*>(output_.data()); }

  Machine machine_;
  Shape shape_;
  Stage stage_;
  Buffer host_;
  Buffer output_;
  Buffer input_;
};

std::string Excluded(const Device& device, const Settings& settings) {
  const long streams = settings.Has("pipeline_streams") ? settings.Integer("pipeline_streams") : 1;
  constexpr long kMostExact = (1L << 24) - 256;  // whole numbers of float32
  if (settings.Integer("elements") % streams != 0)
    return "elements must be a multiple of pipeline_streams";
  if (settings.Integer("intensity") > kMostExact) return "intensity must be at most 2^24 - 256";
  return NoSuchMemory(device, settings);
}

WorkloadSpec BaseSpec(const Machine& machine, const char* name, const char* summary) {
  const bool host = machine.device.backend() == Backend::kHost;
  constexpr long kMostElements = 1L << 32;
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kMemory;
  spec.summary = summary;
  spec.baseline = false;
  spec.axes = {
      IntegerAxis("elements", "float32 values brought in and out", 1, kMostElements,
                  host ? "1048576" : "4194304"),
      ChoiceAxis("memory", "kind of host memory", {"pinned", "registered", "pageable"}, "pinned",
                 "pinned"),
      IntegerAxis("intensity", "multiply-adds for each value", 1, 1L << 24, host ? "4" : "2048")};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return Excluded(device, settings);
  };
  spec.footprint = [](const Settings& settings) {
    const std::size_t bytes = settings.Integer("elements") * sizeof(float);
    return Footprint{2 * bytes, 2 * bytes};
  };
  return spec;
}

WorkloadSpec StageSpec(const Machine& machine, const char* name, const char* summary, Stage stage) {
  WorkloadSpec spec = BaseSpec(machine, name, summary);
  spec.make = [machine, stage](const Settings& settings) {
    return std::make_unique<StageWorkload>(machine, settings, stage);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Pipeline(Machine& machine) {
  WorkloadSpec sequential =
      BaseSpec(machine, "Sequential", "copy in, compute, copy out, one after the other");
  sequential.make = [machine](const Settings& settings) {
    return std::make_unique<PipelineWorkload>(machine, settings, 1);
  };
  WorkloadSpec pipelined =
      BaseSpec(machine, "Pipelined", "copy in, compute, copy out, in parts on several streams");
  pipelined.axes.push_back(
      IntegerAxis("pipeline_streams", "streams, and parts of the array", 1, 64, "1,2,4,8,16"));
  pipelined.make = [machine](const Settings& settings) {
    return std::make_unique<PipelineWorkload>(
        machine, settings, static_cast<int>(settings.Integer("pipeline_streams")));
  };
  return {sequential, pipelined,
          StageSpec(machine, "PipelineIn", "a pipeline's copy in, alone", Stage::kIn),
          StageSpec(machine, "PipelineCompute", "a pipeline's computation, alone", Stage::kCompute),
          StageSpec(machine, "PipelineOut", "a pipeline's copy out, alone", Stage::kOut)};
}

}  // namespace overlapbench
