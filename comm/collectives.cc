// Collectives: all-to-all, all-reduce, all-gather, reduce-scatter, broadcast and the send/receive
// ring.
//
// One workload implements them all; the table below lists their differences. `bytes` is the size as
// nccl-tests counts it (doc/PERFORMANCE.md): the larger of what a rank sends and what it receives
// in total. algbw = bytes / time, and busbw = algbw × the row's bus factor. Inputs are random whole
// numbers, small enough for every sum to be exact in the element type (CollectiveInput in
// workload/data.h). Results are compared exactly, on the device, element by element.

#include "comm/collectives.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "comm/transport.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 1000;

struct CollectiveRow {
  const char* name;
  const char* summary;
  Operation operation;
  // Whether a rank sends, or receives, one rank's segment instead of all `bytes`.
  bool sends_segment;
  bool receives_segment;
  double (*bus_factor)(int ranks);
  // Approximate bytes read and written in a rank's own memory, also by its peers, as a multiple of
  // `bytes`. This is out of place; in place it is half.
  double memory_factor;
  int source;                  // see ExpectedSegments; kPrevious: the rank before this one
  bool starts_at_own_segment;  // element 0 of the result is the sources' element rank × segment
  // Whether the operation can work in place on GPUs, and over MPI.
  bool in_place_gpu;
  bool in_place_mpi;
};

constexpr int kPrevious = -3;
constexpr int kRoot = 0;

