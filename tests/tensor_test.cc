// Tensors that ranks share, their expected values, and steps made of them: results that are wrong,
// in the wrong place, or another rank's are found.
#include "workload/tensor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/block_sum.h"
#include "kernels/expert_rows.h"
#include "kernels/layer_stack.h"
#include "kernels/linear.h"
#include "kernels/linked_layers.h"
#include "kernels/master_weights.h"
#include "kernels/reversed_rows.h"
#include "test_ranks.h"
#include "workload/tensor_step.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 5;

class TensorTest : public RanksOnEachBackend {
 protected:
  int ranks() const { return TestRanks().size(); }
  int rank() const { return TestRanks().rank(); }
  SharedTensor Make(TensorShape shape) {
    shape.element = LayerElement(device());
    SharedTensor tensor = MakeTensor(device(), shape);
    tensor->Connect();
    return tensor;
  }
  // A matrix of three rows for each rank.
  SharedTensor MakeBlocks(bool rotated, bool is_shared) {
    return Make({.rows = 3L * ranks(),
                 .columns = 40,
                 .blocks = ranks(),
                 .rotated = rotated,
                 .is_shared = is_shared});
  }
  std::string FaultOf(const SharedTensor& tensor) {
    return tensor->Verify(machine(), stream()).fault;
  }
  void Fill(const SharedTensor& tensor, int as_rank, std::uint32_t seed = kSeed) {
    tensor->Fill(stream(), as_rank, seed);
    stream().Synchronize(kPatience, "filling");
  }
  std::uint64_t FingerprintOf(const SharedTensor& tensor) {
    return tensor->Fingerprint(machine(), stream());
  }
};
INSTANTIATE_ON_EACH_BACKEND(TensorTest);

TEST_P(TensorTest, AcceptsTheExpectedValues) {
  for (const bool rotated : {false, true}) {
    for (const bool is_shared : {false, true}) {
      const SharedTensor tensor = MakeBlocks(rotated, is_shared);
      Fill(tensor, rank());
      EXPECT_EQ(FaultOf(tensor), "") << rotated << is_shared;
    }
  }
}

TEST_P(TensorTest, RejectsAnotherTensorsValues) {
  const SharedTensor tensor = MakeBlocks(false, false);
  Fill(tensor, rank() + 1);
  EXPECT_EQ(FaultOf(tensor).find("relative error"), 0U) << FaultOf(tensor);
  const SharedTensor other_seed = MakeBlocks(false, true);
  Fill(other_seed, rank(), kSeed + 100);
  const SharedTensor expected = MakeBlocks(false, true);
  Fill(expected, rank());
  other_seed->Expect(
      [&](int of, long row, long column) { return expected->Expected(of, row, column); },
      [] { return RoundingError(); });
  EXPECT_NE(FaultOf(other_seed), "");
}

// Where, what and what instead. The row is the tensor's own, also in a check of a part of it.
TEST_P(TensorTest, AFaultNamesAnElementAndWhatWasExpected) {
  const SharedTensor tensor = Make({.rows = 8, .columns = 1});
  Fill(tensor, rank());
  tensor->Expect([](int, long row, long) { return row == 7 ? 4.0 : 0.0; },
                 [] { return RoundingError{0.25}; });
  Poison(stream(), tensor->Row(0), tensor->shape().bytes());
  const std::vector<std::byte> zeros(tensor->shape().bytes());
  stream().Copy(tensor->Row(0), zeros.data(), zeros.size());
  const std::string fault = tensor->Verify(machine(), stream(), 7, 1).fault;
  EXPECT_NE(fault.find("relative error 0.5 is above 0.25: element [7,0] is 0, expected 4"),
            std::string::npos)
      << fault;
}

// Also on more ranks than these: another rank's data must never look right.
TEST_P(TensorTest, NoInputOfAStepEqualsAnotherOneOfAnyRank) {
  const SharedTensor tensor = Make({.rows = 1, .columns = 4});
  std::set<std::vector<double>> found;
  constexpr int kInputs = 4;
  constexpr int kMostRanks = 300;
  for (std::uint32_t input = 0; input < kInputs; ++input) {
    Fill(tensor, rank(), kSeed + input * TensorStep::kSeedsApart);
    for (int of = 0; of < kMostRanks; ++of) {
      std::vector<double> values;
      for (long column = 0; column < 4; ++column) values.push_back(tensor->Expected(of, 0, column));
      found.insert(values);
    }
  }
  EXPECT_EQ(found.size(), kInputs * kMostRanks);
}

