// What a row of Overlap reports, from groups whose truth is known: counters, and what it says of
// itself.
#include "fixtures/overlap_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/plan.h"
#include "fake_workload.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

class ReportingFixture : public OverlapFixture {
 public:
  using OverlapFixture::OverlapFixture;
  using OverlapFixture::Remark;
  using OverlapFixture::Report;
};

// A computation of 4 ms and a communication of 2 ms that ran so when both were started at once.
Group Overlapped(SideTimes comp, SideTimes comm) {
  Sample comp_alone;
  comp_alone.total_ms = 4;
  comp_alone.lanes[0] = {0, 4};
  Sample comm_alone;
  comm_alone.total_ms = 2;
  comm_alone.lanes[0] = {0, 2};
  Sample both;
  both.total_ms = std::max(comp.end_ms, comm.end_ms);
  both.lanes = {comm, comp};
  return {comp_alone, comm_alone, both};
}

class OverlapFixtureTest : public testing::Test {
 protected:
  OverlapFixtureTest() {
    registry_.Add(FakeSpec("Work", Side::kCompute, behaviour_));
    registry_.Add(FakeSpec("Talk", Side::kComm, behaviour_));
  }

  ReportingFixture::Remark Report(const std::vector<Group>& groups) {
    const auto device = OpenHostDevice(1);
    const Machine machine{*device, TestRanks()};
    Plan plan(registry_, Backend::kHost, {{"cache", "warm"}});
    plan.Add<OverlapFixture>("Overlap", {"Talk", "Work", {}});
    const Configuration configuration = plan.benchmarks().at(0).configuration;
    const Options options;
    Suite suite{machine, options, std::make_unique<Session>(machine, configuration, true), {}, 0};
    return ReportingFixture(suite, configuration).Report(groups, counters_);
  }

  Behaviour behaviour_;
  Registry registry_;
  benchmark::UserCounters counters_;
};

TEST_F(OverlapFixtureTest, PerfectOverlapNeedsNoRemark) {
  const auto remark = Report({Overlapped({0, 4}, {0, 2})});
  EXPECT_EQ(remark.fault, "");
  EXPECT_EQ(remark.finding, "");
  EXPECT_DOUBLE_EQ(counters_["slowdown"], 1);
  EXPECT_DOUBLE_EQ(counters_["efficiency"], 1);
  EXPECT_DOUBLE_EQ(counters_["coverage"], 1);
}

TEST_F(OverlapFixtureTest, OneStreamIsAFault) {
  const auto remark = Report({Overlapped({2, 6}, {0, 2})});
  EXPECT_EQ(remark.fault.find("not overlapped"), 0U) << remark.fault;
  EXPECT_DOUBLE_EQ(counters_["slowdown"], 1.5);
}

TEST_F(OverlapFixtureTest, SerializationByTheDeviceIsAFindingThatNamesWhoWaited) {
  const auto computation = Report({Overlapped({0, 6}, {0, 2})});
  EXPECT_EQ(computation.fault, "");
  EXPECT_EQ(computation.finding.find("serialized: computation waited"), 0U) << computation.finding;
  const auto communication = Report({Overlapped({0, 4}, {0, 6})});
  EXPECT_EQ(communication.fault, "");
  EXPECT_EQ(communication.finding.find("serialized: communication waited"), 0U)
      << communication.finding;
}

// One disturbed group of many changes nothing.
TEST_F(OverlapFixtureTest, CountersAreOfTheMedians) {
  std::vector<Group> groups(5, Overlapped({0, 4}, {0, 2}));
  groups[2] = Overlapped({0, 400}, {0, 200});
  const auto remark = Report(groups);
  EXPECT_EQ(remark.fault, "");
  EXPECT_DOUBLE_EQ(counters_["overlap_ms"], 4);
  EXPECT_DOUBLE_EQ(counters_["slowdown"], 1);
}

}  // namespace
}  // namespace overlapbench
