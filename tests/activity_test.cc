// Watches of a device's activities: everything enqueued during the watch is recorded once, with the
// right mark and plausible times.
#include "device/activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "device/host/activity_log.h"
#include "device/watches.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr std::size_t kBytes = 1 << 20;

double Now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class ActivityTest : public OnEachBackend {
 protected:
  void SetUp() override {
    OnEachBackend::SetUp();
    if (IsSkipped()) return;
    stream_ = device().CreateStream({});
    other_ = device().CreateStream({});
    source_ = device().Allocate(kBytes, MemoryKind::kDevice);
    destination_ = device().Allocate(kBytes, MemoryKind::kDevice);
    try {
      watch_ = device().watches().Activities();
    } catch (const Error& error) {
      if (GetParam() == Backend::kHost) throw;
      GTEST_SKIP() << error.what();
    }
  }

  void Copy(Stream& stream, std::size_t bytes = kBytes) {
    stream.Copy(destination_.data(), source_.data(), bytes);
  }
  // The records of one kind, in the order in which they began.
  std::vector<Activity> Stop(ActivityKind kind) {
    for (const auto& stream : {stream_.get(), other_.get()}) stream->Synchronize(kPatience, "it");
    const Activities all = watch_->Stop();
    watch_.reset();
    EXPECT_EQ(all.dropped, 0);
    std::vector<Activity> records;
    std::ranges::copy_if(all.records, std::back_inserter(records),
                         [&](const Activity& activity) { return activity.kind == kind; });
    std::ranges::sort(records, {}, &Activity::begin_ms);
    return records;
  }

  Buffer source_;
  Buffer destination_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Stream> other_;
  std::unique_ptr<ActivityWatch> watch_;
};
INSTANTIATE_ON_EACH_BACKEND(ActivityTest);

// Not the mark set when it runs.
TEST_P(ActivityTest, CarriesTheMarkSetWhenItWasEnqueued) {
  const auto gate = device().CreateGate();
  gate->Arm(*stream_);
  Copy(*stream_, 4096);
  for (const std::uint64_t mark : {7, 3}) {
    watch_->Mark(mark);
    Copy(*stream_, 4096 * mark);
    Copy(*stream_, 4096 * mark);
  }
  watch_->Mark(9);
  gate->Release();
  const auto copies = Stop(ActivityKind::kCopy);
  ASSERT_EQ(copies.size(), 5U);
  const std::vector<std::uint64_t> marks = {0, 7, 7, 3, 3};
  for (std::size_t i = 0; i < marks.size(); ++i) {
    EXPECT_EQ(copies[i].mark, marks[i]) << i;
    EXPECT_EQ(copies[i].bytes, static_cast<double>(4096 * std::max<std::uint64_t>(marks[i], 1)));
  }
}

TEST_P(ActivityTest, BeginsAfterItsCallAndDoesNotOverlapItsPredecessor) {
  const double before_ms = Now_ms();
  for (int i = 0; i < 10; ++i) Copy(*stream_);
  stream_->Synchronize(kPatience, "the copies");
  const double after_ms = Now_ms();
  double last_ms = before_ms;
  const auto copies = Stop(ActivityKind::kCopy);
  ASSERT_EQ(copies.size(), 10U);
  for (const Activity& copy : copies) {
    EXPECT_GE(copy.call_ms, before_ms);
    EXPECT_GE(copy.enqueued_ms, copy.call_ms);
    EXPECT_GE(copy.begin_ms, copy.call_ms);
    EXPECT_GE(copy.begin_ms, last_ms);
    EXPECT_GT(copy.end_ms, copy.begin_ms);
    last_ms = copy.end_ms;
  }
  EXPECT_LE(last_ms, after_ms);
}

TEST_P(ActivityTest, DistinguishesStreamsAndCalls) {
  Copy(*stream_);
  stream_->Synchronize(kPatience, "a copy to the memory that the next one writes");
  Copy(*other_);
  std::set<std::uint64_t> streams;
  std::set<std::uint64_t> calls;
  for (const Activity& copy : Stop(ActivityKind::kCopy)) {
    streams.insert(copy.stream);
    calls.insert(copy.correlation);
  }
  EXPECT_EQ(streams.size(), 2U);
  EXPECT_EQ(calls.size(), 2U);
}

