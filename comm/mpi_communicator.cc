// Collectives of the host backend: OpenMPI's non-blocking operations.
//
// Each operation is one task of a host stream. The task starts the operation and tests it until it
// ends, because MPI makes progress only inside its calls. That takes a core away from the kernels
// beside it, which is the price of overlap on a CPU.
//
// Making a communicator does not wait for other ranks: MPI's exists from the start
// (Ranks::traffic).
#include <limits>

#include "comm/communicator.h"
#include "device/host/host_stream.h"

namespace overlapbench {
namespace {

MPI_Datatype TypeOf(Element element) {
  switch (element) {
    case Element::kFloat32:
      return MPI_FLOAT;
    case Element::kFloat64:
      return MPI_DOUBLE;
    case Element::kInt32:
      return MPI_INT32_T;
    default:
      throw Error("MPI carries no element type " + ToString(element));
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
  explicit MpiCommunicator(Ranks& ranks) : ranks_(ranks), communicator_(ranks.traffic()) {}

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }

  void AllReduceSum(Stream& stream, const void* send, void* receive, long count,
                    Element element) override {
    const void* from = send == receive ? MPI_IN_PLACE : send;
    Run(stream, "MPI_Iallreduce", [=, this](MPI_Request* request) {
      MPI_CHECK(MPI_Iallreduce(from, receive, CheckedCount(count), TypeOf(element), MPI_SUM,
                               communicator_, request));
    });
  }

  void AllGather(Stream& stream, const void* send, void* receive, long count,
                 Element element) override {
    const bool in_place = send == Offset(receive, rank() * count, element);
    Run(stream, "MPI_Iallgather", [=, this](MPI_Request* request) {
      const int elements = CheckedCount(count);
      MPI_CHECK(MPI_Iallgather(in_place ? MPI_IN_PLACE : send, elements, TypeOf(element), receive,
                               elements, TypeOf(element), communicator_, request));
    });
  }

  void ReduceScatterSum(Stream& stream, const void* send, void* receive, long count,
                        Element element) override {
    // Not offered in place. MPI's in-place form leaves the result at the buffer's start, NCCL's in
    // the rank's own segment. They agree only on rank 0.
    Run(stream, "MPI_Ireduce_scatter_block", [=, this](MPI_Request* request) {
      MPI_CHECK(MPI_Ireduce_scatter_block(send, receive, CheckedCount(count), TypeOf(element),
                                          MPI_SUM, communicator_, request));
    });
  }

  void Broadcast(Stream& stream, const void* send, void* receive, long count, Element element,
                 int root) override {
    if (rank() == root && send != receive) stream.Copy(receive, send, count * SizeOf(element));
    Run(stream, "MPI_Ibcast", [=, this](MPI_Request* request) {
      MPI_CHECK(
          MPI_Ibcast(receive, CheckedCount(count), TypeOf(element), root, communicator_, request));
    });
  }

  void AllToAll(Stream& stream, const void* send, void* receive, long count,
                Element element) override {
    Run(stream, "MPI_Ialltoall", [=, this](MPI_Request* request) {
      const int elements = CheckedCount(count);
      MPI_CHECK(MPI_Ialltoall(send, elements, TypeOf(element), receive, elements, TypeOf(element),
                              communicator_, request));
    });
  }

  void ShiftRing(Stream& stream, const void* send, void* receive, long count,
                 Element element) override {
    stream.host()->Enqueue([=, this] {
      constexpr int kTag = 7;
      const int elements = CheckedCount(count);
      MPI_Request receiving = MPI_REQUEST_NULL;
      MPI_Request sending = MPI_REQUEST_NULL;
      MPI_CHECK(MPI_Irecv(receive, elements, TypeOf(element), (rank() + size() - 1) % size(), kTag,
                          communicator_, &receiving));
      MPI_CHECK(MPI_Isend(send, elements, TypeOf(element), (rank() + 1) % size(), kTag,
                          communicator_, &sending));
      ranks_.Await(receiving, "MPI_Irecv of the ring");
      ranks_.Await(sending, "MPI_Isend of the ring");
    });
  }

 private:
  static const void* Offset(const void* data, long count, Element element) {
    return static_cast<const std::byte*>(data) + count * SizeOf(element);
  }

  template <class Start>
  void Run(Stream& stream, const std::string& call, Start start) {
    stream.host()->Enqueue([this, call, start] {
      MPI_Request request = MPI_REQUEST_NULL;
      start(&request);
      ranks_.Await(request, call);
    });
  }

  Ranks& ranks_;
  MPI_Comm communicator_;
};

}  // namespace

std::unique_ptr<Communicator> MakeMpiCommunicator(Ranks& ranks) {
  return std::make_unique<MpiCommunicator>(ranks);
}

}  // namespace overlapbench
