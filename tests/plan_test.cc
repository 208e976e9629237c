// The plan: which benchmarks scenarios and the user's axes make, and why others cannot be made.
#include "benchmarks/plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/name_filter.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

WorkloadSpec Spec(const std::string& name, std::vector<Axis> axes) {
  WorkloadSpec spec;
  spec.name = name;
  spec.axes = std::move(axes);
  return spec;
}

// A computation, one whose count must be even, a communication, and one that is not available.
Registry SmallRegistry() {
  Registry registry;
  registry.Add(Spec("Work", {IntegerAxis("count", "", 1, 100, "2,4")}));
  WorkloadSpec even = Spec("Even", {IntegerAxis("count", "", 1, 100, "2")});
  even.excluded = [](const Settings& settings) {
    return settings.Integer("count") % 2 == 0 ? "" : "count must be even";
  };
  registry.Add(even);
  registry.Add(Spec("Talk", {BytesAxis("bytes", "", "1K")}));
  registry.Add(Unavailable("Lost", WorkClass::kComm, "needs at least 2 GPUs"));
  return registry;
}

std::string TextOf(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const UsageError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

class PlanTest : public testing::Test {
 protected:
  static Plan With(std::vector<AxisOverride> overrides) { return Plan(std::move(overrides)); }
  Scenario PairOf(const char* comm, const char* comp, const Values& values = {}) const {
    return ScenarioOf(std::string("Overlap/") + comm + "+" + comp, {&Find(comm), &Find(comp)},
                      values);
  }
  Scenario Alone(const char* workload, const Values& values = {}) const {
    return Baseline(std::string("Compute/") + workload, Find(workload), values);
  }
  const WorkloadSpec& Find(const char* workload) const { return registry_.Find(workload); }
  static std::vector<std::string> Names(const Plan& plan) {
    std::vector<std::string> names;
    for (const Benchmark& benchmark : plan.benchmarks()) names.push_back(benchmark.name);
    return names;
  }

  Registry registry_ = SmallRegistry();
};

TEST_F(PlanTest, NamesEveryCombination) {
  Plan plan = With({});
  plan.Add(PairOf("Talk", "Work"));
  EXPECT_EQ(Names(plan),
            (std::vector<std::string>{"Overlap/Talk+Work/bytes:1024/count:2/cache:cold",
                                      "Overlap/Talk+Work/bytes:1024/count:4/cache:cold"}));
}

TEST_F(PlanTest, ScenarioValuesOverrideWorkloadValues) {
  Plan plan = With({});
  plan.Add(Alone("Work", {{"count", "8"}, {"cache", "warm"}}));
  EXPECT_EQ(Names(plan), std::vector<std::string>{"Compute/Work/count:8/cache:warm"});
}

TEST_F(PlanTest, UserValuesOverrideBoth) {
  Plan plan = With({{"count", "6"}, {"cache", "warm"}, {"cadence", "streaming"}});
  plan.Add(Alone("Work", {{"count", "8"}}));
  EXPECT_EQ(Names(plan),
            std::vector<std::string>{"Compute/Work/count:6/cache:warm/cadence:streaming"});
}

// A flush between operations that run back to back would be part of the sample.
TEST_F(PlanTest, StreamsInAWarmCacheOnly) {
  Plan plan = With({{"cache", "cold,warm"}, {"cadence", "isolated,streaming"}});
  plan.Add(Alone("Even"));
  EXPECT_EQ(Names(plan), (std::vector<std::string>{
                             "Compute/Even/count:2/cache:cold", "Compute/Even/count:2/cache:warm",
                             "Compute/Even/count:2/cache:warm/cadence:streaming"}));
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Compute/Even/count:2/cache:cold/cadence:streaming");
  EXPECT_EQ(plan.unavailable()[0].reason,
            "cadence:streaming needs a warm cache (--axis cache=warm)");
}

TEST_F(PlanTest, LeavesStandingValuesOutOfNames) {
  Scenario scenario = Alone("Even");
  scenario.axes.push_back(ChoiceAxis("side", "", {"left", "right"}, "left,right", "left"));
  Plan plan = With({});
  plan.Add(scenario);
  EXPECT_EQ(Names(plan), (std::vector<std::string>{"Compute/Even/count:2/cache:cold",
                                                   "Compute/Even/count:2/cache:cold/side:right"}));
}

TEST_F(PlanTest, AddsMissingSampleAxesToAScenario) {
  Scenario scenario{.name = "Family/Own"};
  scenario.axes = {ChoiceAxis("cache", "", {"cold", "warm"}, "warm"),
                   ChoiceAxis("side", "", {"left", "right"}, "left")};
  Plan plan = With({});
  plan.Add(scenario);
  EXPECT_EQ(Names(plan), std::vector<std::string>{"Family/Own/cache:warm/side:left"});
  EXPECT_EQ(plan.benchmarks()[0].settings.Text("cadence"), "isolated");
}

TEST_F(PlanTest, HasEveryNameOnce) {
  Plan plan = With({});
  plan.Add(Alone("Work", {{"count", "2,4"}}));
  plan.Add(Alone("Work", {{"count", "4,6"}}));
  EXPECT_EQ(Names(plan), (std::vector<std::string>{"Compute/Work/count:2/cache:cold",
                                                   "Compute/Work/count:4/cache:cold",
                                                   "Compute/Work/count:6/cache:cold"}));
}

TEST_F(PlanTest, KeepsTheReasonIfAWorkloadIsMissing) {
  Plan plan = With({});
  plan.Add(PairOf("Lost", "Work"));
  EXPECT_TRUE(plan.benchmarks().empty());
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Overlap/Lost+Work");
  EXPECT_EQ(plan.unavailable()[0].reason, "Lost needs at least 2 GPUs");
}

TEST_F(PlanTest, KnowsTheAxesOfUnavailableScenarios) {
  Scenario scenario{.name = "Priority/Work", .missing = "streams have no priorities here"};
  scenario.axes = {ChoiceAxis("priority", "", {"high", "equal"}, "high")};
  Plan plan = With({{"priority", "equal"}});
  plan.Add(scenario);
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].reason, "streams have no priorities here");
  EXPECT_NO_THROW(plan.RequireKnownAxes());
}

