// NCCL's collectives, bootstrapped over MPI (NCCL User Guide, "Creating a Communicator").
// All-to-all and ring are grouped sends and receives, as in nccl-tests, except that those by copy
// engine need ncclAlltoAll.
//
// NCCL treats its options as limits and hints, and environment variables override them. A captured
// launch shows the result: the kernel's name and its grid. With copy engines there is no kernel.

#include <cuda_runtime.h>
#include <fmt/core.h>

#include <atomic>
#include <span>
#include <thread>

#include "comm/call_group.h"
#include "comm/communicator.h"
#include "comm/nccl_environment.h"
#include "comm/nccl_library.h"
#include "comm/nccl_log.h"
#include "device/cuda/graph_capture.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

void ThrowIfNcclFailed(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return;
  const char* detail = TheNccl().get_last_error(nullptr);
  const bool tells = detail != nullptr && *detail != '\0';
  throw Error(fmt::format("{} failed: {}{}{}", call, TheNccl().get_error_string(code),
                          tells ? ", " : "", tells ? detail : ""));
}

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
      throw Error(fmt::format("NCCL does not support element type {}", ToString(element)));
  }
}

// What a build with an older NCCL lacks. All of it stands here, so that the rest compiles with any
// NCCL that cmake/cuda.cmake accepts.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
std::string NoWindows() {
  const Nccl& nccl = TheNccl();
  if (nccl.register_window != nullptr && nccl.deregister_window != nullptr &&
      nccl.all_to_all != nullptr) {
    return "";
  }
  return fmt::format("copy engines and symmetric kernels need NCCL 2.28, this is {}",
                     NcclVersion());
}
void SetCtaPolicyZero(ncclConfig_t& config) { config.CTAPolicy = NCCL_CTA_POLICY_ZERO; }
using Window = ncclWindow_t;
ncclResult_t RegisterWindow(ncclComm_t communicator, void* memory, std::size_t bytes,
                            Window* window) {
  return TheNccl().register_window(communicator, memory, bytes, window, NCCL_WIN_COLL_SYMMETRIC);
}
void DeregisterWindow(ncclComm_t communicator, Window window) {
  TheNccl().deregister_window(communicator, window);
}
ncclResult_t EnqueueAllToAll(const CollectiveCall& c, ncclDataType_t type, ncclComm_t communicator,
                             cudaStream_t stream) {
  return TheNccl().all_to_all(c.send, c.receive, c.segment, type, communicator, stream);
}
#else
std::string NoWindows() { return "copy engines and symmetric kernels need a build with NCCL 2.28"; }
void SetCtaPolicyZero(ncclConfig_t& /*config*/) { throw Error(NoWindows()); }
using Window = void*;
ncclResult_t RegisterWindow(ncclComm_t /*communicator*/, void* /*memory*/, std::size_t /*bytes*/,
                            Window* /*window*/) {
  throw Error(NoWindows());
}
void DeregisterWindow(ncclComm_t /*communicator*/, Window /*window*/) {}
ncclResult_t EnqueueAllToAll(const CollectiveCall& /*call*/, ncclDataType_t /*type*/,
                             ncclComm_t /*communicator*/, cudaStream_t /*stream*/) {
  throw Error(NoWindows());
}
#endif

cudaStream_t Native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

// The communicator itself. The destructor aborts it, even if it is half made: NCCL's threads and
// the other ranks must not wait for a rank that has given up.
class NcclLink : public Link {
 public:
  explicit NcclLink(Ranks& ranks) : ranks_(ranks) { ranks_.Add(*this); }
  ~NcclLink() override {
    ranks_.Remove(*this);
    Abort();
  }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Starts connecting; Ready tells when it is done. It does not block, so a rank that never arrives
  // causes a timeout, not a hang.
  void Begin(const ncclUniqueId& id, const NcclOptions& options) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    // NCCL 2.28 registers windows with blocking communicators only. Only the watchdog bounds their
    // creation.
    config.blocking = options.symmetric ? 1 : 0;
    if (options.ctas > 0) config.minCTAs = config.maxCTAs = options.ctas;
    if (options.copy_engines) SetCtaPolicyZero(config);
    ncclComm_t communicator = nullptr;
    const ncclResult_t code =
        TheNccl().init_rank(&communicator, ranks_.size(), id, ranks_.rank(), &config);
    communicator_ = communicator;
    if (code != ncclInProgress) ThrowIfNcclFailed(code, "ncclCommInitRankConfig");
  }
  // Whether the last call is done. Throws Error, which names the call, if it has failed.
  bool Ready(const std::string& call) {
    ncclResult_t state = ncclInProgress;
    ThrowIfNcclFailed(TheNccl().get_async_error(communicator_, &state), "ncclCommGetAsyncError");
    if (state == ncclInProgress) return false;
    ThrowIfNcclFailed(state, call.c_str());
    return true;
  }
  [[nodiscard]] ncclComm_t get() const { return communicator_; }

  // Asynchronous errors, such as a lost peer (NCCL User Guide, "Error Handling").
  std::string Fault() override {
    if (communicator_ == nullptr) return "";  // aborted
    ncclResult_t state = ncclSuccess;
    const ncclResult_t code = TheNccl().get_async_error(communicator_, &state);
    if (code == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) return "";
    return fmt::format("NCCL reports: {}",
                       TheNccl().get_error_string(code != ncclSuccess ? code : state));
  }
  // Only the first call has an effect. May be called from any thread.
  void Abort() final {
    if (ncclComm_t communicator = communicator_.exchange(nullptr)) TheNccl().abort(communicator);
  }

 private:
  Ranks& ranks_;
  std::atomic<ncclComm_t> communicator_ = nullptr;
};

