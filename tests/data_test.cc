// Test data: verification locates a single element that is wrong or was not written.
#include "workload/data.h"

#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "test_ranks.h"

namespace overlapbench {
namespace {

constexpr std::array kElements = {Element::kFloat32, Element::kFloat16, Element::kBfloat16,
                                  Element::kFloat64, Element::kInt32};
constexpr long kCount = 10'007;  // no multiple of anything
constexpr std::array kPlaces = {0L, 1L, 4095L, 4096L, kCount - 1};
constexpr std::uint32_t kSeed = 42;
constexpr int kMost = 128;

TEST(RandomFraction, IsANonzeroMultipleOfOne128thBelowOne) {
  std::set<float> values;
  for (long i = 0; i < 100'000; ++i) {
    const float value = RandomFraction(kSeed, i);
    ASSERT_NE(value, 0);
    ASSERT_LT(std::abs(value), 1);
    ASSERT_EQ(value * 128, std::floor(value * 128));
    values.insert(value);
  }
  EXPECT_EQ(values.size(), 254U);  // 1/128 … 127/128, with either sign
}

TEST(RandomInteger, TakesEveryValueFromOneToMost) {
  for (const int most : {1, 2, 128, 256}) {
    std::set<float> values;
    for (long i = 0; i < 100'000; ++i) values.insert(RandomInteger(kSeed, i, most));
    EXPECT_EQ(values.size(), static_cast<std::size_t>(most));
    EXPECT_EQ(*values.begin(), 1);
    EXPECT_EQ(*values.rbegin(), most);
  }
}

// Otherwise data from the wrong rank, or from the wrong place, would pass for right.
TEST(Random, DependsOnSeedAndIndex) {
  int equal_seeds = 0;
  int equal_indices = 0;
  for (long i = 0; i < 10'000; ++i) {
    equal_seeds += RandomInteger(kSeed, i, 256) == RandomInteger(kSeed + 1, i, 256);
    equal_indices += RandomInteger(kSeed, i, 256) == RandomInteger(kSeed, i + 4096, 256);
  }
  EXPECT_LT(equal_seeds, 100);  // by chance 39
  EXPECT_LT(equal_indices, 100);
  EXPECT_NE(Random(kSeed, 1), Random(kSeed, (1L << 32) + 1));
}

// A simulated collective over GetParam() ranks: its data are functions of rank and index.
class CollectiveInputTest : public testing::TestWithParam<int> {
 protected:
  static constexpr long kIndices = 2048;
  static constexpr long kSegment = 64;
  // Every fault below must show within this many elements.
  static constexpr long kSoon = 64;

  [[nodiscard]] static int ranks() { return GetParam(); }
  [[nodiscard]] static CollectiveInput Moved() { return {kSeed, ranks(), false}; }
  [[nodiscard]] static CollectiveInput Summed() { return {kSeed, ranks(), true}; }
  [[nodiscard]] static double SumOverAll(long index) {
    double sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) sum += Summed().At(rank, index);
    return sum;
  }
  // What must be in the buffers after an all-gather and after an all-reduce.
  [[nodiscard]] static ExpectedSegments Gathered() {
    return {kSegment, 0, ExpectedSegments::kEachSegment, ranks(), Moved().most(), kSeed};
  }
  [[nodiscard]] static ExpectedSegments Reduced() {
    return {kIndices, 0, ExpectedSegments::kSum, ranks(), Summed().most(), kSeed};
  }
  // The share of the first `indices` indices at which two functions of the index agree.
  template <class One, class Other>
  [[nodiscard]] static double Agreement(long indices, const One& one, const Other& other) {
    long equal = 0;
    for (long i = 0; i < indices; ++i) equal += one(i) == other(i);
    return static_cast<double>(equal) / static_cast<double>(indices);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveInputTest,
                         testing::Values(1, 2, 3, 128, 129, 256, 257, 1000),
                         [](const auto& instance) { return std::to_string(instance.param); });

TEST_P(CollectiveInputTest, TheOracleSumsTheRanksInputs) {
  for (long i = 0; i < kIndices; ++i) ASSERT_EQ(Reduced().At(i), SumOverAll(i)) << i;
}

TEST_P(CollectiveInputTest, TheOracleDependsOnTheSourceRankOfASegment) {
  for (long i = 0; i < ranks() * kSegment; ++i) {
    ASSERT_EQ(Gathered().At(i), Moved().At(static_cast<int>(i / kSegment), i % kSegment)) << i;
  }
}

// The values are whole and never negative, so sums of only some of the ranks are exact as well.
TEST_P(CollectiveInputTest, EveryValueAndEverySumIsExactInEveryElementType) {
  for (const Element element : kElements) {
    for (long i = 0; i < kIndices; ++i) {
      ASSERT_EQ(Held(static_cast<float>(SumOverAll(i)), element), SumOverAll(i)) << i;
      ASSERT_LE(SumOverAll(i), 256) << i;
      const float moved = Moved().At(ranks() - 1, i);
      ASSERT_EQ(Held(moved, element), moved) << i;
    }
  }
}

// By chance 1 of 256 agrees.
TEST_P(CollectiveInputTest, MisplacedDataIsFound) {
  for (const int rank : {0, ranks() / 2, ranks() - 1}) {
    const auto own = [&](long i) { return Moved().At(rank, i); };
    EXPECT_LT(Agreement(kIndices, own, [&](long i) { return own(i + 1); }), 0.05);
    EXPECT_LT(Agreement(kIndices, own, [&](long i) { return own(i + kSegment); }), 0.05);
    const auto next_rank = [&](long i) { return Moved().At(rank + 1, i); };
    EXPECT_LT(Agreement(kIndices, own, next_rank), 0.05);
  }
}

TEST_P(CollectiveInputTest, ASegmentOfTheWrongRankIsFound) {
  for (int rank = 0; rank + 1 < ranks(); ++rank) {
    const auto right = [&](long i) { return Gathered().At(rank * kSegment + i); };
    const auto wrong = [&](long i) { return Gathered().At((rank + 1) * kSegment + i); };
    ASSERT_LT(Agreement(kSoon, right, wrong), 0.2) << rank;
  }
}

// Sums of 128 values from 1 to 2 agree by chance at 1 index of 20.
TEST_P(CollectiveInputTest, MisplacedSumsAreFound) {
  const auto sum = [](long i) { return Reduced().At(i); };
  EXPECT_LT(Agreement(kIndices, sum, [&](long i) { return sum(i + 1); }), 0.1);
  EXPECT_LT(Agreement(kIndices, sum, [&](long i) { return sum(i + kSegment); }), 0.1);
}

// One rank's part of a sum: left out, from the next index, the next segment or the next rank.
TEST_P(CollectiveInputTest, AMissingOrMisplacedContributionIsFound) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto part = [&](long i) { return Summed().At(rank, i); };
    ASSERT_LT(Agreement(kSoon, part, [](long) { return 0; }), 1) << rank;
    ASSERT_LT(Agreement(kSoon, part, [&](long i) { return part(i + 1); }), 1) << rank;
    ASSERT_LT(Agreement(kSoon, part, [&](long i) { return part(i + kSegment); }), 1) << rank;
    if (rank + 1 == ranks()) continue;
    const auto next_rank = [&](long i) { return Summed().At(rank + 1, i); };
    ASSERT_LT(Agreement(kSoon, part, next_rank), 1) << rank;
  }
}

TEST_P(CollectiveInputTest, EveryRankContributesOnceInEachBlock) {
  const int turns = Summed().turns();
  for (int rank = 0; rank < ranks(); ++rank) {
    for (long block = 0; block < 10; ++block) {
      int contributions = 0;
      for (long i = block * turns; i < (block + 1) * turns; ++i) {
        contributions += Summed().At(rank, i) > 0;
      }
      ASSERT_EQ(contributions, 1) << "rank " << rank << ", block " << block;
    }
  }
}

TEST(CollectiveInput, UpTo128RanksContributeAtEveryIndex) {
  for (const int ranks : {1, 2, 3, 8, 64, 127, 128}) {
    for (long i = 0; i < 1000; ++i) {
      const int rank = static_cast<int>(i) % ranks;
      const CollectiveInput summed{kSeed, ranks, true};
      ASSERT_EQ(summed.At(rank, i), RandomInteger(kSeed + rank, i, 256 / ranks)) << ranks;
    }
  }
}

class DataTest : public OnEachBackend {
 protected:
  void SetUp() override {
    OnEachBackend::SetUp();
    if (IsSkipped()) return;
    buffer_ = device().Allocate(kCount * sizeof(double), MemoryKind::kDevice);
  }

