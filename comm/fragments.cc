// Fragmented: a transfer from the host in many small copies; and OneTransfer, the same bytes in
// one.
//
// call:loop makes a copy call for each fragment, call:batch one call for all of them
// (Device::CopyBatch), call:graph launches a graph in which the loop was recorded. What the host
// takes to make the calls is part of what is asked, and more calls than a stream's queue holds
// would wait for a closed gate: so samples are not gated.

#include <utility>

#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 5000;
constexpr int kMost = 256;

class FragmentsWorkload : public Workload {
 public:
  FragmentsWorkload(const Machine& machine, long bytes, long fragments, std::string call)
      : machine_(machine),
        bytes_(bytes),
        call_(std::move(call)),
        device_(machine.device.Allocate(bytes, MemoryKind::kDevice)),
        host_(machine.device.Allocate(bytes, MemoryKind::kPinned)) {
    const long piece_bytes = bytes / fragments;
    for (long i = 0; i < fragments; ++i) {
      pieces_.push_back({static_cast<std::byte*>(device_.data()) + i * piece_bytes,
                         static_cast<const std::byte*>(host_.data()) + i * piece_bytes,
                         static_cast<std::size_t>(piece_bytes)});
    }
    if (call_ == "graph")
      graph_ = machine.device.Record([this](Stream& stream) { EnqueueLoop(stream); });
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.copied_bytes = static_cast<double>(bytes_);
    return cost;
  }
  [[nodiscard]] bool enqueue_waits() const override { return true; }

  void Reset(Stream& stream) override {
    FillIntegers(stream, device_.data(), count(), Element::kInt32, kSeed, kMost);
    stream.Copy(host_.data(), device_.data(), bytes_);
    Poison(stream, device_.data(), bytes_);
  }

  void Enqueue(Stream& stream) override {
    if (graph_ != nullptr)
      graph_->Launch(stream);
    else if (call_ == "batch")
      machine_.device.CopyBatch(stream, pieces_);
    else
      EnqueueLoop(stream);
  }

  Verdict Verify(Stream& stream) override {
    const ExpectedSegments expected{count(), 0, 0, 1, kMost, kSeed};
    const std::string fault = FindFault(machine_.device, stream, device_.data(), count(),
                                        Element::kInt32, expected, machine_.ranks.timeout());
    return {fault.empty() ? 0.0 : 1.0, 0, fault};
  }

 private:
  void EnqueueLoop(Stream& stream) {
    for (const CopyPiece& piece : pieces_)
      stream.Copy(piece.destination, piece.source, piece.bytes);
  }
  [[nodiscard]] long count() const { return bytes_ / static_cast<long>(sizeof(std::int32_t)); }

  Machine machine_;
  long bytes_;
  std::string call_;
  Buffer device_;
  Buffer host_;
  std::vector<CopyPiece> pieces_;
  std::unique_ptr<Graph> graph_;
};

std::string Excluded(const Device& device, const Settings& settings) {
  if (settings.Integer("bytes") % (4 * settings.Integer("fragments")) != 0)
    return "bytes must be a multiple of 4 * fragments";
  if (settings.Text("call") == "graph") return device.NoGraphs();
  return settings.Text("call") == "batch" ? device.NoBatchCopy() : "";
}

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.side = Side::kMemory;
  spec.summary = summary;
  spec.baseline = false;
  spec.axes = {BytesAxis("bytes", "size of all together", host ? "16M" : "64M"),
               IntegerAxis("fragments", "copies", 1, 1 << 20, "1,16,256,4096"),
               ChoiceAxis("call", "a call for each copy, one for all, or a recorded graph",
                          {"loop", "batch", "graph"}, "loop,batch,graph")};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return Excluded(device, settings);
  };
  spec.footprint = [](const Settings& settings) {
    const auto bytes = static_cast<std::size_t>(settings.Integer("bytes"));
    return Footprint{bytes, bytes};
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Fragments(Machine& machine) {
  WorkloadSpec fragmented =
      SpecOf(machine, "Fragmented", "a transfer from the host in many small copies");
  fragmented.make = [machine](const Settings& settings) {
    return std::make_unique<FragmentsWorkload>(
        machine, settings.Integer("bytes"), settings.Integer("fragments"), settings.Text("call"));
  };
  WorkloadSpec one = SpecOf(machine, "OneTransfer", "the same bytes in one copy");
  one.make = [machine](const Settings& settings) {
    return std::make_unique<FragmentsWorkload>(machine, settings.Integer("bytes"), 1, "loop");
  };
  return {fragmented, one};
}

}  // namespace overlapbench
