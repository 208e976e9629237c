// The ranges that profilers see of a row, recorded by a tool in their place (record_nvtx.h). Only
// builds with CUDA emit ranges; no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device/trace.h"
#include "fake_workload.h"
#include "fixtures/session.h"
#include "record_nvtx.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

class NvtxTest : public testing::Test {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's

  // NVTX looks for a tool at its first call.
  static void SetUpTestSuite() { setenv("NVTX_INJECTION64_PATH", RECORD_NVTX_LIBRARY, 1); }
  void SetUp() override { TheNvtxRecord().ranges.clear(); }

  static const std::vector<RecordedRange>& ranges() { return TheNvtxRecord().ranges; }
  static std::vector<RecordedRange> Named(const std::string& name) {
    std::vector<RecordedRange> found;
    std::ranges::copy_if(ranges(), std::back_inserter(found),
                         [&](const RecordedRange& range) { return range.name == name; });
    return found;
  }
};

TEST_F(NvtxTest, RangesHaveADomainACategoryAndANumber) {
  {
    const TraceRange row(RangeKind::kRow, "Family/Row");
    const TraceRange wait(RangeKind::kWait, "wait", 1ULL << 40U);
  }
  EXPECT_TRUE(TraceRange::IsHeard());
  EXPECT_EQ(TheNvtxRecord().domains, std::deque<std::string>{"overlapbench"});
  std::vector<std::string> categories;
  for (const auto& [number, name] : TheNvtxRecord().categories) {
    EXPECT_GT(number, 0U) << "which stands for none";
    categories.push_back(name);
  }
  EXPECT_EQ(categories,
            (std::vector<std::string>{"row", "run", "COMP", "COMM", "MEM", "gate", "wait"}));
  ASSERT_EQ(ranges().size(), 2U);
  EXPECT_EQ(ranges()[0].name, "Family/Row");
  EXPECT_EQ(ranges()[0].category, "row");
  EXPECT_FALSE(ranges()[0].payload);
  EXPECT_EQ(ranges()[1].category, "wait");
  EXPECT_EQ(ranges()[1].payload, 1ULL << 40U);
  EXPECT_EQ(ranges()[1].depth, ranges()[0].depth + 1);
  EXPECT_EQ(TheNvtxRecord().open, 0U);
}

TEST_F(NvtxTest, ANameIsRegisteredOnce) {
  for (int i = 0; i < 3; ++i) const TraceRange range(RangeKind::kRun, "again");
  EXPECT_EQ(Named("again").size(), 3U);
  EXPECT_EQ(std::ranges::count(TheNvtxRecord().registered, "again"), 1);
}

TEST_F(NvtxTest, ASampleShowsItsRunItsGateAndItsSteps) {
  const auto device = OpenHostDevice(1);
  Machine machine{*device, TestRanks()};
  Behaviour computes;
  computes.cost = {.flops = 1, .moved_bytes = 4096};
  Behaviour communicates;
  communicates.cost = {.memory_bytes = 999, .wire_bytes = 3000};
  const Behaviour nothing;
  Run run{.name = "overlapped"};
  const auto comp = run.schedule.AddLane({"comp"});
  const auto comm = run.schedule.AddLane({"comm"});
  run.schedule.Add(comp, FakeWork("product", WorkClass::kCompute, computes));
  const Work sum = FakeWork("sum", WorkClass::kComm, communicates);
  run.schedule.Add(comm, sum, {.part = {0, 3}, .name = "first third"});
  run.schedule.Add(comm, FakeWork("nothing", WorkClass::kMemory, nothing));
  Session session(machine,
                  {.name = "Family/Row",
                   .settings = SettingsOf({ChoiceAxis("cache", "", {"warm"}, "warm"),
                                           ChoiceAxis("cadence", "", {"isolated"}, "isolated")},
                                          {}),
                   .runs = [&](const Settings&) { return std::vector{run}; },
                   .report = {}});
  session.SetUp(true);
  session.Measure();
  TheNvtxRecord().ranges.clear();
  session.Measure();
  struct Expected {
    const char* name;
    const char* category;
    std::optional<std::uint64_t> payload;
    std::size_t depth;
  };
  const std::vector<Expected> expected = {
      {"sample", "run", 1, 0},      {"overlapped", "run", {}, 1},     {"gate", "gate", {}, 2},
      {"product", "COMP", 4096, 3}, {"first third", "COMM", 1000, 3}, {"nothing", "MEM", {}, 3},
      {"wait", "wait", {}, 2}};
  ASSERT_EQ(ranges().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(expected[i].name);
    EXPECT_EQ(ranges()[i].name, expected[i].name);
    EXPECT_EQ(ranges()[i].category, expected[i].category);
    EXPECT_EQ(ranges()[i].payload, expected[i].payload);
    EXPECT_EQ(ranges()[i].depth, expected[i].depth);
  }
  EXPECT_EQ(TheNvtxRecord().open, 0U);
}

}  // namespace
}  // namespace overlapbench
