// Supply: a device fed by producer threads on the host, from starving to saturated.
#include "benchmarks/plan.h"
#include "fixtures/supply_fixture.h"

namespace overlapbench {

void PlanSupply(Plan& plan) {
  const std::vector<std::string> parts = {"SupplyMake", "SupplyConsume"};
  plan.Add<SupplyFixture>("Supply", {"", "Supply", {}, parts, "Batches"});
  plan.Add<SupplyFixture>(
      "Supply", {"", "Supply", {{"workers", "4"}, {"prefetch", "1,2,8"}}, parts, "Batches"});
}

}  // namespace overlapbench