TEST_P(ActivityTest, IgnoresWorkOutsideTheWatch) {
  Stop(ActivityKind::kCopy);
  Copy(*stream_);
  stream_->Synchronize(kPatience, "a copy that nobody watches");
  watch_ = device().watches().Activities();
  Copy(*stream_);
  EXPECT_EQ(Stop(ActivityKind::kCopy).size(), 1U);
}

TEST_P(ActivityTest, AWatchBeginsWithoutAMark) {
  watch_->Mark(7);
  Stop(ActivityKind::kCopy);
  watch_ = device().watches().Activities();
  Copy(*stream_);
  const auto copies = Stop(ActivityKind::kCopy);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].mark, 0U);
}

TEST_P(ActivityTest, RefusesASecondWatcher) {
  EXPECT_THROW(device().watches().Activities(), Error);
  watch_.reset();
  EXPECT_NO_THROW(device().watches().Activities());
}

// On every backend a host stream's tasks are recorded too.
TEST_P(ActivityTest, RecordsHostStreams) {
  const auto host = device().CreateStream({.on_host = true});
  const auto event = device().CreateEvent({.on_host = true});
  watch_->Mark(5);
  host->Enqueue([] { std::this_thread::sleep_for(20ms); });
  host->EnqueueBlocks(12, [](int) {});
  host->Record(*event);
  host->Synchronize(kPatience, "the host stream");
  const auto tasks = Stop(ActivityKind::kKernel);
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks[0].mark, 5U);
  EXPECT_GE(tasks[0].end_ms - tasks[0].begin_ms, 20);
  EXPECT_EQ(tasks[1].blocks, 12);
  EXPECT_EQ(tasks[1].begin_ms, tasks[0].end_ms);  // by the stream's own clock
  EXPECT_GT(tasks[0].correlation, ActivityLog::kHost);
  EXPECT_EQ(tasks[1].correlation, tasks[0].correlation + 1);
}

// What streams wait for is recorded on the host alone.
class HostActivityTest : public ActivityTest {};
INSTANTIATE_TEST_SUITE_P(Host, HostActivityTest, testing::Values(Backend::kHost));

TEST_P(HostActivityTest, AWaitLastsUntilItsEventIsPassed) {
  const auto event = device().CreateEvent();
  stream_->Enqueue([] { std::this_thread::sleep_for(20ms); });
  stream_->Record(*event);
  other_->Wait(*event);
  Copy(*other_);
  for (const auto& stream : {stream_.get(), other_.get()}) stream->Synchronize(kPatience, "it");
  const Activities all = watch_->Stop();
  const auto one = [&](ActivityKind kind) {
    return *std::ranges::find(all.records, kind, &Activity::kind);
  };
  ASSERT_EQ(all.records.size(), 3U);
  EXPECT_GE(one(ActivityKind::kWait).end_ms - one(ActivityKind::kWait).begin_ms, 15);
  EXPECT_EQ(one(ActivityKind::kWait).end_ms, one(ActivityKind::kKernel).end_ms);
  EXPECT_EQ(one(ActivityKind::kCopy).begin_ms, one(ActivityKind::kWait).end_ms);
}

TEST_P(HostActivityTest, AWaitForAPassedEventTakesNoTime) {
  const auto event = device().CreateEvent();
  stream_->Record(*event);
  stream_->Synchronize(kPatience, "the event");
  other_->Wait(*event);
  const auto waits = Stop(ActivityKind::kWait);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].end_ms, waits[0].begin_ms);
}

TEST_P(HostActivityTest, AGateLastsUntilItIsOpened) {
  const auto gate = device().CreateGate();
  gate->Arm(*stream_);
  std::this_thread::sleep_for(20ms);
  const double opened_ms = Now_ms();
  gate->Release();
  const auto gates = Stop(ActivityKind::kGate);
  ASSERT_EQ(gates.size(), 1U);
  EXPECT_GE(gates[0].end_ms, opened_ms);
  EXPECT_GE(gates[0].end_ms - gates[0].begin_ms, 20);
}

}  // namespace
}  // namespace overlapbench
