// The lowest tier: a device and its streams, events, buffers and gates.
//
// A `Device` is one GPU (backend cuda) or a bounded share of the CPU's cores (backend host). It
// makes in-order `Stream`s, `Event`s that mark and time a point in a stream, `Buffer`s, and the
// `Gate` that holds a stream until the host opens it. The caller owns these objects (RAII); the
// device must outlive them.
//
//   const auto device = OpenHostDevice(2);
//   const auto stream = device->CreateStream();
//   const auto start = device->CreateEvent();
//   const auto stop = device->CreateEvent();
//   stream->Record(*start);
//   stream->Copy(destination, source, bytes);
//   stream->Record(*stop);
//   stream->Synchronize(std::chrono::seconds(10), "the copy");
//   const double copy_ms = device->ElapsedMs(*start, *stop);
//
// Both backends follow CUDA's semantics: work in a stream runs in the order it was enqueued, only
// events order work in different streams, and enqueueing does not wait for the work. Times are in
// milliseconds, sizes in bytes. A call that fails throws `Error` with the call's name.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/activity.h"
#include "device/error.h"

namespace overlapbench {

class DeviceWatches;

enum class Backend : std::uint8_t { kHost, kCuda };
std::string ToString(Backend backend);

// kPinned is allocated page-locked; kRegistered is pageable memory that was page-locked later.
enum class MemoryKind : std::uint8_t { kDevice, kPinned, kRegistered, kPageable };

// Counts live instances of the derived class, which passes itself as `Type`.
template <class Type>
class Counted {
 public:
  static long Live() { return live_; }

 private:
  friend Type;
  Counted() { ++live_; }
  Counted(const Counted& /*other*/) { ++live_; }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --live_; }

  static inline std::atomic<long> live_ = 0;
};

// Memory of one kind, freed when it goes out of scope.
class Buffer {
 public:
  // Lives as long as the memory, so that Held::Live() counts allocations.
  struct Held : Counted<Held> {};

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : data_(data, [release = std::move(release),
                     held = std::make_shared<Held>()](void* memory) { release(memory); }),
        bytes_(bytes) {}

  [[nodiscard]] void* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

// A point in a stream. Holds the time at which the stream passed it, unless the event is untimed.
class Event : public Counted<Event> {
 public:
  virtual ~Event() = default;
  // Whether the stream has passed the last recorded point. True if none was recorded.
  [[nodiscard]] virtual bool Done() const = 0;
  // Waits until Done(), at most for `timeout`. Returns false on a timeout.
  [[nodiscard]] virtual bool Await(std::chrono::milliseconds timeout) const = 0;
};

class Stream : public Counted<Stream> {
 public:
  virtual ~Stream() = default;
  virtual void Record(Event& event) = 0;
  // Work enqueued after this starts only once `event`'s last recorded point has been passed.
  virtual void Wait(const Event& event) = 0;
  // Copies `bytes` between any two kinds of memory, in stream order.
  virtual void Copy(void* destination, const void* source, std::size_t bytes) = 0;
  // Waits for all enqueued work. Throws FatalError naming `what` if it takes longer than `timeout`.
  // Rethrows what the work itself threw.
  virtual void Synchronize(std::chrono::milliseconds timeout, const std::string& what) = 0;
  // The cudaStream_t, or nullptr if the work runs on a host thread.
  [[nodiscard]] virtual void* native() const = 0;
  [[nodiscard]] bool on_host() const { return native() == nullptr; }

  // Host code, as the stream's work. Both throw Error unless it runs on_host().
  void Enqueue(std::function<void()> task) { EnqueueTask(std::move(task), ActivityKind::kKernel); }
  virtual void EnqueueTask(std::function<void()> task, ActivityKind kind);
  // Runs block(0) … block(blocks − 1) in any order, on as many cores at once as the stream has.
  virtual void EnqueueBlocks(int blocks, std::function<void(int)> block);
};

// Work that was recorded once and is enqueued as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void Launch(Stream& stream) = 0;
};

// One of many copies that are enqueued together.
struct CopyPiece {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
};

// Holds streams until the host opens it, so that all of a sample's work is enqueued before any of
// it starts.
class Gate {
 public:
  virtual ~Gate() = default;
  // Work enqueued to `stream` after this waits for the next Release().
  virtual void Arm(Stream& stream) = 0;
  // Opens the gate for everything armed so far. May be called from any thread, and repeatedly.
  virtual void Release() = 0;
};

// Properties of a stream to be made.
struct StreamOptions {
  // Relative: 0 is the lowest, DeviceInfo::priorities − 1 the highest. Values outside are clamped.
  int priority = 0;
  // How many SMs its kernels may use (see PartitionFault); 0: all, without a partition.
  int sms = 0;
  // Whether its work runs on a host thread of its own, on every backend: for host work beside the
  // GPU's. On cuda it can access host memory only, so no kDevice buffers, and takes events that are
  // on_host too. The gate holds it like any other stream.
  bool on_host = false;
};