// Of all works that fill their own inputs: one read in place of another could look right.
TEST_P(TensorTest, InputsOfAWorkDiffer) {
  const auto make = [&] { return Make({.rows = 16, .columns = 16}); };
  const auto expect_different = [&](const char* name, const std::unique_ptr<Workload>& workload,
                                    const std::vector<SharedTensor>& inputs) {
    workload->Connect();
    workload->Reset(stream());
    stream().Synchronize(kPatience, "filling");
    std::set<std::vector<double>> found;
    for (const SharedTensor& input : inputs) {
      std::vector<double> values;
      for (long column = 0; column < 8; ++column)
        values.push_back(input->Expected(rank(), 0, column));
      found.insert(values);
    }
    EXPECT_EQ(found.size(), inputs.size()) << name;
  };
  const LinearProblem linear{make(), make(), make(), make()};
  expect_different("linear", MakeLinear(machine(), {linear}), {linear.a, linear.w, linear.added});
  const BlockSum sum{make(), make(), make()};
  expect_different("sum", MakeBlockSum(machine(), sum), {sum.own, sum.arrivals});
  const LayerStack stack(device(), 1, 16, 16, make());
  expect_different("pass", MakeLinear(machine(), stack.Backward()),
                   {stack.inputs, stack.weights, stack.transposed});
  const SharedTensor sums = make();
  expect_different("update", MakeUpdate(machine(), stack, sums, kSeed), {stack.weights, sums});
  const auto tied = std::make_shared<LinkedLayers>(device(), 1, 0, make(), make());
  expect_different("tied layers", MakeLinkedLayers(machine(), tied, LayerRows::kTied, kSeed),
                   {tied->inputs, tied->weights, tied->sums});
  const MasterWeights master(device(), make(), make());
  expect_different("master", MakeMasterUpdate(machine(), master, kSeed),
                   {master.master, master.gradients});
}

TEST_P(TensorTest, RejectsAnUnwrittenRow) {
  const SharedTensor tensor = MakeBlocks(true, true);
  Fill(tensor, rank());
  tensor->PoisonRows(stream(), 1, 1);
  stream().Synchronize(kPatience, "poisoning");
  const std::string fault = FaultOf(tensor);
  EXPECT_EQ(fault.find("element [1,"), 0U) << fault;
}

// The same matrix, whatever the order in which its blocks are stored.
TEST_P(TensorTest, FingerprintDoesNotDependOnTheStorageOrder) {
  const SharedTensor plain = MakeBlocks(false, true);
  const SharedTensor rotated = MakeBlocks(true, true);
  Fill(plain, rank());
  Fill(rotated, rank());
  EXPECT_EQ(FingerprintOf(plain), FingerprintOf(rotated));
  Fill(rotated, rank(), kSeed + 100);
  EXPECT_NE(FingerprintOf(plain), FingerprintOf(rotated));
}

TEST_P(TensorTest, AnAliasSharesMemoryButHasItsOwnExpectedValues) {
  const SharedTensor tensor = MakeBlocks(false, true);
  const SharedTensor alias = tensor->Alias();
  Fill(tensor, rank());
  EXPECT_EQ(alias->Row(2), tensor->Row(2));
  EXPECT_TRUE(alias->Shares(*tensor));
  EXPECT_FALSE(MakeBlocks(false, true)->Shares(*tensor));
  alias->Expect([](int, long, long) { return 4.0; }, [] { return RoundingError(); });
  EXPECT_NE(FaultOf(alias), "");
  EXPECT_EQ(FaultOf(tensor), "");
}

// An operation in place sets the alias's values; without one, they are the tensor's.
TEST_P(TensorTest, AnAliasWithoutExpectationsUsesThoseOfItsMemory) {
  const SharedTensor tensor = MakeBlocks(false, true);
  const SharedTensor alias = tensor->Alias();
  const auto four = [](int, long, long) { return 4.0; };
  const auto five = [](int, long, long) { return 5.0; };
  const auto exact = [] { return RoundingError(); };
  Fill(alias, rank());
  EXPECT_EQ(FaultOf(alias), "");
  tensor->Expect(four, exact);
  EXPECT_EQ(alias->Expected(0, 0, 0), 4);
  alias->Expect(five, exact);
  EXPECT_EQ(alias->Expected(0, 0, 0), 5);
  EXPECT_EQ(tensor->Expected(0, 0, 0), 4);
  Fill(alias, rank());
  EXPECT_EQ(FaultOf(alias), "");
}

