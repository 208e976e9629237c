#include "benchmarks/block_schedule.h"

#include <algorithm>
#include <utility>

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
