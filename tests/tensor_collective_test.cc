// Collectives on tensors: which rows each poisons, writes and checks, whole and in slices, what it
// costs, and what its results are compared with.
#include "comm/tensor_collective.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/received.h"
#include "kernels/linear.h"
#include "noting_transports.h"
#include "test_ranks.h"
#include "thrown.h"
#include "watched_stream.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 5;
constexpr long kColumns = 16;

// A stream that copies nothing.
class NoStream : public WatchedStream {
 public:
  using WatchedStream::WatchedStream;
  void Copy(void* /*destination*/, const void* /*source*/, std::size_t /*bytes*/) override {
    throw Error("no such stream");
  }
};

// Calls that all have the same `receive`.
struct Case {
  std::string name;
  std::vector<TensorCall> calls;
  long first;        // row of `receive` that they write
  long rows;         // how many
  bool poisons_all;  // not only what they write
  long moved_rows;   // as their cost counts them
  double bus_factor;
  long slices = 1;  // of each call
  CallOrder order = CallOrder::kInTurn;
};

class TensorCollectiveTest : public RanksOnEachBackend {
 protected:
  using Rows = std::vector<std::vector<std::byte>>;

  int ranks() const { return TestRanks().size(); }
  int rank() const { return TestRanks().rank(); }
  SharedTensor Make(TensorShape shape) {
    shape.element = LayerElement(device());
    SharedTensor tensor = MakeTensor(device(), shape);
    tensor->Connect();
    return tensor;
  }
  SharedTensor MakeRows(long rows) { return Make({.rows = rows, .columns = kColumns}); }
  std::unique_ptr<Workload> MakeCollective(std::vector<TensorCall> calls,
                                           CallOrder order = CallOrder::kInTurn) {
    Settings settings;
    for (const Axis& axis : TransportAxes(machine())) settings.Set(axis, axis.standing);
    auto collective = MakeTensorCollective(
        machine(),
        std::make_shared<LaneCommunicator>(std::make_shared<Transports>(machine()), settings),
        std::move(calls), kSeed, order);
    collective->Connect();
    return collective;
  }

  Rows Held(const Tensor& tensor) {
    Rows held(tensor.shape().rows);
    for (std::size_t row = 0; row < held.size(); ++row) {
      held[row].resize(kColumns * SizeOf(tensor.shape().element));
      stream().Copy(held[row].data(), tensor.Row(static_cast<long>(row)), held[row].size());
    }
    Finish();
    return held;
  }
  // Whether any rank refuses the result.
  bool Refused(Workload& collective) {
    std::array refused = {collective.Verify(stream()).fault.empty() ? 0.0 : 1.0};
    TestRanks().Max(refused, "agreeing on a verdict");
    return refused[0] != 0;
  }
  // The parts from the last to the first, without one.
  void RunParts(Workload& collective, long parts, long missing) {
    for (long part = parts - 1; part >= 0; --part)
      if (part != missing) collective.EnqueuePart(stream(), {part, parts});
    Finish();
  }
  void ExpectPoisons(const Case& one, Workload& collective);
  void ExpectWrites(const Case& one, Workload& collective);
  // Row `row` of a case's `receive`.
  bool IsOwn(const Case& one, long row) const {
    return row >= one.first && (row - one.first) / (one.rows / ranks()) == rank();
  }
  bool IsWritten(const Case& one, long row) const {
    const bool stays = one.calls.front().own_stays && IsOwn(one, row);
    return row >= one.first && row < one.first + one.rows && !stays;
  }
};
INSTANTIATE_ON_EACH_BACKEND(TensorCollectiveTest);

void TensorCollectiveTest::ExpectPoisons(const Case& one, Workload& collective) {
  const TensorCall& call = one.calls.front();
  const Tensor& receive = *call.receive;
  const Rows zeros(receive.shape().rows,
                   std::vector<std::byte>(kColumns * SizeOf(receive.shape().element)));
  const std::vector<std::byte> poison(zeros.front().size(), std::byte{0xFF});
  for (long row = 0; row < receive.shape().rows; ++row)
    stream().Copy(receive.Row(row), zeros[row].data(), poison.size());
  Finish();
  collective.Reset(stream());
  const Rows held = Held(receive);
  for (long row = 0; row < receive.shape().rows; ++row) {
    const bool in_place = IsInPlace(call);
    const bool is_poisoned = in_place ? !Adds(call.operation) && !IsOwn(one, row)
                                      : one.poisons_all || IsWritten(one, row);
    EXPECT_EQ(held[row] == poison, is_poisoned) << row;
    EXPECT_EQ(held[row] == zeros[row], !is_poisoned && !in_place) << row;
  }
  EXPECT_TRUE(Refused(collective)) << "nothing was moved";
}