void StartGroup() { ThrowIfNcclFailed(TheNccl().group_start(), "ncclGroupStart"); }

class NcclCommunicator : public Communicator {
 public:
  // A step of Ranks::Together: afterwards either all ranks have a communicator or none has. A rank
  // that has failed joins the next agreement with its error. In waits between agreements, the
  // others look for such a failure.
  NcclCommunicator(const Machine& machine, const NcclOptions& options)
      : device_(machine.device),
        ranks_(machine.ranks),
        options_(options),
        link_(std::make_shared<NcclLink>(machine.ranks)) {
    ncclUniqueId id{};
    std::string error;
    if (ranks_.is_root()) {
      const ncclResult_t code = TheNccl().get_unique_id(&id);
      if (code != ncclSuccess) {
        error = fmt::format("ncclGetUniqueId failed: {}", TheNccl().get_error_string(code));
      }
    }
    ranks_.AgreeOnError(error, "starting NCCL");
    ranks_.Broadcast(std::as_writable_bytes(std::span(&id, 1)), "starting NCCL");
    link_->Begin(id, options);
    Await("ncclCommInitRankConfig", [&] { ranks_.ThrowIfOthersFailed(); });
    ranks_.AgreeOnError("", "connecting by NCCL");
  }

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }

  Buffer Allocate(std::size_t bytes) override {
    if (!options_.symmetric) return device_.Allocate(bytes, MemoryKind::kDevice);
    return AllocateInWindow(bytes);
  }

  void Enqueue(Stream& stream, const CollectiveCall& c) override {
    const ncclComm_t communicator = link_->get();
    const ncclDataType_t type = TypeOf(c.element);
    const cudaStream_t native = Native(stream);
    switch (c.operation) {
      case Operation::kAllToAll:
        return AllToAll(stream, c);
      case Operation::kAllReduce:
        return Finish(AllReduce(stream, c), "ncclAllReduce");
      case Operation::kAllGather:
        return Finish(
            TheNccl().all_gather(c.send, c.receive, c.segment, type, communicator, native),
            "ncclAllGather");
      case Operation::kReduceScatter:
        return Finish(TheNccl().reduce_scatter(c.send, c.receive, c.segment, type, ncclSum,
                                               communicator, native),
                      "ncclReduceScatter");
      case Operation::kBroadcast:
        return Finish(
            TheNccl().broadcast(c.send, c.receive, c.count, type, kRoot, communicator, native),
            "ncclBroadcast");
      case Operation::kShiftRing:
        return ShiftRing(stream, c);
      case Operation::kSend:
        return Finish(TheNccl().send(c.send, c.count, type, c.peer, communicator, native),
                      "ncclSend");
      case Operation::kReceive:
        return Finish(TheNccl().receive(c.receive, c.count, type, c.peer, communicator, native),
                      "ncclRecv");
    }
  }

  void AllReduceTogether(Stream& stream, std::span<const CollectiveCall> calls) override {
    CallGroup group(StartGroup, TheNccl().group_end);
    for (const CollectiveCall& call : calls) Accept(AllReduce(stream, call), "ncclAllReduce");
    Finish(group.Close(), "ncclGroupEnd of all-reduces");
  }

  Proof Prove(const CollectiveCall& call) override {
    if (std::string overridden = NcclOverride(); !overridden.empty()) return {{}, overridden};
    if (call.count == 0) return {};
    const auto stream = device_.CreateStream();
    const auto kernels = CapturedKernels(*stream, [&] { Enqueue(*stream, call); });
    if (options_.copy_engines && kernels.empty()) return {0, ""};
    if (options_.copy_engines && kernels.size() == 1) {
      return {kernels[0].blocks,
              fmt::format("NCCL took a kernel of {} CTAs, {}, and no copy engine",
                          kernels[0].blocks, kernels[0].name)};
    }
    if (kernels.size() != 1) {
      return {{}, fmt::format("NCCL launched {} kernels for one operation", kernels.size())};
    }
    return {kernels[0].blocks, FaultOf(kernels[0])};
  }

 private:
  static constexpr int kRoot = 0;

  [[nodiscard]] std::string FaultOf(const CapturedKernel& kernel) const {
    const bool is_symmetric = kernel.name.find("Sym") != std::string::npos;
    if (options_.symmetric != is_symmetric) {
      return fmt::format("NCCL took {}, which is {}symmetric kernel", kernel.name,
                         is_symmetric ? "a " : "no ");
    }
    if (options_.ctas > 0 && kernel.blocks != options_.ctas) {
      return fmt::format("NCCL took {} CTAs instead of {}", kernel.blocks, options_.ctas);
    }
    return "";
  }

  // Allocates NCCL's own memory, registered with all ranks. The buffer keeps the link alive
  // until it is freed.
  Buffer AllocateInWindow(std::size_t bytes) {
    std::unique_ptr<void, ncclResult_t (*)(void*)> memory(nullptr, TheNccl().free);
    ranks_.Together("allocating NCCL's memory", [&] {
      void* data = nullptr;
      ThrowIfNcclFailed(TheNccl().allocate(&data, bytes), "ncclMemAlloc");
      memory.reset(data);
    });
    Window window = nullptr;
    Finish(RegisterWindow(link_->get(), memory.get(), bytes, &window), "ncclCommWindowRegister");
    return {memory.release(), bytes, [link = link_, window](void* data) {
              if (link->get() != nullptr) DeregisterWindow(link->get(), window);
              TheNccl().free(data);
            }};
  }

  ncclResult_t AllReduce(Stream& stream, const CollectiveCall& c) {
    return TheNccl().all_reduce(c.send, c.receive, c.count, TypeOf(c.element), ncclSum,
                                link_->get(), Native(stream));
  }
  // ncclAlltoAll also moves data within a rank.
  void AllToAll(Stream& stream, const CollectiveCall& c) {
    if (options_.symmetric && !c.own_stays) {
      return Finish(EnqueueAllToAll(c, TypeOf(c.element), link_->get(), Native(stream)),
                    "ncclAlltoAll");
    }
    const std::size_t segment_bytes = c.segment * SizeOf(c.element);
    CallGroup group(StartGroup, TheNccl().group_end);
    for (int peer = 0; peer < size(); ++peer) {
      if (c.own_stays && peer == rank()) continue;
      SendReceive(stream, static_cast<const std::byte*>(c.send) + peer * segment_bytes, peer,
                  static_cast<std::byte*>(c.receive) + peer * segment_bytes, peer, c.segment,
                  c.element);
    }
    Finish(group.Close(), "ncclGroupEnd of the all-to-all");
  }
  void ShiftRing(Stream& stream, const CollectiveCall& c) {
    CallGroup group(StartGroup, TheNccl().group_end);
    SendReceive(stream, c.send, (rank() + c.shift) % size(), c.receive,
                (rank() + size() - c.shift) % size(), c.count, c.element);
    Finish(group.Close(), "ncclGroupEnd of the ring");
  }

  void SendReceive(Stream& stream, const void* send, int to, void* receive, int from, long count,
                   Element element) {
    Accept(TheNccl().send(send, count, TypeOf(element), to, link_->get(), Native(stream)),
           "ncclSend");
    Accept(TheNccl().receive(receive, count, TypeOf(element), from, link_->get(), Native(stream)),
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
    while (!link_->Ready(call)) {
      look();
      if (std::chrono::steady_clock::now() > deadline) {
        throw FatalError(fmt::format(
            "{}{} did not finish within {}; another rank has stopped or cannot be reached",
            ranks_.Prefix(), call, InSeconds(ranks_.timeout())));
      }
      std::this_thread::yield();
    }
  }

  Device& device_;
  Ranks& ranks_;
  NcclOptions options_;
  std::shared_ptr<NcclLink> link_;  // buffers in windows share it
};

}  // namespace

void LoadNccl() { TheNccl(); }

std::string NcclUnavailable() { return ""; }

std::string NcclNetwork(const Machine& machine) {
  if (machine.ranks.hosts() == 1) return "";
  const NcclLog log;
  const NcclCommunicator communicator(machine, {});
  return NetworkIn(log.text());
}

std::string NcclVersion() {
  int version = 0;
  ThrowIfNcclFailed(TheNccl().get_version(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string NcclUnavailable(const NcclOptions& options) {
  return options.symmetric || options.copy_engines ? NoWindows() : "";
}

std::unique_ptr<Communicator> MakeNcclCommunicator(const Machine& machine,
                                                   const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(machine, options);
}

}  // namespace overlapbench