TEST_P(TensorTest, OnlyTheLastTensorInSharedMemoryIsLeft) {
  const SharedTensor own = MakeBlocks(false, false);
  const SharedTensor memory = MakeBlocks(false, false);
  const SharedTensor early = memory->Alias();
  const SharedTensor late = memory->Alias();
  const auto left = LeftOf({{early, 0, 3}, {own, 0, 1}, {late, 0, 3}, {own, 2, 1}});
  ASSERT_EQ(left.size(), 3U);
  EXPECT_EQ(left[0].tensor, own);
  EXPECT_EQ(left[1].tensor, late);
  EXPECT_EQ(left[2].tensor, own) << "another piece of it";
  EXPECT_EQ(left[2].first, 2);
}

TEST_P(TensorTest, ACheckFindsAFaultInAnyTensorThatIsLeft) {
  const std::vector<SharedTensor> tensors = {MakeBlocks(false, false), MakeBlocks(false, false)};
  const auto check = [&] {
    return CheckLeft(machine(), stream(), {{tensors[0], 0, 3}, {tensors[1], 0, 3}});
  };
  for (const SharedTensor& tensor : tensors) Fill(tensor, rank());
  const Result right = check();
  EXPECT_EQ(right.verdict.fault, "");
  for (const SharedTensor& wrong : tensors) {
    Fill(wrong, rank() + 1);
    const std::uint64_t other = check().fingerprint;
    wrong->Expect([](int, long, long) { return 4.0; }, [] { return RoundingError(); });
    EXPECT_NE(check().verdict.fault, "");
    EXPECT_NE(other, right.fingerprint);
    Fill(wrong, rank());
  }
}

// The second product reads what the first one makes.
TEST_P(TensorTest, ProductsInARowAreSharedByTheParts) {
  const SharedTensor between = Make({.rows = 32, .columns = 48});
  const SharedTensor d = Make({.rows = 32, .columns = 16});
  std::vector<LinearProblem> problems = {
      {.a = Make({.rows = 32, .columns = 16}),
       .w = Make({.rows = 16, .columns = 48}),
       .d = between},
      {.a = between, .w = Make({.rows = 48, .columns = 16}), .d = d}};
  const auto linear = MakeLinear(machine(), problems);
  linear->Reset(stream());
  linear->EnqueuePart(stream(), {0, 2});
  EXPECT_NE(linear->Verify(stream()).fault, "");
  linear->EnqueuePart(stream(), {1, 2});
  EXPECT_EQ(linear->Verify(stream()).fault, "");
  EXPECT_DOUBLE_EQ(linear->cost().flops, 2 * 2 * 32 * 16 * 48);
  EXPECT_THROW(linear->EnqueuePart(stream(), {0, 3}), Error);
}

TEST_P(TensorTest, AProductAddsItsAddend) {
  for (const bool adds : {false, true}) {
    const SharedTensor d = Make({.rows = 32, .columns = 48});
    LinearProblem problem{.a = Make({.rows = 64, .columns = 80}),
                          .w = Make({.rows = 80, .columns = 48}),
                          .added = adds ? Make({.rows = 32, .columns = 48}) : nullptr,
                          .d = d,
                          .a_row = 16,
                          .seed = kSeed};
    const auto linear = MakeLinear(machine(), {problem});
    linear->Reset(stream());
    for (long part = 0; part < 4; ++part) linear->EnqueuePart(stream(), {part, 4});
    EXPECT_EQ(linear->Verify(stream()).fault, "") << adds;
    problem.a_row = 0;
    const auto other = MakeLinear(machine(), {problem});
    other->Enqueue(stream());
    EXPECT_NE(d->Verify(machine(), stream()).fault, "") << "the product of other rows";
  }
}

