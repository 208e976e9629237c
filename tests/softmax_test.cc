// Softmax: the oracle's own known values, and every variant on every backend against the oracle, at
// both sides of every limit of the table of regimes, on rows of special values, and at addresses
// that are aligned to one element only.
#include "kernels/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends.h"
#include "kernels/softmax_oracle.h"
#include "kernels/softmax_regimes.h"
#include "workload/data.h"
#include "workload/element.h"

namespace overlapbench {
namespace {

constexpr long kMostColumns = 262144;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array kElements = {Element::kFloat32, Element::kFloat16, Element::kBfloat16};
constexpr std::array kVariants = {SoftmaxVariant::kUnfused, SoftmaxVariant::kBlockPerRow,
                                  SoftmaxVariant::kFused, SoftmaxVariant::kTwoPass};

// ---- the oracle

std::vector<double> OracleOf(const std::vector<float>& row) {
  return SoftmaxOracle(row.data(), static_cast<long>(row.size()), Element::kFloat32);
}

TEST(SoftmaxOracle, MatchesKnownValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(OracleOf({3, 3, 3, 3}), std::vector<double>(4, 0.25));
  EXPECT_EQ(OracleOf({-infinity, 7}), (std::vector<double>{0, 1}));
  EXPECT_EQ(OracleOf({3e38F, -3e38F, 0.0F}), (std::vector<double>{1, 0, 0}));
  const auto two = OracleOf({0, std::log(3.0F)});
  EXPECT_NEAR(two[0], 0.25, 1e-7);
  EXPECT_NEAR(two[1], 0.75, 1e-7);
  for (const auto& row : {std::vector<float>{-infinity, -infinity}, {infinity, 1}, {nan, 1}}) {
    for (const double value : OracleOf(row)) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(SoftmaxOracle, MeasuresErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto error = [](const std::vector<double>& expected, const std::vector<float>& got) {
    return SoftmaxError(expected, got.data(), Element::kFloat32, nullptr);
  };
  EXPECT_EQ(error({0.25, 0.75}, {0.25F, 0.75F}), 0);
  EXPECT_NEAR(error({0.25, 0.75}, {0.25F, 0.5F}), 1.0 / 3, 1e-7);
  EXPECT_EQ(error({0x1p-127}, {0}), 0);
  EXPECT_EQ(error({0}, {0.1F}), kInfinity);
  EXPECT_EQ(error({nan}, {std::nanf("")}), 0);
  EXPECT_EQ(error({nan}, {1}), kInfinity);
  EXPECT_EQ(error({1}, {std::nanf("")}), kInfinity);
  long worst = 0;
  const std::vector<float> got = {0.5F, 0.6F};
  SoftmaxError({0.5, 0.5}, got.data(), Element::kFloat32, &worst);
  EXPECT_EQ(worst, 1);
}

// What is too small for the type to hold exactly is no error, and no part of a larger one.
TEST(SoftmaxOracle, ForgivesTheResolutionOfTheType) {
  struct Resolution {
    Element element;
    double resolution;
  };
  for (const auto& [element, resolution] : {Resolution{Element::kFloat16, 0x1p-24},
                                            {Element::kBfloat16, 0x1p-125},
                                            {Element::kFloat32, 0x1p-125}}) {
    const auto error = [&](double expected, double got) {
      std::uint32_t stored = 0;
      Store(&stored, 0, element, static_cast<float>(got));
      return SoftmaxError({expected}, &stored, element, nullptr);
    };
    EXPECT_EQ(error(0, resolution), 0) << ToString(element);
    EXPECT_EQ(error(0, 2 * resolution), kInfinity) << ToString(element);
    EXPECT_DOUBLE_EQ(error(2 * resolution, 4 * resolution), 0.5) << ToString(element);
    EXPECT_DOUBLE_EQ(error(4 * resolution, 2 * resolution), 0.25) << ToString(element);
  }
}

// With inputs in a range of 2, as derived in softmax_oracle.cc.
TEST(SoftmaxOracle, ToleratesTheRoundingsOfAMethod) {
  constexpr double kOfSum = (2 * (3 * 2 + 4) + 256 + 10 + 3) * 0x1p-24;
  for (const auto& [element, unit] :
       {std::pair(Element::kFloat32, 0x1p-24), std::pair(Element::kFloat16, 0x1p-11),
        std::pair(Element::kBfloat16, 0x1p-8)}) {
    using enum SoftmaxRounding;
    EXPECT_DOUBLE_EQ(SoftmaxTolerance(kResult, element, 2), kOfSum + unit);
    EXPECT_DOUBLE_EQ(SoftmaxTolerance(kExponentials, element, 2), kOfSum + 2 * unit);
    EXPECT_DOUBLE_EQ(SoftmaxTolerance(kSteps, element, 2), kOfSum + (1 + 2 * 3) * unit);
    for (const SoftmaxVariant variant : kVariants) {
      const bool rounds_steps = variant == SoftmaxVariant::kUnfused;
      EXPECT_EQ(SoftmaxTolerance(variant, element, 2),
                SoftmaxTolerance(rounds_steps ? kSteps : kResult, element, 2));
    }
  }
}

// ---- the variants

// The bits of values that Store cannot make, by type.
struct Specials {
  std::uint32_t least;  // the smallest subnormal
  std::uint32_t most;   // the largest finite value
  std::uint32_t minus_zero;
  std::uint32_t infinity;
  std::uint32_t minus_infinity;
  std::uint32_t nan;
  std::uint32_t large;  // 2^15, whose neighbours in bfloat16 are too far for any but one to count
};
Specials SpecialsOf(Element element) {
  switch (element) {
    case Element::kFloat16:
      return {1, 0x7BFF, 0x8000, 0x7C00, 0xFC00, 0x7E01, 0x7800};
    case Element::kBfloat16:
      return {1, 0x7F7F, 0x8000, 0x7F80, 0xFF80, 0x7FC1, 0x4700};
    default:
      return {1, 0x7F7FFFFF, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x47000000};
  }
}

// A matrix on the host whose rows are of the kinds below, over and over.
class Matrix {
 public:
  static constexpr long kKinds = 18;
  static constexpr long kNeighbours = 12;  // and on

  Matrix(long rows, long columns, Element element)
      : rows_(rows),
        columns_(columns),
        element_(element),
        special_(SpecialsOf(element)),
        bytes_(rows * columns * SizeOf(element)) {
    for (long row = 0; row < rows; ++row) Fill(row);
  }

  [[nodiscard]] long rows() const { return rows_; }
  [[nodiscard]] long columns() const { return columns_; }
  [[nodiscard]] Element element() const { return element_; }
  [[nodiscard]] std::size_t row_bytes() const { return columns_ * SizeOf(element_); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] const void* Row(long row) const { return &bytes_[row * row_bytes()]; }

  // How far below its row's maximum the elements that do not vanish reach: exp(-90) < 2^-126.
  [[nodiscard]] double RangeOf(long row) const {
    double most = -kInfinity;
    double range = 0;
    for (long i = 0; i < columns_; ++i) most = std::fmax(most, Load(Row(row), i, element_));
    for (long i = 0; i < columns_; ++i) {
      const double below = most - Load(Row(row), i, element_);
      if (below < 90) range = std::max(range, below);
    }
    return range;
  }

 private:
  void Fill(long row) {
    const std::uint32_t seed = 7 + static_cast<std::uint32_t>(row);
    const long somewhere = Random(seed, columns_) % columns_;
    const long elsewhere = row % 2 == 0 ? 0 : columns_ - 1;
    for (long i = 0; i < columns_; ++i) Set(row, i, 4 * RandomFraction(seed, i));
    const long kind = row % kKinds;
    if (kind >= kNeighbours) return FillNeighbours(row, kind - kNeighbours);
    switch (kind) {
      case 1:  // a wide range, most of which vanishes in float16
        for (long i = 0; i < columns_; ++i) Set(row, i, RandomInteger(seed, i, 60));
        break;
      case 2:
        for (long i = 0; i < columns_; ++i) Set(row, i, -3);
        break;
      case 3:
        for (long i = 0; i < columns_; ++i) SetBits(row, i, i % 2 == 0 ? 0 : special_.minus_zero);
        break;
      case 4:
        for (long i = 0; i < columns_; ++i) SetBits(row, i, special_.least << i % 3);
        break;
      case 5:
        SetBits(row, somewhere, special_.most);
        break;
      case 6:
        SetBits(row, elsewhere, special_.most);
        SetBits(row, somewhere, special_.most | special_.minus_zero);
        break;
      case 7:
        for (long i = 0; i < columns_; i += 2) SetBits(row, i, special_.minus_infinity);
        break;
      case 8:  // one number among −infinities
        for (long i = 0; i < columns_; ++i) SetBits(row, i, special_.minus_infinity);
        Set(row, somewhere, -1);
        break;
      case 9:
        for (long i = 0; i < columns_; ++i) SetBits(row, i, special_.minus_infinity);
        break;
      case 10:
        SetBits(row, somewhere, special_.infinity);
        break;
      case 11:
        SetBits(row, elsewhere, special_.nan);
        break;
      default:
        break;
    }
  }
  // Five neighbours among the type's values, over and over: below 2^15, around it, and the largest;
  // and the same with the other sign.
  void FillNeighbours(long row, long which) {
    constexpr std::uint32_t kCount = 5;
    const std::uint32_t lasts[] = {special_.large - 1, special_.large + 2, special_.most};
    const std::uint32_t sign = which < 3 ? 0 : special_.minus_zero;
    for (long i = 0; i < columns_; ++i)
      SetBits(row, i, (lasts[which % 3] - static_cast<std::uint32_t>(i % kCount)) | sign);
  }
  void Set(long row, long column, float value) {
    Store(bytes_.data(), row * columns_ + column, element_, value);
  }
  void SetBits(long row, long column, std::uint32_t bits) {
    std::memcpy(&bytes_[(row * columns_ + column) * SizeOf(element_)], &bits, SizeOf(element_));
  }

  long rows_;
  long columns_;
  Element element_;
  Specials special_;
  std::vector<std::byte> bytes_;
};

// Elements by which input and output are shifted from 16-byte boundaries.
struct Shift {
  long input = 0;
  long output = 0;
};

class SoftmaxTest : public OnEachBackend {
 protected:
  // Variants on rows of special values of this length.
  void CheckColumns(long columns, Element element, const Shift& shift = {},
                    std::span<const SoftmaxVariant> variants = kVariants) {
    const Matrix matrix(Matrix::kKinds + 1, columns, element);
    std::vector<std::vector<double>> expected;
    for (long row = 0; row < matrix.rows(); ++row)
      expected.push_back(SoftmaxOracle(matrix.Row(row), columns, element));
    for (const SoftmaxVariant variant : variants) {
      SCOPED_TRACE("variant " + std::to_string(static_cast<int>(variant)) + ", " +
                   std::to_string(columns) + " columns of " + ToString(element) + ", shifted by " +
                   std::to_string(shift.input) + " and " + std::to_string(shift.output));
      const auto results = Run(variant, matrix, shift);
      for (long row = 0; row < matrix.rows() && !HasFailure(); ++row) {
        long column = 0;
        const void* result = &results[row * matrix.row_bytes()];
        EXPECT_LE(SoftmaxError(expected[row], result, element, &column),
                  SoftmaxTolerance(variant, element, matrix.RangeOf(row)))
            << "row " << row << ", column " << column << " is " << Load(result, column, element)
            << ", expected " << expected[row][column];
      }
      if (HasFailure()) return;
    }
  }

  // The results of the second of two launches; nothing may be written around them.
  std::vector<std::byte> Run(SoftmaxVariant variant, const Matrix& matrix, const Shift& shift) {
    constexpr long kMargin = 16;  // elements: a multiple of 16 bytes
    const std::size_t element_bytes = SizeOf(matrix.element());
    const std::size_t matrix_bytes = matrix.bytes().size();
    const Buffer input =
        device().Allocate(matrix_bytes + shift.input * element_bytes, MemoryKind::kDevice);
    const Buffer output = device().Allocate(
        matrix_bytes + (2 * kMargin + shift.output) * element_bytes, MemoryKind::kDevice);
    const std::size_t start = (kMargin + shift.output) * element_bytes;
    auto* in = static_cast<std::byte*>(input.data()) + shift.input * element_bytes;
    stream().Copy(in, matrix.bytes().data(), matrix_bytes);
    SoftmaxProblem problem{in,
                           static_cast<std::byte*>(output.data()) + start,
                           nullptr,
                           matrix.rows(),
                           matrix.columns(),
                           matrix.element()};
    const auto regime = FusedRegimeOn(device(), matrix.columns(), matrix.element());
    const std::vector<std::byte> zeros(SoftmaxNeedsOf(variant, problem, regime).workspace_bytes);
    const Buffer workspace = device().Allocate(zeros.size() + 1, MemoryKind::kDevice);
    problem.workspace = workspace.data();
    stream().Copy(workspace.data(), zeros.data(), zeros.size());
    for (int launch = 0; launch < 2; ++launch) {
      Poison(stream(), output.data(), output.bytes());
      LaunchSoftmax(stream(), variant, problem);
    }
    std::vector<std::byte> all(output.bytes());
    stream().Copy(all.data(), output.data(), all.size());
    stream().Synchronize(kPatience, "softmax");
    const auto end = all.begin() + static_cast<long>(start + matrix_bytes);
    const auto poisoned = [](std::byte byte) { return byte == std::byte{0xFF}; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + static_cast<long>(start), poisoned) &&
                std::all_of(end, all.end(), poisoned))
        << "something was written around the result";
    return {all.begin() + static_cast<long>(start), end};
  }
};
INSTANTIATE_ON_EACH_BACKEND(SoftmaxTest);

// Both sides of every limit of the table, and some odd lengths.
std::set<long> ColumnsToCheck(Element element) {
  std::set<long> all = {
      1, 2, 33, 257, 1001, 12289, 50257, 75000, 190001, 230000, kMostColumns - 1, kMostColumns};
  for (const bool aligned : {true, false}) {
    const auto regime_of = [&](long columns) {
      return ToString(SoftmaxRegimeOf(columns, element, {aligned}));
    };
    for (long columns = 2; columns <= kMostColumns; ++columns) {
      if (regime_of(columns) != regime_of(columns + 1))
        all.insert({columns - 1, columns, columns + 1});
    }
  }
  return all;
}

TEST_P(SoftmaxTest, MatchesTheOracle) {
  // On the host there are no regimes, and long rows take long.
  const long most_columns = GetParam() == Backend::kHost ? 3000 : kMostColumns + 1;
  for (const Element element : kElements) {
    for (const long columns : ColumnsToCheck(element)) {
      if (columns > most_columns) continue;
      CheckColumns(columns, element);
      if (HasFailure()) return;
    }
  }
}

// The C library accepts longer rows, for which the other variants' tolerance is not meant.
TEST_P(SoftmaxTest, FusedTakesTheLongestRows) {
  if (GetParam() == Backend::kHost) GTEST_SKIP() << "there are no regimes";
  constexpr std::array kFused{SoftmaxVariant::kFused};
  for (const Element element : {Element::kFloat16, Element::kBfloat16}) {
    // The last is too long for parts, even on the largest GPU.
    for (const long columns : {300001L, 2 * kMostColumns, 1000003L, 6000001L, 10000001L}) {
      CheckColumns(columns, element, {}, kFused);
      if (HasFailure()) return;
    }
  }
  CheckColumns(3000001, Element::kFloat32, {}, kFused);
}

TEST_P(SoftmaxTest, AcceptsAddressesAlignedToOneElement) {
  const std::vector<long> all = GetParam() == Backend::kHost
                                    ? std::vector<long>{33, 256}
                                    : std::vector<long>{33, 256, 1024, 8192, 50257, kMostColumns};
  for (const Element element : kElements) {
    for (const long columns : all) {
      for (const Shift& shift : {Shift{1, 1}, Shift{3, 0}, Shift{2, 1}}) {
        CheckColumns(columns, element, shift);
        if (HasFailure()) return;
      }
    }
  }
}

// More rows than the device works on at once; with 42,000 columns, more parts than fit one launch.
TEST_P(SoftmaxTest, TakesManyRows) {
  const bool host = GetParam() == Backend::kHost;
  for (const long columns : {33L, 100L, 1000L, 5000L, 42000L, 50257L, 70000L, 100003L, 230000L,
                             600001L, 1000003L, 4000001L, 6000000L, 20000000L}) {
    const long elements = host ? 1L << 17 : columns == 42000 ? 1L << 30 : 1L << 26;
    const long rows = elements / columns;
    if (rows == 0) continue;
    const std::size_t bytes = rows * columns * SizeOf(Element::kBfloat16);
    const Buffer input = device().Allocate(bytes, MemoryKind::kDevice);
    const Buffer output = device().Allocate(bytes, MemoryKind::kDevice);
    const Buffer workspace = device().Allocate(kSoftmaxWorkspaceBytes, MemoryKind::kDevice);
    const std::vector<std::byte> zeros(kSoftmaxWorkspaceBytes);
    FillFractions(stream(), input.data(), rows * columns, Element::kBfloat16, 3);
    Poison(stream(), output.data(), bytes);
    stream().Copy(workspace.data(), zeros.data(), zeros.size());
    LaunchSoftmax(
        stream(), SoftmaxVariant::kFused,
        {input.data(), output.data(), workspace.data(), rows, columns, Element::kBfloat16});
    EXPECT_EQ(FindUnwritten(device(), stream(), output.data(), rows * columns, Element::kBfloat16,
                            kPatience),
              "");
    for (const long row : {0L, rows / 2, 9 * rows / 10, rows - 1}) {
      const std::size_t row_bytes = columns * SizeOf(Element::kBfloat16);
      std::vector<std::byte> in(row_bytes);
      std::vector<std::byte> out(row_bytes);
      stream().Copy(in.data(), static_cast<std::byte*>(input.data()) + row * row_bytes, row_bytes);
      stream().Copy(out.data(), static_cast<std::byte*>(output.data()) + row * row_bytes,
                    row_bytes);
      stream().Synchronize(kPatience, "softmax");
      const auto expected = SoftmaxOracle(in.data(), columns, Element::kBfloat16);
      EXPECT_LE(SoftmaxError(expected, out.data(), Element::kBfloat16, nullptr),
                SoftmaxTolerance(SoftmaxVariant::kFused, Element::kBfloat16, 2))
          << "row " << row << " of " << columns << " columns";
    }
  }
}

// Their blocks wait for each other, so they must all run.
TEST_P(SoftmaxTest, LongRowsEndOnFewSms) {
  const int fewest = device().info().partitions.least;
  if (GetParam() == Backend::kHost || fewest == 0) GTEST_SKIP() << "there are no partitions";
  const auto few = device().CreateStream({.sms = fewest});
  for (const long columns : {1L << 19, 1L << 20, 3L << 20}) {
    constexpr long kRows = 9;
    const Buffer input = device().Allocate(kRows * columns * 2, MemoryKind::kDevice);
    const Buffer output = device().Allocate(input.bytes(), MemoryKind::kDevice);
    const Buffer workspace = device().Allocate(kSoftmaxWorkspaceBytes, MemoryKind::kDevice);
    const std::vector<std::byte> zeros(kSoftmaxWorkspaceBytes);
    few->Copy(workspace.data(), zeros.data(), zeros.size());
    FillFractions(*few, input.data(), kRows * columns, Element::kBfloat16, 3);
    Poison(*few, output.data(), output.bytes());
    LaunchSoftmax(
        *few, SoftmaxVariant::kFused,
        {input.data(), output.data(), workspace.data(), kRows, columns, Element::kBfloat16});
    EXPECT_EQ(FindUnwritten(device(), *few, output.data(), kRows * columns, Element::kBfloat16,
                            kPatience),
              "")
        << columns;
  }
}

// Of the longest rows, two launches fill all SMs. Of more, none has room for a row: they must give
// rows up, and write them in the end.
TEST_P(SoftmaxTest, AnyNumberOfLaunchesRunsAtOnce) {
  if (GetParam() == Backend::kHost) GTEST_SKIP() << "host blocks do not wait for each other";
  constexpr int kLaunches = 6;
  constexpr long kRows = 24;
  constexpr long kColumns = 6'000'000;
  constexpr std::size_t kBytes = kRows * kColumns * 2;
  struct Launched {
    std::unique_ptr<Stream> stream;
    Buffer output;
    Buffer workspace;
  };
  const Buffer input = device().Allocate(kBytes, MemoryKind::kDevice);
  FillFractions(stream(), input.data(), kRows * kColumns, Element::kBfloat16, 3);
  stream().Synchronize(kPatience, "filling");
  const std::vector<std::byte> zeros(kSoftmaxWorkspaceBytes);
  std::vector<Launched> launched;
  for (int i = 0; i < kLaunches; ++i) {
    launched.push_back({device().CreateStream(), device().Allocate(kBytes, MemoryKind::kDevice),
                        device().Allocate(kSoftmaxWorkspaceBytes, MemoryKind::kDevice)});
    const auto& [own, output, workspace] = launched.back();
    own->Copy(workspace.data(), zeros.data(), zeros.size());
    Poison(*own, output.data(), kBytes);
    own->Synchronize(kPatience, "clearing");
  }
  for (int time = 0; time < 2; ++time)  // the second finds the workspace as the first left it
    for (const auto& [own, output, workspace] : launched)
      LaunchSoftmax(
          *own, SoftmaxVariant::kFused,
          {input.data(), output.data(), workspace.data(), kRows, kColumns, Element::kBfloat16});
  std::set<std::uint64_t> results;
  for (const auto& [own, output, workspace] : launched)
    results.insert(FingerprintOnDevice(device(), *own, output.data(), kBytes, 0, kPatience));
  LaunchSoftmax(stream(), SoftmaxVariant::kFused,
                {input.data(), launched[0].output.data(), launched[0].workspace.data(), kRows,
                 kColumns, Element::kBfloat16});
  results.insert(
      FingerprintOnDevice(device(), stream(), launched[0].output.data(), kBytes, 0, kPatience));
  EXPECT_EQ(results.size(), 1U) << "one that ran alone is among them";
}

TEST_P(SoftmaxTest, RefusesUnsupportedProblems) {
  SoftmaxProblem problem;
  problem.rows = 1;
  problem.columns = 32;
  problem.element = Element::kInt32;
  EXPECT_THROW(LaunchSoftmax(stream(), SoftmaxVariant::kFused, problem), Error);
  problem.element = Element::kFloat32;
  problem.columns = 0;
  EXPECT_THROW(LaunchSoftmax(stream(), SoftmaxVariant::kFused, problem), Error);
}

}  // namespace
}  // namespace overlapbench
