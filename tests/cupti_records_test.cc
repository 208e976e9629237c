// How a watch reads CUPTI's records: works, the calls that enqueued them, marks, and lost records.
// A fake CUPTI (fake_cupti.h) delivers made-up records, so no GPU is needed.
#include <cupti.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/cupti_watch.h"
#include "fake_cupti.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kMarks = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
// How exactly the two clocks can be compared. Sleeps between moments are longer.
constexpr double kClock_ms = 0.5;

// Of the steady clock, and of CUPTI's.
struct Instant {
  static Instant Now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }
  [[nodiscard]] double steady_ms() const {
    return std::chrono::duration<double, std::milli>(since_).count();
  }
  [[nodiscard]] std::uint64_t cupti_ns() const {
    return FakeCupti::kAhead_ns + static_cast<std::uint64_t>(since_.count());
  }

  std::chrono::nanoseconds since_;
};

struct Times {
  Instant begin;
  Instant end;
};

class CuptiRecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    TheFakeCupti() = {};
    watch_ = WatchByCupti(std::make_shared<ActivityLog>());
  }

  // The times of a short sleep that has just ended.
  static Times Pass() {
    const Instant begin = Instant::Now();
    std::this_thread::sleep_for(2ms);
    return {begin, Instant::Now()};
  }

  // Fills in the fields that all records of works have.
  template <class Record>
  static Record Work(CUpti_ActivityKind kind, std::uint32_t correlation,
                     const Times& times = Pass()) {
    Record record = {};
    record.kind = kind;
    record.correlationId = correlation;
    record.streamId = 7;
    record.start = times.begin.cupti_ns();
    record.end = times.end.cupti_ns();
    return record;
  }
  static void AddKernel(std::uint32_t correlation, const char* name = "kernel",
                        const Times& times = Pass()) {
    auto kernel =
        Work<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, correlation, times);
    kernel.name = name;
    TheFakeCupti().Add(kernel);
  }
  static void AddCall(CUpti_ActivityKind kind, std::uint32_t id, std::uint32_t correlation,
                      const Times& times) {
    CUpti_ActivityAPI call = {};
    call.kind = kind;
    call.cbid = id;
    call.correlationId = correlation;
    call.start = times.begin.cupti_ns();
    call.end = times.end.cupti_ns();
    TheFakeCupti().Add(call);
  }
  static void AddMark(std::uint32_t correlation, std::uint64_t mark,
                      CUpti_ExternalCorrelationKind kind = kMarks) {
    CUpti_ActivityExternalCorrelation external = {};
    external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    external.externalKind = kind;
    external.externalId = mark;
    external.correlationId = correlation;
    TheFakeCupti().Add(external);
  }

  // Ends the watch. The records, by correlation; a call is behind its works.
  std::vector<Activity> Records() {
    Activities all = watch_->Stop();
    EXPECT_EQ(all.dropped, 0);
    std::ranges::stable_sort(all.records, {}, &Activity::correlation);
    return std::move(all.records);
  }
  Activity OnlyRecord() {
    const auto records = Records();
    EXPECT_EQ(records.size(), 1U);
    return records.empty() ? Activity() : records.front();
  }

  ActivityWatch& watch() { return *watch_; }
  void EndWithoutStop() { watch_.reset(); }

 private:
  std::unique_ptr<ActivityWatch> watch_;
};

TEST_F(CuptiRecordsTest, AKernelHasItsCallItsMarkAndItsTimes) {
  TheFakeCupti().calls[{CUPTI_CB_DOMAIN_RUNTIME_API, 211}] = "cudaLaunchKernel_v7000";
  const Times call_times = Pass();
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 211, 11, call_times);
  AddMark(11, 5);
  const Times times = Pass();
  auto made = Work<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 11, times);
  made.name = "_ZN3foo3barIfEEvPT_";
  made.gridX = 4;
  made.gridY = 3;
  made.gridZ = 2;
  made.blockX = 128;
  TheFakeCupti().Add(made);
  const auto records = Records();
  ASSERT_EQ(records.size(), 2U);
  const Activity& kernel = records[0];
  EXPECT_EQ(kernel.kind, ActivityKind::kKernel);
  EXPECT_EQ(kernel.name, "void foo::bar<float>(float*)");
  EXPECT_EQ(kernel.blocks, 4 * 3 * 2);
  EXPECT_EQ(kernel.stream, 7U);
  EXPECT_EQ(kernel.correlation, 11U);
  EXPECT_EQ(kernel.mark, 5U);
  EXPECT_EQ(kernel.bytes, 0);
  EXPECT_FALSE(kernel.by_copy_engine);
  EXPECT_FALSE(kernel.peer.has_value());
  EXPECT_NEAR(kernel.begin_ms, times.begin.steady_ms(), kClock_ms);
  EXPECT_NEAR(kernel.end_ms, times.end.steady_ms(), kClock_ms);
  EXPECT_NEAR(kernel.call_ms, call_times.begin.steady_ms(), kClock_ms);
  EXPECT_NEAR(kernel.enqueued_ms, call_times.end.steady_ms(), kClock_ms);
  const Activity& call = records[1];
  EXPECT_EQ(call.kind, ActivityKind::kCall);
  EXPECT_EQ(call.name, "cudaLaunchKernel");
  EXPECT_EQ(call.correlation, 11U);
  EXPECT_EQ(call.mark, 5U);
  EXPECT_EQ(call.begin_ms, kernel.call_ms);
  EXPECT_EQ(call.end_ms, kernel.enqueued_ms);
}