TEST_F(PlanTest, KeepsTheReasonIfACombinationDoesNotExist) {
  Plan plan = With({{"count", "2,3"}});
  plan.Add(PairOf("Talk", "Even"));
  EXPECT_EQ(Names(plan),
            std::vector<std::string>{"Overlap/Talk+Even/bytes:1024/count:2/cache:cold"});
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Overlap/Talk+Even/bytes:1024/count:3/cache:cold");
  EXPECT_EQ(plan.unavailable()[0].reason, "count must be even");
}

// A value need not suit every benchmark that has its axis: a row with count:auto chooses among the
// even counts, since the others do not exist.
TEST_F(PlanTest, LetsARowChooseAmongExistingCombinations) {
  const auto candidates_of = [&](const std::vector<long>& counts) {
    Scenario scenario = Alone("Even");
    for (Axis& axis : scenario.axes)
      if (axis.name == "count") axis = OrAuto(axis, "auto");
    scenario.candidates = [counts](const Settings& settings) {
      std::vector<Settings> all;
      for (const long count : counts) all.push_back(settings.With("count", std::to_string(count)));
      return all;
    };
    Plan plan = With({});
    plan.Add(scenario);
    return plan;
  };
  const Plan two = candidates_of({1, 2, 3, 4});
  ASSERT_EQ(two.benchmarks().size(), 1U);
  EXPECT_EQ(two.benchmarks().front().name, "Compute/Even/count:auto/cache:cold");
  ASSERT_EQ(two.benchmarks().front().candidates.size(), 2U);
  EXPECT_EQ(two.benchmarks().front().candidates.back().Text("count"), "4");
  const Plan one = candidates_of({1, 2, 3});
  EXPECT_TRUE(one.benchmarks().front().candidates.empty()) << "there is nothing to choose";
  EXPECT_EQ(one.benchmarks().front().settings.Text("count"), "2");
  const Plan none = candidates_of({1, 3});
  ASSERT_EQ(none.unavailable().size(), 1U);
  EXPECT_EQ(none.unavailable().front().reason, "count must be even");
}

TEST_F(PlanTest, ListsCandidatesThatDoNotExistAsUnavailable) {
  Scenario scenario = Alone("Even");
  const Axis few = IntegerAxis("count", "", 1, 3, "2");
  scenario.candidates = [few](const Settings& settings) {
    return std::vector{settings.With("count", few.canonical("4"))};
  };
  Plan plan = With({});
  plan.Add(scenario);
  EXPECT_TRUE(plan.benchmarks().empty());
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable().front().name, "Compute/Even/count:2/cache:cold");
  EXPECT_EQ(plan.unavailable().front().reason, "'4' is not a whole number from 1 to 3");
}

TEST_F(PlanTest, SkipsScenariosThatRejectTheUsersValues) {
  registry_.Add(Spec("Few", {IntegerAxis("count", "", 1, 3, "2")}));
  Plan plan = With({{"count", "6"}});
  plan.Add(Alone("Few"));
  plan.Add(Alone("Work"));
  EXPECT_EQ(Names(plan), std::vector<std::string>{"Compute/Work/count:6/cache:cold"});
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Compute/Few");
  EXPECT_EQ(plan.unavailable()[0].reason, "axis count: '6' is not a whole number from 1 to 3");
  EXPECT_NO_THROW(plan.RequireKnownAxes());
}

