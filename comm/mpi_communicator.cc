// Collectives of the host backend: OpenMPI's non-blocking operations.
//
// Each operation is one task of a host stream. The task starts the operation and tests it until it
// ends, because MPI makes progress only inside its calls. This occupies a core that the kernels
// beside it would use: the cost of overlap on a CPU.
//
// Making a communicator does not wait for other ranks: MPI's exists from the start
// (Ranks::traffic).
#include <limits>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace overlapbench {
namespace {

constexpr int kRoot = 0;

MPI_Datatype TypeOf(Element element) {
  switch (element) {
    case Element::kFloat32:
      return MPI_FLOAT;
    case Element::kFloat64:
      return MPI_DOUBLE;
    case Element::kInt32:
      return MPI_INT32_T;
    default:
      throw Error("MPI does not support element type " + ToString(element));
  }
}

int CheckedCount(long count) {
  if (count > std::numeric_limits<int>::max()) {
    throw Error("MPI counts at most 2147483647 elements in one operation: choose a smaller size");
  }
  return static_cast<int>(count);
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(const Machine& machine, int channel)
      : device_(machine.device),
        ranks_(machine.ranks),
        communicator_(ranks_.traffic(channel)),
        channel_(channel) {}

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }
  Buffer Allocate(std::size_t bytes) override {
    return device_.Allocate(bytes, MemoryKind::kDevice);
  }
  Proof Prove(const CollectiveCall& /*call*/) override { return {}; }

  void Enqueue(Stream& stream, const CollectiveCall& call) override {
    switch (call.operation) {
      case Operation::kAllToAll:
        return AllToAll(stream, call);
      case Operation::kAllReduce:
        return AllReduce(stream, call);
      case Operation::kAllGather:
        return AllGather(stream, call);
      case Operation::kReduceScatter:
        return ReduceScatter(stream, call);
      case Operation::kBroadcast:
        return Broadcast(stream, call);
      case Operation::kShiftRing:
        return ShiftRing(stream, call);
      case Operation::kSend:
        return Send(stream, call);
      case Operation::kReceive:
        return Receive(stream, call);
    }
  }

  // Starts all of them before waiting for the first.
  void AllReduceTogether(Stream& stream, std::span<const CollectiveCall> calls) override {
    stream.Enqueue([this, calls = std::vector(calls.begin(), calls.end())] {
      std::vector<MPI_Request> requests(calls.size(), MPI_REQUEST_NULL);
      for (std::size_t i = 0; i < calls.size(); ++i) StartAllReduce(calls[i], &requests[i]);
      for (MPI_Request& request : requests)
        ranks_.Await(request, "MPI_Iallreduce of several sums", nullptr);
    });
  }

 private:
  void AllReduce(Stream& stream, const CollectiveCall& c) {
    Run(stream, "MPI_Iallreduce", [=, this](MPI_Request* request) { StartAllReduce(c, request); });
  }
  void StartAllReduce(const CollectiveCall& c, MPI_Request* request) const {
    const void* from = c.send == c.receive ? MPI_IN_PLACE : c.send;
    MPI_CHECK(MPI_Iallreduce(from, c.receive, CheckedCount(c.count), TypeOf(c.element), MPI_SUM,
                             communicator_, request));
  }

  void AllGather(Stream& stream, const CollectiveCall& c) {
    const bool in_place = c.send == Offset(c.receive, rank() * c.segment, c.element);
    Run(stream, "MPI_Iallgather", [=, this](MPI_Request* request) {
      const int elements = CheckedCount(c.segment);
      MPI_CHECK(MPI_Iallgather(in_place ? MPI_IN_PLACE : c.send, elements, TypeOf(c.element),
                               c.receive, elements, TypeOf(c.element), communicator_, request));
    });
  }

  void ReduceScatter(Stream& stream, const CollectiveCall& c) {
    // Unsupported in place: MPI's in-place form leaves the result at the buffer's start, NCCL's in
    // the rank's own segment. They agree only on rank 0.
    Run(stream, "MPI_Ireduce_scatter_block", [=, this](MPI_Request* request) {
      MPI_CHECK(MPI_Ireduce_scatter_block(c.send, c.receive, CheckedCount(c.segment),
                                          TypeOf(c.element), MPI_SUM, communicator_, request));
    });
  }

