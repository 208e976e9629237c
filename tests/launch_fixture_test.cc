// What a row of Launch reports, from groups whose truth is known: counters, and what it says of
// itself.
#include "fixtures/launch_fixture.h"

#include <string>
#include <vector>

#include "reporting.h"

namespace overlapbench {
namespace {

using EmptyLaunchFixtureTest = ReportingTest<EmptyLaunchFixture>;

// Behind the gate the host takes 0.5 ms for 100 launches and the device 0.2 ms; without it both
// take 0.8 ms. What the host takes there is not asked.
TEST_F(EmptyLaunchFixtureTest, TellsTheHostsCostFromTheDevices) {
  settings_ = {{"launches", "100"}};
  const Row row = Report({TookWithHost(0.2, 0.5), TookWithHost(0.8, 0.75)});
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("host_us_per_launch"), 5);
  EXPECT_DOUBLE_EQ(row.counters.at("device_us_per_launch"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("launches_per_s"), 125'000);
}

class PiecesFixtureTest : public ReportingTest<PiecesFixture> {
 protected:
  PiecesFixtureTest() { references_ = std::vector<Behaviour>(1); }
  // 10 ms as one kernel; in pieces `gated_ms` behind the gate, which the host takes `host_ms` to
  // enqueue, and 20 ms without it.
  Row ReportPieces(const std::string& launches, double gated_ms, double host_ms) {
    settings_ = {{"launches", launches}};
    return Report({Took(10), TookWithHost(gated_ms, host_ms), TookWithHost(20, 1)});
  }
};

// 99 launches more than one take 0.99 ms more on the device.
TEST_F(PiecesFixtureTest, WhatThePiecesTakeLongerIsTheDevicesCost) {
  const Row row = ReportPieces("100", 10.99, 0.5);
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("whole_ms"), 10);
  EXPECT_DOUBLE_EQ(row.counters.at("pieces_slowdown"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("kernel_us"), 100);
  EXPECT_DOUBLE_EQ(row.counters.at("host_us_per_launch"), 5);
  EXPECT_NEAR(row.counters.at("device_us_per_launch"), 10, 1e-9);
}

TEST_F(PiecesFixtureTest, TheSlowerOfHostAndDeviceDominates) {
  EXPECT_NEAR(ReportPieces("100", 10.99, 0.5).counters.at("dominated_below_us"), 10, 1e-9);
  EXPECT_DOUBLE_EQ(ReportPieces("100", 10.99, 3).counters.at("dominated_below_us"), 30);
}

TEST_F(PiecesFixtureTest, SaysWhetherAKernelIsLongerThanItsLaunch) {
  EXPECT_EQ(ReportPieces("100", 10.99, 9).finding, "kernels dominate");
  EXPECT_EQ(ReportPieces("100", 10.99, 11).finding, "launches dominate");
}

// Against itself it is longer by noise alone.
TEST_F(PiecesFixtureTest, OneLaunchHasNoCostOfTheDeviceToTell) {
  const Row row = ReportPieces("1", 14, 0.005);
  EXPECT_FALSE(row.counters.contains("device_us_per_launch"));
  EXPECT_DOUBLE_EQ(row.counters.at("dominated_below_us"), 5);
  EXPECT_EQ(row.finding, "kernels dominate");
}

using RoundTripFixtureTest = ReportingTest<RoundTripFixture>;

TEST_F(RoundTripFixtureTest, IsWhatTheHostWaits) {
  EXPECT_DOUBLE_EQ(Report({TookWithHost(0.004, 0.012)}).counters.at("round_trip_us"), 12);
}

}  // namespace
}  // namespace overlapbench
