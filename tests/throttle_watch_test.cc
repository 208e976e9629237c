// What a watch reports of a GPU's clocks, with a source that a test writes.
#include "device/throttle_watch.h"

#include <gtest/gtest.h>

#include <mutex>
#include <utility>
#include <vector>

#include "backends.h"
#include "device/wait.h"
#include "shown_looks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;

using Look = std::optional<std::set<std::string>>;

class FakeSource : public ThrottleSource {
 public:
  explicit FakeSource(std::vector<Look> looks) : shown_(std::move(looks)) {}

  [[nodiscard]] Look Reasons() const override { return shown_.Next(); }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> ThermalViolation() const override {
    const std::lock_guard lock(mutex_);
    return violation_;
  }
  void set_violation(std::optional<std::chrono::nanoseconds> violation) {
    const std::lock_guard lock(mutex_);
    violation_ = violation;
  }
  [[nodiscard]] std::size_t looks() const { return shown_.looks(); }

 private:
  mutable ShownLooks<Look> shown_;
  mutable std::mutex mutex_;
  std::optional<std::chrono::nanoseconds> violation_ = 5ms;
};

std::shared_ptr<FakeSource> Source(std::vector<Look> looks) {
  return std::make_shared<FakeSource>(std::move(looks));
}

const Look kFree = std::set<std::string>{};
const Look kHot = std::set<std::string>{"hot"};

TEST(ThrottleWatch, ReportsNothingWithoutThrottling) {
  const auto source = Source({kFree});
  PollingThrottleWatch watch(source, 1ms);
  ASSERT_TRUE(WaitUntil([&] { return source->looks() > 3; }, kPatience));
  EXPECT_EQ(watch.Reason(), "");
}

TEST(ThrottleWatch, PollsBeforeItReturns) {
  PollingThrottleWatch watch(Source({kHot}), kNever);
  EXPECT_EQ(watch.Reason(), "hot (1 of 1 checks)");
}

// The episode is over when the watch is asked.
TEST(ThrottleWatch, ReportsEveryReasonWithItsShareOfPolls) {
  const auto source =
      Source({kFree, kHot, std::set<std::string>{"braked", "hot"}, kFree, std::nullopt});
  PollingThrottleWatch watch(source, 1ms);
  ASSERT_TRUE(WaitUntil([&] { return source->looks() > 5; }, kPatience));
  EXPECT_EQ(watch.Reason(), "braked (1 of 4 checks), hot (2 of 4 checks)");
  EXPECT_EQ(watch.Reason(), "braked (1 of 4 checks), hot (2 of 4 checks)") << "asked again";
}

TEST(ThrottleWatch, FindsViolationsBetweenTwoPolls) {
  const auto source = Source({kFree});
  PollingThrottleWatch watch(source, kNever);
  source->set_violation(5ms + 1500us);
  EXPECT_EQ(watch.Reason(), "thermal violation (1.5 ms)");
}

TEST(ThrottleWatch, NamesReasonsAndViolationTogether) {
  const auto source = Source({kHot});
  PollingThrottleWatch watch(source, kNever);
  source->set_violation(6ms);
  EXPECT_EQ(watch.Reason(), "hot (1 of 1 checks), thermal violation (1 ms)");
}

// A watch read before the episode and one made after it do not report it, whatever other watches
// report. A watch that was throttled still reports it after a later one began.
TEST(ThrottleWatch, DoesNotReportViolationsOfOtherWatches) {
  const auto source = Source({kFree, kHot, kFree});
  PollingThrottleWatch before(source, kNever);
  EXPECT_EQ(before.Reason(), "");
  PollingThrottleWatch during(source, kNever);
  source->set_violation(7ms);
  PollingThrottleWatch after(source, kNever);
  EXPECT_EQ(after.Reason(), "");
  EXPECT_EQ(during.Reason(), "hot (1 of 1 checks), thermal violation (2 ms)");
  EXPECT_EQ(after.Reason(), "");
  EXPECT_EQ(before.Reason(), "thermal violation (2 ms)");
}

TEST(ThrottleWatch, ReportsNoViolationIfTheCounterCannotBeRead) {
  const auto source = Source({std::nullopt});
  source->set_violation(std::nullopt);
  PollingThrottleWatch without_begin(source, kNever);
  source->set_violation(9ms);
  EXPECT_EQ(without_begin.Reason(), "");
  PollingThrottleWatch without_end(source, kNever);
  source->set_violation(std::nullopt);
  EXPECT_EQ(without_end.Reason(), "");
}

TEST(ThrottleWatch, StopsAtOnceAndReleasesItsSource) {
  ExpectEndsAtOnceAndLetsItsSourceGo<PollingThrottleWatch>(Source({kFree}));
}

TEST(ThrottleWatch, TheHostsClocksCannotBeWatched) {
  EXPECT_EQ(OpenHostDevice(1)->watches().Throttling()->Reason(), "");
}

}  // namespace
}  // namespace overlapbench