// Of a call that has run: all that it writes is checked, and nothing else.
void TensorCollectiveTest::ExpectWrites(const Case& one, Workload& collective) {
  const Tensor& receive = *one.calls.front().receive;
  const Rows held = Held(receive);
  for (long row = 0; row < receive.shape().rows; ++row) {
    receive.PoisonRows(stream(), row, 1);
    EXPECT_EQ(collective.Verify(stream()).fault.empty(), !IsWritten(one, row)) << row;
    stream().Copy(receive.Row(row), held[row].data(), held[row].size());
    Finish();
  }
}

TEST_P(TensorCollectiveTest, PoisonsWritesAndChecksItsRows) {
  if (ranks() == 1) GTEST_SKIP() << "one rank moves nothing";
  using enum Operation;
  const long n = 4L * ranks();
  const double share = 1 - 1.0 / ranks();
  const SharedTensor summed = MakeRows(n);
  const SharedTensor blocks =
      Make({.rows = n, .columns = kColumns, .blocks = ranks(), .is_shared = true});
  const TensorCall upper{kAllReduce, MakeRows(n + 2), MakeRows(n + 2), 1, 1, 2};
  TensorCall lower = upper;
  lower.send_row = lower.receive_row = 3;
  lower.rows = n - 2;
  const std::vector<Case> cases = {
      {"a ring",
       {{kShiftRing, MakeRows(n), MakeRows(n + 3), 1, 2, 4, ranks() - 1}},
       2,
       4,
       false,
       4,
       1,
       2},
      {"sums", {upper, lower}, 1, n, false, n, 2 * share, 2},
      {"sums together", {upper, lower}, 1, n, false, n, 2 * share, 1, CallOrder::kTogether},
      {"a sum in place", {{kAllReduce, summed, summed->Alias()}}, 0, n, false, n, 2 * share},
      {"a gather", {{kAllGather, MakeRows(6), MakeRows(n + 3), 2, 1, n}}, 1, n, true, n, share},
      {"a gather in place", {{kAllGather, blocks, blocks}}, 0, n, false, n, share},
      {"an exchange",
       {{kAllToAll, MakeRows(2 * n), MakeRows(2 * n), n, n, n}},
       n,
       n,
       true,
       n,
       share},
      {"an exchange without own rows",
       {{kAllToAll, MakeRows(n), MakeRows(n), 0, 0, 0, 1, true}},
       0,
       n,
       true,
       n,
       share},
      {"scattered sums", {{kReduceScatter, MakeRows(n), MakeRows(4)}}, 0, 4, true, n, share}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const auto collective = MakeCollective(one.calls, one.order);
    const TensorShape& shape = one.calls.front().send->shape();
    const auto element_bytes = static_cast<double>(SizeOf(shape.element));
    EXPECT_DOUBLE_EQ(collective->cost().wire_bytes, one.moved_rows * kColumns * element_bytes);
    EXPECT_DOUBLE_EQ(collective->cost().bus_factor, one.bus_factor);
    ExpectPoisons(one, *collective);
    const Rows before = Held(*one.calls.front().receive);
    collective->Enqueue(stream());
    EXPECT_FALSE(Refused(*collective));
    EXPECT_EQ(collective->Fingerprint(),
              one.calls.front().receive->Fingerprint(machine(), stream()));
    const Rows after = Held(*one.calls.front().receive);
    for (std::size_t row = 0; row < before.size(); ++row) {
      if (!IsWritten(one, static_cast<long>(row))) {
        EXPECT_EQ(after[row], before[row]) << row;
      }
    }
    ExpectWrites(one, *collective);
    const auto parts = static_cast<long>(one.calls.size()) * one.slices;
    for (long missing = -1; missing < parts && parts > 1; ++missing) {
      collective->Reset(stream());
      RunParts(*collective, parts, missing);
      EXPECT_EQ(Refused(*collective), missing >= 0) << "without part " << missing;
    }
  }
}

TEST_P(TensorCollectiveTest, AGatherInPlaceSendsItsOwnBlock) {
  const SharedTensor blocks =
      Make({.rows = 4L * ranks(), .columns = kColumns, .blocks = ranks(), .is_shared = true});
  const auto transports = std::make_shared<NotingTransports>(machine());
  const auto gather =
      MakeTensorCollective(machine(), std::make_shared<LaneCommunicator>(transports, Settings()),
                           {{Operation::kAllGather, blocks, blocks}}, kSeed, CallOrder::kInTurn);
  gather->Connect();
  gather->Enqueue(stream());
  EXPECT_EQ(transports->communicator->calls.back().send, blocks->Row(4L * rank()));
}