// Row 0 is the sum of row 1 and the first of two more rows; row 1 is the sum of row 0 twice. Rows
// 2, none and 0 are copied.
TEST_P(TensorTest, RowsAreCopiedAndSummedInEveryElementType) {
  const std::vector<std::int32_t> sources = {2, 1, 0, 0, 2, -1, 0};
  const std::vector<float> weights = {0.5F, 0.25F, 1.0F, 0.5F};
  const auto on_device = [&](const auto& values) {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    Buffer buffer = device().Allocate(bytes, MemoryKind::kDevice);
    stream().Copy(buffer.data(), values.data(), bytes);
    return buffer;
  };
  const Buffer source = on_device(sources);
  const Buffer weight = on_device(weights);
  const auto* const rows = static_cast<const std::int32_t*>(source.data());
  for (const Element element : {Element::kFloat32, Element::kFloat16, Element::kBfloat16}) {
    const auto make = [&](long count) {
      SharedTensor tensor =
          MakeTensor(device(), {.element = element, .rows = count, .columns = 48});
      tensor->Connect();
      tensor->PoisonRows(stream(), 0, count);
      return tensor;
    };
    const SharedTensor input = make(3);
    const SharedTensor more = make(2);
    const SharedTensor summed = make(2);
    const SharedTensor copied = make(3);
    input->Fill(stream(), rank(), kSeed);
    more->Fill(stream(), rank(), kSeed + 1);
    EnqueueRowSum(stream(), {.element = element,
                             .columns = 48,
                             .rows = 2,
                             .terms = 2,
                             .output = summed->Row(0),
                             .input = input->Row(0),
                             .input_rows = 2,
                             .more = more->Row(0),
                             .source = rows,
                             .weight = static_cast<const float*>(weight.data())});
    EnqueueRowCopy(stream(), {element, 48, 3, copied->Row(0), input->Row(0), rows + 4});
    summed->Expect(
        [&](int of, long row, long column) {
          return row == 0
                     ? 0.5 * more->Expected(of, 0, column) + 0.25 * input->Expected(of, 1, column)
                     : 1.5 * input->Expected(of, 0, column);
        },
        [&] { return ErrorOfSum(2).Stored(element); });
    copied->Expect(
        [&](int of, long row, long column) {
          return row == 1 ? 0 : input->Expected(of, sources[4 + row], column);
        },
        [] { return RoundingError(); });
    stream().Synchronize(kPatience, "copying rows");
    EXPECT_EQ(FaultOf(summed), "") << ToString(element);
    EXPECT_EQ(FaultOf(copied), "") << ToString(element);
  }
}

// In float32, and rounded once.
TEST_P(TensorTest, MasterWeightsAreUpdatedAndConverted) {
  const TensorShape shape{.element = Element::kBfloat16, .rows = 12, .columns = 16};
  const MasterWeights weights(device(), MakeTensor(device(), shape), MakeTensor(device(), shape));
  const auto update = MakeMasterUpdate(machine(), weights, kSeed);
  const auto convert = MakeConversion(machine(), weights, kSeed);
  update->Connect();
  convert->Connect();
  convert->Reset(stream());
  update->Reset(stream());
  for (long part = 0; part < 3; ++part) update->EnqueuePart(stream(), {part, 3});
  for (long part = 0; part < 3; ++part) convert->EnqueuePart(stream(), {part, 3});
  const Verdict updated = update->Verify(stream());
  EXPECT_EQ(updated.fault, "");
  EXPECT_LT(updated.max_rel_err, 1e-6);
  const Verdict converted = convert->Verify(stream());
  EXPECT_EQ(converted.fault, "");
  constexpr double kHalfUnit = 1.0 / 512;  // of bfloat16, and values are below 2
  EXPECT_LE(converted.max_rel_err, 2 * kHalfUnit);
  EXPECT_THROW(update->EnqueuePart(stream(), {0, 7}), Error);
}

// Rows 0 to 3, 4 to 7 and 8 to 11 occupy the same memory in turn.
TEST_P(TensorTest, MayKeepOnlyItsLastRows) {
  const SharedTensor tensor = Make({.rows = 12, .columns = 16, .kept_rows = 4});
  EXPECT_EQ(tensor->shape().bytes(), std::size_t{4} * 16 * SizeOf(LayerElement(device())));
  EXPECT_EQ(tensor->Row(9), tensor->Row(1));
  Fill(tensor, rank());
  EXPECT_EQ(tensor->Expected(0, 9, 3), tensor->Expected(0, 1, 3));
  EXPECT_EQ(tensor->Verify(machine(), stream(), 8, 4).fault, "");
  tensor->PoisonRows(stream(), 5, 1);
  EXPECT_NE(tensor->Verify(machine(), stream(), 9, 1).fault, "");
  EXPECT_EQ(tensor->Verify(machine(), stream(), 10, 2).fault, "");
}

