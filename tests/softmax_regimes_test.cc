// How the fused softmax holds rows, without a device: the table of regimes, how its longest rows
// are cut, what a softmax moves, and which it takes.
#include "kernels/softmax_regimes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>

#include "backends.h"
#include "kernels/softmax.h"
#include "kernels/softmax_cut.h"
#include "thrown.h"
#include "watched_stream.h"

namespace overlapbench {
namespace {

constexpr long kMostColumns = 262144;
constexpr std::array kElements = {Element::kFloat32, Element::kFloat16, Element::kBfloat16};

// ---- the table of regimes

std::string NameOf(long columns, Element element, const SoftmaxTraits& traits) {
  return ToString(SoftmaxRegimeOf(columns, element, traits));
}

TEST(SoftmaxRegimes, ChangeAtTheirBoundaries) {
  const auto expect_limit = [](long columns, Element element, const char* name, const char* next) {
    EXPECT_EQ(NameOf(columns, element, {}), name) << columns;
    EXPECT_EQ(NameOf(columns + 1, element, {}), next) << columns + 1;
  };
  expect_limit(32, Element::kBfloat16, "4 lanes", "8 lanes");
  expect_limit(16, Element::kFloat32, "4 lanes", "8 lanes");
  expect_limit(768, Element::kFloat16, "32 lanes, 3 vectors", "exponentials, 4 vectors");
  expect_limit(384, Element::kFloat32, "32 lanes, 3 vectors", "exponentials, 2 vectors");
  expect_limit(928, Element::kBfloat16, "exponentials, 4 vectors", "exponentials, 6 vectors");
  expect_limit(1200, Element::kFloat16, "exponentials, 6 vectors", "exponentials, 3 vectors");
  expect_limit(1600, Element::kBfloat16, "exponentials, 4 vectors", "exponentials, 5 vectors");
  expect_limit(1856, Element::kBfloat16, "exponentials, 5 vectors", "exponentials, 3 vectors");
  expect_limit(1920, Element::kFloat32, "exponentials, 2 vectors", "exponentials, 3 vectors");
  expect_limit(2048, Element::kFloat32, "exponentials, 3 vectors", "exponentials, 2 vectors");
  expect_limit(4096, Element::kBfloat16, "exponentials, 3 vectors", "exponentials, 4 vectors");
  expect_limit(5120, Element::kFloat16, "exponentials, 2 vectors", "exponentials, 3 vectors");
  expect_limit(5120, Element::kFloat32, "exponentials, 2 vectors", "exponentials, 3 vectors");
  expect_limit(6144, Element::kBfloat16, "exponentials, 2 vectors", "exponentials, 6 vectors");
  expect_limit(7680, Element::kBfloat16, "exponentials, 3 vectors", "exponentials, 6 vectors");
  expect_limit(9216, Element::kFloat16, "exponentials, 6 vectors", "exponentials, 4 vectors");
  expect_limit(12288, Element::kFloat16, "exponentials, 4 vectors", "elements, 3 vectors");
  expect_limit(12288, Element::kFloat32, "exponentials, 3 vectors", "elements, 6 vectors");
  expect_limit(15360, Element::kBfloat16, "elements, 3 vectors", "exponentials, 4 vectors");
  expect_limit(18432, Element::kBfloat16, "exponentials, 4 vectors", "elements, 3 vectors");
  expect_limit(24576, Element::kBfloat16, "elements, 3 vectors", "elements, 6 vectors");
  expect_limit(36864, Element::kBfloat16, "elements, 6 vectors", "parts, 5 vectors");
  expect_limit(18432, Element::kFloat32, "elements, 6 vectors", "parts, 6 vectors");
  expect_limit(23040, Element::kFloat32, "parts, 6 vectors", "elements, 8 vectors");
  expect_limit(32768, Element::kFloat32, "elements, 8 vectors", "parts, 6 vectors");
  expect_limit(106496, Element::kFloat16, "parts, 5 vectors", "parts, 4 vectors");
  expect_limit(1L << 21, Element::kBfloat16, "parts, 4 vectors", "parts, 3 vectors");
  expect_limit(1L << 20, Element::kFloat32, "parts, 6 vectors", "parts, 3 vectors");
  EXPECT_EQ(NameOf(1L << 30, Element::kFloat32, {}), "parts, 3 vectors");
}

TEST(SoftmaxRegimes, SpreadRowsThatAreTooLongForParts) {
  const SoftmaxTraits some{.longest_parts_bytes = 1L << 21};
  EXPECT_EQ(NameOf(1L << 20, Element::kBfloat16, some), "parts, 4 vectors");
  EXPECT_EQ(NameOf((1L << 20) + 1, Element::kBfloat16, some), "spread");
  EXPECT_EQ(NameOf(1L << 19, Element::kFloat32, some), "parts, 6 vectors");
  EXPECT_EQ(NameOf((1L << 19) + 1, Element::kFloat32, some), "spread");
}

TEST(SoftmaxRegimes, GiveEveryEdgeOfUnalignedRowsALane) {
  const SoftmaxTraits unaligned{.aligned = false};
  EXPECT_EQ(NameOf(7, Element::kBfloat16, unaligned), "16 lanes");
  EXPECT_EQ(NameOf(129, Element::kFloat16, unaligned), "32 lanes");
  EXPECT_EQ(NameOf(7, Element::kFloat32, unaligned), "8 lanes");
}

TEST(SoftmaxRegimes, SpreadLongRowsWithoutParts) {
  SoftmaxTraits old;
  old.longest_parts_bytes = 0;
  EXPECT_EQ(NameOf(32768, Element::kFloat32, old), "elements, 8 vectors");
  EXPECT_EQ(NameOf(32769, Element::kFloat32, old), "spread");
  EXPECT_EQ(NameOf(50257, Element::kBfloat16, old), "elements, 8 vectors");
}

// ---- how long rows are cut

constexpr int kHopperRing_bytes = (227 - 2) * 1024;  // and of data-center GPUs since

// Two launches at once, each with half of the SMs, or one beside a kernel that holds the other
// half: the slots must have room for a row, or all would wait for ever.
TEST(SoftmaxCut, HalfOfTheSmsHaveRoomForTheLongestRow) {
  for (const long processors : {8L, 16L, 64L, 108L, 114L, 132L, 148L, 160L}) {
    const long longest = LongestSoftmaxParts_bytes(processors, kHopperRing_bytes);
    // On few SMs a row may take all slots of five of them.
    const long holding = longest > 1L << 20 ? processors / 2 : 5;
    for (const Element element : {Element::kBfloat16, Element::kFloat32}) {
      for (const bool on_lines : {true, false}) {
        for (long bytes = longest; bytes > longest / 3; bytes -= 997) {
          const long columns = bytes / static_cast<long>(SizeOf(element));
          const SoftmaxRegime regime = SoftmaxRegimeOf(columns, element, {true, longest});
          ASSERT_EQ(regime.kind, SoftmaxRegimeKind::kParts) << columns;
          const auto* const shape =
              std::ranges::find(kSoftmaxPartShapes, 32 * regime.vectors, &SoftmaxPartShape::piece);
          const SoftmaxCut cut = CutSoftmaxRow(bytes, on_lines, *shape, kHopperRing_bytes);
          ASSERT_LE(cut.parts_of_row, holding * cut.slots)
              << bytes << " bytes, " << processors << " SMs, " << ToString(regime);
        }
      }
    }
  }
}

TEST(SoftmaxCut, TakesHalfOfTheRoom) {
  EXPECT_EQ(LongestSoftmaxParts_bytes(132, kHopperRing_bytes),
            132L * (kHopperRing_bytes - 24576) / 2);
  EXPECT_EQ(LongestSoftmaxParts_bytes(8, kHopperRing_bytes), 1L << 20);
  EXPECT_EQ(LongestSoftmaxParts_bytes(132, 3 * 40960 - 1), 0);
  EXPECT_EQ(LongestSoftmaxParts_bytes(132, 3 * 40960), 132L * (3 * 40960 - 24576) / 2);
}

// A row that does not begin at a line may reach into seven vectors more.
TEST(SoftmaxCut, TakesTheFewestPartsOfOneSize) {
  struct {
    long row_bytes;
    bool on_lines;
    int vectors;
    unsigned parts;
    int slots;
  } const cases[] = {{1L << 20, true, 2048, 32, 7},
                     {1L << 20, false, 2048, 33, 7},
                     {32768, true, 2048, 1, 7},
                     {32768 + 16, true, 1152, 2, 9},
                     {32768 - 16 * 7, false, 2048, 1, 7},
                     {32768 - 16 * 6, false, 1152, 2, 9},
                     {16, true, 128, 1, 9}};
  for (const auto& [row_bytes, on_lines, vectors, parts, slots] : cases) {
    const SoftmaxCut cut =
        CutSoftmaxRow(row_bytes, on_lines, {.piece = 128, .workers = 16}, kHopperRing_bytes);
    EXPECT_EQ(cut.vectors, vectors) << row_bytes;
    EXPECT_EQ(cut.parts_of_row, parts) << row_bytes;
    EXPECT_EQ(cut.slots, slots) << row_bytes;
  }
}

TEST(SoftmaxCut, PartsCoverTheRow) {
  for (const SoftmaxPartShape& shape : kSoftmaxPartShapes) {
    for (long bytes = 100'000; bytes < 13'000'000; bytes += 77'777) {
      const SoftmaxCut cut = CutSoftmaxRow(bytes, true, shape, kHopperRing_bytes);
      EXPECT_GE(cut.vectors * long{cut.parts_of_row}, bytes / 16);
      EXPECT_LT(cut.vectors * (long{cut.parts_of_row} - 1), bytes / 16);
      EXPECT_EQ(cut.vectors % shape.piece, 0);
      EXPECT_LE(cut.vectors, shape.piece * shape.workers);
      EXPECT_LE(16 * cut.vectors * cut.slots, kHopperRing_bytes);
      EXPECT_LE(cut.slots, kMostSoftmaxSlots);
    }
  }
}

// ---- what a softmax moves and takes

SoftmaxNeeds NeedsOfFused(long columns, const std::optional<SoftmaxRegimeKind>& regime) {
  SoftmaxProblem problem;
  problem.rows = 3;
  problem.columns = columns;
  return SoftmaxNeedsOf(SoftmaxVariant::kFused, problem, regime);
}

TEST(SoftmaxNeeds, FollowTheRegimeOfTheFusedSoftmax) {
  const auto needs_on = [](long columns, long longest_parts_bytes) {
    const SoftmaxTraits traits{.longest_parts_bytes = longest_parts_bytes};
    return NeedsOfFused(columns, SoftmaxRegimeOf(columns, Element::kFloat32, traits).kind);
  };
  for (const long longest : {0L, 1L << 20}) {
    for (const long columns : {33L, 1024L, 18432L, 32768L})
      EXPECT_EQ(needs_on(columns, longest).passes, 2) << columns;
    EXPECT_EQ(needs_on(32768, longest).workspace_bytes, 0U);
    EXPECT_EQ(needs_on(32769, longest).passes, longest > 0 ? 2 : 3);
    EXPECT_EQ(needs_on(32769, longest).workspace_bytes, kSoftmaxWorkspaceBytes);
  }
}

TEST(SoftmaxNeeds, OnTheHostAreOneReadAndOneWrite) {
  const auto host = OpenHostDevice(1);
  const auto regime = FusedRegimeOn(*host, kMostColumns, Element::kFloat32);
  EXPECT_EQ(NeedsOfFused(kMostColumns, regime).passes, 2);
  EXPECT_EQ(NeedsOfFused(kMostColumns, regime).workspace_bytes, 0U);
}

TEST(SoftmaxNeeds, OfTheOtherVariantsAreTheirOwn) {
  SoftmaxProblem problem;
  problem.rows = 3;
  problem.columns = 5;
  problem.element = Element::kFloat16;
  const auto needs = [&](SoftmaxVariant variant) { return SoftmaxNeedsOf(variant, problem, {}); };
  EXPECT_EQ(needs(SoftmaxVariant::kUnfused).passes, 8);
  EXPECT_EQ(needs(SoftmaxVariant::kUnfused).workspace_bytes, 2 * 3 * 5 * 2 + 3 * 4);
  EXPECT_EQ(needs(SoftmaxVariant::kBlockPerRow).passes, 4);
  EXPECT_EQ(needs(SoftmaxVariant::kBlockPerRow).workspace_bytes, 0);
  EXPECT_EQ(needs(SoftmaxVariant::kTwoPass).passes, 3);
  EXPECT_EQ(needs(SoftmaxVariant::kTwoPass).workspace_bytes, 0);
}

// A stream that takes blocks and never runs them.
class IdleStream : public WatchedStream {
 public:
  using WatchedStream::WatchedStream;
  [[nodiscard]] void* native() const override { return nullptr; }
  void EnqueueBlocks(int /*blocks*/, std::function<void(int)> /*block*/) override { ++launches; }
  int launches = 0;
};

TEST(LaunchSoftmax, TakesWhatItHasAKernelFor) {
  const auto host = OpenHostDevice(1);
  const auto stream = host->CreateStream({});
  IdleStream idle(*stream);
  const auto refused = [&](long rows, long columns, Element element) {
    SoftmaxProblem problem;
    problem.rows = rows;
    problem.columns = columns;
    problem.element = element;
    return Thrown<Error>([&] { LaunchSoftmax(idle, SoftmaxVariant::kFused, problem); });
  };
  constexpr long kMost = 2147483647;
  EXPECT_EQ(refused(1, 1, Element::kFloat64), "softmax has no kernel for float64");
  EXPECT_EQ(refused(1, 1, Element::kInt32), "softmax has no kernel for int32");
  EXPECT_EQ(refused(-1, 7, Element::kFloat32), "softmax does not support -1 rows of 7 columns");
  EXPECT_EQ(refused(kMost + 1, 1, Element::kFloat32),
            "softmax does not support 2147483648 rows of 1 columns");
  EXPECT_EQ(refused(1, 0, Element::kFloat32), "softmax does not support 1 rows of 0 columns");
  EXPECT_EQ(refused(1, kMost + 1, Element::kFloat32),
            "softmax does not support 1 rows of 2147483648 columns");
  EXPECT_EQ(refused(0, kMost, Element::kFloat16), "nothing");
  EXPECT_EQ(idle.launches, 0) << "there are no rows";
  EXPECT_EQ(refused(kMost, kMost, Element::kBfloat16), "nothing");
  EXPECT_EQ(refused(1, 1, Element::kFloat32), "nothing");
  EXPECT_EQ(idle.launches, 2);
}

// The most threads of a block with this many vectors per thread.
int MostThreads(int vectors) { return vectors == 6 ? 768 : vectors == 5 ? 832 : 1024; }

// What the kernels rely on: a row fits what its regime gives it.
void RequireRoom(long columns, Element element, const SoftmaxTraits& traits) {
  const long vector = 16 / static_cast<long>(SizeOf(element));
  const long vectors = (columns + vector - 1) / vector;
  const auto regime = SoftmaxRegimeOf(columns, element, traits);
  switch (regime.kind) {
    case SoftmaxRegimeKind::kLanes:
      ASSERT_LE(vectors, regime.lanes * regime.vectors) << columns;
      // A lane has room for one edge.
      ASSERT_TRUE(traits.aligned || regime.lanes >= 2 * (vector - 1)) << columns;
      break;
    case SoftmaxRegimeKind::kExponentials:
    case SoftmaxRegimeKind::kElements:
      ASSERT_LE(vectors, regime.vectors * MostThreads(regime.vectors)) << columns;
      break;
    case SoftmaxRegimeKind::kParts:  // as many as it takes
      ASSERT_GT(traits.longest_parts_bytes, 0) << columns;
      break;
    case SoftmaxRegimeKind::kSpread:
      ASSERT_EQ(traits.longest_parts_bytes, 0)
          << columns << " columns have no regime that reads once";
  }
}

TEST(SoftmaxRegimes, FitTheirRows) {
  for (const Element element : kElements) {
    for (long columns = 1; columns <= kMostColumns; ++columns) {
      const bool may_be_aligned = columns * SizeOf(element) % 16 == 0;
      for (const long longest : {0L, 1L << 20}) {
        RequireRoom(columns, element, {false, longest});
        if (may_be_aligned) RequireRoom(columns, element, {true, longest});
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace overlapbench