// One scratch memory, as large as the call that needs most.
TEST_P(TensorCollectiveTest, CallsShareTheirScratchMemory) {
  const TensorCall few{Operation::kAllReduce, MakeRows(8), MakeRows(8), 0, 0, 2};
  TensorCall many = few;
  many.send_row = many.receive_row = 2;
  many.rows = 6;
  for (const std::size_t factor : {0U, 4U}) {
    const auto transports = std::make_shared<NotingTransports>(machine(), factor);
    NotingCommunicator& noted = *transports->communicator;
    const auto sums = MakeTensorCollective(
        machine(), std::make_shared<LaneCommunicator>(transports, Settings()), {many, few}, kSeed);
    sums->Connect();
    EXPECT_EQ(noted.allocated, factor == 0 ? std::vector<std::size_t>{}
                                           : std::vector<std::size_t>{factor * 6 * kColumns});
    sums->Enqueue(stream());
    ASSERT_EQ(noted.calls.size(), 2U);
    EXPECT_EQ(noted.calls[0].count, 6 * kColumns);
    EXPECT_EQ(noted.calls[1].count, 2 * kColumns);
    for (const CollectiveCall& call : noted.calls) EXPECT_EQ(call.scratch != nullptr, factor > 0);
    EXPECT_EQ(sums->IneffectiveKnob(), "it took another kernel");
    EXPECT_EQ(noted.proven.front().count, 6 * kColumns);
    EXPECT_EQ(noted.proven.front().send, many.send->Row(2));
    EXPECT_EQ(sums->sms(), 7);
  }
}

// The sum is compared with what the ranks' `send` hold, whatever they should hold.
TEST_P(TensorCollectiveTest, ASumOfHeldValuesIsComparedWithTheirSum) {
  const SharedTensor send = MakeRows(8);
  const SharedTensor receive = MakeRows(8);
  const auto sum = MakeCollective(
      {{.operation = Operation::kAllReduce, .send = send, .receive = receive, .of_held = true}});
  sum->Reset(stream());
  send->Fill(stream(), rank(), kSeed + 100);
  send->Expect([](int, long, long) { return 4.0; }, [] { return RoundingError(); });
  sum->Enqueue(stream());
  const Verdict verdict = sum->Verify(stream());
  EXPECT_EQ(verdict.fault, "");
  EXPECT_DOUBLE_EQ(verdict.tolerance,
                   ErrorOfStoredSums({}, ranks(), send->shape().element).Limit(kCheckedElements));
  EXPECT_EQ(sum->Fingerprint(), receive->Fingerprint(machine(), stream()));
  send->Fill(stream(), rank(), kSeed + 200);
  EXPECT_NE(sum->Verify(stream()).fault, "");
}

// Two rings write to one tensor, the second from two ranks before, where there are three.
TEST_P(TensorCollectiveTest, RowsAreExpectedFromTheRankThatSendsThem) {
  const SharedTensor first = MakeRows(4);
  const SharedTensor second = MakeRows(4);
  const SharedTensor receive = MakeRows(9);
  const int shift = 2 % ranks();
  const auto rings = MakeCollective({{Operation::kShiftRing, first, receive, 1, 2, 3, 1 % ranks()},
                                     {Operation::kShiftRing, second, receive, 0, 5, 2, shift}});
  rings->Reset(stream());
  second->Fill(stream(), rank(), kSeed + 100);
  rings->PoisonResult(stream());
  Finish();
  const auto before = [&](int distance) { return (rank() - distance + 2 * ranks()) % ranks(); };
  for (long row = 0; row < 9; ++row) {
    const auto expected = [&] { return receive->Expected(rank(), row, 7); };
    if (row >= 2 && row < 5) {
      EXPECT_EQ(expected(), first->Expected(before(1 % ranks()), row - 1, 7)) << row;
    } else if (row >= 5 && row < 7) {
      EXPECT_EQ(expected(), second->Expected(before(shift), row - 5, 7)) << row;
    } else {
      EXPECT_EQ(Thrown<Error>(expected), "no rank sends these rows") << row;
    }
  }
}

// Like the threads that verify a sample: each caches its own last sum.
TEST_P(TensorCollectiveTest, ConcurrentReadersGetTheSameExpectedSum) {
  const SharedTensor send = Make({.rows = 64, .columns = 64});
  const SharedTensor receive = Make({.rows = 64, .columns = 64});
  const auto sum = MakeCollective({{Operation::kAllReduce, send, receive}});
  sum->Reset(stream());
  Finish();
  const auto wrong = [&](long first) {
    int count = 0;
    for (long i = first; i < first + 200000; ++i) {
      const long row = i % 64;
      const long column = i % 63;
      double expected = 0;
      for (int from = 0; from < ranks(); ++from) expected += send->Expected(from, row, column);
      for (int again = 0; again < 2; ++again)  // the second time from the cache
        if (receive->Expected(rank(), row, column) != expected) ++count;
    }
    return count;
  };
  std::vector<std::future<int>> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.push_back(std::async(std::launch::async, wrong, 999L * i));
  for (std::future<int>& thread : threads) EXPECT_EQ(thread.get(), 0);
}

