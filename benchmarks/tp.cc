// Tp: the two products of a tensor-parallel layer, each beside the communication that it depends
// on.
//
// ColumnParallel gathers the tokens of all ranks and multiplies them by this rank's columns of a
// weight: D = gather(X) · W. RowParallel multiplies by this rank's rows of a weight, and the sums
// over all ranks go back to the ranks that own the tokens, or with `reduce:all` to every rank.
//
// The plain form runs a collective and a product, one after the other. The pattern splits the
// tokens into `chunks`:
//
//   ColumnParallel   comm            get 1a   get 1b
//                    comp   own a  own b   1a  1b
//   RowParallel      comm                   send 1a  send 1b
//                    comp           1a   1b   own a + received  own b + received
//   sums:direct      comm       1a   1b   2a   2b
//                    comp  1a   1b   2a   2b   own a   own b   sum of all
//   reduce:all       comm            sum 1  sum 2
//                    comp        1   2      3 …
//
// One chunk is the plain form. With chunks:auto the row uses the fastest of several numbers of
// chunks, including the plain form; Candidates says which can win.
//
// Each rank begins (ends) with its own block of tokens, which needs no communication before (after)
// it. The others come in the order of distance, in ColumnParallel straight from their owner. In
// RowParallel there are two ways for the sums. Along a ring, each rank adds its product to the sum
// that it has received, in the same kernel. Directly, each rank multiplies for the next rank first
// and for the one before it last, sends every product to its owner, and adds at the end, in one
// pass, what has come from all. A ring passes over the sums less often, but each product waits for
// a transfer; with one chunk for each rank, nothing overlaps, so sums:auto sends those directly.
// Blocks are stored rotated (workload/tensor.h), and every rank moves the same rows in each step.
//
// If the library chooses another kernel for fewer rows, or if sums are added in another order, the
// result differs from the plain form's in its last bits, which `identical` reports. Every result is
// checked against an oracle.
//
// In ColumnParallel, the feed-forward layer has `ffn` columns twice: gate and up.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "benchmarks/training.h"

