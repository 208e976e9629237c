// Softmax: the rows of a matrix, fused and not, against a copy of the matrix in the same group.
//
// Which rows: the fused kernel over all lengths of a row, odd ones among them, in every type, on a
// GPU also on a matrix of half the size; the others at a short and a long row, beside the fused
// one, and cuDNN's at two more.
#include "benchmarks/against_copy.h"
#include "fixtures/copy_share_fixture.h"

namespace overlapbench {
namespace {

// The whole rows that `matrix_bytes` holds, which are the matrix.
long RowsBytes(const Settings& settings) {
  const long row_bytes = settings.Integer("columns") * ElementBytes(settings);
  return settings.Integer("matrix_bytes") / row_bytes * row_bytes;
}

}  // namespace

void PlanSoftmax(Plan& plan, Backend backend) {
  const bool host = backend == Backend::kHost;
  const char* const columns = host ? "1024,12289"
                                   : "1024,2048,4096,8192,12289,16384,32768,50257,65536,75000,"
                                     "100003,131072,180000,212992,262144";
  const char* const few = host ? "1024" : "1024,32768";
  const char* const types = host ? "fp32" : "bf16,fp16,fp32";
  plan.Add<CopyShareFixture>(
      "Softmax", AgainstCopy("SoftmaxFused", {{"columns", columns}, {"precision", types}}, "Fused",
                             RowsBytes));
  if (!host) {
    plan.Add<CopyShareFixture>(
        "Softmax",
        AgainstCopy("SoftmaxFused",
                    {{"matrix_bytes", "256M"}, {"columns", columns}, {"precision", types}}, "Fused",
                    RowsBytes));
  }
  const std::pair<const char*, const char*> others[] = {{"SoftmaxUnfused", "Unfused"},
                                                        {"SoftmaxBlockPerRow", "BlockPerRow"},
                                                        {"SoftmaxTwoPass", "TwoPass"}};
  for (const auto& [workload, title] : others) {
    plan.Add<CopyShareFixture>(
        "Softmax",
        AgainstCopy(workload, {{"columns", few}, {"precision", host ? "fp32" : "bf16,fp32"}}, title,
                    RowsBytes, {"SoftmaxFused"}));
  }
  plan.Add<CopyShareFixture>(
      "Softmax", AgainstCopy("SoftmaxCudnn",
                             {{"columns", "1024,4096,32768,262144"}, {"precision", "bf16,fp32"}},
                             "Cudnn", RowsBytes, {"SoftmaxFused"}));
}

}  // namespace overlapbench
