// Softmax: the rows of a matrix, fused and not, against a copy of the matrix in the same group.
//
// The fused kernel runs at all row lengths, including odd ones, in every type; on a GPU, also on a
// matrix of half the size. The other kernels run at a short and a long row length, beside the fused
// one; cuDNN's at two more.
#include "benchmarks/against_copy.h"

namespace overlapbench::families {
namespace {

// The size of the matrix: the whole rows that fit in `matrix_bytes`.
long RowsBytes(const Settings& settings) {
  const long row_bytes = settings.Integer("columns") * ElementBytes(settings);
  return settings.Integer("matrix_bytes") / row_bytes * row_bytes;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const bool host = catalog.on_host();
  const char* const columns = host ? "1024,12289"
                                   : "1024,2048,4096,8192,12289,16384,32768,50257,65536,75000,"
                                     "100003,131072,180000,212992,262144";
  const char* const few = host ? "1024" : "1024,32768";
  const char* const types = host ? "fp32" : "bf16,fp16,fp32";
  const char* const few_types = host ? "fp32" : "bf16,fp32";
  std::vector<Scenario> scenarios;
  const WorkloadSpec& fused = catalog.workloads.Find("SoftmaxFused");
  const auto add = [&](const std::string& name, const char* workload, const Values& values) {
    const WorkloadSpec& kernel = catalog.workloads.Find(workload);
    scenarios.push_back(ScenarioOf(catalog, {"Softmax/" + name, kernel, values, RowsBytes,
                                             &kernel == &fused ? nullptr : &fused}));
  };
  add("Fused", "SoftmaxFused", {{"columns", columns}, {"precision", types}});
  if (!host) {
    add("Fused", "SoftmaxFused",
        {{"matrix_bytes", "256M"}, {"columns", columns}, {"precision", types}});
  }
  add("Unfused", "SoftmaxUnfused", {{"columns", few}, {"precision", few_types}});
  add("BlockPerRow", "SoftmaxBlockPerRow", {{"columns", few}, {"precision", few_types}});
  add("TwoPass", "SoftmaxTwoPass", {{"columns", few}, {"precision", few_types}});
  add("Cudnn", "SoftmaxCudnn", {{"columns", "1024,4096,32768,262144"}, {"precision", "bf16,fp32"}});
  return scenarios;
}

}  // namespace

Family Softmax() {
  return {.name = "Softmax",
          .about = "Softmax, fused and not; 100 % is a device copy of the matrix, in the same run.",
          .lead = {"time", "pct_of_copy", "GBps", "fused_speedup", "predicted_speedup"},
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