// Or they would leave no room for the records of a thousand samples.
TEST_F(CuptiRecordsTest, CallsThatPollAreNotRecorded) {
  const std::set<std::pair<int, std::uint32_t>> polls = {
      {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020},
      {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020},
      {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuEventQuery},
      {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuStreamQuery}};
  EXPECT_EQ(TheFakeCupti().silenced, polls);
}

// CUPTI gives buffers back at its own times, many of them nearly empty.
TEST_F(CuptiRecordsTest, EmptyRoomInBuffersIsGivenBack) {
  constexpr std::uint32_t kBuffers = 600;  // of a megabyte, where 512 full ones are kept
  const Times times = Pass();
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    AddKernel(i, "kernel", times);
    cuptiActivityFlushAll(0);
  }
  EXPECT_EQ(Records().size(), kBuffers);
}

TEST_F(CuptiRecordsTest, ACopyBetweenDevicesNamesTheOtherOne) {
  auto copy = Work<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, 1);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  copy.bytes = 5'000'000'000;
  copy.deviceId = 2;
  copy.srcDeviceId = 2;
  copy.dstDeviceId = 3;
  TheFakeCupti().Add(copy);
  copy.correlationId = 2;
  copy.deviceId = 3;
  TheFakeCupti().Add(copy);
  const auto records = Records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].peer, 3) << "device 2 made it";
  EXPECT_EQ(records[1].peer, 2) << "device 3 made it";
  for (const Activity& one : records) {
    EXPECT_EQ(one.kind, ActivityKind::kCopy);
    EXPECT_EQ(one.name, "Memcpy PtoP");
    EXPECT_EQ(one.bytes, 5e9);
    EXPECT_EQ(one.stream, 7U);
    EXPECT_TRUE(one.by_copy_engine);
  }
}

TEST_F(CuptiRecordsTest, OnlyCopiesWithinADeviceAreMadeBySMs) {
  struct Case {
    std::uint8_t kind;
    const char* name;
    bool by_copy_engine;
  };
  const std::vector<Case> cases = {{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, "Memcpy HtoD", true},
                                   {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, "Memcpy DtoH", true},
                                   {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, "Memcpy DtoD", false},
                                   {CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN, "Memcpy", true}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    auto copy =
        Work<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY, static_cast<std::uint32_t>(i));
    copy.copyKind = cases[i].kind;
    copy.bytes = 100 + i;
    TheFakeCupti().Add(copy);
  }
  const auto records = Records();
  ASSERT_EQ(records.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(records[i].kind, ActivityKind::kCopy);
    EXPECT_EQ(records[i].name, cases[i].name);
    EXPECT_EQ(records[i].bytes, static_cast<double>(100 + i));
    EXPECT_EQ(records[i].by_copy_engine, cases[i].by_copy_engine) << cases[i].name;
    EXPECT_FALSE(records[i].peer.has_value());
  }
}

TEST_F(CuptiRecordsTest, AFillHasItsBytes) {
  auto made = Work<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, 1);
  made.bytes = 4096;
  TheFakeCupti().Add(made);
  const Activity fill = OnlyRecord();
  EXPECT_EQ(fill.kind, ActivityKind::kFill);
  EXPECT_EQ(fill.name, "Memset");
  EXPECT_EQ(fill.bytes, 4096);
  EXPECT_FALSE(fill.by_copy_engine);
}

