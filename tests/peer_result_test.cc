// The results of our own plans, executed in memory, pass the collectives' verification on every
// rank, and no single wrong element does.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/peer_plan.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

constexpr long kSegment = 5;

struct Case {
  const char* name;
  Operation operation;
  bool in_place;
};
constexpr std::array kCases = {Case{"AllToAll", Operation::kAllToAll, false},
                               Case{"AllReduce", Operation::kAllReduce, false},
                               Case{"AllReduceInPlace", Operation::kAllReduce, true},
                               Case{"AllGather", Operation::kAllGather, false},
                               Case{"AllGatherInPlace", Operation::kAllGather, true},
                               Case{"ReduceScatter", Operation::kReduceScatter, false},
                               Case{"ReduceScatterInPlace", Operation::kReduceScatter, true},
                               Case{"Broadcast", Operation::kBroadcast, false},
                               Case{"BroadcastInPlace", Operation::kBroadcast, true},
                               Case{"ShiftRing", Operation::kShiftRing, false}};

// All ranks' buffers, as large as the larger one of each operation. In place, a rank has one.
class Node {
 public:
  Node(const Case& one, int ranks) : problem_{one.operation, ranks, kSegment, one.in_place, 0} {
    const CollectiveInput input = InputOf(one.operation, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const PeerBuffer buffer :
           {PeerBuffer::kSend, PeerBuffer::kReceive, PeerBuffer::kScratch})
        arrays_[{rank, buffer}].assign(ranks * kSegment, -1);
      arrays_[{rank, PeerBuffer::kMail}].assign(ranks * MoveCount(problem_, Direction::kMail), -1);
      const bool is_part = one.operation == Operation::kAllGather;
      float* const to =
          At({rank, PeerBuffer::kSend, is_part && one.in_place ? rank * kSegment : 0});
      for (long i = 0; i < (is_part ? kSegment : count()); ++i) to[i] = input.At(rank, i);
    }
  }
  void CarryOut(Direction direction) {
    std::vector<std::vector<MovePhase>> plans;
    for (int rank = 0; rank < problem_.ranks; ++rank)
      plans.push_back(PeerPlan(problem_, direction, rank));
    for (std::size_t phase = 0; phase < plans[0].size(); ++phase) {
      for (const auto& plan : plans)
        for (const Move& move : plan.at(phase)) CarryOut(move);
    }
  }
  // Elements of the larger buffer.
  [[nodiscard]] long count() const {
    return problem_.operation == Operation::kShiftRing ? kSegment : problem_.ranks * kSegment;
  }
  [[nodiscard]] long receive_count() const { return receives_part() ? kSegment : count(); }
  float* Received(int rank) {
    const bool is_inside = receives_part() && problem_.in_place;
    return At({rank, PeerBuffer::kReceive, is_inside ? rank * kSegment : 0});
  }

 private:
  [[nodiscard]] bool receives_part() const {
    return problem_.operation == Operation::kReduceScatter;
  }
  float* At(const Place& place) {
    const bool is_shared = problem_.in_place && place.buffer == PeerBuffer::kSend;
    return &arrays_.at({place.rank, is_shared ? PeerBuffer::kReceive : place.buffer})
                .at(place.first);
  }
  void CarryOut(const Move& move) {
    for (long i = 0; i < move.count; ++i) {
      float sum = 0;
      for (const Place& from : move.from) sum += At(from)[i];
      for (const Place& to : move.to) At(to)[i] = sum;
    }
  }

  PeerProblem problem_;
  std::map<std::pair<int, PeerBuffer>, std::vector<float>> arrays_;
};

class PeerResultTest : public testing::TestWithParam<Case> {
 protected:
  // What verification says of this rank's result.
  std::string Fault(Node& node, int ranks, int rank) {
    const auto expected = ExpectedOf(GetParam().operation, ranks, rank, node.count());
    return FindFault({*device_, TestRanks()}, *stream_, node.Received(rank), node.receive_count(),
                     Element::kFloat32, expected)
        .fault;
  }

 private:
  std::unique_ptr<Device> device_ = OpenHostDevice(1);
  std::unique_ptr<Stream> stream_ = device_->CreateStream();
};
INSTANTIATE_TEST_SUITE_P(Each, PeerResultTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(PeerResultTest, IsAcceptedAndRefusedWithOneWrongElement) {
  for (const Direction direction :
       {Direction::kLoad, Direction::kStore, Direction::kBoth, Direction::kMail}) {
    for (const int ranks : {2, 3, 4}) {
      Node node(GetParam(), ranks);
      node.CarryOut(direction);
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(Fault(node, ranks, rank), "") << "rank " << rank << " of " << ranks;
        for (long i = 0; i < node.receive_count(); ++i) {
          float& element = node.Received(rank)[i];
          const float right = element;
          element += 1;
          const std::string at = "element " + std::to_string(i) + " of ";
          EXPECT_EQ(Fault(node, ranks, rank).substr(0, at.size()), at);
          element = right;
        }
      }
    }
  }
}

// A result that another rank should have had.
TEST_P(PeerResultTest, IsRefusedOnAnotherRankUnlessAllHaveTheSame) {
  constexpr int kRanks = 3;
  const Operation operation = GetParam().operation;
  const bool is_common = operation == Operation::kAllReduce || operation == Operation::kAllGather ||
                         operation == Operation::kBroadcast;
  Node node(GetParam(), kRanks);
  node.CarryOut(Direction::kLoad);
  std::copy_n(node.Received(1), node.receive_count(), node.Received(0));
  EXPECT_EQ(Fault(node, kRanks, 0).empty(), is_common);
}

TEST(PeerResult, SendsAndReceivesAreNoCollectives) {
  EXPECT_THROW(ExpectedOf(Operation::kSend, 2, 0, kSegment), Error);
  EXPECT_THROW(InputOf(Operation::kReceive, 2), Error);
}

}  // namespace
}  // namespace overlapbench
