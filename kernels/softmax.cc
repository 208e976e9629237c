// The softmax's entry point, and its host backend: blocks take rows in turn, by one row function
// per variant, in float32 as on the GPU but with sums in double precision, since one thread adds a
// whole row.
#include "kernels/softmax.h"

#include <cmath>
#include <limits>
#include <string>

#include "device/device.h"
#include "workload/element.h"
#ifdef OVERLAPBENCH_WITH_CUDA
#include "kernels/cuda/launchers.h"
#endif

namespace overlapbench {
namespace {

// Enough for any number of cores to share rows evenly.
constexpr int kBlocks = 64;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One matrix of the problem, read and written as float32.
struct Matrix {
  void* data;
  long columns;
  Element element;
  [[nodiscard]] float Get(long row, long column) const {
    return LoadFloat(data, row * columns + column, element);
  }
  void Set(long row, long column, float value) const {
    Store(data, row * columns + column, element, value);
  }
};

// A NaN is never larger, here as in fmaxf: it shows in the sum.
float MaxOf(const Matrix& x, long row) {
  float max = kMinusInfinity;
  for (long i = 0; i < x.columns; ++i) max = std::fmax(max, x.Get(row, i));
  return max;
}

// One read of memory: the row stays in the core's cache for the second and third time.
void ThreeTimes(const Matrix& x, const Matrix& y, long row) {
  const float max = MaxOf(x, row);
  double sum = 0;
  for (long i = 0; i < x.columns; ++i) sum += std::exp(x.Get(row, i) - max);
  const auto total = static_cast<float>(sum);
  for (long i = 0; i < x.columns; ++i) y.Set(row, i, std::exp(x.Get(row, i) - max) / total);
}

void Online(const Matrix& x, const Matrix& y, long row) {
  float max = kMinusInfinity;
  double sum = 0;
  for (long i = 0; i < x.columns; ++i) {
    const float value = x.Get(row, i);
    if (value > max) {
      if (max != kMinusInfinity) sum *= std::exp(max - value);
      max = value;
    }
    // −infinity adds nothing. As long as it is the maximum, subtracting it from itself would give
    // NaN.
    if (value != kMinusInfinity) sum += std::exp(value - max);
  }
  const auto total = static_cast<float>(sum);
  for (long i = 0; i < x.columns; ++i) y.Set(row, i, std::exp(x.Get(row, i) - max) / total);
}

template <class DoRow>
void EnqueueRows(Stream& stream, long rows, const DoRow& do_row) {
  stream.EnqueueBlocks(kBlocks, [rows, do_row](int block) {
    for (long row = block; row < rows; row += kBlocks) do_row(row);
  });
}

template <class Operation>
void EnqueueElements(Stream& stream, long rows, const Matrix& from, const Matrix& to,
                     const float* of_rows, const Operation& operation) {
  EnqueueRows(stream, rows, [=](long row) {
    for (long i = 0; i < from.columns; ++i) {
      to.Set(row, i, operation(from.Get(row, i), of_rows[row]));
    }
  });
}

// The workspace is laid out as on the GPU: two matrices, and one float32 per row.
void EnqueueUnfused(Stream& stream, const SoftmaxProblem& problem, const Matrix& x,
                    const Matrix& y) {
  const std::size_t matrix_bytes = problem.rows * problem.columns * SizeOf(problem.element);
  auto* workspace = static_cast<std::byte*>(problem.workspace);
  const Matrix shifted{workspace, x.columns, x.element};
  const Matrix exponentials{workspace + matrix_bytes, x.columns, x.element};
  auto* of_rows = reinterpret_cast<float*>(workspace + 2 * matrix_bytes);
  EnqueueRows(stream, problem.rows, [=](long row) { of_rows[row] = MaxOf(x, row); });
  EnqueueElements(stream, problem.rows, x, shifted, of_rows,
                  [](float value, float max) { return value - max; });
  EnqueueElements(stream, problem.rows, shifted, exponentials, of_rows,
                  [](float value, float /*max*/) { return std::exp(value); });
  EnqueueRows(stream, problem.rows, [=](long row) {
    double sum = 0;
    for (long i = 0; i < x.columns; ++i) sum += exponentials.Get(row, i);
    of_rows[row] = static_cast<float>(sum);
  });
  EnqueueElements(stream, problem.rows, exponentials, y, of_rows,
                  [](float value, float sum) { return value / sum; });
}

void LaunchOnHost(Stream& stream, SoftmaxVariant variant, const SoftmaxProblem& problem) {
  // Only ever read through x.
  const Matrix x{const_cast<void*>(problem.input), problem.columns, problem.element};
  const Matrix y{problem.output, problem.columns, problem.element};
  switch (variant) {
    case SoftmaxVariant::kUnfused:
      return EnqueueUnfused(stream, problem, x, y);
    case SoftmaxVariant::kTwoPass:
      return EnqueueRows(stream, problem.rows, [=](long row) { Online(x, y, row); });
    case SoftmaxVariant::kBlockPerRow:
    case SoftmaxVariant::kFused:
      return EnqueueRows(stream, problem.rows, [=](long row) { ThreeTimes(x, y, row); });
  }
}

#ifdef OVERLAPBENCH_WITH_CUDA
void LaunchOnGpu(Stream& on, SoftmaxVariant variant, const SoftmaxProblem& problem) {
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
long LongestSoftmaxParts_bytes(std::nullptr_t /*stream*/) { return 0; }
void LaunchOnGpu(Stream& /*stream*/, SoftmaxVariant /*variant*/,
                 const SoftmaxProblem& /*problem*/) {
  throw Error("this build has no CUDA kernels");
}
#endif

void Check(const SoftmaxProblem& problem) {
  constexpr long kMostIndex = 2147483647;  // of a CUDA grid and of a column
  if (problem.element == Element::kFloat64 || problem.element == Element::kInt32)
    throw Error("softmax has no kernel for " + ToString(problem.element));
  if (problem.rows < 0 || problem.rows > kMostIndex || problem.columns < 1 ||
      problem.columns > kMostIndex) {
    throw Error("softmax does not support " + std::to_string(problem.rows) + " rows of " +
                std::to_string(problem.columns) + " columns");
  }
}

}  // namespace

SoftmaxNeeds SoftmaxNeedsOf(SoftmaxVariant variant, const SoftmaxProblem& problem,
                            std::optional<SoftmaxRegimeKind> regime) {
  const std::size_t matrix_bytes = problem.rows * problem.columns * SizeOf(problem.element);
  switch (variant) {
    case SoftmaxVariant::kUnfused:
      // Maximum and sum read; subtract, exponential and divide read and write. The temporaries are
      // two matrices and a float32 per row, which must be aligned.
      return {8, 2 * matrix_bytes + problem.rows * sizeof(float)};
    case SoftmaxVariant::kBlockPerRow:
      return {4, 0};
    case SoftmaxVariant::kTwoPass:
      return {3, 0};
    case SoftmaxVariant::kFused:
      return {regime == SoftmaxRegimeKind::kSpread ? 3 : 2,
              regime && UsesWorkspace(*regime) ? kSoftmaxWorkspaceBytes : 0};
  }
  return {};
}

std::optional<SoftmaxRegimeKind> FusedRegimeOn(const Device& device, long columns,
                                               Element element) {
  if (device.backend() == Backend::kHost) return std::nullopt;
  const bool aligned = columns * SizeOf(element) % 16 == 0;
  return SoftmaxRegimeOf(columns, element, {aligned, LongestSoftmaxParts_bytes(nullptr)}).kind;
}

void LaunchSoftmax(Stream& stream, SoftmaxVariant variant, const SoftmaxProblem& problem) {
  Check(problem);
  if (problem.rows == 0) return;
  if (stream.on_host()) {
    LaunchOnHost(stream, variant, problem);
  } else {
    LaunchOnGpu(stream, variant, problem);
  }
}

}  // namespace overlapbench