  void* data() { return buffer_.data(); }
  void Overwrite(long index, Element element, float value) {
    std::array<std::byte, 8> bytes{};
    Store(bytes.data(), 0, element, value);
    OverwriteBytes(index, element, bytes);
  }
  void OverwriteWithPoison(long index, Element element) {
    std::array<std::byte, 8> bytes{};
    bytes.fill(std::byte{0xFF});
    OverwriteBytes(index, element, bytes);
  }
  Verdict Compare(Element element, const ExpectedSegments& expected, long count = kCount) {
    return FindFault({device(), TestRanks()}, stream(), data(), count, element, expected);
  }
  std::string Fault(Element element, const ExpectedSegments& expected, long count = kCount) {
    return Compare(element, expected, count).fault;
  }
  std::string Unwritten(Element element) {
    return FindUnwritten(device(), stream(), data(), kCount, element, kPatience);
  }

 private:
  void OverwriteBytes(long index, Element element, const std::array<std::byte, 8>& bytes) {
    stream().Copy(static_cast<std::byte*>(data()) + index * SizeOf(element), bytes.data(),
                  SizeOf(element));
    stream().Synchronize(kPatience, "overwriting one element");
  }

  Buffer buffer_;
};
INSTANTIATE_ON_EACH_BACKEND(DataTest);

TEST_P(DataTest, ASingleWrongElementIsFoundAtItsIndex) {
  const ExpectedSegments expected{kCount, 0, 0, 1, kMost, kSeed};
  for (const Element element : kElements) {
    FillIntegers(stream(), data(), kCount, element, kSeed, kMost);
    ASSERT_EQ(Fault(element, expected), "") << ToString(element);
    for (const long index : kPlaces) {
      const float right = RandomInteger(kSeed, index, kMost);
      Overwrite(index, element, right + 1);
      EXPECT_EQ(Fault(element, expected).find("element " + std::to_string(index) + " of 10007 is "),
                0U)
          << ToString(element) << ": " << Fault(element, expected);
      Overwrite(index, element, right);
    }
    ASSERT_EQ(Fault(element, expected), "") << ToString(element);
  }
}

TEST_P(DataTest, AFaultNamesTheActualAndTheExpectedValue) {
  const ExpectedSegments expected{kCount, 0, 0, 1, kMost, kSeed};
  FillIntegers(stream(), data(), kCount, Element::kFloat32, kSeed, kMost);
  EXPECT_EQ(Compare(Element::kFloat32, expected).max_rel_err, 0);
  Overwrite(17, Element::kFloat32, 999);
  std::ostringstream text;
  text << "element 17 of 10007 is 999, expected " << RandomInteger(kSeed, 17, kMost);
  EXPECT_EQ(Fault(Element::kFloat32, expected), text.str());
  EXPECT_EQ(Compare(Element::kFloat32, expected).max_rel_err, 1);
}

TEST_P(DataTest, PoisonIsAFaultInEveryType) {
  for (const Element element : kElements) {
    FillIntegers(stream(), data(), kCount, element, kSeed, kMost);
    OverwriteWithPoison(4096, element);
    EXPECT_EQ(Fault(element, {kCount, 0, 0, 1, kMost, kSeed}).find("element 4096 of 10007"), 0U)
        << ToString(element);
  }
}

TEST_P(DataTest, AnUnwrittenElementIsFoundInEveryFloatingPointType) {
  for (const Element element : kElements) {
    if (element == Element::kInt32) continue;  // has no NaN
    FillFractions(stream(), data(), kCount, element, kSeed);
    ASSERT_EQ(Unwritten(element), "") << ToString(element);
    for (const long index : kPlaces) {
      OverwriteWithPoison(index, element);
      EXPECT_EQ(Unwritten(element),
                "element " + std::to_string(index) + " of 10007 was not written");
      Overwrite(index, element, 1);
    }
    Poison(stream(), data(), kCount * SizeOf(element));
    EXPECT_NE(Unwritten(element), "") << ToString(element);
  }
}

TEST_P(DataTest, FractionsAreTheSameNumberInEveryType) {
  for (const Element element : kElements) {
    if (element == Element::kInt32) continue;
    FillFractions(stream(), data(), kCount, element, kSeed);
    std::vector<std::byte> bytes(kCount * SizeOf(element));
    stream().Copy(bytes.data(), data(), bytes.size());
    stream().Synchronize(kPatience, "reading fractions");
    for (long i = 0; i < kCount; ++i) {
      ASSERT_EQ(Load(bytes.data(), i, element), RandomFraction(kSeed, i)) << ToString(element);
    }
  }
}

TEST_P(DataTest, FillCollectiveMatchesTheOracle) {
  constexpr int kRank = 998;
  for (const bool is_summed : {false, true}) {
    const CollectiveInput input{kSeed, 1000, is_summed};
    for (const Element element : kElements) {
      FillCollective(stream(), data(), kCount, element, input, kRank);
      std::vector<std::byte> bytes(kCount * SizeOf(element));
      stream().Copy(bytes.data(), data(), bytes.size());
      stream().Synchronize(kPatience, "reading a collective's input");
      for (long i = 0; i < kCount; ++i) {
        ASSERT_EQ(Load(bytes.data(), i, element), input.At(kRank, i)) << ToString(element);
      }
    }
  }
}

// Three ranks, each with 300 elements of its own: what each of them holds after a collective.
TEST_P(DataTest, ExpectedSegmentsCoverEveryCollective) {
  constexpr int kRanks = 3;
  constexpr long kSegment = 100;
  constexpr long kWhole = kRanks * kSegment;
  constexpr int kMe = 1;
  const auto of_rank = [](int rank, long i) { return RandomInteger(kSeed + rank, i, kMost); };
  const CollectiveInput summed{kSeed, kRanks, true};
  const auto sum = [&](long i) { return summed.At(0, i) + summed.At(1, i) + summed.At(2, i); };
  struct Pattern {
    const char* name;
    long count;
    ExpectedSegments expected;
    std::function<float(long)> value;
  };
  const std::vector<Pattern> patterns = {
      {"all-to-all",
       kWhole,
       {kSegment, kMe * kSegment, ExpectedSegments::kEachSegment, kRanks, kMost, kSeed},
       [&](long i) {
         return of_rank(static_cast<int>(i / kSegment), kMe * kSegment + i % kSegment);
       }},
      {"all-reduce", kWhole, {kWhole, 0, ExpectedSegments::kSum, kRanks, kMost, kSeed}, sum},
      {"all-gather",
       kWhole,
       {kSegment, 0, ExpectedSegments::kEachSegment, kRanks, kMost, kSeed},
       [&](long i) { return of_rank(static_cast<int>(i / kSegment), i % kSegment); }},
      {"reduce-scatter",
       kSegment,
       {kSegment, kMe * kSegment, ExpectedSegments::kSum, kRanks, kMost, kSeed},
       [&](long i) { return sum(kMe * kSegment + i); }},
      {"broadcast", kWhole, {kWhole, 0, 0, kRanks, kMost, kSeed}, [&](long i) {
         return of_rank(0, i);
       }}};
  for (const auto& pattern : patterns) {
    std::vector<float> right(pattern.count);
    for (long i = 0; i < pattern.count; ++i) right[i] = pattern.value(i);
    stream().Copy(data(), right.data(), right.size() * sizeof(float));
    EXPECT_EQ(Fault(Element::kFloat32, pattern.expected, pattern.count), "") << pattern.name;
    Overwrite(57, Element::kFloat32, right[57] + 1);
    EXPECT_EQ(Fault(Element::kFloat32, pattern.expected, pattern.count).find("element 57 of"), 0U)
        << pattern.name;
  }
}

using Words = std::vector<std::uint32_t>;

// Any fingerprint must change if a bit changes or if two words swap places.
void ExpectItTellsWords(const std::function<std::uint64_t(const Words&)>& fingerprint) {
  const Words words = {7, 0, 9, 0xFFFFFFFF, 5};
  std::set<std::uint64_t> distinct = {fingerprint(words)};
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      Words changed = words;
      changed[i] ^= 1U << bit;
      distinct.insert(fingerprint(changed));
    }
  }
  EXPECT_EQ(distinct.size(), 1 + 32 * words.size());
  EXPECT_FALSE(distinct.contains(fingerprint({0, 7, 9, 0xFFFFFFFF, 5})));
}

TEST(Fingerprint, DependsOnEveryBitAndItsPlace) {
  ExpectItTellsWords([](const Words& words) {
    return FingerprintOf(words.data(), words.size() * sizeof(words[0]));
  });
}

TEST_P(DataTest, FingerprintOnTheDeviceDependsOnEveryBitAndItsPlace) {
  const auto fingerprint = [this](const Words& words, std::uint64_t first_word) {
    const std::size_t bytes = words.size() * sizeof(words[0]);
    stream().Copy(data(), words.data(), bytes);
    return FingerprintOnDevice(device(), stream(), data(), bytes, first_word, kPatience);
  };
  ExpectItTellsWords([&](const Words& words) { return fingerprint(words, 0); });
  EXPECT_EQ(fingerprint({1, 2, 3, 4, 5}, 0), fingerprint({1, 2}, 0) + fingerprint({3, 4, 5}, 2));
  EXPECT_NE(fingerprint({1, 2}, 0), fingerprint({1, 2}, 1));
}

}  // namespace
}  // namespace overlapbench