struct EventOptions {
  // Without timing, an event only orders streams and costs them less. ElapsedMs throws Error for
  // it.
  bool timed = true;
  // Whether it is for streams that are on_host. Its time can be compared with that of others that
  // are.
  bool on_host = false;
};

// How many of a device's SMs a stream can be limited to: `least`, `least` + `step`, … `most`. All
// of them are a partition too, which limits nothing.
struct SmPartitions {
  int least = 0;  // 0: streams cannot be limited
  int step = 1;
  int most = 0;
};

struct DeviceInfo {
  std::string name;                             // "NVIDIA H200", or the CPU's model name
  std::string identity;                         // unique on its machine: the GPU's UUID, or "host"
  int multiprocessors = 0;                      // SMs, or the cores that kernels may use
  SmPartitions partitions = {};                 // sizes that streams can have
  int priorities = 1;                           // that streams can have; 1: they have no effect
  int compute_capability = 0;                   // 90 is 9.0; 0 on the host backend
  double most_clock_GHz = 0;                    // of the SMs; 0 on the host backend
  std::size_t cache_bytes = 0;                  // last-level cache: L2 on a GPU
  std::size_t cache_share_bytes = 0;            // what this process flushes of it: on a GPU, all
  double memory_GBps = 0;                       // reads plus writes; 0 if unknown
  double link_GBps = 0;                         // to other GPUs, each way; 0 if unknown
  std::string no_batch_copy;                    // why it has none; "" if it has
  std::map<std::string, std::string> versions;  // of the driver and libraries, for the JSON context
};

// "" if a stream of the device can be limited to `sms` SMs. Otherwise the rule: "must be a multiple
// of 8 from 8 to 128, or 132: all".
std::string PartitionFault(const DeviceInfo& info, int sms);
// Throws Error with the PartitionFault, if there is one.
void RequirePartition(const DeviceInfo& info, int sms);

struct Memory {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual Backend backend() const = 0;
  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  // Makes it the calling thread's current device, as it is in the thread that opened it. Needed in
  // threads that use the device or destroy its objects, and after code that may have selected
  // another.
  virtual void UseInThisThread() = 0;
  [[nodiscard]] virtual Memory memory(MemoryKind kind) const = 0;

  // Throws Error for a partition with a PartitionFault.
  virtual std::unique_ptr<Stream> CreateStream(const StreamOptions& options = {}) = 0;
  // A stream's priority, as the driver reports it: StreamOptions::priority, unless that was out of
  // range.
  [[nodiscard]] virtual int PriorityOf(Stream& stream) const = 0;
  virtual std::unique_ptr<Event> CreateEvent(const EventOptions& options = {}) = 0;
  [[nodiscard]] virtual double ElapsedMs(const Event& from, const Event& to) const = 0;
  virtual std::unique_ptr<Gate> CreateGate() = 0;
  // Records what `enqueue` enqueues to the given stream, and to streams that wait for its events,
  // without running it. Throws Error if something in it cannot be recorded. The streams must
  // outlive the graph.
  virtual std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) = 0;
  // Enqueues many copies by one call. Throws Error with DeviceInfo::no_batch_copy unless that is
  // "".
  virtual void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) = 0;
  // Checks free memory first; the Error says how much is needed and how much is free.
  virtual Buffer Allocate(std::size_t bytes, MemoryKind kind) = 0;
  // Waits, at most for `timeout`, until this process has no work left on streams that the device
  // did not make. Returns false on a timeout. CUDA can only wait for all streams, so none may be
  // behind a closed gate.
  [[nodiscard]] virtual bool AwaitIdle(std::chrono::milliseconds timeout) = 0;

  // What happens beside the work on it (watches.h).
  virtual DeviceWatches& watches() = 0;
};

// What to do if the driver fails.
inline constexpr const char* kDriverAdvice = "does nvidia-smi work? --backend=host needs no GPU";

// The GPUs visible here; 0 without a driver or CUDA. Throws Error if the driver fails otherwise.
int VisibleGpus();
// Why the cuda backend cannot be used here; "" if it can.
std::string CudaUnavailable();
std::unique_ptr<Device> OpenCudaDevice(int ordinal);
// `cores`: how many cores kernels may use at once. `processes`: how many on this machine, this one
// included, have such a device and flush their caches at the same time.
std::unique_ptr<Device> OpenHostDevice(int cores, int processes = 1);

// "1.5 GiB", for messages.
std::string FormatBytes(double bytes);
// Throws Error if `what` needs more memory than is free, saying how much of each.
void RequireFree(std::size_t needed_bytes, const Memory& memory, const std::string& what);

}  // namespace overlapbench
