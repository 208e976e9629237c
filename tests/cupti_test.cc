// A CUPTI that refuses a watch: one line says why, nothing is left behind, and the row is measured
// anyway. Uses a fake CUPTI (fake_cupti.h), so no GPU is needed.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/cuda/cupti_watch.h"
#include "device/error.h"
#include "fake_cupti.h"
#include "fake_workload.h"
#include "fixtures/timed_fixture.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

constexpr int kInsufficientPrivileges = 35;
constexpr int kMultipleSubscribersNotSupported = 39;

bool& FindsNoLibrary() {
  static bool finds_none = false;
  return finds_none;
}

}  // namespace

// Takes the place of dlopen where this program calls it (the linker's --wrap), but not in libraries
// such as MPI's.
void* RealOpen(const char* name, int flags) asm("__real_dlopen");
void* InsteadOfOpen(const char* name, int flags) asm("__wrap_dlopen");
void* InsteadOfOpen(const char* name, int flags) {
  return FindsNoLibrary() ? nullptr : RealOpen(name, flags);
}

namespace {

class CuptiTest : public testing::Test {
 protected:
  void SetUp() override { TheFakeCupti() = {}; }

  std::unique_ptr<ActivityWatch> Watch() { return WatchByCupti(log_); }
  // Why there is no watch.
  std::string Refusal() {
    try {
      Watch();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::shared_ptr<ActivityLog> log_ = std::make_shared<ActivityLog>();
};

// These three come first: once it has been opened and set up, it stays so.
TEST_F(CuptiTest, OneThatIsNotThereIsNamed) {
  FindsNoLibrary() = true;
  const std::string refusal = Refusal();
  FindsNoLibrary() = false;
  EXPECT_EQ(refusal, "a trace needs CUPTI (" FAKE_CUPTI_NAME
                     " was not found): install it, or name its folder in LD_LIBRARY_PATH");
}

// Nsight Systems loses its buffers to whoever registers callbacks after it, and crashes.
TEST_F(CuptiTest, OneThatAProfilerHasIsLeftAlone) {
  TheFakeCupti().refused = {{"cuptiSubscribe", kMultipleSubscribersNotSupported}};
  EXPECT_EQ(Refusal(), "CUPTI is in use: is a profiler attached to this process?");
  EXPECT_EQ(TheFakeCupti().registrations, 0);
}

TEST_F(CuptiTest, OneThatCannotBeSetUpIsTriedAgain) {
  TheFakeCupti().refused = {{"cuptiActivityRegisterCallbacks", kInsufficientPrivileges}};
  EXPECT_EQ(Refusal(),
            "cuptiActivityRegisterCallbacks failed: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
  EXPECT_EQ(TheFakeCupti().subscribers, 0);
  TheFakeCupti().refused.clear();
  EXPECT_EQ(Refusal(), "");
}

TEST_F(CuptiTest, OneThatAProfilerHasIsInUse) {
  TheFakeCupti().refused = {{"cuptiSubscribe", kMultipleSubscribersNotSupported}};
  EXPECT_EQ(Refusal(), "CUPTI is in use: is a profiler attached to this process?");
  EXPECT_EQ(Refusal(), "CUPTI is in use: is a profiler attached to this process?");
  TheFakeCupti().refused.clear();
  EXPECT_EQ(Refusal(), "") << "the refused watches must have ended";
  EXPECT_EQ(TheFakeCupti().subscribers, 0);
}

// With CUPTI's text for the code, and without one.
TEST_F(CuptiTest, OneThatCannotBeHadIsNotInUse) {
  TheFakeCupti().refused = {{"cuptiSubscribe", kInsufficientPrivileges}};
  EXPECT_EQ(Refusal(), "cuptiSubscribe failed: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
  constexpr int kNotInitialized = 15;
  TheFakeCupti().refused = {{"cuptiSubscribe", kNotInitialized}};
  EXPECT_EQ(Refusal(), "cuptiSubscribe failed: 15");
  TheFakeCupti().refused.clear();
  EXPECT_EQ(Refusal(), "");
}

TEST_F(CuptiTest, ARefusedWatchLeavesItsPlace) {
  TheFakeCupti().refused = {{"cuptiActivityEnable", kInsufficientPrivileges}};
  EXPECT_EQ(Refusal(), "cuptiActivityEnable failed: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
  EXPECT_EQ(TheFakeCupti().subscribers, 0);
  TheFakeCupti().refused = {{"cuptiActivityEnable", 1}};
  EXPECT_EQ(Refusal(), "cuptiActivityEnable failed: 1") << "CUPTI has no text for it";
}

TEST_F(CuptiTest, AWatchHoldsItsPlaceUntilItEnds) {
  {
    const auto watch = Watch();
    EXPECT_EQ(TheFakeCupti().subscribers, 1);
    EXPECT_EQ(watch->Stop().records.size(), 0U);
    EXPECT_EQ(TheFakeCupti().subscribers, 0);
  }
  EXPECT_EQ(TheFakeCupti().subscribers, 0);
}

// As the cuda backend does.
class WatchedByCupti : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<ActivityWatch> Activities() override {
    return WatchByCupti(std::make_shared<ActivityLog>());
  }
};

class Rows : public benchmark::BenchmarkReporter {
 public:
  explicit Rows(FinishedRows& finished) : finished_(finished) {}
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override { rows = finished_.Take(runs); }
  std::vector<Row> rows;

 private:
  FinishedRows& finished_;
};

TEST_F(CuptiTest, ARowIsMeasuredAllTheSame) {
  using std::chrono_literals::operator""ms;
  TheFakeCupti().refused = {{"cuptiSubscribe", kMultipleSubscribersNotSupported}};
  WatchedByCupti device(OpenHostDevice(1));
  Options options;
  options.budget = 1ms;
  Suite suite{{device, TestRanks()}, options};
  suite.write_trace = [](const RowTrace&) { ADD_FAILURE() << "there is nothing to write"; };
  overlapbench::Benchmark row;
  row.name = "Race/Horse";
  row.settings = row.settings.With("cache", "warm").With("cadence", "isolated");
  const Behaviour horse;
  row.runs = [&](const Settings&) {
    return std::vector{SoloRun(FakeWork("horse", WorkClass::kCompute, horse), false)};
  };
  row.report = [](const Measurement&, Counters&) { return Remark(); };
  Register(suite, row);
  Rows rows(suite.finished);
  benchmark::RunSpecifiedBenchmarks(&rows, ".");
  benchmark::ClearRegisteredBenchmarks();
  ASSERT_EQ(rows.rows.size(), 1U);
  EXPECT_EQ(rows.rows[0].Counter("valid"), 1) << rows.rows[0].reason;
  EXPECT_FALSE(rows.rows[0].counters.contains("breakdown_valid"));
  EXPECT_NE(suite.no_traces.find("CUPTI is in use"), std::string::npos) << suite.no_traces;
  EXPECT_EQ(suite.no_traces.find('\n'), std::string::npos) << suite.no_traces;
}

}  // namespace
}  // namespace overlapbench
