#include "benchmarks/moe_step.h"

#include <fmt/core.h>

namespace overlapbench {
namespace {

constexpr bool kExpertsOwnStays = true;  // tokens for experts of their own rank stay where they are

}  // namespace

std::string ExcludedMoe(const Machine& machine, const Settings& settings) {
  const long ranks = machine.ranks.size();
  const long experts = settings.Integer("experts");
  if (settings.Integer("hidden") % 16 != 0) return "hidden must be a multiple of 16";
  if (experts % ranks != 0)
    return fmt::format("experts:{} must be a multiple of the {} ranks", experts, ranks);
  if (settings.Integer("topk") > experts) return "topk must be at most experts";
  if (settings.Text("products") == "grouped" && settings.Has("sm_target") &&
      settings.Integer("sm_target") > 0)
    return "sm_target is for products:each; a grouped product takes all SMs";
  constexpr long kMostCopies = 1L << 24;
  if (settings.Integer("tokens") > kMostCopies / (ranks * settings.Integer("topk")))
    return fmt::format("tokens x topk x ranks must be at most {}", kMostCopies);
  // Of the smallest blocks: all others are multiples of them. Making the routing would take host
  // memory and time.
  return ExcludedTransport(machine, {Operation::kAllToAll}, settings,
                           ranks * kRoutedRows * settings.Integer("hidden"), "out",
                           kExpertsOwnStays);
}

RoutingShape MoeRouting(const Machine& machine, const Settings& settings, long microbatches) {
  return {.ranks = machine.ranks.size(),
          .tokens = settings.Integer("tokens"),
          .experts = settings.Integer("experts"),
          .topk = settings.Integer("topk"),
          .microbatches = microbatches,
          .skew = settings.Integer("skew")};
}

MoeStep::MoeStep(const TensorWorks& works, const Settings& settings, long microbatches,
                 const std::string& suffix)
    : layers(settings.Integer("layers")), microbatches(microbatches) {
  const Machine& machine = works.machine();
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
        [machine, layer, make, seed = works.seed()] { return make(machine, layer, seed); },
        is_result);
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
