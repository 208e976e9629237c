#include "device/cuda/batch_copy.h"

#include <cuda_runtime.h>

#include <vector>

#include "device/cuda/cuda_check.h"

namespace overlapbench {

#if CUDART_VERSION >= 13000

std::string BatchCopyUnavailable() { return ""; }

void EnqueueBatchCopy(Stream& stream, std::span<const CopyPiece> pieces) {
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
  std::size_t first_piece = 0;  // from which on the attributes hold
  CUDA_CHECK(cudaMemcpyBatchAsync(destinations.data(), sources.data(), sizes_bytes.data(),
                                  pieces.size(), &attributes, &first_piece, 1,
                                  static_cast<cudaStream_t>(stream.native())));
}

#else

std::string BatchCopyUnavailable() { return "copies in a batch need a build with CUDA 13.0"; }

void EnqueueBatchCopy(Stream& /*stream*/, std::span<const CopyPiece> /*pieces*/) {
  throw Error(BatchCopyUnavailable());
}

#endif

}  // namespace overlapbench
