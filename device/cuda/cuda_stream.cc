#include "device/cuda/cuda_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "device/cuda/cuda_check.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

cudaEvent_t NativeEvent(const Event& event) {
  const auto* native = dynamic_cast<const CudaEvent*>(&event);
  if (native == nullptr) throw Error("a CUDA stream takes events of CreateEvent() only");
  return native->native();
}

bool IsHostEvent(const Event& event) { return dynamic_cast<const HostEvent*>(&event) != nullptr; }

}  // namespace

cudaStream_t NativeStream(Stream& stream) {
  if (stream.on_host()) throw Error("a stream on a host thread is not a CUDA stream");
  return static_cast<cudaStream_t>(stream.native());
}

bool IsRecorded(Stream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(NativeStream(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

CudaEvent::CudaEvent(bool timed) {
  CUDA_CHECK(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

bool CudaEvent::Done() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  CUDA_CHECK(code);
  return true;
}

bool CudaEvent::Await(std::chrono::milliseconds timeout) const {
  return WaitUntil([this] { return Done(); }, timeout);
}

std::pair<int, int> CudaPriorityRange() {
  int lowest = 0;
  int highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  return {lowest, highest};
}

int CudaPriority(Stream& stream) {
  int native_priority = 0;
  CUDA_CHECK(cudaStreamGetPriority(NativeStream(stream), &native_priority));
  return CudaPriorityRange().first - native_priority;
}

CudaStream::CudaStream(int priority, std::shared_ptr<const SmPartition> partition)
    : partition_(std::move(partition)) {
  const auto [lowest, highest] = CudaPriorityRange();
  const int native_priority = std::max(highest, lowest - priority);
  if (partition_ != nullptr)
    stream_ = partition_->CreateStream(native_priority);
  else
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, native_priority));
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

void CudaStream::Record(Event& event) { CUDA_CHECK(cudaEventRecord(NativeEvent(event), stream_)); }

void CudaStream::Wait(const Event& event) {
  CUDA_CHECK(cudaStreamWaitEvent(stream_, NativeEvent(event)));
}

void CudaStream::Copy(void* destination, const void* source, std::size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_));
}

void CudaStream::Synchronize(std::chrono::milliseconds timeout, const std::string& what) {
  const auto finished = [this] {
    const cudaError_t code = cudaStreamQuery(stream_);
    if (code == cudaErrorNotReady) return false;
    CUDA_CHECK(code);
    return true;
  };
  if (!WaitUntil(finished, timeout)) {
    throw FatalError(
        fmt::format("{}: the stream did not finish within {}", what, InSeconds(timeout)));
  }
}

CudaGate::CudaGate()
    : wait_value_(reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(
          DriverEntryPoint("cuStreamWaitValue32", 11070))) {}

CudaGate::~CudaGate() { CudaGate::Release(); }

void CudaGate::Arm(Stream& stream) {
  if (stream.on_host()) {
    host_gate_.Arm(stream);
    return;
  }
  ThrowIfDriverFailed(wait_value_(static_cast<CUstream>(NativeStream(stream)),
                                  reinterpret_cast<CUdeviceptr>(word_.on_device()), ++armed_,
                                  CU_STREAM_WAIT_VALUE_GEQ),
                      "cuStreamWaitValue32");
}

void CudaGate::Release() {
  word_.Store(armed_);
  host_gate_.Release();
}

double CudaElapsedMs(const Event& from, const Event& to) {
  if (IsHostEvent(from) && IsHostEvent(to)) return HostElapsedMs(from, to);
  float elapsed_ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, NativeEvent(from), NativeEvent(to)));
  return elapsed_ms;
}

namespace {

void EnqueueOneByOne(Stream& stream, std::span<const CopyPiece> pieces) {
  for (const CopyPiece& piece : pieces) stream.Copy(piece.destination, piece.source, piece.bytes);
}

}  // namespace

#if CUDART_VERSION >= 13000

std::string BatchCopyUnavailable() { return ""; }

namespace {

void EnqueueBatch(Stream& stream, std::span<const CopyPiece> pieces, unsigned flags) {
  std::vector<void*> destinations;
  std::vector<const void*> sources;
  std::vector<std::size_t> sizes_bytes;
  for (const auto& piece : pieces) {
    destinations.push_back(piece.destination);
    sources.push_back(piece.source);
    sizes_bytes.push_back(piece.bytes);
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = flags;
  std::size_t first_piece = 0;  // the first that the attributes apply to
  CUDA_CHECK(cudaMemcpyBatchAsync(destinations.data(), sources.data(), sizes_bytes.data(),
                                  pieces.size(), &attributes, &first_piece, 1,
                                  NativeStream(stream)));
}

}  // namespace

void EnqueueBatchCopy(Stream& stream, std::span<const CopyPiece> pieces) {
  EnqueueBatch(stream, pieces, cudaMemcpyFlagDefault);
}

void EnqueueEngineCopies(Stream& stream, std::span<const CopyPiece> pieces) {
  if (pieces.empty()) return;
  if (IsRecorded(stream)) return EnqueueOneByOne(stream, pieces);
  EnqueueBatch(stream, pieces, cudaMemcpyFlagPreferOverlapWithCompute);
}

#else

std::string BatchCopyUnavailable() { return "copies in a batch need a build with CUDA 13.0"; }

void EnqueueBatchCopy(Stream& /*stream*/, std::span<const CopyPiece> /*pieces*/) {
  throw Error(BatchCopyUnavailable());
}

void EnqueueEngineCopies(Stream& stream, std::span<const CopyPiece> pieces) {
  EnqueueOneByOne(stream, pieces);
}

#endif

}  // namespace overlapbench