double ShareOfOthers(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

constexpr std::array<CollectiveRow, 6> kCollectives = {{
    {"AllToAll", "every rank sends a different segment to every rank", Operation::kAllToAll, false,
     false, ShareOfOthers, 2, ExpectedSegments::kEachSegment, true, false, false},
    {"AllReduce", "every rank gets the sum over all ranks", Operation::kAllReduce, false, false,
     [](int ranks) { return 2 * ShareOfOthers(ranks); }, 3, ExpectedSegments::kSum, false, true,
     true},
    {"AllGather", "every rank gets every rank's segment", Operation::kAllGather, true, false,
     ShareOfOthers, 2, ExpectedSegments::kEachSegment, false, true, true},
    {"ReduceScatter", "every rank gets its segment of the sum", Operation::kReduceScatter, false,
     true, ShareOfOthers, 1, ExpectedSegments::kSum, true, true, false},
    {"Broadcast", "every rank gets rank 0's data", Operation::kBroadcast, false, false,
     [](int) { return 1.0; }, 1, kRoot, false, true, true},
    {"SendRecv", "every rank sends to the next and receives from the one before",
     Operation::kShiftRing, false, false, [](int) { return 1.0; }, 2, kPrevious, false, false,
     false},
}};

const CollectiveRow& RowOf(Operation operation) {
  const auto* const row = std::ranges::find(kCollectives, operation, &CollectiveRow::operation);
  if (row == kCollectives.end()) throw Error("a point-to-point operation is not a collective");
  return *row;
}

class CollectiveWorkload : public Workload {
 public:
  CollectiveWorkload(const Machine& machine, const CollectiveRow& row,
                     std::shared_ptr<Transports> transports, Settings settings)
      : machine_(machine),
        row_(row),
        transports_(std::move(transports)),
        settings_(std::move(settings)),
        element_(ElementNamed(settings_.Text("type"))),
        count_(settings_.Integer("bytes") / static_cast<long>(SizeOf(element_))),
        segment_(count_ / machine.ranks.size()),
        in_place_(settings_.Text("place") == "in"),
        input_(InputOf(row.operation, machine.ranks.size())) {}

  void Connect() override {
    const bool has_channel = settings_.Has("channel");
    communicator_ = transports_->Connect(
        settings_, has_channel ? static_cast<int>(settings_.Integer("channel")) : 0);
    if (in_place_) {
      shared_ = AllocateElements(count_);
    } else {
      send_ = AllocateElements(send_count());
      receive_ = AllocateElements(receive_count());
    }
    if (const std::size_t bytes = communicator_->scratch_bytes(call()); bytes > 0)
      scratch_ = communicator_->Allocate(bytes);
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.wire_bytes = static_cast<double>(count_) * static_cast<double>(SizeOf(element_));
    cost.bus_factor = row_.bus_factor(machine_.ranks.size());
    cost.memory_bytes = row_.memory_factor * cost.wire_bytes / (in_place_ ? 2 : 1);
    return cost;
  }

  void Reset(Stream& stream) override {
    if (in_place_)
      Poison(stream, shared_.data(), shared_.bytes());
    else
      Poison(stream, receive_.data(), receive_.bytes());
    FillCollective(stream, send(), send_count(), element_, input_, machine_.ranks.rank());
  }

  void Enqueue(Stream& stream) override { communicator_->Enqueue(stream, call()); }

  Verdict Verify(Stream& stream) override {
    const auto& ranks = machine_.ranks;
    const auto expected = ExpectedOf(row_.operation, ranks.size(), ranks.rank(), count_);
    return FindFault(machine_, stream, receive(), receive_count(), element_, expected);
  }

  std::string IneffectiveKnob() override {
    auto proof = communicator_->Prove(call());
    sms_ = proof.sms;
    return proof.fault;
  }
  [[nodiscard]] std::optional<long> sms() const override { return sms_; }

 private:
  Buffer AllocateElements(long count) { return communicator_->Allocate(count * SizeOf(element_)); }
  [[nodiscard]] CollectiveCall call() const {
    return {row_.operation, send(), receive(), scratch_.data(), count_, segment_, element_};
  }
  [[nodiscard]] long send_count() const { return row_.sends_segment ? segment_ : count_; }
  [[nodiscard]] long receive_count() const { return row_.receives_segment ? segment_ : count_; }

  // In place, the smaller of the two buffers is this rank's segment of the larger one.
  [[nodiscard]] void* send() const { return in_place_ ? Own(row_.sends_segment) : send_.data(); }
  [[nodiscard]] void* receive() const {
    return in_place_ ? Own(row_.receives_segment) : receive_.data();
  }
  [[nodiscard]] void* Own(bool segment_only) const {
    const long offset = segment_only ? machine_.ranks.rank() * segment_ : 0;
    return static_cast<std::byte*>(shared_.data()) + offset * SizeOf(element_);
  }

  Machine machine_;
  const CollectiveRow& row_;
  std::shared_ptr<Transports> transports_;
  Settings settings_;
  std::shared_ptr<Communicator> communicator_;  // outlives the buffers, which it allocated
  Element element_;
  long count_;
  long segment_;
  bool in_place_;
  CollectiveInput input_;
  Buffer send_;
  Buffer receive_;
  Buffer shared_;
  Buffer scratch_;
  std::optional<long> sms_;
};

std::string Excluded(const Machine& machine, const CollectiveRow& row, const Settings& settings) {
  const bool host = machine.device.backend() == Backend::kHost;
  const Element element = ElementNamed(settings.Text("type"));
  const long ranks = machine.ranks.size();
  if (settings.Integer("bytes") % (ranks * static_cast<long>(SizeOf(element))) != 0) {
    return "bytes must be a multiple of ranks x element size";
  }
  if (host && SizeOf(element) == 2) return "MPI does not support " + ToString(element);
  if (settings.Text("place") == "in" && !(host ? row.in_place_mpi : row.in_place_gpu)) {
    return std::string(host ? "MPI" : "NCCL") + " does not support this collective in place";
  }
  return NoTransport(machine, {row.operation}, settings);
}

std::string Missing(const Machine& machine) {
  if (machine.ranks.size() < 2) {
    const bool host = machine.device.backend() == Backend::kHost;
    return host ? "needs at least 2 ranks, has 1 (--ranks 2)"
                : "needs at least 2 GPUs, one per rank; has 1";
  }
  return machine.device.backend() == Backend::kCuda ? NcclUnavailable() : "";
}

WorkloadSpec SpecOf(const CollectiveRow& row, const Machine& machine,
                    const std::shared_ptr<Transports>& transports) {
  constexpr long kPage = 4096;  // NCCL's symmetric kernels need whole pages
  constexpr long kWord = 16;    // own transports send each rank whole words
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = row.name;
  spec.work_class = WorkClass::kComm;
  spec.collective = true;
  spec.summary = row.summary;
  spec.missing = Missing(machine);
  spec.axes = {
      InUnitsOf(std::lcm(kPage, kWord * machine.ranks.size()),
                BytesAxis("bytes", "size per rank, as nccl-tests counts it",
                          host ? "1M,16M" : "1M,64M,1G")),
      ChoiceAxis("type", "element type", {"float32", "float16", "bfloat16", "float64", "int32"},
                 "float32", "float32"),
      ChoiceAxis("place", "out: separate buffers; in: in place", {"out", "in"}, "out", "out")};
  for (Axis& axis : TransportAxes(machine)) spec.axes.push_back(std::move(axis));
  if (machine.device.backend() == Backend::kCuda) spec.by_copy_engine = IsByCopyEngine;
  spec.excluded = [&row, machine](const Settings& settings) {
    return Excluded(machine, row, settings);
  };
  spec.footprint = [&row](const Settings& settings) {
    const std::size_t scratch = Adds(row.operation) && settings.Text("transport") == "copy" ? 1 : 0;
    const std::size_t buffers = (settings.Text("place") == "in" ? 1 : 2) + scratch;
    return Footprint{buffers * settings.Integer("bytes"), 0};
  };
  spec.make = [&row, machine, transports](const Settings& settings) {
    return std::make_unique<CollectiveWorkload>(machine, row, transports, settings);
  };
  return spec;
}

}  // namespace

const char* NameOf(Operation operation) { return RowOf(operation).name; }

CollectiveInput InputOf(Operation operation, int ranks) {
  return {kSeed, ranks, RowOf(operation).source == ExpectedSegments::kSum};
}

ExpectedSegments ExpectedOf(Operation operation, int ranks, int rank, long count) {
  const CollectiveRow& row = RowOf(operation);
  const long segment = count / ranks;
  const CollectiveInput input = InputOf(operation, ranks);
  ExpectedSegments expected;
  expected.source = row.source == kPrevious ? (rank + ranks - 1) % ranks : row.source;
  const bool by_segment = row.source == ExpectedSegments::kEachSegment || row.receives_segment;
  expected.segment_count = by_segment ? segment : count;
  expected.first_index = row.starts_at_own_segment ? rank * segment : 0;
  expected.ranks = ranks;
  expected.most = input.most();
  expected.seed = input.seed;
  return expected;
}

std::vector<WorkloadSpec> Collectives(Machine& machine) {
  const auto transports = std::make_shared<Transports>(machine);
  std::vector<WorkloadSpec> specs;
  for (const auto& row : kCollectives) specs.push_back(SpecOf(row, machine, transports));
  return specs;
}

}  // namespace overlapbench