TEST_F(PlanTest, RefusesValuesThatEveryScenarioRejects) {
  Plan plan = With({{"count", "600"}});
  plan.Add(Alone("Work"));
  EXPECT_EQ(TextOf([&] { plan.RequireKnownAxes(); }),
            "axis count: '600' is not a whole number from 1 to 100");
}

// "direction:both" in a name looks like an axis value, but no axis has it.
TEST_F(PlanTest, PointsToTheFilterForPartsOfNames) {
  Scenario out = Alone("Even");
  out.name = "Copy/Rate/direction:both";
  Scenario gelu = Alone("Work");
  gelu.axes.push_back(ChoiceAxis("direction", "", {"forward", "backward"}, "forward"));
  Plan plan = With({{"direction", "both"}});
  plan.Add(out);
  plan.Add(gelu);
  const std::string text = TextOf([&] { plan.RequireKnownAxes(); });
  EXPECT_TRUE(
      text.ends_with("; it is part of row names: select it with --benchmark_filter=direction:both"))
      << text;
}

TEST_F(PlanTest, RefusesAnUnknownAxis) {
  Plan plan = With({{"cuont", "1"}});
  plan.Add(PairOf("Talk", "Work"));
  EXPECT_EQ(TextOf([&] { plan.RequireKnownAxes(); }),
            "there is no axis 'cuont'; did you mean count? the axes are bytes, cache, cadence, "
            "count");
}

TEST_F(PlanTest, KnowsTheAxesOfWorkloadsWithoutAScenario) {
  Plan plan = With({{"blocks", "1"}});
  plan.Know({IntegerAxis("blocks", "", 1, 100, "8")});
  EXPECT_NO_THROW(plan.RequireKnownAxes());
  ASSERT_EQ(plan.axes().size(), 1U);
  EXPECT_EQ(plan.axes()[0].name, "blocks");
}

// The workload's own checks and its scenario's runs are made from the row's settings.
TEST_F(PlanTest, MakesTheRunsOfARowAtItsSettings) {
  Scenario scenario = Alone("Work");
  scenario.runs = [](const Settings& settings) {
    return std::vector<overlapbench::Run>{{.name = settings.Text("count")}};
  };
  Plan plan = With({});
  plan.Add(scenario);
  ASSERT_EQ(plan.benchmarks().size(), 2U);
  for (const Benchmark& one : plan.benchmarks())
    EXPECT_EQ(one.runs(one.settings).back().name, one.settings.Text("count")) << one.name;
}

class SelectTest : public PlanTest {
 protected:
  SelectTest() {
    plan_.Add(Alone("Work"));
    plan_.Add(Alone("Even"));
    for (const char* name : {"Lost", "Lost", "Gone"}) {
      Scenario lost = Alone("Lost");
      lost.name = std::string("Comm/") + name;
      plan_.Add(lost);
    }
  }
  std::vector<std::string> Selected(const std::string& filter) const {
    std::vector<std::string> names;
    for (const Benchmark& benchmark : Select(plan_, filter).benchmarks)
      names.push_back(benchmark.name);
    return names;
  }
  std::string RefusalOf(const std::string& filter) const {
    return TextOf([&] { RequireSomething(plan_, Select(plan_, filter), filter); });
  }
  Plan plan_ = With({});
};

TEST_F(SelectTest, SelectsTheNamesThatAnExpressionMatches) {
  EXPECT_EQ(Selected("."), Names(plan_));
  EXPECT_EQ(Selected("Even|count:4"),
            (std::vector<std::string>{"Compute/Work/count:4/cache:cold",
                                      "Compute/Even/count:2/cache:cold"}));
  EXPECT_EQ(Selected("-Work"), std::vector<std::string>{"Compute/Even/count:2/cache:cold"});
}

TEST_F(SelectTest, GivesTheReasonOnceForSelectedRowsThatCannotRun) {
  EXPECT_EQ(
      Select(plan_, "Comm").unavailable,
      std::vector<std::string>{"not available: Comm/Lost and 1 more: Lost needs at least 2 GPUs"});
  EXPECT_TRUE(Select(plan_, "Compute").unavailable.empty());
}

