// What a row of Supply reports, from groups whose truth is known: counters, and what it says of
// itself.
#include "fixtures/supply_fixture.h"

#include <string>
#include <vector>

#include "reporting.h"

namespace overlapbench {
namespace {

class SupplyFixtureTest : public ReportingTest<SupplyFixture> {
 protected:
  SupplyFixtureTest() { references_ = std::vector<Behaviour>(2); }
  // Ten batches: `make_ms` to make them all, 5 to consume them all, `supply_ms` both.
  Row ReportSupply(const std::string& workers, double make_ms, double supply_ms) {
    settings_ = {{"workers", workers}, {"supply_batches", "10"}};
    return Report({Took(make_ms), Took(5), Took(supply_ms)});
  }
};

// Four workers take three turns of 4 ms, and the last batch half a millisecond more: 12.5 ms.
TEST_F(SupplyFixtureTest, ComparesWithWhatItsPartsPredict) {
  const Row row = ReportSupply("4", 12, 20);
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("make_ms"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("consume_ms"), 0.5);
  EXPECT_DOUBLE_EQ(row.counters.at("batches_per_s"), 500);
  EXPECT_DOUBLE_EQ(row.counters.at("predicted_batches_per_s"), 800);
  EXPECT_DOUBLE_EQ(row.counters.at("prediction_error_pct"), -37.5);
  EXPECT_DOUBLE_EQ(row.counters.at("device_idle_share"), 0.75);
  EXPECT_EQ(row.counters.at("bound_by_workers"), 1);
}

TEST_F(SupplyFixtureTest, APredictionThatComesTrueHasNoError) {
  EXPECT_NEAR(ReportSupply("4", 12, 12.5).counters.at("prediction_error_pct"), 0, 1e-9);
  EXPECT_NEAR(ReportSupply("0", 40, 45).counters.at("prediction_error_pct"), 0, 1e-9);
}

// The consumer makes its ten batches itself.
TEST_F(SupplyFixtureTest, WithoutWorkersABatchIsMadeInATurnOfItsOwn) {
  EXPECT_DOUBLE_EQ(ReportSupply("0", 40, 45).counters.at("make_ms"), 4);
}

TEST_F(SupplyFixtureTest, SaysWhatBoundsIt) {
  EXPECT_EQ(ReportSupply("4", 12, 12.5).finding, "bound by the producers");
  const Row row = ReportSupply("4", 0.3, 5.1);
  EXPECT_EQ(row.finding, "bound by the device");
  EXPECT_EQ(row.counters.at("bound_by_workers"), 0);
}

}  // namespace
}  // namespace overlapbench
