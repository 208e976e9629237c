#include "benchmarks/block_schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "kernels/attention.h"

namespace overlapbench {
namespace {

class PatternSteps {
 public:
  PatternSteps(const std::vector<Half>& halves, long microbatches)
      : halves_(halves), summed_(microbatches) {
    comp_ = schedule_.AddLane({.name = "comp"});
    comm_ = schedule_.AddLane({.name = "comm"});
    if (!halves.front().weight_copies.empty()) weights_ = schedule_.AddLane({.name = "weights"});
  }

  Schedule Make() && {
    CopyWeights(0);
    for (std::size_t i = 0; i < halves_.size(); ++i) {
      std::vector<std::size_t> weights = copied_;
      for (long part = 0; part < std::ssize(summed_); ++part) {
        if (i > 0) AddEnd(halves_[i - 1], part);
        if (part == 0) CopyWeights(i + 1);
        AddBegin(halves_[i], part, weights);
      }
      for (const Work& work : halves_[i].weight_gradients) schedule_.Add(comp_, work);
    }
    for (long part = 0; part < std::ssize(summed_); ++part) AddEnd(halves_.back(), part);
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] Part PartOf(long index) const { return {index, std::ssize(summed_)}; }

  void CopyWeights(std::size_t half) {
    if (half == halves_.size()) return;
    for (const Work& work : halves_[half].weight_copies)
      copied_ = {schedule_.Add(weights_, work, {.after = used_})};
  }
  // Its first step waits for `weights`, and all later ones follow it.
  void AddBegin(const Half& half, long part, std::vector<std::size_t>& weights) {
    for (const Work& work : half.before_sum)
      used_ = {
          schedule_.Add(comp_, work, {.part = PartOf(part), .after = std::exchange(weights, {})})};
    summed_[part] = schedule_.Add(comm_, half.sum, {.part = PartOf(part), .after = used_});
    for (const Work& work : half.beside_sum) schedule_.Add(comp_, work, {.part = PartOf(part)});
  }
  void AddEnd(const Half& half, long part) {
    schedule_.Add(comp_, half.after_sum, {.part = PartOf(part), .after = {summed_[part]}});
  }

  const std::vector<Half>& halves_;
  Schedule schedule_ = {};
  std::size_t comp_ = 0;
  std::size_t comm_ = 0;
  std::size_t weights_ = 0;
  std::vector<std::size_t> summed_;       // of the half before
  std::vector<std::size_t> copied_ = {};  // the last copy
  std::vector<std::size_t> used_ = {};    // the last step that needs weights
};

}  // namespace

std::vector<BlockHalf> MakeHalves(const TensorWorks& works, const Settings& settings,
                                  const std::function<std::uint32_t()>& seed) {
  const Model model = ModelOf(settings);
  const Machine& machine = works.machine();
  const TensorShape of_rank = works.Shape(settings.Integer("tokens"), model.hidden);
  TensorShape shared = of_rank;
  shared.is_shared = true;
  std::vector<BlockHalf> halves;
  SharedTensor x = works.Own(shared);
  for (long i = 0; i < 2 * settings.Integer("layers"); ++i) {
    const bool attends = i % 2 == 0;
    const HalfShape shape{
        .attends = attends,
        .tokens = of_rank.rows,
        .sequences = settings.Has("sequences") ? settings.Integer("sequences") : 1,
        .hidden = model.hidden,
        .inner = (attends ? model.heads * kAttentionDim : model.ffn) / machine.ranks.size()};
    halves.push_back(MakeBlockHalf(machine.device, shape, x, works.Reached(of_rank),
                                   works.Reached(shared), seed()));
    x = halves.back().y;
  }
  return halves;
}

std::string NameOf(const BlockHalf& half, std::size_t place) {
  return fmt::format("{} {}", half.attends ? "attention" : "ffn", place / 2 + 1);
}

Half ForwardOf(const TensorWorks& works, const BlockHalf& half, const std::string& name,
               const std::function<Work(HalfStep)>& make) {
  Half made;
  for (const HalfStep step :
       {HalfStep::kNorm, HalfStep::kWiden, HalfStep::kActivate, HalfStep::kNarrow})
    made.before_sum.push_back(make(step));
  made.sum = works.Sum(name + " sum", half.partial, half.sum);
  made.after_sum = make(HalfStep::kResidual);
  return made;
}

Schedule PlainForm(const std::vector<Half>& halves) {
  Schedule schedule;
  const std::size_t lane = schedule.AddLane({.name = "lane"});
  std::vector<std::size_t> before;
  const auto add = [&](const Work& work) {
    before = {schedule.Add(lane, work, {.after = before})};
  };
  std::ranges::for_each(halves.front().weight_copies, add);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const Half& half = halves[i];
    if (i + 1 < halves.size()) std::ranges::for_each(halves[i + 1].weight_copies, add);
    std::ranges::for_each(half.before_sum, add);
    add(half.sum);
    std::ranges::for_each(half.beside_sum, add);
    std::ranges::for_each(half.weight_gradients, add);
    add(half.after_sum);
  }
  return schedule;
}

Schedule PatternForm(const std::vector<Half>& halves, long microbatches) {
  return PatternSteps(halves, microbatches).Make();
}

}  // namespace overlapbench
