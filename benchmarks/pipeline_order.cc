#include "benchmarks/pipeline_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "device/error.h"

namespace overlapbench {
namespace {

// Forward passes of `rank` up to its first backward pass. The last of them comes right before it.
int WarmUp(PipelineOrder order, const PipelineShape& shape, int rank) {
  const int all = shape.chunks * shape.microbatches;
  const int ranks_behind = shape.ranks - 1 - rank;
  switch (order) {
    case PipelineOrder::kGPipe:
      return all;
    case PipelineOrder::kOneFOneB:
      return std::min(all, ranks_behind);
    case PipelineOrder::kInterleaved:
      return std::min(all, (shape.chunks - 1) * shape.ranks + 2 * ranks_behind);
  }
  return all;
}

// The `index`-th forward, or backward, pass of a rank.
Action ActionAt(Pass pass, const PipelineShape& shape, int rank, int index) {
  if (shape.chunks == 1) return {pass, rank, index};
  const int round = index / (shape.ranks * shape.chunks);
  const int turn = index / shape.ranks % shape.chunks;
  const int chunk = pass == Pass::kForward ? turn : shape.chunks - 1 - turn;
  return {pass, chunk * shape.ranks + rank, round * shape.ranks + index % shape.ranks};
}

// What `action` needs besides the earlier actions of its rank; may be empty.
Actions Needed(const Action& action, const PipelineShape& shape) {
  const int before = Before(action.pass, action.stage);
  if (before < 0) return {};
  if (before < shape.stages()) return {{action.pass, before, action.microbatch}};
  return {{Pass::kForward, action.stage, action.microbatch}};
}

}  // namespace

std::vector<Actions> ActionTable(PipelineOrder order, const PipelineShape& shape) {
  std::vector<Actions> table(shape.ranks);
  const int all = shape.chunks * shape.microbatches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int warm_up = WarmUp(order, shape, rank);
    for (int i = 0; i < all + warm_up; ++i) {
      if (i < all) table[rank].push_back(ActionAt(Pass::kForward, shape, rank, i));
      if (i >= warm_up) table[rank].push_back(ActionAt(Pass::kBackward, shape, rank, i - warm_up));
    }
  }
  return table;
}

std::string ToString(const Actions& actions) {
  std::string text;
  for (const auto& [pass, stage, microbatch] : actions) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", stage,
                        pass == Pass::kForward ? 'F' : 'B', microbatch);
  }
  return text;
}

Actions Play(const std::vector<Actions>& table, const PipelineShape& shape) {
  std::size_t all = 0;
  for (const Actions& actions : table) all += actions.size();
  std::vector<std::size_t> next(table.size());
  std::set<Action> done;
  Actions played;
  while (played.size() < all) {
    const std::size_t before = played.size();
    for (std::size_t rank = 0; rank < table.size(); ++rank) {
      if (next[rank] == table[rank].size()) continue;
      const Action& action = table[rank][next[rank]];
      const auto is_done = [&](const Action& needed) { return done.contains(needed); };
      if (!std::ranges::all_of(Needed(action, shape), is_done)) continue;
      played.push_back(action);
      ++next[rank];
    }
    if (played.size() == before)
      throw Error(fmt::format("the pipeline's ranks wait for each other after {} of {} actions",
                              before, all));
    done.insert(played.begin() + static_cast<std::ptrdiff_t>(before), played.end());
  }
  return played;
}

Actions OneAfterTheOther(const PipelineShape& shape) {
  Actions actions;
  for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
    for (int stage = 0; stage < shape.stages(); ++stage)
      actions.push_back({Pass::kForward, stage, microbatch});
    for (int stage = shape.stages(); stage-- > 0;)
      actions.push_back({Pass::kBackward, stage, microbatch});
  }
  return actions;
}

double BubbleShare(const PipelineShape& shape) {
  const double others = shape.ranks - 1;
  return others / (shape.chunks * shape.microbatches + others);
}

int MostInFlight(const Actions& actions) {
  int in_flight = 0;
  int most = 0;
  for (const Action& action : actions) {
    in_flight += action.pass == Pass::kForward ? 1 : -1;
    most = std::max(most, in_flight);
  }
  return most;
}

}  // namespace overlapbench