// A call of the runtime makes one of the driver. CUPTI hands them over as they end, or later.
TEST_F(CuptiRecordsTest, OfCallsInOneAnotherTheOuterCounts) {
  TheFakeCupti().calls = {{{CUPTI_CB_DOMAIN_RUNTIME_API, 1}, "cudaMemcpyAsync_ptsz"},
                          {{CUPTI_CB_DOMAIN_DRIVER_API, 1}, "cuMemcpyAsync_v2"}};
  const Instant begin = Instant::Now();
  const Times inner = Pass();
  std::this_thread::sleep_for(2ms);
  const Times outer = {begin, Instant::Now()};
  for (const std::uint32_t correlation : {1, 2}) {
    AddKernel(correlation);
    if (correlation == 1) AddCall(CUPTI_ACTIVITY_KIND_DRIVER, 1, correlation, inner);
    AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, correlation, outer);
    if (correlation == 2) AddCall(CUPTI_ACTIVITY_KIND_DRIVER, 1, correlation, inner);
  }
  AddKernel(3);
  AddCall(CUPTI_ACTIVITY_KIND_DRIVER, 1, 3, inner);
  const auto records = Records();
  ASSERT_EQ(records.size(), 6U);
  for (const std::size_t call : {1, 3}) {
    EXPECT_EQ(records[call].name, "cudaMemcpyAsync_ptsz");
    EXPECT_NEAR(records[call].end_ms, outer.end.steady_ms(), kClock_ms);
  }
  EXPECT_EQ(records[5].name, "cuMemcpyAsync");
  EXPECT_NEAR(records[5].end_ms, inner.end.steady_ms(), kClock_ms);
}

TEST_F(CuptiRecordsTest, CallsThatEnqueueNothingAreLeftOut) {
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, 1, Pass());
  AddMark(1, 5);
  CUpti_Activity unknown = {};
  unknown.kind = CUPTI_ACTIVITY_KIND_NAME;
  TheFakeCupti().Add(unknown);
  AddKernel(2);
  EXPECT_EQ(OnlyRecord().correlation, 2U);
}

TEST_F(CuptiRecordsTest, WithoutAMarkOfItsOwnACallHasTheLatestOne) {
  const Times before = Pass();
  watch().Mark(3);
  const Times between = Pass();
  watch().Mark(4);
  const Times behind = Pass();
  AddKernel(1);
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, 1, {before.begin, before.begin});
  AddKernel(2);
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, 2, {between.end, between.end});
  AddKernel(3);
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, 3, {behind.end, behind.end});
  AddKernel(4);
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, 4, {behind.end, behind.end});
  AddMark(4, 3);  // its own
  AddKernel(5);
  AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, 1, 5, {behind.end, behind.end});
  AddMark(5, 3, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1);  // another tool's
  std::vector<std::uint64_t> marks;
  for (const Activity& one : Records())
    if (one.kind == ActivityKind::kKernel) marks.push_back(one.mark);
  EXPECT_EQ(marks, (std::vector<std::uint64_t>{0, 3, 4, 3, 4}));
}

// FaultOf (fixtures/row_trace.h) refuses it.
TEST_F(CuptiRecordsTest, AKernelWhoseCallWasLostHasNoTimeOfOne) {
  AddKernel(1);
  AddMark(1, 5);
  const Activity kernel = OnlyRecord();
  EXPECT_EQ(kernel.mark, 5U);
  EXPECT_EQ(kernel.call_ms, 0);
  EXPECT_EQ(kernel.enqueued_ms, 0);
}

TEST_F(CuptiRecordsTest, LongNamesAreCut) {
  const std::string name(1000, 'x');
  AddKernel(1, name.c_str());
  AddKernel(2, nullptr);
  AddKernel(3, "not_mangled");
  const auto records = Records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].name, std::string(300, 'x'));
  EXPECT_EQ(records[1].name, "");
  EXPECT_EQ(records[2].name, "not_mangled");
}

// Half a character would make the trace unreadable.
TEST_F(CuptiRecordsTest, LongNamesAreCutBetweenCharacters) {
  const std::string name = std::string(299, 'x') + "é";
  AddKernel(1, name.c_str());
  EXPECT_EQ(Records().at(0).name, std::string(299, 'x'));
}

TEST_F(CuptiRecordsTest, DroppedRecordsAreCounted) {
  AddKernel(1);
  TheFakeCupti().dropped = 3;
  const Activities all = watch().Stop();
  EXPECT_EQ(all.records.size(), 1U);
  EXPECT_EQ(all.dropped, 3);
}

TEST_F(CuptiRecordsTest, ABufferThatCannotBeReadCountsAsARecord) {
  AddKernel(1);
  TheFakeCupti().dropped = 3;
  TheFakeCupti().refused = {{"cuptiActivityGetNextRecord", CUPTI_ERROR_INVALID_KIND}};
  const Activities all = watch().Stop();
  EXPECT_EQ(all.records.size(), 0U);
  EXPECT_EQ(all.dropped, 4);
}

// Records left by a watch that was never stopped are dropped.
TEST_F(CuptiRecordsTest, AWatchStartsWithoutRecords) {
  AddKernel(1);
  TheFakeCupti().dropped = 3;
  EndWithoutStop();
  const auto next = WatchByCupti(std::make_shared<ActivityLog>());
  AddKernel(2);
  const Activities all = next->Stop();
  ASSERT_EQ(all.records.size(), 1U);
  EXPECT_EQ(all.records[0].correlation, 2U);
  EXPECT_EQ(all.dropped, 0);
}

}  // namespace
}  // namespace overlapbench
