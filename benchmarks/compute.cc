// Compute: every computation alone. The baselines of the overlap scenarios, and their ceilings.
//
// MatMul is cuBLASLt's product in every precision, from sizes limited by the launch to sizes
// limited by power. It is compared with the peak of the GPU's SMs, and with a product so small that
// it costs hardly more than its launch. The share of that product in the row's time shows at which
// size the fixed cost stops mattering.
#include "benchmarks/scenario.h"
#include "device/dense_peak.h"

namespace overlapbench::families {
namespace {

constexpr const char* kTiny = "TinyGemm";

Remark ReportMatMul(const Measurement& measurement, Counters& counters) {
  constexpr double kMatters = 0.1;
  constexpr double kPercent = 100;
  constexpr double kTFLOPsFromFlopsPerMs = 1e-9;
  ReportOwnRates(measurement, counters);
  const Series T = measurement.Total_ms();
  const auto peak_TFLOPs =
      DensePeak_TFLOPs(measurement.device().info(), measurement.settings().Text("precision"));
  if (peak_TFLOPs) {
    const double flops = measurement.CostOf(measurement.own().name).flops;
    Report(counters, "pct_of_peak", kPercent * flops * kTFLOPsFromFlopsPerMs / *peak_TFLOPs / T);
  }
  const Series share = measurement.Total_ms(kTiny) / T;
  Report(counters, "fixed_cost_share", share);
  return Remark::Finding(share.median() > kMatters ? "the fixed cost is over a tenth" : "");
}

Scenario MatMul(const WorkloadSpec& gemm) {
  Scenario scenario =
      ScenarioOf("Compute/MatMul", {&gemm},
                 {{"n", "1024,2048,4096,8192,16384"}, {"precision", "fp32,tf32,bf16,fp16,fp8"}});
  scenario.runs = [&gemm](const Settings& settings) {
    const Settings tiny = settings.With("n", "64").With("sm_target", "0");
    return std::vector<Run>{SoloRun(MakeWork(gemm, tiny, kTiny)),
                            SoloRun(MakeWork(gemm, settings))};
  };
  scenario.report = ReportMatMul;
  return scenario;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> scenarios;
  for (const WorkloadSpec& spec : catalog.workloads.specs()) {
    if (spec.baseline && spec.work_class == WorkClass::kCompute)
      scenarios.push_back(Baseline("Compute/" + spec.name, spec));
  }
  scenarios.push_back(MatMul(catalog.workloads.Find("CublasGemm")));
  return scenarios;
}

}  // namespace

Family Compute() {
  Family family{.name = "Compute",
                .about = "Every computation by itself.",
                .lead = {"time", "TFLOPs", "pct_of_peak", "fixed_cost_share", "GBps"},
                .scenarios = &Scenarios};
  family.counters = {
      {"pct_of_peak", "%", Better::kHigher, Range::kNotNegative, "of the peak",
       "100 x TFLOPs / (SMs x their highest clock x operations a clock)"},
      {"fixed_cost_share", "", Better::kLower, Range::kNotNegative, "fixed cost share",
       "time of a product of 64 rows and columns / T"},
  };
  return family;
}

}  // namespace overlapbench::families