  void Broadcast(Stream& stream, const CollectiveCall& c) {
    if (rank() == kRoot && c.send != c.receive)
      stream.Copy(c.receive, c.send, c.count * SizeOf(c.element));
    Run(stream, "MPI_Ibcast", [=, this](MPI_Request* request) {
      MPI_CHECK(MPI_Ibcast(c.receive, CheckedCount(c.count), TypeOf(c.element), kRoot,
                           communicator_, request));
    });
  }

  void AllToAll(Stream& stream, const CollectiveCall& c) {
    if (c.own_stays) return AllToAllOthers(stream, c);
    Run(stream, "MPI_Ialltoall", [=, this](MPI_Request* request) {
      const int elements = CheckedCount(c.segment);
      MPI_CHECK(MPI_Ialltoall(c.send, elements, TypeOf(c.element), c.receive, elements,
                              TypeOf(c.element), communicator_, request));
    });
  }

  // The counts must outlive the operation.
  void AllToAllOthers(Stream& stream, const CollectiveCall& c) {
    struct Segments {
      std::vector<int> counts;
      std::vector<int> begins;
    };
    const auto segments = std::make_shared<Segments>();
    for (int peer = 0; peer < size(); ++peer) {
      segments->counts.push_back(peer == rank() ? 0 : CheckedCount(c.segment));
      segments->begins.push_back(CheckedCount(peer * c.segment));
    }
    Run(
        stream, "MPI_Ialltoallv",
        [=, this](MPI_Request* request) {
          const auto& [counts, begins] = *segments;
          MPI_CHECK(MPI_Ialltoallv(c.send, counts.data(), begins.data(), TypeOf(c.element),
                                   c.receive, counts.data(), begins.data(), TypeOf(c.element),
                                   communicator_, request));
        },
        segments);
  }

  void ShiftRing(Stream& stream, const CollectiveCall& c) {
    stream.Enqueue([=, this] {
      const int elements = CheckedCount(c.count);
      MPI_Request receiving = MPI_REQUEST_NULL;
      MPI_Request sending = MPI_REQUEST_NULL;
      MPI_CHECK(MPI_Irecv(c.receive, elements, TypeOf(c.element),
                          (rank() + size() - c.shift) % size(), kRingTag, communicator_,
                          &receiving));
      MPI_CHECK(MPI_Isend(c.send, elements, TypeOf(c.element), (rank() + c.shift) % size(),
                          kRingTag, communicator_, &sending));
      ranks_.Await(receiving, "MPI_Irecv of the ring", nullptr);
      ranks_.Await(sending, "MPI_Isend of the ring", nullptr);
    });
  }

  void Send(Stream& stream, const CollectiveCall& c) {
    Run(stream, "MPI_Isend", [=, this](MPI_Request* request) {
      MPI_CHECK(MPI_Isend(c.send, CheckedCount(c.count), TypeOf(c.element), c.peer,
                          kFirstChannelTag + channel_, communicator_, request));
    });
  }

  void Receive(Stream& stream, const CollectiveCall& c) {
    Run(stream, "MPI_Irecv", [=, this](MPI_Request* request) {
      MPI_CHECK(MPI_Irecv(c.receive, CheckedCount(c.count), TypeOf(c.element), c.peer,
                          kFirstChannelTag + channel_, communicator_, request));
    });
  }

  static const void* Offset(const void* data, long count, Element element) {
    return static_cast<const std::byte*>(data) + count * SizeOf(element);
  }

  // `memory`: what the operation uses beside the call's buffers (Ranks::Await).
  template <class Start>
  void Run(Stream& stream, const std::string& call, const Start& start,
           const std::shared_ptr<const void>& memory = nullptr) {
    stream.Enqueue([this, call, start, memory] {
      MPI_Request request = MPI_REQUEST_NULL;
      start(&request);
      ranks_.Await(request, call, memory);
    });
  }

  static constexpr int kRingTag = 7;
  static constexpr int kFirstChannelTag = kRingTag + 1;

  Device& device_;
  Ranks& ranks_;
  MPI_Comm communicator_;
  int channel_;
};

}  // namespace

std::unique_ptr<Communicator> MakeMpiCommunicator(const Machine& machine, int channel) {
  return std::make_unique<MpiCommunicator>(machine, channel);
}

}  // namespace overlapbench