// Of 600 rows 300 are kept: row 300 has row 0's place in memory, and does not follow row 299.
TEST_P(TensorTest, RowsReadInBatchesMatchMemory) {
  const SharedTensor tensor = Make({.rows = 600, .columns = 16, .kept_rows = 300});
  Fill(tensor, rank());
  HeldRows held(stream(), kPatience);
  const std::vector<float> first = held.Row(tensor, 0);
  held.Row(tensor, 298);
  held.Row(tensor, 299);
  EXPECT_EQ(held.Row(tensor, 300), first);
  EXPECT_NE(held.Row(tensor, 299), first);
  for (long row = 1; row < 300; ++row) EXPECT_NE(held.Row(tensor, row), first) << row;
}

// The tensor changes between requests, so each row shows when it was read: 256 rows at once, from
// that behind a row that was read already.
TEST_P(TensorTest, RowsAreReadOnceAndAheadOfTheirRequest) {
  const SharedTensor tensor = Make({.rows = 600, .columns = 16});
  std::vector<std::vector<std::vector<float>>> was;  // at each time
  const auto change = [&] {
    Fill(tensor, rank(), static_cast<std::uint32_t>(was.size()));
    HeldRows all(stream(), kPatience);
    was.emplace_back();
    for (long row = 0; row < 600; ++row) was.back().push_back(all.Row(tensor, row));
  };
  HeldRows held(stream(), kPatience);
  change();
  for (const long row : {0, 2}) held.Row(tensor, row);
  change();
  held.Row(tensor, 1);
  change();
  for (long row = 599; row >= 0; --row) {
    const std::size_t time = row == 0 || row == 2 ? 0 : row <= 256 ? 1 : 2;
    EXPECT_EQ(held.Row(tensor, row), was[time][row]) << row;
  }
}

// Rows in batches, from both ends, and whole columns. The last column is the last to be read.
TEST_P(TensorTest, ThreadsReadAtOnce) {
  constexpr long kRows = 300;
  constexpr long kLast = 2047;
  const SharedTensor tensor = Make({.rows = kRows, .columns = kLast + 1});
  Fill(tensor, rank());
  for (int round = 0; round < 5; ++round) {
    HeldRows held(stream(), kPatience);
    const auto wrong = [&](int thread) {
      device().UseInThisThread();
      int count = 0;
      for (long i = 0; i < kRows; ++i) {
        const long row = thread % 2 == 0 ? i : kRows - 1 - i;
        const auto value = static_cast<float>(tensor->Expected(rank(), row, kLast));
        const std::vector<float>& values = held.Row(tensor, row);
        count += std::ssize(values) != kLast + 1 || values[kLast] != value;
        if (i % 100 == 0) count += held.Column(tensor, kLast)[row] != value;
      }
      return count;
    };
    std::vector<std::future<int>> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.push_back(std::async(std::launch::async, wrong, thread));
    for (auto& thread : threads) EXPECT_EQ(thread.get(), 0);
  }
}

// Whether it is right or wrong: comparing takes long.
TEST_P(TensorTest, AResultIsComparedOnce) {
  const SharedTensor from = Make({.rows = 5, .columns = 16});
  const SharedTensor to = Make({.rows = 5, .columns = 16});
  TensorStep step = CopyStep(from, to, kSeed);
  std::atomic<int> asked = 0;
  step.expected = [&](HeldRows& held, long row, long column) {
    ++asked;
    return held.Row(from, row)[column];
  };
  const auto copy = MakeTensorStep(machine(), std::move(step));
  copy->Reset(stream());
  for (const bool is_right : {true, false}) {
    copy->Enqueue(stream());
    if (!is_right) to->Fill(stream(), rank(), kSeed + 1);
    EXPECT_EQ(copy->Verify(stream()).fault.empty(), is_right);
    EXPECT_GT(asked.exchange(0), 0);
    EXPECT_EQ(copy->Verify(stream()).fault.empty(), is_right);
    EXPECT_EQ(asked, 0);
  }
}

TEST_P(TensorTest, RowsAreReversed) {
  const SharedTensor from = Make({.rows = 5, .columns = 16});
  const SharedTensor to = Make({.rows = 5, .columns = 16});
  const auto reversed = MakeReversedRows(machine(), from, to, kSeed);
  reversed->Reset(stream());
  reversed->Enqueue(stream());
  EXPECT_EQ(reversed->Verify(stream()).fault, "");
  to->Expect([&](int of, long row, long column) { return from->Expected(of, row, column); },
             [] { return RoundingError(); });
  EXPECT_NE(FaultOf(to), "") << "in their old order";
}

}  // namespace
}  // namespace overlapbench
