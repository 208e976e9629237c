// Streams, events and gates of the cuda backend.
//
// The gate is cuStreamWaitValue32 on a word of pinned host memory (CUDA Driver API, "Stream Memory
// Operations"): the stream's front end waits, and no SM is held.
//
// A stream that is on_host() is not a CUDA stream. The gate holds it nevertheless;
// every other call here throws Error for such a stream instead of using CUDA's default stream.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/cuda/host_word.h"
#include "device/cuda/sm_partition.h"
#include "device/device.h"
#include "device/host/host_stream.h"

namespace overlapbench {

// Throws Error if `stream` is not a CUDA stream.
cudaStream_t NativeStream(Stream& stream);
// Whether what is enqueued on it now becomes a part of a graph (graph_capture.h).
bool IsRecorded(Stream& stream);

class CudaEvent : public Event {
 public:
  explicit CudaEvent(bool timed = true);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  [[nodiscard]] bool Done() const override;
  [[nodiscard]] bool Await(std::chrono::milliseconds timeout) const override;
  [[nodiscard]] cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream : public Stream {
 public:
  // `priority` as in StreamOptions: 0 is the lowest. `partition`: nullptr for none.
  explicit CudaStream(int priority, std::shared_ptr<const SmPartition> partition = nullptr);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Copy(void* destination, const void* source, std::size_t bytes) override;
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override;
  [[nodiscard]] void* native() const override { return stream_; }

 private:
  std::shared_ptr<const SmPartition> partition_;  // must outlive the stream
  cudaStream_t stream_ = nullptr;
};

class CudaGate : public Gate {
 public:
  CudaGate();
  ~CudaGate() override;
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;

  void Arm(Stream& stream) override;
  void Release() override;

 private:
  PFN_cuStreamWaitValue32_v11070 wait_value_;
  HostWord word_;
  std::atomic<unsigned> armed_ = 0;
  HostGate host_gate_;  // for streams on host threads
};

// CUDA's numbers for the lowest and the highest priority; a smaller number is a higher priority.
std::pair<int, int> CudaPriorityRange();
// The priority of a CUDA stream, counted as in StreamOptions.
int CudaPriority(Stream& stream);

// The time between two events of CUDA streams, or two of host streams.
double CudaElapsedMs(const Event& from, const Event& to);

// Enqueues a copy with the hint to use a copy engine rather than SMs
// (cudaMemcpyFlagPreferOverlapWithCompute). A graph has no such copies; there they are plain ones.
// Within a GPU the driver uses SMs all the same (CUDA
// 13.0, H100).
void EnqueueEngineCopies(Stream& stream, std::span<const CopyPiece> pieces);

// Why this build has no cudaMemcpyBatchAsync, which enqueues many copies by one call, in its form
// since CUDA 13.0; "" if it has it.
std::string BatchCopyUnavailable();
void EnqueueBatchCopy(Stream& stream, std::span<const CopyPiece> pieces);

}  // namespace overlapbench
