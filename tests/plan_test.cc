// The plan: which benchmarks a registry and the user's axes make, and why others cannot be made.
#include "benchmarks/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "fixtures/baseline_fixture.h"
#include "fixtures/overlap_fixture.h"

namespace overlapbench {
namespace {

WorkloadSpec Spec(const std::string& name, std::vector<Axis> axes) {
  WorkloadSpec spec;
  spec.name = name;
  spec.axes = std::move(axes);
  return spec;
}

// A computation whose count must be even, a communication, and one that is not available.
Registry SmallRegistry() {
  Registry registry;
  registry.Add(Spec("Work", {IntegerAxis("count", "", 1, 100, "2,4")}));
  WorkloadSpec even = Spec("Even", {IntegerAxis("count", "", 1, 100, "2")});
  even.excluded = [](const Settings& settings) {
    return settings.Integer("count") % 2 == 0 ? "" : "count must be even";
  };
  registry.Add(even);
  registry.Add(Spec("Talk", {BytesAxis("bytes", "", "1K")}));
  registry.Add(Unavailable("Lost", Side::kComm, "needs at least 2 GPUs"));
  return registry;
}

std::vector<std::string> Names(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& benchmark : plan.benchmarks()) names.push_back(benchmark.configuration.name);
  return names;
}

TEST(Plan, NamesEveryCombination) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<OverlapFixture>("Overlap", {"Talk", "Work", {}});
  EXPECT_EQ(Names(plan),
            (std::vector<std::string>{"Overlap/Talk+Work/bytes:1024/count:2/cache:cold",
                                      "Overlap/Talk+Work/bytes:1024/count:4/cache:cold"}));
}

TEST(Plan, TakesACasesValuesInPlaceOfTheWorkloads) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<BaselineFixture>("Compute", {"", "Work", {{"count", "8"}, {"cache", "warm"}}});
  EXPECT_EQ(Names(plan), std::vector<std::string>{"Compute/Work/count:8/cache:warm"});
}

TEST(Plan, TakesTheUsersValuesInPlaceOfBoth) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {{"count", "6"}, {"cadence", "streaming"}});
  plan.Add<BaselineFixture>("Compute", {"", "Work", {{"count", "8"}}});
  EXPECT_EQ(Names(plan),
            std::vector<std::string>{"Compute/Work/count:6/cache:cold/cadence:streaming"});
}

TEST(Plan, HasEveryNameOnce) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<BaselineFixture>("Compute", {"", "Work", {{"count", "2,4"}}});
  plan.Add<BaselineFixture>("Compute", {"", "Work", {{"count", "4,6"}}});
  EXPECT_EQ(Names(plan), (std::vector<std::string>{"Compute/Work/count:2/cache:cold",
                                                   "Compute/Work/count:4/cache:cold",
                                                   "Compute/Work/count:6/cache:cold"}));
}

TEST(Plan, KeepsTheReasonWhereAWorkloadIsMissing) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<OverlapFixture>("Overlap", {"Lost", "Work", {}});
  EXPECT_TRUE(plan.benchmarks().empty());
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Overlap/Lost+Work");
  EXPECT_EQ(plan.unavailable()[0].reason, "Lost needs at least 2 GPUs");
}

TEST(Plan, KeepsTheReasonWhereACombinationDoesNotExist) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {{"count", "2,3"}});
  plan.Add<OverlapFixture>("Overlap", {"Talk", "Even", {}});
  EXPECT_EQ(Names(plan),
            std::vector<std::string>{"Overlap/Talk+Even/bytes:1024/count:2/cache:cold"});
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].reason, "count must be even");
}

TEST(Plan, HoldsACaseAgainstItsReferences) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<BaselineFixture>("Copy", {"", "Work", {{"count", "2"}}, {"Even", "Work"}});
  ASSERT_EQ(Names(plan), std::vector<std::string>{"Copy/Work/count:2/cache:cold"});
  std::vector<std::string> specs;
  for (const Part& part : plan.benchmarks()[0].configuration.parts())
    specs.push_back(part.spec->name);
  EXPECT_EQ(specs, (std::vector<std::string>{"Even", "Work", "Work"}));
}

TEST(Plan, GivesReferencesSettingsOfTheirOwn) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  Case one{"", "Work", {{"count", "3"}}, {"Even"}};
  one.reference_settings = [](const WorkloadSpec& reference, const Settings& settings) {
    return SettingsOf(reference.axes, {{"count", std::to_string(2 * settings.Integer("count"))}});
  };
  plan.Add<BaselineFixture>("Copy", one);
  ASSERT_EQ(plan.benchmarks().size(), 1U);
  EXPECT_EQ(plan.benchmarks()[0].configuration.references[0].settings.Integer("count"), 6);
  EXPECT_EQ(plan.benchmarks()[0].configuration.settings.Integer("count"), 3);
}

