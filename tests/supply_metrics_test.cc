// The arithmetic of a data supply, on cases that can be followed by hand. Times in milliseconds.
#include "fixtures/supply_metrics.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

struct Expected {
  Supply supply;  // make, consume, workers, batches
  double time_ms;
  bool by_workers;
};

void Expect(const Expected& expected) {
  const auto& [supply, time_ms, by_workers] = expected;
  EXPECT_DOUBLE_EQ(PredictSupply_ms(supply), time_ms) << supply.workers << " workers";
  EXPECT_EQ(BoundByWorkers(supply), by_workers) << supply.workers << " workers";
}

TEST(Supply, WithoutWorkersTakesItsTurns) {
  Expect({{4, 1, 0, 8}, 40, true});
  Expect({{1, 4, 0, 8}, 40, false});
  Expect({{4, 1, 0, 1}, 5, true});
}

// One makes batches all the time, and the device consumes the last one after it.
TEST(Supply, OfOneSlowWorkerIsBoundByIt) { Expect({{4, 1, 1, 8}, 33, true}); }

// The device waits for the first batch only.
TEST(Supply, OfAQuickWorkerIsBoundByTheDevice) { Expect({{1, 4, 1, 8}, 33, false}); }

TEST(Supply, OfManyWorkersTakesTheirTurns) {
  Expect({{4, 0.5, 2, 8}, 16.5, true});
  Expect({{4, 0.5, 3, 8}, 12.5, true});  // the third turn has but two batches
  Expect({{4, 0.5, 4, 8}, 8.5, true});
}

// Eight workers are done in one turn: from there on the device decides.
TEST(Supply, OfEnoughWorkersIsBoundByTheDevice) {
  Expect({{4, 0.5, 8, 8}, 8, false});
  Expect({{4, 0.5, 100, 8}, 8, false});
}

// The workers' turns take 8, 4, 2 and 1 times 4; the device's batches 8 times 1.
TEST(Supply, GoesFromStarvingToSaturated) {
  Expect({{4, 1, 1, 8}, 33, true});
  Expect({{4, 1, 2, 8}, 17, true});
  Expect({{4, 1, 4, 8}, 12, false});
  Expect({{4, 1, 8, 8}, 12, false});
}

// As long either way.
TEST(Supply, OfEqualBoundsIsTheDevices) { Expect({{2, 2, 1, 8}, 18, false}); }

TEST(Supply, OfOneBatchIsMadeAndConsumed) {
  for (const int workers : {0, 1, 16})
    EXPECT_DOUBLE_EQ(PredictSupply_ms({4, 1, workers, 1}), 5) << workers;
}

}  // namespace
}  // namespace overlapbench
