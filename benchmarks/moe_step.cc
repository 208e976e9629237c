#include "benchmarks/moe_step.h"

namespace overlapbench {

RoutingShape MoeRouting(const Machine& machine, const Settings& settings, long microbatches) {
  return {.ranks = machine.ranks.size(),
          .tokens = settings.Integer("tokens"),
          .experts = settings.Integer("experts"),
          .topk = settings.Integer("topk"),
          .microbatches = microbatches,
          .skew = settings.Integer("skew")};
}

MoeStep::MoeStep(const Machine& machine, const TensorWorks& works, const Settings& settings,
                 long microbatches, const std::string& suffix)
    : layers(settings.Integer("layers")), microbatches(microbatches) {
  const auto routing = std::make_shared<const Routing>(MoeRouting(machine, settings, microbatches));
  const long hidden = settings.Integer("hidden");
  const TensorShape tokens = works.Shape(routing->shape().tokens, hidden);
  const TensorShape square = works.Shape(hidden, hidden);
  const TensorShape copies = works.Shape(routing->rows(), hidden);
  const ExpertLayer layer{
      .routing = routing,
      .tokens = works.Own(tokens),
      .sent = works.Reached(copies),
      .received = works.Reached(copies),
      .results = works.Reached(copies),
      .returned = works.Reached(copies),
      .weights = works.Own(works.Shape(routing->experts_of_rank() * hidden, hidden)),
      .sums = works.Own(tokens),
      .in_one_call = settings.Text("products") == "grouped"};
  const auto compute = [&](const char* name, auto make, std::size_t bytes, bool is_result) {
    return WorkOf(
        name + suffix, WorkClass::kCompute, {.own_bytes = bytes},
        [machine, layer, make] { return make(machine, layer, kMoeSeed); }, is_result);
  };
  // One call per micro-batch.
  const auto move = [&](const char* name, const SharedTensor& from, const SharedTensor& to) {
    const long rows = routing->rows() / microbatches;
    std::vector<TensorCall> calls;
    for (long i = 0; i < microbatches; ++i)
      calls.push_back({.operation = Operation::kAllToAll,
                       .send = from,
                       .receive = to,
                       .send_row = i * rows,
                       .receive_row = i * rows,
                       .rows = rows,
                       .own_stays = kExpertsOwnStays});
    return works.Move(name + suffix, calls);
  };
  constexpr std::size_t kTableEntry = sizeof(std::int32_t) + sizeof(float);
  const std::size_t tables =
      kTableEntry * (routing->rows() + routing->shape().tokens * routing->shape().topk);
  dense = works.Multiply("dense" + suffix,
                         {{.a = works.Own(tokens), .w = works.Own(square), .d = works.Own(tokens)}},
                         true);
  permute = compute("permute", MakePermutation, tokens.bytes() + tables, false);
  dispatch = move("dispatch", layer.sent, layer.received);
  experts = compute("experts", MakeExperts,
                    layer.weights->shape().bytes() + tables + ProductWorkspaceBytes(machine.device),
                    false);
  combine = move("combine", layer.results, layer.returned);
  sum = compute("sum", MakeWeightedSum, tokens.bytes() + tables, true);
}

}  // namespace overlapbench