namespace overlapbench::families {
namespace {

constexpr long kMostChunks = 1 << 16;  // chunks:auto tries up to 8 for each rank
constexpr long kLeastRows = 192;       // of a chunk that chunks:auto tries on a GPU
constexpr const char* kSums = "sums";
constexpr const char* kRing = "ring";
constexpr const char* kDirect = "direct";

bool SumsDirectly(const Settings& settings, int ranks) {
  if (!settings.Has(kSums)) return false;
  const std::string& way = settings.Text(kSums);
  return way == kDirect || (way == kAuto && settings.Integer("chunks") == ranks);
}

// The sizes and works from which this family's scenarios are made.
struct Layer : TensorWorks {
  Layer(const TensorWorks& works, const Settings& settings)
      : TensorWorks(works),
        ranks(works.machine().ranks.size()),
        tokens(settings.Integer("tokens")),
        chunks(settings.Integer("chunks")),
        block(tokens / ranks),
        slices(chunks / ranks),
        sums_everywhere(settings.Has("reduce") && settings.Text("reduce") == "all"),
        sums_directly(SumsDirectly(settings, ranks)) {}
  int ranks;
  long tokens;
  long chunks;
  long block;   // tokens of one rank
  long slices;  // chunks of one block
  bool sums_everywhere;
  bool sums_directly;
};

// Two works, one after the other on one lane.
Schedule InTurn(const Work& first, const Work& second) {
  Schedule schedule;
  const std::size_t lane = schedule.AddLane({.name = "lane"});
  schedule.Add(lane, second, {.after = {schedule.Add(lane, first)}});
  return schedule;
}

// `first` and `second` on a lane each, in chunks.
Schedule InChunks(const Work& first, const char* first_lane, const Work& second,
                  const char* second_lane, long chunks) {
  Schedule schedule;
  const std::size_t from = schedule.AddLane({.name = first_lane});
  const std::size_t to = schedule.AddLane({.name = second_lane});
  for (long chunk = 0; chunk < chunks; ++chunk) {
    const Part part{chunk, chunks};
    schedule.Add(to, second, {.part = part, .after = {schedule.Add(from, first, {.part = part})}});
  }
  return schedule;
}

// ---- ColumnParallel

std::vector<Run> ColumnParallelRuns(const Layer& layer, const Model& model) {
  const long columns = 2 * model.ffn / layer.ranks;
  TensorShape plain = layer.Shape(layer.tokens, model.hidden);
  plain.blocks = layer.ranks;
  plain.is_shared = true;
  TensorShape rotated = plain;
  rotated.rotated = true;
  TensorShape result = layer.Shape(layer.tokens, columns);
  result.blocks = layer.ranks;
  TensorShape rotated_result = result;
  rotated_result.rotated = true;
  const SharedTensor w = layer.Own(layer.Shape(model.hidden, columns));

  const SharedTensor x = layer.Reached(plain);
  const SharedTensor d = layer.Own(result);
  const Work gather = layer.Move("gather whole", {{Operation::kAllGather, x, x}});
  const Work whole = layer.Multiply("multiply whole", {{.a = x, .w = w, .d = d}});
  if (layer.chunks == 1) return TrainingRuns(InTurn(gather, whole), InTurn(gather, whole));

  const SharedTensor parts_x = layer.Reached(rotated);
  const SharedTensor parts_d = layer.Own(rotated_result);
  std::vector<TensorCall> calls;
  for (int distance = 1; distance < layer.ranks; ++distance)
    calls.push_back({Operation::kShiftRing, parts_x, parts_x, 0, distance * layer.block,
                     layer.block, distance});
  const Work get = layer.Move("gather", calls);
  const Work multiply = layer.Multiply("multiply", {{.a = parts_x, .w = w, .d = parts_d}});

  Schedule pattern;
  const std::size_t comm = pattern.AddLane({.name = "comm"});
  const std::size_t comp = pattern.AddLane({.name = "comp"});
  const long moved = layer.chunks - layer.slices;
  for (long chunk = 0; chunk < layer.chunks; ++chunk) {
    StepOptions options{.part = {chunk, layer.chunks}};
    if (const long move = chunk - layer.slices; move >= 0)
      options.after = {pattern.Add(comm, get, {.part = {move, moved}})};
    pattern.Add(comp, multiply, options);
  }
  return TrainingRuns(InTurn(gather, whole), pattern);
}

// ---- RowParallel

// Sums for every rank: no product can absorb the sum of a chunk, so each is an all-reduce.
std::vector<Run> SumEverywhereRuns(const Layer& layer, const Model& model) {
  const TensorShape input = layer.Shape(layer.tokens, model.ffn / layer.ranks);
  const SharedTensor a = layer.Own(input);
  const SharedTensor w = layer.Own(layer.Shape(input.columns, model.hidden));
  const auto product = [&] { return layer.Reached(layer.Shape(layer.tokens, model.hidden)); };
  const auto multiply = [&](const char* name, const SharedTensor& d) {
    return layer.Multiply(name, {{.a = a, .w = w, .d = d}});
  };
  const auto sum = [&](const char* name, const SharedTensor& d) {
    return layer.Move(name, {{Operation::kAllReduce, d, d->Alias(), 0, 0, layer.tokens}});
  };
  const SharedTensor whole_d = product();
  const Work whole = multiply("multiply whole", whole_d);
  const Work sum_whole = sum("sum whole", whole_d);
  if (layer.chunks == 1) return TrainingRuns(InTurn(whole, sum_whole), InTurn(whole, sum_whole));
  const SharedTensor d = product();
  return TrainingRuns(InTurn(whole, sum_whole), InChunks(multiply("multiply", d), "comp",
                                                         sum("sum", d), "comm", layer.chunks));
}

// The chunks of RowParallel: `a` times `w`, whose blocks are rotated, summed into a block of rows.
Schedule RingOfSums(const Layer& layer, const SharedTensor& a, const SharedTensor& w,
                    const TensorShape& block) {
  Schedule pattern;
  const std::size_t comm = pattern.AddLane({.name = "comm"});
  const std::size_t comp = pattern.AddLane({.name = "comp"});
  // In order of distance to the owner, the farthest first. Rank r sends its sum for rank r - 1 to
  // rank r + 1, in whose blocks that owner is one place further.
  SharedTensor received;
  std::vector<std::size_t> sent(layer.slices);
  for (int hop = 1; hop <= layer.ranks; ++hop) {
    const int place = hop % layer.ranks;
    const SharedTensor d = layer.Reached(block);
    const Work multiply =
        layer.Multiply(fmt::format("multiply {}", hop),
                       {{.a = a, .w = w, .added = received, .d = d, .a_row = place * layer.block}});
    const SharedTensor next = layer.Reached(block);
    const Work send = layer.Move(fmt::format("send {}", hop),
                                 {{Operation::kShiftRing, d, next, 0, 0, layer.block, 1}});
    for (long slice = 0; slice < layer.slices; ++slice) {
      const Part part{slice, layer.slices};
      StepOptions options{.part = part};
      if (hop > 1) options.after = {sent[slice]};
      const std::size_t multiplied = pattern.Add(comp, multiply, options);
      if (hop < layer.ranks)
        sent[slice] = pattern.Add(comm, send, {.part = part, .after = {multiplied}});
    }
    received = next;
  }
  return pattern;
}

Schedule DirectSums(const Layer& layer, const SharedTensor& a, const SharedTensor& w,
                    const TensorShape& block) {
  TensorShape of_all = block;
  of_all.rows = layer.tokens;
  of_all.blocks = layer.ranks;
  of_all.rotated = true;
  TensorShape of_others = block;
  of_others.rows = layer.tokens - layer.block;
  const SharedTensor products = layer.Reached(of_all);
  const SharedTensor arrivals = layer.Reached(of_others);
  // The rank `distance` further on is that many places before this one's block, at the end.
  std::vector<TensorCall> calls;
  for (int distance = 1; distance < layer.ranks; ++distance)
    calls.push_back({Operation::kShiftRing, products, arrivals,
                     (layer.ranks - distance) * layer.block, (distance - 1) * layer.block,
                     layer.block, distance});
  const Work multiply = layer.Multiply("multiply", {{.a = a, .w = w, .d = products}});
  const Work send = layer.Move("send", calls);
  const Work add = layer.Add("add", {products, arrivals, layer.Own(block)});

  Schedule pattern;
  const std::size_t comm = pattern.AddLane({.name = "comm"});
  const std::size_t comp = pattern.AddLane({.name = "comp"});
  const long moved = layer.chunks - layer.slices;
  StepOptions all_there;
  for (long chunk = 0; chunk < layer.chunks; ++chunk) {
    const long place = (2 * layer.ranks - 1 - chunk / layer.slices) % layer.ranks;
    const long row = place * layer.slices + chunk % layer.slices;
    const std::size_t multiplied = pattern.Add(comp, multiply, {.part = {row, layer.chunks}});
    if (chunk < moved)
      all_there.after = {pattern.Add(comm, send, {.part = {chunk, moved}, .after = {multiplied}})};
  }
  pattern.Add(comp, add, all_there);
  return pattern;
}

std::vector<Run> RowParallelRuns(const Layer& layer, const Model& model) {
  if (layer.sums_everywhere) return SumEverywhereRuns(layer, model);
  const long inputs = model.ffn / layer.ranks;
  TensorShape plain = layer.Shape(layer.tokens, inputs);
  plain.blocks = layer.ranks;
  TensorShape rotated = plain;
  rotated.rotated = true;
  const TensorShape block = layer.Shape(layer.block, model.hidden);
  const SharedTensor w = layer.Own(layer.Shape(inputs, model.hidden));

  const SharedTensor a = layer.Own(plain);
  const SharedTensor sums = layer.Reached(layer.Shape(layer.tokens, model.hidden));
  const SharedTensor out = layer.Reached(block);
  const Work whole = layer.Multiply("multiply whole", {{.a = a, .w = w, .d = sums}});
  const Work scatter = layer.Move("scatter whole", {{Operation::kReduceScatter, sums, out}});
  if (layer.chunks == 1) return TrainingRuns(InTurn(whole, scatter), InTurn(whole, scatter));
  const SharedTensor parts = layer.Own(rotated);
  return TrainingRuns(InTurn(whole, scatter), layer.sums_directly
                                                  ? DirectSums(layer, parts, w, block)
                                                  : RingOfSums(layer, parts, w, block));
}

// ----

struct Form {
  const char* name;
  std::vector<Operation> (*operations)(const Settings&);
  std::vector<Axis> (*axes)();
  std::vector<Run> (*runs)(const Layer&, const Model&);
};

std::vector<Operation> ColumnParallelOperations(const Settings& /*settings*/) {
  return {Operation::kAllGather, Operation::kShiftRing};
}
std::vector<Operation> RowParallelOperations(const Settings& settings) {
  if (settings.Text("reduce") == "all") return {Operation::kAllReduce};
  return {Operation::kReduceScatter, Operation::kShiftRing};
}
std::vector<Axis> SumAxes() {
  return {ChoiceAxis("reduce", "who gets the sums: the rank that owns the tokens, or all",
                     {"scatter", "all"}, "scatter", "scatter"),
          ChoiceAxis(kSums,
                     "their way to the owner; auto: direct with one chunk for each rank, otherwise "
                     "ring; with chunks:auto the faster",
                     {std::string(kAuto), kRing, kDirect}, kAuto, kAuto)};
}

constexpr std::array<Form, 2> kForms = {
    {{"ColumnParallel", ColumnParallelOperations, [] { return std::vector<Axis>(); },
      ColumnParallelRuns},
     {"RowParallel", RowParallelOperations, SumAxes, RowParallelRuns}}};

std::string Excluded(const Machine& machine, const Form& form, const Settings& settings) {
  const long ranks = machine.ranks.size();
  const long tokens = settings.Integer("tokens");
  const long chunks = settings.Integer("chunks");
  const std::vector<Operation> operations = form.operations(settings);
  const bool by_owner = std::ranges::find(operations, Operation::kShiftRing) != operations.end();
  if (by_owner && chunks > 1 && chunks % ranks != 0)
    return fmt::format("chunks must be 1 or a multiple of the {} ranks", ranks);
  if (tokens % chunks != 0 || (by_owner && tokens % ranks != 0))
    return by_owner ? "tokens must be a multiple of chunks and ranks"
                    : "tokens must be a multiple of chunks";
  const bool has_way = settings.Has(kSums) && settings.Text(kSums) != kAuto;
  if (has_way && (chunks == 1 || !by_owner))
    return "sums go by a ring or directly in chunks with reduce:scatter only";
  if (std::string why = ExcludedModel(settings, machine.ranks.size()); !why.empty()) return why;
  // Each chunk is an all-reduce of its own.
  return ExcludedTransport(machine, operations, settings,
                           tokens / (by_owner ? 1 : chunks) * ModelOf(settings).hidden, "in");
}

// The candidates of chunks:auto: the plain form, and up to 8 chunks for each rank. Those that
// cannot win are left out:
//
// - Chunks of few rows. A product reads the whole weight for every chunk. Below peak / bandwidth
//   rows (206 on an H200 in bf16, 295 on an H100) that takes longer than the arithmetic, so chunks
//   of half the rows take twice as long together. Of all recorded rows, the fastest had at least
//   256 (docs/results).
// - A ring of one chunk for each rank: nothing in it overlaps, and the direct way sends the same
//   chunks beside its products.
// - Direct chunks of less than a quarter of a block: all transfers but the last are hidden by
//   products already.
std::vector<Settings> Candidates(const Machine& machine, const Settings& settings) {
  if (settings.Text("chunks") != kAuto) return {settings};
  const bool has_ways = settings.Has(kSums) && settings.Text("reduce") == "scatter";
  const Settings plain = settings.With("chunks", "1");
  std::vector<Settings> candidates = {has_ways ? plain.With(kSums, std::string(kAuto)) : plain};
  const bool on_host = machine.device.backend() == Backend::kHost;
  for (const long slices : {1, 2, 4, 8}) {
    const long chunks = slices * machine.ranks.size();
    if (!on_host && settings.Integer("tokens") / chunks < kLeastRows) break;
    const Settings cut = settings.With("chunks", std::to_string(chunks));
    if (!has_ways) candidates.push_back(cut);
    if (has_ways && slices < 8 && settings.Text(kSums) != kRing)
      candidates.push_back(cut.With(kSums, kDirect));
    if (has_ways && slices > 1 && settings.Text(kSums) != kDirect)
      candidates.push_back(cut.With(kSums, kRing));
  }
  return candidates;
}

Remark ReportLayer(const Measurement& measurement, Counters& counters) {
  const Settings& settings = measurement.settings();
  const long chunks = settings.Integer("chunks");
  counters["chunks"] = static_cast<double>(chunks);
  if (settings.Has(kSums) && settings.Text("reduce") == "scatter" && chunks > 1)
    counters["direct"] = SumsDirectly(settings, measurement.ranks()) ? 1 : 0;
  return ReportTraining(measurement, counters, static_cast<double>(settings.Integer("tokens")),
                        Identity::kReported);
}

TrainingForm FormOf(const Catalog& catalog, const Form& form) {
  const bool host = catalog.on_host();
  const int ranks = catalog.machine.ranks.size();
  std::vector<Axis> axes = ModelAxes(catalog, "llama8b,llama70b", {"hidden", "ffn"});
  const Axis chunks = IntegerAxis(
      "chunks", "into which the tokens are cut: 1, a multiple of the ranks", 1, kMostChunks, "1");
  constexpr long kRows = 16;
  AppendAxes(axes, {InUnitsOf(std::lcm(kRows, 2L * ranks),
                              IntegerAxis("tokens", "tokens of all ranks together", 1, 1L << 24,
                                          host ? "128,512" : "1024,4096,16384")),
                    OrAuto(chunks, fmt::format("auto,{},{}", ranks, 2 * ranks))});
  return {.scenario = {.name = std::string("Tp/") + form.name,
                       .axes = std::move(axes),
                       .candidates = std::bind_front(Candidates, catalog.machine),
                       .plain_run = "sequential",
                       .excluded = std::bind_front(Excluded, catalog.machine, std::cref(form)),
                       .report = ReportLayer},
          .collective = "SendRecv",
          .seed = 400,
          .runs =
              [&form](const TensorWorks& works, const Settings& settings) {
                return form.runs(Layer(works, settings), ModelOf(settings));
              },
          .later_axes = form.axes()};
}

}  // namespace

Family Tp() {
  using enum Better;
  return {.name = "Tp",
          .about = "Products of tensor-parallel layers, in chunks beside their communication.",
          .lead = {"speedup", "time", "sequential_ms", "pct_of_bound", "exposed_comm_ms",
                   "chunking_cost_ms", "interference_ms"},
          .counters = {{"chunks", "count", kNeither, Range::kPositive, "chunks",
                        "into which the tokens were cut; with chunks:auto the fastest number"},
                       {"direct", "bool", kNeither, Range::kFlag, "direct",
                        "1 if chunks of products went straight to their owners, 0 if their sums "
                        "went along a ring"}},
          .scenarios = [](const Catalog& catalog) {
            return OverTransports(catalog,
                                  {FormOf(catalog, kForms[0]), FormOf(catalog, kForms[1])});
          }};
}

}  // namespace overlapbench::families