TEST(Plan, KeepsTheReasonWhereAReferenceCannotRun) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<BaselineFixture>("Copy", {"", "Work", {{"count", "3"}}, {"Even"}});
  plan.Add<BaselineFixture>("Copy", {"", "Work", {{"count", "2"}}, {"Lost"}});
  EXPECT_TRUE(plan.benchmarks().empty());
  ASSERT_EQ(plan.unavailable().size(), 2U);
  EXPECT_EQ(plan.unavailable()[0].reason, "count must be even");
  EXPECT_EQ(plan.unavailable()[1].reason, "Lost needs at least 2 GPUs");
}

TEST(Plan, TakesATitleInPlaceOfTheWorkloadsNames) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.Add<OverlapFixture>("Copy", {"Talk", "Work", {{"count", "2"}}, {}, "Rate/direction:both"});
  EXPECT_EQ(Names(plan),
            std::vector<std::string>{"Copy/Rate/direction:both/bytes:1024/count:2/cache:cold"});
}

TEST(Plan, SaysWhyAWholeFamilyCannotRun) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {});
  plan.AddUnavailable<OverlapFixture>("Priority", "streams have no priorities here");
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Priority");
  EXPECT_EQ(plan.unavailable()[0].reason, "streams have no priorities here");
  // Its axes are known all the same.
  EXPECT_EQ(plan.method_axes().back().name, "streams");
}

// A value may be for other benchmarks than all that have the axis.
TEST(Plan, SetsAsideWhatDoesNotTakeTheUsersValues) {
  Registry registry = SmallRegistry();
  registry.Add(Spec("Few", {IntegerAxis("count", "", 1, 3, "2")}));
  Plan plan(registry, Backend::kHost, {{"count", "6"}});
  plan.Add<BaselineFixture>("Compute", {"", "Few", {}});
  plan.Add<BaselineFixture>("Compute", {"", "Work", {}});
  EXPECT_EQ(Names(plan), std::vector<std::string>{"Compute/Work/count:6/cache:cold"});
  ASSERT_EQ(plan.unavailable().size(), 1U);
  EXPECT_EQ(plan.unavailable()[0].name, "Compute/Few");
  EXPECT_EQ(plan.unavailable()[0].reason, "axis count: '6' is not a whole number from 1 to 3");
  EXPECT_NO_THROW(plan.RequireKnownAxes());
}

TEST(Plan, RefusesValuesThatNothingTakes) {
  const Registry registry = SmallRegistry();
  Plan plan(registry, Backend::kHost, {{"count", "600"}});
  plan.Add<BaselineFixture>("Compute", {"", "Work", {}});
  EXPECT_THROW(plan.RequireKnownAxes(), UsageError);
}

TEST(Plan, RefusesAnAxisThatNothingHas) {
  const Registry registry = SmallRegistry();
  try {
    const Plan plan(registry, Backend::kHost, {{"cuont", "1"}});
    plan.RequireKnownAxes();
    FAIL() << "the axis was taken";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("there is no axis 'cuont'; the axes are bytes, cache, "), 0U) << text;
    EXPECT_NE(text.find(", count"), std::string::npos) << text;
  }
}

// What rows leave over of the matrix is not copied either; a copy takes whole words.
TEST(PlanSoftmax, CopiesWhatTheRowsFill) {
  Registry registry;
  for (const auto* name :
       {"SoftmaxFused", "SoftmaxUnfused", "SoftmaxBlockPerRow", "SoftmaxTwoPass", "SoftmaxCudnn"}) {
    registry.Add(Spec(
        name, {IntegerAxis("columns", "", 32, 262144, "1024"), BytesAxis("matrix_bytes", "", "4M"),
               ChoiceAxis("precision", "", {"fp32", "bf16"}, "fp32")}));
  }
  registry.Add(Spec("DeviceCopy", {BytesAxis("bytes", "", "1M")}));
  Plan plan(registry, Backend::kHost,
            {{"columns", "131073,262144"}, {"matrix_bytes", "1M"}, {"precision", "fp32,bf16"}});
  PlanSoftmax(plan, Backend::kHost);
  ASSERT_EQ(plan.benchmarks().size(), 5U * 4);
  const std::map<std::string, long> expected = {{"131073 fp32", 524292},
                                                {"131073 bf16", 786440},
                                                {"262144 fp32", 1048576},
                                                {"262144 bf16", 1048576}};
  for (const auto& benchmark : plan.benchmarks()) {
    const Configuration& one = benchmark.configuration;
    ASSERT_EQ(one.references[0].spec->name, "DeviceCopy");
    EXPECT_EQ(one.references[0].settings.Integer("bytes"),
              expected.at(one.settings.Text("columns") + " " + one.settings.Text("precision")))
        << one.name;
  }
}

TEST(Registry, ThrowsForAnUnknownWorkload) {
  EXPECT_THROW((void)SmallRegistry().Find("Nothing"), Error);
}

}  // namespace
}  // namespace overlapbench
