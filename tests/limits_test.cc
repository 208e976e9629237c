// Rates that no machine of the given limits can reach.
#include "fixtures/limits.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

// An H200 has about these.
DeviceInfo Gpu() {
  DeviceInfo info;
  info.cache_bytes = 50'000'000;
  info.memory_GBps = 4900;
  info.link_GBps = 450;
  return info;
}

TEST(Limits, NothingIsFasterThanTheMemory) {
  const Cost cost{.moved_bytes = 4.9e9};
  EXPECT_EQ(BeyondLimits(cost, {1.001, 1.001}, Gpu(), true), "");
  EXPECT_EQ(BeyondLimits(cost, {0.98, 0.98}, Gpu(), true),
            "5000 GB/s are more than the memory's peak of 4900 GB/s");
}

// It is impossible only if even the longest time that its interval allows is.
TEST(Limits, AnIntervalIsJudgedByItsLongestTime) {
  const Cost cost{.moved_bytes = 4.9e9};
  EXPECT_EQ(BeyondLimits(cost, {0.5, 1.001}, Gpu(), true), "");
  EXPECT_EQ(BeyondLimits(cost, {0.5, 0.98}, Gpu(), true),
            "5000 GB/s are more than the memory's peak of 4900 GB/s");
}

TEST(Limits, SizesThatFitTheCacheMayExceedTheMemorysRate) {
  EXPECT_EQ(BeyondLimits({.moved_bytes = 3.1e9}, {0.1, 0.1}, Gpu(), true), "");
  EXPECT_NE(BeyondLimits({.moved_bytes = 3.3e9}, {0.1, 0.1}, Gpu(), true), "");
  EXPECT_NE(BeyondLimits({.moved_bytes = 64 * 50e6}, {0.1, 0.1}, Gpu(), true), "");
}

TEST(Limits, NoCollectiveIsFasterThanTheLinks) {
  const Cost all_gather{.wire_bytes = 1e9, .bus_factor = 0.5};
  EXPECT_EQ(BeyondLimits(all_gather, {1.2, 1.2}, Gpu(), true), "");
  EXPECT_EQ(BeyondLimits(all_gather, {1.0, 1.0}, Gpu(), true),
            "500 GB/s are more than the links' peak of 450 GB/s");
  EXPECT_EQ(BeyondLimits(all_gather, {1.0, 1.0}, Gpu(), false), "");
}

// With eight ranks busbw may be 700 GB/s.
TEST(Limits, InNetworkReductionMayExceedLinkBandwidth) {
  const Cost all_reduce{.wire_bytes = 1e9, .bus_factor = 1.75};
  EXPECT_EQ(BeyondLimits(all_reduce, {2.5, 2.5}, Gpu(), true), "");
  EXPECT_NE(BeyondLimits(all_reduce, {2.0, 2.0}, Gpu(), true), "");
}

TEST(Limits, AreReachedButNotExceeded) {
  const Cost cost{.wire_bytes = 4e6, .bus_factor = 1};
  DeviceInfo info;
  info.link_GBps = 0.5;
  EXPECT_EQ(BeyondLimits(cost, {8, 8}, info, true), "");
  EXPECT_NE(BeyondLimits(cost, {7.99, 7.99}, info, true), "");
}

TEST(Limits, UnknownLimitsAreNeverExceeded) {
  const Cost cost{.moved_bytes = 1e15, .wire_bytes = 1e15, .bus_factor = 1};
  EXPECT_EQ(BeyondLimits(cost, {1, 1}, DeviceInfo(), true), "");
}

}  // namespace
}  // namespace overlapbench
