// What a watch of gauges returns, with a source that a test writes.
#include "device/gauge_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends.h"
#include "device/wait.h"
#include "device/watches.h"
#include "shown_looks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// The clock of readings.
double SteadyMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

class FakeSource : public GaugeSource {
 public:
  explicit FakeSource(std::vector<GaugeLook> looks) : shown_(std::move(looks)) {}

  [[nodiscard]] GaugeLook LookAtGauges() const override {
    const GaugeLook look = shown_.Next();
    read_ms_ = SteadyMs();
    return look;
  }
  [[nodiscard]] std::size_t looks() const { return shown_.looks(); }
  // When the last look read its values. To be called once the watch has ended.
  [[nodiscard]] double read_ms() const { return read_ms_; }

 private:
  mutable ShownLooks<GaugeLook> shown_;
  mutable double read_ms_ = 0;
};

std::shared_ptr<FakeSource> Source(std::vector<GaugeLook> looks) {
  return std::make_shared<FakeSource>(std::move(looks));
}

// In their order, by name.
using Readings = std::map<std::string, std::vector<GaugeReading>>;
Readings ByName(const std::vector<GaugeReading>& all) {
  Readings readings;
  for (const GaugeReading& reading : all) readings[reading.name].push_back(reading);
  return readings;
}

// The first look is that of the begin and the second that of the end.
Readings TwoLooks(const GaugeLook& first, const GaugeLook& second) {
  GaugeWatch watch(Source({first, second}), kNever);
  return ByName(watch.Stop());
}

TEST(GaugeWatch, ReadsLevelsAtTheBeginAndAtTheEnd) {
  const double begin_ms = SteadyMs();
  Readings readings =
      TwoLooks({.sm_clock_MHz = 1980, .power_W = 120}, {.sm_clock_MHz = 1755, .power_W = 700.5});
  const double end_ms = SteadyMs();
  EXPECT_EQ(readings.size(), 2U);
  const auto& clocks = readings["sm_clock_MHz"];
  ASSERT_EQ(clocks.size(), 2U);
  EXPECT_EQ(clocks[0].value, 1980);
  EXPECT_EQ(clocks[1].value, 1755);
  EXPECT_LT(clocks[0].at_ms, clocks[1].at_ms);
  EXPECT_GE(clocks[0].at_ms, begin_ms);
  EXPECT_LE(clocks[1].at_ms, end_ms);
  const auto& powers = readings["power_W"];
  ASSERT_EQ(powers.size(), 2U);
  EXPECT_EQ(powers[1].value, 700.5);
  EXPECT_EQ(powers[1].at_ms, clocks[1].at_ms);
}

// 3 MB sent and 1 MB received between the looks.
TEST(GaugeWatch, ARateCoversTheTimeUntilTheNextReading) {
  Readings readings =
      TwoLooks({.power_W = 1, .nvlink_sent_bytes = 5e6, .nvlink_received_bytes = 2e6},
               {.power_W = 1, .nvlink_sent_bytes = 8e6, .nvlink_received_bytes = 3e6});
  const auto& moments = readings["power_W"];
  ASSERT_EQ(moments.size(), 2U);
  const double seconds = (moments[1].at_ms - moments[0].at_ms) / 1000;
  for (const auto& [name, gigabytes] :
       {std::pair("nvlink_sent_GBps", 0.003), {"nvlink_received_GBps", 0.001}}) {
    ASSERT_EQ(readings[name].size(), 1U) << name;
    EXPECT_EQ(readings[name][0].at_ms, moments[0].at_ms);
    EXPECT_NEAR(readings[name][0].value * seconds, gigabytes, 1e-9) << name;
  }
}

TEST(GaugeWatch, ALinkThatSendsNothingHasARateOf0) {
  const Readings readings = TwoLooks({.nvlink_sent_bytes = 5}, {.nvlink_sent_bytes = 5});
  ASSERT_EQ(readings.at("nvlink_sent_GBps").size(), 1U);
  EXPECT_EQ(readings.at("nvlink_sent_GBps")[0].value, 0);
}

// A look of NVML's takes up to some milliseconds.
TEST(GaugeWatch, AReadingIsNotOlderThanItsTime) {
  const auto source = Source({{.power_W = 1}});
  GaugeWatch watch(source, kNever);
  const auto powers = ByName(watch.Stop()).at("power_W");
  EXPECT_GE(powers.back().at_ms, source->read_ms());
}

TEST(GaugeWatch, UnreadableGaugesHaveNoReadings) {
  EXPECT_TRUE(TwoLooks({}, {}).empty());
  EXPECT_TRUE(TwoLooks({.nvlink_sent_bytes = 1}, {.nvlink_received_bytes = 2}).empty());
  EXPECT_TRUE(TwoLooks({.nvlink_sent_bytes = 9}, {.nvlink_sent_bytes = 8}).empty())
      << "the counter was reset";
  const Readings readings = TwoLooks({.sm_clock_MHz = 1}, {.power_W = 2});
  EXPECT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings.at("sm_clock_MHz").size(), 1U);
}

TEST(GaugeWatch, ReadsContinuously) {
  const auto source = Source({{.power_W = 1}, {.power_W = 2}, {.power_W = 3}, {.power_W = 4}});
  GaugeWatch watch(source, 1ms);
  ASSERT_TRUE(WaitUntil([&] { return source->looks() > 4; }, kPatience));
  const auto powers = ByName(watch.Stop()).at("power_W");
  ASSERT_EQ(powers.size(), source->looks());
  for (std::size_t i = 0; i < powers.size(); ++i)
    EXPECT_EQ(powers[i].value, std::min<std::size_t>(i + 1, 4));
  EXPECT_TRUE(std::ranges::is_sorted(powers, {}, &GaugeReading::at_ms));
}

// A look while the readings are put together would change them.
TEST(GaugeWatch, LooksNoMoreOnceItHasStopped) {
  const auto source = Source({{}});
  GaugeWatch watch(source, 1ms);
  (void)watch.Stop();
  const std::size_t looks = source->looks();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(source->looks(), looks);
}

TEST(GaugeWatch, StopsAtOnceAndReleasesItsSource) {
  ExpectEndsAtOnceAndLetsItsSourceGo<GaugeWatch>(Source({{}}));
}

TEST(GaugeWatch, TheHostHasNoGauges) {
  EXPECT_TRUE(OpenHostDevice(1)->watches().Gauges()->Stop().empty());
}

}  // namespace
}  // namespace overlapbench
