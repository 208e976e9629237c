// Gelu: the activation in every form and type, fused and not, against a copy in the same group.
//
// Fused forward at all sizes, with a tail of three elements, and with every tensor off its boundary
// by one; backward at 2^28 elements, which of fp32 is a matrix of 16384 by 16384. There the others
// stand beside it.
#include <array>

#include "benchmarks/against_copy.h"
#include "fixtures/copy_share_fixture.h"

namespace overlapbench {
namespace {

// Half of what is moved: one array in and one out forward, two in and one out backward.
long HalfOfArraysBytes(const Settings& settings) {
  const long arrays = settings.Text("direction") == "backward" ? 3 : 2;
  return settings.Integer("count") * ElementBytes(settings) * arrays / 2;
}

}  // namespace

void PlanGelu(Plan& plan, Backend backend) {
  const bool host = backend == Backend::kHost;
  const char* const counts =
      host ? "65536,1048576" : "1048576,4194304,16777216,67108864,268435456,536870912";
  const char* const large = host ? "1048576" : "268435456";
  const char* const middle = host ? "65536" : "67108864";
  const char* const middle_and_tail = host ? "65539" : "67108867";
  const char* const types = host ? "fp32,bf16" : "bf16,fp16,fp32";
  const char* const few_types = host ? "fp32" : "bf16,fp32";
  const std::map<std::string, std::string> fused_cases[] = {
      {{"count", counts}},
      {{"count", large}, {"direction", "backward"}},
      {{"count", middle_and_tail}},
      {{"count", middle}, {"offset", "1"}}};
  for (auto values : fused_cases) {
    values.insert({{"precision", types}, {"form", "tanh,erf"}});
    plan.Add<CopyShareFixture>(
        "Gelu", AgainstCopy("GeluFused", std::move(values), "Fused", HalfOfArraysBytes));
  }
  constexpr std::array<std::pair<const char*, const char*>, 2> kOthers = {
      {{"GeluUnfused", "Unfused"}, {"GeluFusedScalar", "FusedScalar"}}};
  for (const auto& [workload, title] : kOthers) {
    plan.Add<CopyShareFixture>(
        "Gelu",
        AgainstCopy(workload, {{"count", large}, {"precision", few_types}, {"form", "tanh,erf"}},
                    title, HalfOfArraysBytes, {"GeluFused"}));
  }
}

}  // namespace overlapbench
