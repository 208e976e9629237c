// Compute: every computation alone. The baselines of the overlap scenarios, and their ceilings.
//
// MatMul  cuBLASLt's product from sizes where its launch costs most to sizes where power does, in
//         every precision.
#include "benchmarks/plan.h"
#include "fixtures/baseline_fixture.h"
#include "fixtures/matmul_fixture.h"

namespace overlapbench {

void PlanCompute(Plan& plan, const Registry& registry) {
  for (const auto& spec : registry.specs()) {
    if (spec.baseline && spec.side == Side::kCompute)
      plan.Add<BaselineFixture>("Compute", {"", spec.name, {}});
  }
  plan.Add<MatMulFixture>(
      "Compute", {"",
                  "CublasGemm",
                  {{"n", "1024,2048,4096,8192,16384"}, {"precision", "fp32,tf32,bf16,fp16,fp8"}},
                  {"TinyGemm"},
                  "MatMul"});
}

}  // namespace overlapbench
