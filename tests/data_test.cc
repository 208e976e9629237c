// Test data: a single element that is wrong or was not written is found where it is.
#include "workload/data.h"

#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "backends.h"

namespace overlapbench {
namespace {

constexpr std::array kElements = {Element::kFloat32, Element::kFloat16, Element::kBfloat16,
                                  Element::kFloat64, Element::kInt32};
constexpr long kCount = 10'007;  // no multiple of anything
constexpr std::array kPlaces = {0L, 1L, 4095L, 4096L, kCount - 1};
constexpr std::uint32_t kSeed = 42;
constexpr int kMost = 128;

TEST(RandomFraction, IsAMultipleOf128thInsideOneAndNeverZero) {
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

class DataTest : public OnEachBackend {
 protected:
  void SetUp() override {
    OnEachBackend::SetUp();
    if (IsSkipped()) return;
    stream_ = device().CreateStream();
    buffer_ = device().Allocate(kCount * sizeof(double), MemoryKind::kDevice);
  }

  void* data() { return buffer_.data(); }
  Stream& stream() { return *stream_; }
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
  std::string Fault(Element element, const ExpectedSegments& expected, long count = kCount) {
    return FindFault(device(), stream(), data(), count, element, expected, kPatience);
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

  std::unique_ptr<Stream> stream_;
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

TEST_P(DataTest, AFaultSaysWhatIsThereAndWhatShouldBe) {
  FillIntegers(stream(), data(), kCount, Element::kFloat32, kSeed, kMost);
  Overwrite(17, Element::kFloat32, 999);
  std::ostringstream text;
  text << "element 17 of 10007 is 999, expected " << RandomInteger(kSeed, 17, kMost);
  EXPECT_EQ(Fault(Element::kFloat32, {kCount, 0, 0, 1, kMost, kSeed}), text.str());
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
    if (element == Element::kInt32) continue;  // has no value that is not a number
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

// Three ranks, each with 300 elements of its own: what each of them holds after a collective.
TEST_P(DataTest, ExpectationsFollowEveryPatternOfACollective) {
  constexpr int kRanks = 3;
  constexpr long kSegment = 100;
  constexpr long kWhole = kRanks * kSegment;
  constexpr int kMe = 1;
  const auto of_rank = [](int rank, long i) { return RandomInteger(kSeed + rank, i, kMost); };
  const auto sum = [&](long i) { return of_rank(0, i) + of_rank(1, i) + of_rank(2, i); };
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

}  // namespace
}  // namespace overlapbench
