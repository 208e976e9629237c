// Collectives of the cuda backend: NCCL, bootstrapped over MPI (NCCL User Guide, "Creating a
// Communicator"). The all-to-all and the ring are grouped sends and receives, as in nccl-tests.

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <span>
#include <thread>

#include "comm/communicator.h"

namespace overlapbench {
namespace {

void ThrowIfNcclFailed(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return;
  const char* detail = ncclGetLastError(nullptr);
  throw Error(std::string(call) + " failed: " + ncclGetErrorString(code) +
              (detail != nullptr && *detail != '\0' ? std::string(", ") + detail : ""));
}
#define NCCL_CHECK(call) ThrowIfNcclFailed((call), #call)

ncclDataType_t TypeOf(Element element) {
  switch (element) {
    case Element::kFloat32:
      return ncclFloat32;
    case Element::kFloat16:
      return ncclFloat16;
    case Element::kBfloat16:
      return ncclBfloat16;
    case Element::kFloat64:
      return ncclFloat64;
    case Element::kInt32:
      return ncclInt32;
    default:
      throw Error("NCCL carries no element type " + ToString(element));
  }
}

cudaStream_t Native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

class NcclCommunicator : public Communicator, private Link {
 public:
  explicit NcclCommunicator(Ranks& ranks) : ranks_(ranks) {
    ncclUniqueId id{};
    std::string error;
    if (ranks.is_root()) {
      const ncclResult_t code = ncclGetUniqueId(&id);
      if (code != ncclSuccess)
        error = std::string("ncclGetUniqueId failed: ") + ncclGetErrorString(code);
    }
    ranks.AgreeOnError(error, "starting NCCL");
    ranks.Broadcast(std::as_writable_bytes(std::span(&id, 1)), "starting NCCL");
    // Non-blocking, so that a rank that never comes ends in a time-out instead of a hang.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    const ncclResult_t code =
        ncclCommInitRankConfig(&communicator, ranks.size(), id, ranks.rank(), &config);
    communicator_ = communicator;
    if (code != ncclInProgress) NCCL_CHECK(code);
    AwaitReady("ncclCommInitRankConfig");
    ranks.Add(*this);
  }
  ~NcclCommunicator() override {
    ranks_.Remove(*this);
    Abort();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }

  void AllReduceSum(Stream& stream, const void* send, void* receive, long count,
                    Element element) override {
    Finish(ncclAllReduce(send, receive, count, TypeOf(element), ncclSum, communicator_,
                         Native(stream)),
           "ncclAllReduce");
  }
  void AllGather(Stream& stream, const void* send, void* receive, long count,
                 Element element) override {
    Finish(ncclAllGather(send, receive, count, TypeOf(element), communicator_, Native(stream)),
           "ncclAllGather");
  }
  void ReduceScatterSum(Stream& stream, const void* send, void* receive, long count,
                        Element element) override {
    Finish(ncclReduceScatter(send, receive, count, TypeOf(element), ncclSum, communicator_,
                             Native(stream)),
           "ncclReduceScatter");
  }
  void Broadcast(Stream& stream, const void* send, void* receive, long count, Element element,
                 int root) override {
    Finish(
        ncclBroadcast(send, receive, count, TypeOf(element), root, communicator_, Native(stream)),
        "ncclBroadcast");
  }
  void AllToAll(Stream& stream, const void* send, void* receive, long count,
                Element element) override {
    const std::size_t segment_bytes = count * SizeOf(element);
    NCCL_CHECK(ncclGroupStart());
    for (int peer = 0; peer < size(); ++peer) {
      SendReceive(stream, static_cast<const std::byte*>(send) + peer * segment_bytes, peer,
                  static_cast<std::byte*>(receive) + peer * segment_bytes, peer, count, element);
    }
    Finish(ncclGroupEnd(), "ncclGroupEnd of the all-to-all");
  }
  void ShiftRing(Stream& stream, const void* send, void* receive, long count,
                 Element element) override {
    NCCL_CHECK(ncclGroupStart());
    SendReceive(stream, send, (rank() + 1) % size(), receive, (rank() + size() - 1) % size(), count,
                element);
    Finish(ncclGroupEnd(), "ncclGroupEnd of the ring");
  }

 private:
  // Errors that NCCL met by itself, such as a lost connection (NCCL User Guide, "Error Handling").
  std::string Fault() override {
    if (communicator_ == nullptr) return "";  // aborted
    ncclResult_t state = ncclSuccess;
    const ncclResult_t code = ncclCommGetAsyncError(communicator_, &state);
    if (code == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) return "";
    return std::string("NCCL reports: ") + ncclGetErrorString(code != ncclSuccess ? code : state);
  }
  // Once only, whichever thread comes first.
  void Abort() final {
    if (ncclComm_t communicator = communicator_.exchange(nullptr)) ncclCommAbort(communicator);
  }

  void SendReceive(Stream& stream, const void* send, int to, void* receive, int from, long count,
                   Element element) {
    Accept(ncclSend(send, count, TypeOf(element), to, communicator_, Native(stream)), "ncclSend");
    Accept(ncclRecv(receive, count, TypeOf(element), from, communicator_, Native(stream)),
           "ncclRecv");
  }

  static void Accept(ncclResult_t code, const char* call) {
    if (code != ncclInProgress) ThrowIfNcclFailed(code, call);
  }

  void Finish(ncclResult_t code, const char* call) {
    Accept(code, call);
    if (code == ncclInProgress) AwaitReady(call);
  }

  // A non-blocking communicator answers ncclInProgress until the work is enqueued.
  void AwaitReady(const std::string& call) {
    const auto deadline = std::chrono::steady_clock::now() + ranks_.timeout();
    for (ncclResult_t state = ncclInProgress; state != ncclSuccess;) {
      NCCL_CHECK(ncclCommGetAsyncError(communicator_, &state));
      if (state != ncclInProgress) ThrowIfNcclFailed(state, call.c_str());
      if (std::chrono::steady_clock::now() > deadline) {
        throw FatalError(ranks_.Prefix() + call + " did not finish within " +
                         std::to_string(ranks_.timeout().count()) +
                         " ms; another rank has stopped or cannot be reached");
      }
      std::this_thread::yield();
    }
  }

  Ranks& ranks_;
  std::atomic<ncclComm_t> communicator_ = nullptr;
};

}  // namespace

std::string NcclUnavailable() { return ""; }

std::string NcclVersion() {
  int version = 0;
  NCCL_CHECK(ncclGetVersion(&version));
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::unique_ptr<Communicator> MakeNcclCommunicator(Ranks& ranks) {
  return std::make_unique<NcclCommunicator>(ranks);
}

}  // namespace overlapbench
