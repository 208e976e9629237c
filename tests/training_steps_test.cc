// The steps of training families: their waits, the memory of each depth, and what is refused.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/layer_stack.h"
#include "kernels/linear.h"
#include "scenarios.h"

namespace overlapbench {
namespace {

// The bound of the row's own run if a part of each of these works takes this long.
double BoundOfRow(const std::string& scenario, const Values& values,
                  const std::map<std::string, double>& part_ms) {
  const Schedule schedule = ScenarioReport(scenario, values).runs().back().schedule;
  std::vector<double> step_ms;
  for (const Schedule::Step& step : schedule.steps())
    step_ms.push_back(part_ms.at(step.work->name));
  return BoundOf(schedule, step_ms).total_ms;
}

Timings EachTook(const ScenarioReport& row, double ms) {
  Timings timings;
  for (const auto& run : row.runs()) timings[run.name] = Took(ms);
  return timings;
}

// ---- The passes of a stack of layers

TEST(LayerStack, APassIsCheckedInEveryLayersGradients) {
  const auto device = OpenHostDevice(1);
  const Machine machine{*device, TestRanks()};
  const auto stream = device->CreateStream({});
  const SharedTensor gradients = MakeTensor(*device, {.rows = 16, .columns = 8});
  const LayerStack stack(*device, 2, 8, 4, gradients);
  const auto forward = MakeLinear(machine, stack.Forward());
  const auto backward = MakeLinear(machine, stack.Backward());
  for (const auto& [pass, result, row] :
       {std::tuple(&forward, stack.outputs, 0L), std::tuple(&backward, gradients, 0L),
        std::tuple(&backward, gradients, 8L)}) {
    Workload& workload = **pass;
    workload.Connect();
    workload.Reset(*stream);
    workload.Enqueue(*stream);
    stream->Synchronize(machine.timeout, "the test");
    EXPECT_EQ(workload.Verify(*stream).fault, "");
    const auto fingerprint = workload.Fingerprint();
    result->PoisonRows(*stream, row, 1);
    EXPECT_NE(workload.Verify(*stream).fault, "");
    EXPECT_NE(workload.Fingerprint(), fingerprint);
    workload.Enqueue(*stream);
    workload.Reset(*stream);
    EXPECT_NE(workload.Verify(*stream).fault, "") << "the result of the run before";
  }
}

// ---- Fsdp

Values Sharded(const char* prefetch) {
  return {{"layers", "4"}, {"width", "48"}, {"tokens", "16"}, {"prefetch", prefetch}};
}

// The classical estimate is 25 % above the measured time, not 20 % of itself.
TEST(ShardedSteps, JudgeTheEstimateByTheMeasuredTime) {
  ScenarioReport row("Fsdp/Prefetch", Sharded("1"));
  Timings timings = EachTook(row, 0);
  timings["computation"] = Took(8);
  timings["communication"] = Took(2);
  timings["pattern"] = Took(8);
  const Reported reported = row.Report(timings);
  EXPECT_DOUBLE_EQ(reported.counters.at("estimate_ms"), 10);
  EXPECT_DOUBLE_EQ(reported.counters.at("estimate_error_pct"), 25);
}

TEST(ShardedSteps, ExposeEveryGatherUnlessLayersAreGatheredAhead) {
  const auto bound_ms = [](const char* prefetch) {
    return BoundOfRow("Fsdp/Prefetch", Sharded(prefetch),
                      {{"gather", 1}, {"forward", 4}, {"backward", 8}, {"scatter", 2}});
  };
  EXPECT_DOUBLE_EQ(bound_ms("0"), 8 * 1 + 4 * 4 + 4 * 8 + 2);
  EXPECT_DOUBLE_EQ(bound_ms("1"), 1 + 4 * 4 + 4 * 8 + 2);
  EXPECT_DOUBLE_EQ(bound_ms("2"), bound_ms("1"));
}

// The steps on a lane, in order.
std::string OnLane(const Schedule& schedule, const std::string& lane) {
  std::string text;
  for (const Schedule::Step& step : schedule.steps()) {
    if (schedule.lanes()[step.lane].name == lane)
      text += fmt::format("{}{} ", step.work->name[0], step.options.part.index);
  }
  return text;
}

TEST(ShardedSteps, GatherTheNextLayerBeforeTheySumTheLastGradients) {
  const auto comm = [](const char* prefetch) {
    const Schedule schedule =
        ScenarioReport("Fsdp/Prefetch", Sharded(prefetch)).runs().back().schedule;
    return OnLane(schedule, "comm");
  };
  EXPECT_EQ(comm("0"), "g0 g1 g2 g3 g4 g5 s0 g6 s1 g7 s2 s3 ");
  EXPECT_EQ(comm("1"), "g0 g1 g2 g3 g4 g5 g6 s0 g7 s1 s2 s3 ");
}

TEST(ShardedSteps, CommunicateWithTheRequestedPriority) {
  Values values = Sharded("1");
  values["comm_priority"] = "2";
  const Schedule schedule = ScenarioReport("Fsdp/Prefetch", values).runs().back().schedule;
  EXPECT_EQ(schedule.lanes()[schedule.LaneNamed("comm")].priority, 2);
  EXPECT_EQ(schedule.lanes()[schedule.LaneNamed("comp")].priority, 0);
}

// Three layers' gradients are in memory, and prefetch + 1 layers.
TEST(ShardedSteps, OverwriteNothingThatIsStillNeeded) {
  for (const long prefetch : {0, 1, 3}) {
    const Schedule schedule =
        ScenarioReport("Fsdp/Prefetch", Sharded(std::to_string(prefetch).c_str()))
            .runs()
            .back()
            .schedule;
    const auto waits_for = [&](const Schedule::Step& step, const std::string& work, long part) {
      return std::ranges::any_of(step.options.after, [&](std::size_t earlier) {
        const Schedule::Step& awaited = schedule.steps()[earlier];
        return awaited.work->name == work && awaited.options.part.index == part;
      });
    };
    for (const Schedule::Step& step : schedule.steps()) {
      const long part = step.options.part.index;
      if (step.work->name == "backward" && part >= 3) {
        EXPECT_TRUE(waits_for(step, "scatter", part - 3)) << part;
      }
      if (const long use = part - prefetch - 1; step.work->name == "gather" && use >= 0) {
        EXPECT_TRUE(waits_for(step, use < 4 ? "forward" : "backward", use % 4)) << part;
      }
    }
  }
}

// Of layers of 48 x 48 in float32: those gathered, and three in flight.
TEST(ShardedSteps, ReportTheMemoryOfEachDepth) {
  for (const auto& [prefetch, layers] : {std::pair("0", 4), std::pair("1", 5), std::pair("3", 7)}) {
    ScenarioReport row("Fsdp/Prefetch", Sharded(prefetch));
    EXPECT_DOUBLE_EQ(row.Report(EachTook(row, 1)).counters.at("unsharded_bytes"),
                     layers * 48 * 48 * 4);
  }
}

TEST(ShardedSteps, MustMatchThePlainFormsResultOnTwoRanks) {
  ScenarioReport row("Fsdp/Prefetch", Sharded("1"));
  row.Leaves("pattern", 1);
  EXPECT_EQ(row.Report(EachTook(row, 1)).state,
            TestRanks().size() == 2 ? RowState::kInvalid : RowState::kOk);
}

// ---- Sizes of tensor-parallel layers

// The memory of the row's own run, in float32 elements.
long ElementsOf(const std::string& scenario, const Values& values) {
  const Schedule schedule = ScenarioReport(scenario, values).runs().back().schedule;
  return static_cast<long>(FootprintOf(schedule.works()).device_bytes / sizeof(float));
}

TEST(LayerSizes, AreTheModelsUnlessTheyAreGiven) {
  const long ranks = TestRanks().size();
  constexpr long kTokens = 64;
  const auto check = [&](const Values& given, long hidden, long ffn) {
    Values values = given;
    values.insert({{"tokens", "64"}, {"chunks", "1"}});
    const long columns = 2 * ffn / ranks;
    EXPECT_EQ(ElementsOf("Tp/ColumnParallel", values),
              kTokens * hidden + hidden * columns + kTokens * columns);
  };
  check({}, 256, 768);
  check({{"hidden", "512"}}, 512, 768);
  check({{"ffn", "1536"}}, 256, 1536);
  check({{"model", "llama8b"}, {"hidden", "32"}, {"ffn", "64"}}, 32, 64);
  check({{"model", "llama8b"}, {"hidden", "model"}, {"ffn", "64"}}, 4096, 64);
}

// Chunks use the same weights as the plain form, though no work of the pattern is its own.
TEST(LayerSizes, ChunksTakeAsMuchAsTheWhole) {
  if (TestRanks().size() < 2) GTEST_SKIP() << "one rank exchanges nothing";
  for (const char* scenario : {"Tp/ColumnParallel", "Tp/RowParallel"}) {
    const auto elements = [&](const char* chunks, const char* hidden) {
      return ElementsOf(scenario, {{"tokens", "64"}, {"chunks", chunks}, {"hidden", hidden}});
    };
    EXPECT_GE(elements("2", "512"), elements("1", "512")) << scenario;
    EXPECT_GE(elements("2", "512") - elements("2", "256"),
              elements("1", "512") - elements("1", "256"))
        << scenario;
  }
}

// The step `attention 1 widen` has its weights and the queries, keys and values.
TEST(LayerSizes, SetTheWidthOfAttentionByItsHeads) {
  const auto widen = [](const Values& values) {
    const auto runs = ScenarioReport("Tp/Block/Forward", values).runs();
    const auto alone = std::ranges::find(runs, "attention 1 widen", &overlapbench::Run::name);
    return FootprintOf(alone->schedule.works()).device_bytes / sizeof(float);
  };
  const long ranks = TestRanks().size();
  constexpr long kTokens = 128;  // the default
  const auto elements = [&](long hidden, long heads) {
    return static_cast<std::size_t>((kTokens + hidden) * 3 * 128 * heads / ranks);
  };
  EXPECT_EQ(widen({}), elements(256, 2));
  EXPECT_EQ(widen({{"heads", "4"}}), elements(256, 4));
  EXPECT_EQ(widen({{"hidden", "64"}}), elements(64, 2));
}

TEST(LayerSizes, AreRefusedWhereRanksCannotShareThem) {
  const bool one = TestRanks().size() == 1;
  const std::string uneven = "ffn must give every rank a multiple of 8 columns";
  for (const char* scenario : {"Tp/ColumnParallel", "Tp/RowParallel", "Tp/Block/Forward"}) {
    const auto excluded = [&](Values values) {
      values.insert({{"tokens", "64"}, {"chunks", "1"}});
      return ScenarioReport(scenario, values).excluded();
    };
    EXPECT_EQ(excluded({}), "");
    EXPECT_EQ(excluded({{"hidden", "80"}, {"ffn", "16"}}), "");
    EXPECT_EQ(excluded({{"hidden", "40"}}), "hidden must be a multiple of 16");
    EXPECT_EQ(excluded({{"ffn", "9"}}), one ? uneven : "ffn:9 must be a multiple of the 2 ranks");
    EXPECT_EQ(excluded({{"ffn", "8"}}), one ? "" : uneven);
  }
  EXPECT_EQ(ScenarioReport("Tp/Block/Forward", {{"heads", "3"}}).excluded(),
            one ? "" : "heads:3 must be a multiple of the 2 ranks");
}

// ---- Memory

// The works of a row on a GPU whose footprint is as large as a product's workspace; their matrices
// are much smaller.
std::set<std::string> WorksWithWorkspace(const std::string& scenario, const Values& values) {
  Values small = values;
  small.insert({{"layers", "1"}, {"width", "16"}, {"hidden", "16"}, {"tokens", "128"}});
  std::set<std::string> names;
  for (const auto& run : ScenarioReport(scenario, small, PosingDevice::H200()).runs()) {
    for (const Work& work : run.schedule.works()) {
      if (work->footprint.device_bytes < kProductWorkspaceBytes) continue;
      EXPECT_LT(work->footprint.device_bytes, 2 * kProductWorkspaceBytes) << work->name;
      names.insert(work->name);
    }
  }
  return names;
}

TEST(Footprints, CountTheWorkspaceOfEveryWorkThatMultiplies) {
  using Names = std::set<std::string>;
  const Values of_layer = {{"model", "small"}, {"ffn", "64"}, {"chunks", "2"}};
  EXPECT_EQ(WorksWithWorkspace("Tp/ColumnParallel", of_layer),
            (Names{"multiply whole", "multiply"}));
  EXPECT_EQ(WorksWithWorkspace("Layers/CrossLayer", {{"independent", "50"}}),
            (Names{"free", "tied"}));
  EXPECT_EQ(WorksWithWorkspace("Layers/DoubleBuffer", {}), Names{"compute"});
  EXPECT_EQ(WorksWithWorkspace("Ddp/Batch/AllReduce", {{"bytes", "16K"}}), Names{"multiply"});
  for (const char* scenario : {"Ddp/Buckets", "Fsdp/Prefetch", "MixedPrecision/Step"})
    EXPECT_EQ(WorksWithWorkspace(scenario, {}), (Names{"forward", "backward"})) << scenario;
  EXPECT_EQ(WorksWithWorkspace("Moe/DispatchCombine", {{"microbatches", "2"}}),
            (Names{"dense whole", "experts whole", "dense", "experts"}));
}

TEST(Footprints, CountTheWorkspaceOfEveryProductOfABlock) {
  std::set<std::string> products;
  for (const std::string half : {"attention 1 ", "ffn 1 "})
    for (const char* step : {"widen", "narrow", "narrow gradient", "widen gradient",
                             "narrow weight gradient", "widen weight gradient"})
      products.insert(half + step);
  const Values of_block = {{"model", "small"}, {"ffn", "64"}, {"sequences", "1"}};
  EXPECT_EQ(WorksWithWorkspace("Tp/Block/ForwardBackward", of_block), products);
}

// ---- Tp/Block

// With sums that take three times as long as any other step of a part.
TEST(BlockSteps, RunBesideTheSumsOfTheOtherMicrobatch) {
  const auto bound_ms = [](const char* microbatches) {
    const Values values = {{"layers", "1"}, {"microbatches", microbatches}};
    std::map<std::string, double> part_ms;
    for (const auto& run : ScenarioReport("Tp/Block/Forward", values).runs())
      part_ms[run.name] = run.name.ends_with(" sum") ? 3 : 1;
    return BoundOfRow("Tp/Block/Forward", values, part_ms);
  };
  EXPECT_DOUBLE_EQ(bound_ms("1"), 2 * (4 + 3 + 1)) << "a mask runs beside each sum";
  EXPECT_DOUBLE_EQ(bound_ms("2"), 2 * 2 * (4 + 1 + 1) + 1) << "1 ms of the last sum is exposed";
}

// With copies as long as a half and its sum.
TEST(BlockSteps, RunBesideTheNextWeights) {
  const Values values = {{"layers", "1"}, {"microbatches", "1"}, {"weights", "host"}};
  std::map<std::string, double> part_ms;
  for (const auto& run : ScenarioReport("Tp/Block/Forward", values).runs())
    part_ms[run.name] = run.name.ends_with(" copy") ? 4 : run.name.ends_with(" sum") ? 3 : 1;
  EXPECT_DOUBLE_EQ(BoundOfRow("Tp/Block/Forward", values, part_ms), 2 * 4 + 2 * (4 + 3 + 1))
      << "the first half's weights alone are exposed";
}

TEST(BlockSteps, RunBesideTheSumsOfGradients) {
  const auto bound_ms = [](const char* microbatches) {
    const Values values = {{"layers", "1"}, {"microbatches", microbatches}};
    std::map<std::string, double> part_ms;
    for (const auto& run : ScenarioReport("Tp/Block/ForwardBackward", values).runs())
      part_ms[run.name] = run.name.ends_with(" sum") ? 3 : 1;
    return BoundOfRow("Tp/Block/ForwardBackward", values, part_ms);
  };
  const double forward_ms = 2 * (4 + 3 + 1);
  const double of_ffn_ms = 4 + 3 + 1;
  const double of_attention_ms = 6 + 3 + 1;
  EXPECT_DOUBLE_EQ(bound_ms("1"), forward_ms + of_ffn_ms + of_attention_ms)
      << "two gradients of weights run beside each sum";
  const double computation_ms = 2 * (2 * (4 + 1 + 1) + (4 + 1) + (6 + 1)) + 2 * 2;
  EXPECT_DOUBLE_EQ(bound_ms("2"), computation_ms) << "no sum is exposed";
}

// ---- Pp

TEST(PipelineStages, AreAsManyAsTheRanksHold) {
  const int ranks = TestRanks().size();
  const auto excluded = [](const char* scenario, const Values& values) {
    return ScenarioReport(scenario, values).excluded();
  };
  for (const char* scenario : {"Pp/GPipe/Delay", "Pp/OneFOneB/Gemm"}) {
    EXPECT_EQ(excluded(scenario, {}), "");
    EXPECT_EQ(excluded(scenario, {{"stages", std::to_string(ranks)}}), "");
    EXPECT_EQ(excluded(scenario, {{"stages", "9"}}),
              fmt::format("stages must be {0} (one on each of {0} ranks), not 9", ranks));
  }
  const auto interleaved = [&](const std::string& stages) {
    return excluded(
        "Pp/Interleaved/Delay",
        {{"virtual", "4"}, {"stages", stages}, {"forward_us", "100"}, {"backward_us", "100"}});
  };
  EXPECT_EQ(interleaved(std::to_string(4 * ranks)), "");
  EXPECT_EQ(interleaved(std::to_string(ranks)),
            fmt::format("stages must be {} (virtual:4 on each of {} ranks), not {}", 4 * ranks,
                        ranks, ranks));
}

// ---- Moe

Values Mixed(const Values& values) {
  Values all = {{"layers", "3"}, {"hidden", "32"}, {"tokens", "512"},    {"experts", "8"},
                {"topk", "2"},   {"skew", "0"},    {"microbatches", "2"}};
  for (const auto& [axis, value] : values) all[axis] = value;
  return all;
}

// Steps of communication take no longer than those of computation that run beside them.
TEST(MixedSteps, ExposeOnlyTheLastCombineWithTwoMicrobatches) {
  const auto bound_ms = [](const char* microbatches) {
    return BoundOfRow("Moe/DispatchCombine", Mixed({{"microbatches", microbatches}}),
                      {{"dense", 4},
                       {"permute", 1},
                       {"dispatch", 4},
                       {"experts", 6},
                       {"combine", 4},
                       {"sum", 1}});
  };
  constexpr double kComputation = 4 + 1 + 6 + 1;
  EXPECT_DOUBLE_EQ(bound_ms("1"), 3 * (kComputation + 4 + 4));
  EXPECT_DOUBLE_EQ(bound_ms("2"), 3 * 2 * kComputation + 4 - 1) << "beside the first one's sum";
}

TEST(MixedSteps, NameTheRankThatTheOthersWaitFor) {
  const int last = TestRanks().size() - 1;
  ScenarioReport skewed("Moe/DispatchCombine", Mixed({{"skew", "100"}}));
  const Reported row = skewed.Report(EachTook(skewed, 1));
  EXPECT_EQ(row.state, RowState::kOk);
  EXPECT_EQ(row.counters.at("straggler_rank"), last);
  // Half of the copies, and the share of its unpopular experts in the other half.
  const double share = (1 + (8.0 / TestRanks().size() - 1) / 7) / 2;
  EXPECT_NEAR(row.counters.at("straggler_load"), share * TestRanks().size(), 0.05);
  if (last == 0) {
    EXPECT_EQ(row.reason, "");
  } else {
    EXPECT_EQ(row.reason.find("rank 1 straggles: its experts get 1.4"), 0U) << row.reason;
  }
  ScenarioReport balanced("Moe/DispatchCombine", Mixed({}));
  const Reported other = balanced.Report(EachTook(balanced, 1));
  EXPECT_NEAR(other.counters.at("straggler_load"), 1, 0.1);
  EXPECT_EQ(other.reason, "");
}

TEST(MixedSteps, ReportTheHiddenShareOfTheExchange) {
  ScenarioReport row("Moe/DispatchCombine", Mixed({}));
  Timings timings = EachTook(row, 1);
  timings["computation"] = Took(10);
  timings["chunks"] = Took(12);  // what cutting costs is not exposed communication
  timings["communication"] = Took(4);
  timings["pattern"] = Took(13);
  const Reported reported = row.Report(timings);
  EXPECT_DOUBLE_EQ(reported.counters.at("hidden_comm"), 0.75);
  EXPECT_GE(reported.counters.at("padding_pct"), 0);
  EXPECT_LT(reported.counters.at("padding_pct"), 30);
}

TEST(MixedSteps, MustMatchThePlainFormUnlessALibraryMayTakeAnotherKernel) {
  const auto state = [](const char* microbatches, std::unique_ptr<PosingDevice> device) {
    ScenarioReport row("Moe/DispatchCombine", Mixed({{"microbatches", microbatches}}),
                       std::move(device));
    row.Leaves("pattern", 1);
    return row.Report(EachTook(row, 1)).state;
  };
  EXPECT_EQ(state("2", std::make_unique<PosingDevice>()), RowState::kInvalid);
  EXPECT_EQ(state("2", PosingDevice::H200()), RowState::kOk);
  EXPECT_EQ(state("1", PosingDevice::H200()), RowState::kInvalid) << "of as many rows";
}

// ---- Steps of inference

TEST(DecodeSteps, HaveA99thPercentileFrom100StepsOn) {
  for (const std::size_t steps : {99U, 100U}) {
    ScenarioReport row("Decode/Layer");
    std::vector<Timings> all;
    for (std::size_t i = 1; i <= steps; ++i) all.push_back(EachTook(row, static_cast<double>(i)));
    const Reported reported = row.ReportAll(all);
    EXPECT_EQ(reported.state, RowState::kOk);
    EXPECT_DOUBLE_EQ(reported.counters.at("step_p50_us"), steps == 100 ? 50'500 : 50'000);
    ASSERT_EQ(reported.counters.contains("step_p99_us"), steps == 100);
    if (steps == 100) {
      EXPECT_DOUBLE_EQ(reported.counters.at("step_p99_us"), 99'010);
    }
  }
}

TEST(DecodeSteps, MustMatchTheirLaunches) {
  ScenarioReport row("Decode/Layer");
  row.Leaves("graph", 1);
  const Reported reported = row.Report(EachTook(row, 1));
  EXPECT_EQ(reported.state, RowState::kInvalid);
  EXPECT_EQ(reported.reason, "the graph's result is not that of its launches");
  EXPECT_EQ(reported.counters.at("identical"), 0);
}

}  // namespace
}  // namespace overlapbench
