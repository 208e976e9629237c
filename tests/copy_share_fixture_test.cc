// What a row of Gelu or Softmax reports, from groups whose truth is known.
#include "fixtures/copy_share_fixture.h"

#include <vector>

#include "reporting.h"

namespace overlapbench {
namespace {

Cost Moving(double bytes) {
  Cost cost;
  cost.moved_bytes = bytes;
  return cost;
}

// Held against a copy alone: what is fused itself.
class FusedRowTest : public ReportingTest<CopyShareFixture> {
 protected:
  FusedRowTest() {
    references_ = std::vector<Behaviour>(1);
    comp_.cost = Moving(8e6);
  }
};

TEST_F(FusedRowTest, HasItsShareOfTheCopyAndItsRate) {
  const Row row = Report({Took(2), Took(2.5)});
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.finding, "");
  EXPECT_DOUBLE_EQ(row.counters.at("copy_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_copy"), 80);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 3.2);
}

TEST_F(FusedRowTest, MayBeFasterThanTheCopy) {
  EXPECT_DOUBLE_EQ(Report({Took(2.5), Took(2)}).counters.at("pct_of_copy"), 125);
}

TEST_F(FusedRowTest, HasNoSpeedup) {
  const Row row = Report({Took(2), Took(2.5)});
  for (const char* counter : {"fused_ms", "fused_speedup", "predicted_speedup"})
    EXPECT_FALSE(row.counters.contains(counter)) << counter;
}

// The medians of 2 and 4 ms. The median of the groups' own shares would be 40 %.
TEST_F(FusedRowTest, ComparesMedians) {
  const Row row = ReportAll({{Took(2), Took(5)}, {Took(1), Took(4)}, {Took(3), Took(4)}});
  EXPECT_DOUBLE_EQ(row.counters.at("copy_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_copy"), 50);
}

// Held against the fused form too, which moves a quarter of the bytes.
class UnfusedRowTest : public ReportingTest<CopyShareFixture> {
 protected:
  UnfusedRowTest() {
    references_ = std::vector<Behaviour>(2);
    references_[1].cost = Moving(8e6);
    comp_.cost = Moving(32e6);
  }
};

TEST_F(UnfusedRowTest, HasItsSpeedupBesideThePredictedOne) {
  const Row row = Report({Took(2), Took(2.5), Took(12.5)});
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_copy"), 16);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 2.56);
  EXPECT_DOUBLE_EQ(row.counters.at("fused_ms"), 2.5);
  EXPECT_DOUBLE_EQ(row.counters.at("fused_speedup"), 5);
  EXPECT_DOUBLE_EQ(row.counters.at("predicted_speedup"), 4);
}

TEST_F(UnfusedRowTest, IsPredictedFromBytesAndNotFromTimes) {
  const Row row = Report({Took(2), Took(2.5), Took(2)});
  EXPECT_DOUBLE_EQ(row.counters.at("fused_speedup"), 0.8);
  EXPECT_DOUBLE_EQ(row.counters.at("predicted_speedup"), 4);
}

}  // namespace
}  // namespace overlapbench
