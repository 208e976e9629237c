// Gelu: the activation in every form and type, fused and not, against a copy in the same group.
//
// Fused forward at all sizes, with a tail of three elements, and with every tensor off its boundary
// by one; backward at 2^28 elements, which of fp32 is a matrix of 16384 by 16384. There the others
// stand beside it.
#include <array>

#include "benchmarks/plan.h"
#include "fixtures/copy_share_fixture.h"

namespace overlapbench {
namespace {

// A copy that reads and writes as much as the GELU must: one array in and one out forward, and two
// in and one out backward, where the copy takes half of the three. (A copy takes whole words.)
Settings CopyOf(const WorkloadSpec& reference, const Settings& settings) {
  constexpr long kWord = 4;
  if (reference.name != "DeviceCopy") return settings;
  const long element_bytes = settings.Text("precision") == "fp32" ? 4 : 2;
  const long arrays = settings.Text("direction") == "backward" ? 3 : 2;
  const long bytes = settings.Integer("count") * element_bytes * arrays / 2;
  return SettingsOf(reference.axes,
                    {{"bytes", std::to_string((bytes + kWord - 1) / kWord * kWord)}});
}

Case Held(const char* workload, std::map<std::string, std::string> values,
          std::vector<std::string> references, const char* title) {
  Case one{"", workload, std::move(values), std::move(references), title};
  one.reference_settings = CopyOf;
  return one;
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
    plan.Add<CopyShareFixture>("Gelu",
                               Held("GeluFused", std::move(values), {"DeviceCopy"}, "Fused"));
  }
  constexpr std::array<std::pair<const char*, const char*>, 2> kOthers = {
      {{"GeluUnfused", "Unfused"}, {"GeluFusedScalar", "FusedScalar"}}};
  for (const auto& [workload, title] : kOthers) {
    plan.Add<CopyShareFixture>(
        "Gelu", Held(workload, {{"count", large}, {"precision", few_types}, {"form", "tanh,erf"}},
                     {"DeviceCopy", "GeluFused"}, title));
  }
}

}  // namespace overlapbench
