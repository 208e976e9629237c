#include "kernels/softmax.h"

#include <string>

#include "kernels/softmax_host.h"
#ifdef OVERLAPBENCH_WITH_CUDA
#include "kernels/cuda/softmax.h"
#endif

namespace overlapbench {
namespace {

void Check(const SoftmaxProblem& problem) {
  constexpr long kMostIndex = 2147483647;  // of a CUDA grid and of a column
  if (problem.element == Element::kFloat64 || problem.element == Element::kInt32)
    throw Error("softmax has no kernel for " + ToString(problem.element));
  if (problem.rows < 0 || problem.rows > kMostIndex || problem.columns < 1 ||
      problem.columns > kMostIndex) {
    throw Error("softmax cannot take " + std::to_string(problem.rows) + " rows of " +
                std::to_string(problem.columns) + " columns");
  }
}

#ifdef OVERLAPBENCH_WITH_CUDA
void LaunchSoftmaxOnGpu(Stream& on, SoftmaxVariant variant, const SoftmaxProblem& problem) {
  auto* const stream = static_cast<cudaStream_t>(on.native());
  switch (variant) {
    case SoftmaxVariant::kUnfused:
      return LaunchUnfusedSoftmax(stream, problem);
    case SoftmaxVariant::kBlockPerRow:
      return LaunchBlockPerRowSoftmax(stream, problem);
    case SoftmaxVariant::kFused:
      return LaunchFusedSoftmax(stream, problem);
    case SoftmaxVariant::kTwoPass:
      return LaunchTwoPassSoftmax(stream, problem);
  }
}
#else
void LaunchSoftmaxOnGpu(Stream& /*stream*/, SoftmaxVariant /*variant*/,
                        const SoftmaxProblem& /*problem*/) {
  throw Error("this build has no CUDA kernels");
}
#endif

}  // namespace

std::size_t SoftmaxWorkspaceBytes(SoftmaxVariant variant, long rows, long columns,
                                  Element element) {
  if (variant == SoftmaxVariant::kFused) return kSoftmaxWorkspaceBytes;
  if (variant != SoftmaxVariant::kUnfused) return 0;
  // Two matrices and a float32 a row, which must be aligned.
  const std::size_t matrices_bytes = 2 * rows * columns * SizeOf(element);
  return matrices_bytes + rows * sizeof(float);
}

void LaunchSoftmax(Stream& stream, SoftmaxVariant variant, const SoftmaxProblem& problem) {
  Check(problem);
  if (problem.rows == 0) return;
  if (HostStream* host = stream.host()) {
    EnqueueSoftmax(*host, variant, problem);
  } else {
    LaunchSoftmaxOnGpu(stream, variant, problem);
  }
}

}  // namespace overlapbench
