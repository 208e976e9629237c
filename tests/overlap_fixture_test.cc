// What a row of Overlap reports, from groups whose truth is known: counters, and what it says of
// itself.
#include "fixtures/overlap_fixture.h"

#include <vector>

#include "reporting.h"

namespace overlapbench {
namespace {

// A computation of 4 ms and a communication of 2 ms that ran so when both were started at once.
Group Overlapped(SideTimes comp, SideTimes comm) { return {Took(4), Took(2), Ran(comm, comp)}; }

class OverlapFixtureTest : public ReportingTest<OverlapFixture> {
 protected:
  OverlapFixtureTest() {
    has_comm_ = true;
    settings_ = {{"first", "none"}, {"streams", "2"}};
  }
};

TEST_F(OverlapFixtureTest, PerfectOverlapNeedsNoRemark) {
  const Row row = Report(Overlapped({0, 4}, {0, 2}));
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.finding, "");
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("efficiency"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("coverage"), 1);
}

TEST_F(OverlapFixtureTest, OneStreamIsAFault) {
  const Row row = Report(Overlapped({2, 6}, {0, 2}));
  EXPECT_EQ(row.fault.find("not overlapped"), 0U) << row.fault;
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1.5);
}

TEST_F(OverlapFixtureTest, SerializationByTheDeviceIsAFindingThatNamesWhoWaited) {
  const Row computation = Report(Overlapped({0, 6}, {0, 2}));
  EXPECT_EQ(computation.fault, "");
  EXPECT_EQ(computation.finding.find("serialized: computation waited"), 0U) << computation.finding;
  const Row communication = Report(Overlapped({0, 4}, {0, 6}));
  EXPECT_EQ(communication.fault, "");
  EXPECT_EQ(communication.finding.find("serialized: communication waited"), 0U)
      << communication.finding;
}

// One disturbed group of many changes nothing.
TEST_F(OverlapFixtureTest, CountersAreOfTheMedians) {
  std::vector<Group> groups(5, Overlapped({0, 4}, {0, 2}));
  groups[2] = Overlapped({0, 400}, {0, 200});
  const Row row = ReportAll(groups);
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("overlap_ms"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
}

}  // namespace
}  // namespace overlapbench