TEST_F(SelectTest, BreaksTheLinesOfWhatCannotRunOnATerminalOnly) {
  const std::string line =
      "not available: Comm/Lost/bytes:1024/cache:cold and 1 more: Lost needs at least 2 GPUs";
  const Selection selection{.benchmarks = {}, .unavailable = {line, "not available: Comm/Late"}};
  EXPECT_EQ(ShownUnavailable(selection, {.columns = 40, .is_terminal = false}),
            line + "\nnot available: Comm/Late\n");
  EXPECT_EQ(ShownUnavailable(selection, {.columns = 40, .is_terminal = true}),
            "not available: Comm/Lost/bytes:1024/\n"
            "    cache:cold and 1 more: Lost needs at\n"
            "    least 2 GPUs\n"
            "not available: Comm/Late\n");
  EXPECT_EQ(ShownUnavailable({}, {}), "");
}

TEST_F(SelectTest, RefusesAFilterThatSelectsNothing) {
  EXPECT_EQ(RefusalOf("Comm/Lost"),
            "no benchmark matches --benchmark_filter=Comm/Lost; not available: Comm/Lost: Lost "
            "needs at least 2 GPUs");
  EXPECT_EQ(RefusalOf("Lots"),
            "no benchmark matches --benchmark_filter=Lots; did you mean Lost? "
            "--benchmark_list_tests lists the names");
  // Only a word that is in no name can be a slip.
  EXPECT_EQ(RefusalOf("Compute/Wrok"),
            "no benchmark matches --benchmark_filter=Compute/Wrok; did you mean Work? "
            "--benchmark_list_tests lists the names");
  EXPECT_EQ(RefusalOf("Work.*cuont:[24]"),
            "no benchmark matches --benchmark_filter=Work.*cuont:[24]; did you mean count? "
            "--benchmark_list_tests lists the names");
  EXPECT_EQ(RefusalOf("Work/Even"),
            "no benchmark matches --benchmark_filter=Work/Even; --benchmark_list_tests lists the "
            "names");
  // It may also be a part of a word, or a value that no row has.
  EXPECT_EQ(RefusalOf("Compute/Wor/"),
            "no benchmark matches --benchmark_filter=Compute/Wor/; did you mean Work? "
            "--benchmark_list_tests lists the names");
  EXPECT_EQ(RefusalOf("Work.*count:32K"),
            "no benchmark matches --benchmark_filter=Work.*count:32K; no row has count:32K, but "
            "--axis count=32K measures it; --benchmark_list_tests lists the names");
  EXPECT_EQ(TextOf([&] { Select(plan_, "("); }),
            "--benchmark_filter: '(' is not a regular expression");
  EXPECT_NO_THROW(RequireSomething(plan_, Select(plan_, "Work"), "Work"));
}

TEST_F(SelectTest, SaysThatALiteralPlusMustBeEscaped) {
  const std::string says = "no benchmark matches --benchmark_filter=";
  const std::string how = "; its + is an operator; for a literal +, write --benchmark_filter=";
  plan_.Add(PairOf("Talk", "Work"));
  plan_.Add(PairOf("Lost", "Work"));
  EXPECT_EQ(RefusalOf("Talk+Work"), says + "Talk+Work" + how + R"('Talk\+Work')");
  EXPECT_EQ(RefusalOf("Talk+Work.*count:4"),
            says + "Talk+Work.*count:4" + how + R"('Talk\+Work.*count:4')");
  EXPECT_EQ(RefusalOf("Lost+Work"), says + "Lost+Work" + how + R"('Lost\+Work')");
  EXPECT_EQ(RefusalOf("Talk+Walk"), says + "Talk+Walk; --benchmark_list_tests lists the names");
  EXPECT_EQ(Selected(R"(Talk\+Work.*count:4)").size(), 1U);
  EXPECT_EQ(Selected("Tal+k").size(), 0U + Selected("Talk").size());
}

TEST_F(SelectTest, TakesSizesInBothForms) {
  plan_.Add(PairOf("Talk", "Even", {{"bytes", "1M,64M"}}));
  const std::vector<std::string> both = {"Overlap/Talk+Even/bytes:1048576/count:2/cache:cold",
                                         "Overlap/Talk+Even/bytes:67108864/count:2/cache:cold"};
  EXPECT_EQ(Selected("bytes:64M"), std::vector<std::string>{both[1]});
  EXPECT_EQ(Selected("bytes:67108864"), std::vector<std::string>{both[1]});
  EXPECT_EQ(Selected("bytes:(1M|64M)/count:2"), both);
}

TEST_F(PlanTest, ThrowsForAnUnknownWorkload) { EXPECT_THROW((void)Find("Nothing"), Error); }

// Half a character would make the message unreadable.
TEST(ShownFilter, IsCutBetweenCharacters) {
  const std::string filter = std::string(59, 'x') + "é" + std::string(300, 'y');
  EXPECT_EQ(ShownFilter(filter), std::string(59, 'x') + "… (361 characters)");
}

}  // namespace
}  // namespace overlapbench