// Moved values are as exact as those sent. A sum's errors add up, and it is rounded once a rank.
TEST_P(TensorCollectiveTest, ACollectiveIsAsExactAsItsInputsAndItsAdditions) {
  constexpr RoundingError kSent{0.25, 0.125};
  const long rows = 6L * ranks();
  const SharedTensor send = MakeRows(rows);
  const SharedTensor receive = MakeRows(rows);
  send->Expect([](int, long, long) { return 1.0; }, [kSent] { return kSent; });
  for (const auto& [operation, error] :
       {std::pair{Operation::kShiftRing, kSent},
        {Operation::kAllGather, kSent},
        {Operation::kAllToAll, kSent},
        {Operation::kAllReduce, ErrorOfStoredSums(kSent, ranks(), send->shape().element)}}) {
    const auto collective = MakeCollective({{operation, send, receive}});
    collective->PoisonResult(stream());
    Finish();
    EXPECT_DOUBLE_EQ(receive->error().own, error.own);
    EXPECT_DOUBLE_EQ(receive->error().walk, error.walk);
  }
}

// A rank that cannot read what it sends must not leave the others in another collective.
TEST_P(TensorCollectiveTest, AFailedCheckOfASumIsAnErrorOnAllRanks) {
  const SharedTensor send = MakeRows(8);
  const SharedTensor receive = MakeRows(8);
  const auto sum = MakeCollective(
      {{.operation = Operation::kAllReduce, .send = send, .receive = receive, .of_held = true}});
  NoStream broken(stream());
  Stream& used = rank() == ranks() - 1 ? broken : stream();
  sum->Reset(stream());
  Finish();
  std::string text;
  try {
    TestRanks().Together("verifying", [&] { sum->Verify(used); });
  } catch (const AgreedError& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("no such stream"), std::string::npos) << text;
  TestRanks().Barrier("the ranks still meet");
}

// Ranks must tell what the others send this time from what they sent before, whether a graph
// repeats a call or the host launches it. Short messages are mail in some transports.
TEST_P(TensorCollectiveTest, AGraphAddsWhatItsInputsHoldAtEachLaunch) {
  constexpr int kCalls = 3;  // odd, so that what takes turns is in another place at each launch
  Settings standing;
  for (const Axis& axis : TransportAxes(machine())) standing.Set(axis, axis.standing);
  int measured = 0;
  std::vector<std::string> transports = {"nccl",    "nccl_sym", "copy",
                                         "sm_load", "sm_store", "sm_bulk"};
  if (GetParam() == Backend::kHost) transports = {"mpi"};
  for (const std::string& transport : transports) {
    for (const long rows : {256L, 1L << 13}) {
      const TensorShape shape{.element = LayerElement(device()), .rows = rows, .columns = kColumns};
      const Settings settings = standing.With("transport", transport)
                                    .With("bytes", std::to_string(shape.bytes()))
                                    .With("place", "out");
      if (!NoTransport(machine(), {Operation::kAllReduce}, settings).empty()) continue;
      SCOPED_TRACE(transport + (", rows: " + std::to_string(rows)));
      ++measured;
      const auto communicator =
          std::make_shared<LaneCommunicator>(std::make_shared<Transports>(machine()), settings);
      const SharedTensor send = MakeTensor(communicator, shape);
      std::vector<SharedTensor> receives;
      std::vector<std::unique_ptr<Workload>> sums;
      for (int call = 0; call < kCalls; ++call) {
        receives.push_back(MakeTensor(communicator, shape));
        sums.push_back(MakeTensorCollective(machine(), communicator,
                                            {{.operation = Operation::kAllReduce,
                                              .send = send,
                                              .receive = receives.back(),
                                              .rows = rows,
                                              .of_held = true}},
                                            kSeed));
        sums.back()->Connect();
        sums.back()->Reset(stream());
      }
      const auto enqueue = [&](Stream& to) {
        for (const auto& sum : sums) sum->Enqueue(to);
      };
      enqueue(stream());
      Finish();
      const auto graph = device().Record(enqueue);
      for (std::uint32_t round = 1; round <= 4; ++round) {
        send->Fill(stream(), rank(), round * 1000);
        for (const SharedTensor& receive : receives) receive->PoisonRows(stream(), 0, rows);
        if (round % 3 == 0)
          enqueue(stream());
        else
          graph->Launch(stream());
        Finish();
        for (const auto& sum : sums) EXPECT_FALSE(Refused(*sum)) << "round " << round;
      }
    }
  }
  EXPECT_GT(measured, 0);
}

}  // namespace
}  // namespace overlapbench
