// Collectives of the cuda backend: NCCL, bootstrapped over MPI (NCCL User Guide, "Creating a
// Communicator"). All-to-all and ring are grouped sends and receives, as in nccl-tests.

#include <cuda_runtime.h>
#include <fmt/core.h>
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
  const bool tells = detail != nullptr && *detail != '\0';
  throw Error(fmt::format("{} failed: {}{}{}", call, ncclGetErrorString(code), tells ? ", " : "",
                          tells ? detail : ""));
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
      throw Error(fmt::format("NCCL carries no element type {}", ToString(element)));
  }
}

cudaStream_t Native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

// The connection itself. The destructor aborts it, even if it is half made: NCCL's threads and the
// other ranks must not wait for a rank that has given up.
class Connection : public Link {
 public:
  explicit Connection(Ranks& ranks) : ranks_(ranks) { ranks_.Add(*this); }
  ~Connection() override {
    ranks_.Remove(*this);
    Abort();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Starts connecting; Ready says when it is done. It does not block, so a rank that never arrives
  // causes a timeout, not a hang.
  void Begin(const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    const ncclResult_t code =
        ncclCommInitRankConfig(&communicator, ranks_.size(), id, ranks_.rank(), &config);
    communicator_ = communicator;
    if (code != ncclInProgress) ThrowIfNcclFailed(code, "ncclCommInitRankConfig");
  }
  // Whether the last call is done. Throws Error, which names the call, if it has failed.
  bool Ready(const std::string& call) {
    ncclResult_t state = ncclInProgress;
    NCCL_CHECK(ncclCommGetAsyncError(communicator_, &state));
    if (state == ncclInProgress) return false;
    ThrowIfNcclFailed(state, call.c_str());
    return true;
  }
  [[nodiscard]] ncclComm_t get() const { return communicator_; }

  // Asynchronous errors, such as a lost connection (NCCL User Guide, "Error Handling").
  std::string Fault() override {
    if (communicator_ == nullptr) return "";  // aborted
    ncclResult_t state = ncclSuccess;
    const ncclResult_t code = ncclCommGetAsyncError(communicator_, &state);
    if (code == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) return "";
    return fmt::format("NCCL reports: {}", ncclGetErrorString(code != ncclSuccess ? code : state));
  }
  // Only the first call does anything. It may be made by any thread.
  void Abort() final {
    if (ncclComm_t communicator = communicator_.exchange(nullptr)) ncclCommAbort(communicator);
  }

 private:
  Ranks& ranks_;
  std::atomic<ncclComm_t> communicator_ = nullptr;
};

// Calls that NCCL starts together. If one throws, the group must still be closed, or NCCL would add
// all later calls to it. NCCL drops the calls of a group in which one has failed.
class CallGroup {
 public:
  CallGroup() { NCCL_CHECK(ncclGroupStart()); }
  ~CallGroup() {
    if (open_) ncclGroupEnd();
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  ncclResult_t End() {
    open_ = false;
    return ncclGroupEnd();
  }

 private:
  bool open_ = true;
};

class NcclCommunicator : public Communicator {
 public:
  // A step of Ranks::Together: afterwards either all ranks have a communicator or none has. A rank
  // that has failed joins the next agreement with its error. In waits between agreements, the
  // others look for such a failure.
  explicit NcclCommunicator(Ranks& ranks) : ranks_(ranks), connection_(ranks) {
    ncclUniqueId id{};
    std::string error;
    if (ranks.is_root()) {
      const ncclResult_t code = ncclGetUniqueId(&id);
      if (code != ncclSuccess) {
        error = fmt::format("ncclGetUniqueId failed: {}", ncclGetErrorString(code));
      }
    }
    ranks.AgreeOnError(error, "starting NCCL");
    ranks.Broadcast(std::as_writable_bytes(std::span(&id, 1)), "starting NCCL");
    connection_.Begin(id);
    Await("ncclCommInitRankConfig", [&] { ranks.ThrowIfOthersFailed(); });
    ranks.AgreeOnError("", "connecting by NCCL");
  }

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }

  void AllReduceSum(Stream& stream, const void* send, void* receive, long count,
                    Element element) override {
    Finish(ncclAllReduce(send, receive, count, TypeOf(element), ncclSum, connection_.get(),
                         Native(stream)),
           "ncclAllReduce");
  }
  void AllGather(Stream& stream, const void* send, void* receive, long count,
                 Element element) override {
    Finish(ncclAllGather(send, receive, count, TypeOf(element), connection_.get(), Native(stream)),
           "ncclAllGather");
  }
  void ReduceScatterSum(Stream& stream, const void* send, void* receive, long count,
                        Element element) override {
    Finish(ncclReduceScatter(send, receive, count, TypeOf(element), ncclSum, connection_.get(),
                             Native(stream)),
           "ncclReduceScatter");
  }
  void Broadcast(Stream& stream, const void* send, void* receive, long count, Element element,
                 int root) override {
    Finish(ncclBroadcast(send, receive, count, TypeOf(element), root, connection_.get(),
                         Native(stream)),
           "ncclBroadcast");
  }
  void AllToAll(Stream& stream, const void* send, void* receive, long count,
                Element element) override {
    const std::size_t segment_bytes = count * SizeOf(element);
    CallGroup group;
    for (int peer = 0; peer < size(); ++peer) {
      SendReceive(stream, static_cast<const std::byte*>(send) + peer * segment_bytes, peer,
                  static_cast<std::byte*>(receive) + peer * segment_bytes, peer, count, element);
    }
    Finish(group.End(), "ncclGroupEnd of the all-to-all");
  }
  void ShiftRing(Stream& stream, const void* send, void* receive, long count,
                 Element element) override {
    CallGroup group;
    SendReceive(stream, send, (rank() + 1) % size(), receive, (rank() + size() - 1) % size(), count,
                element);
    Finish(group.End(), "ncclGroupEnd of the ring");
  }

 private:
  void SendReceive(Stream& stream, const void* send, int to, void* receive, int from, long count,
                   Element element) {
    Accept(ncclSend(send, count, TypeOf(element), to, connection_.get(), Native(stream)),
           "ncclSend");
    Accept(ncclRecv(receive, count, TypeOf(element), from, connection_.get(), Native(stream)),
           "ncclRecv");
  }

  static void Accept(ncclResult_t code, const char* call) {
    if (code != ncclInProgress) ThrowIfNcclFailed(code, call);
  }

  void Finish(ncclResult_t code, const char* call) {
    Accept(code, call);
    if (code == ncclInProgress) Await(call, [this] { ranks_.ThrowIfOthersFailed(); });
  }

  // A non-blocking communicator is not ready until the work is enqueued. `look` throws if it never
  // will be because another rank has failed.
  template <class Look>
  void Await(const std::string& call, const Look& look) {
    const auto deadline = std::chrono::steady_clock::now() + ranks_.timeout();
    while (!connection_.Ready(call)) {
      look();
      if (std::chrono::steady_clock::now() > deadline) {
        throw FatalError(fmt::format(
            "{}{} did not finish within {} ms; another rank has stopped or cannot be reached",
            ranks_.Prefix(), call, ranks_.timeout().count()));
      }
      std::this_thread::yield();
    }
  }

  Ranks& ranks_;
  Connection connection_;
};

}  // namespace

std::string NcclUnavailable() { return ""; }

std::string NcclVersion() {
  int version = 0;
  NCCL_CHECK(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<Communicator> MakeNcclCommunicator(Ranks& ranks) {
  return std::make_unique<NcclCommunicator>(ranks);
}

}  // namespace overlapbench
