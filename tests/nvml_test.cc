// What NVML's answers mean, with a library in its place (fake_nvml.h).
#include "device/cuda/nvml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "device/error.h"
#include "fake_nvml.h"
#include "thrown.h"

namespace overlapbench {
namespace {

// The numbers of NVML's API reference.
constexpr unsigned kPower = 186;
constexpr unsigned kSent = 138;
constexpr unsigned kReceived = 139;
constexpr unsigned kGpu = 0;
constexpr unsigned kAllLinks = UINT_MAX;

class NvmlTest : public testing::Test {
 protected:
  void SetUp() override { TheFakeNvml() = {}; }

  static void Set(unsigned field, unsigned scope, nvmlValueType_t type, nvmlValue_t value) {
    TheFakeNvml().fields[{field, scope}] = {type, value};
  }
  static void SetLong(unsigned field, unsigned scope, unsigned long long value) {
    Set(field, scope, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, {.ullVal = value});
  }
  [[nodiscard]] GaugeLook Look() const { return nvml_.LookAtGauges(); }

  const Nvml nvml_{kFakeBusId};
};

TEST_F(NvmlTest, GaugesAreInTheirUnits) {
  ASSERT_TRUE(nvml_.available());
  TheFakeNvml().sm_clock_MHz = 1980;
  Set(kPower, kGpu, NVML_VALUE_TYPE_UNSIGNED_INT, {.uiVal = 698'250});  // milliwatts
  SetLong(kSent, kAllLinks, 3'000'000'000);                             // KiB
  SetLong(kReceived, kAllLinks, 7);
  SetLong(kSent, 0, 1);  // of one link
  const GaugeLook look = Look();
  EXPECT_EQ(look.sm_clock_MHz, 1980);
  EXPECT_DOUBLE_EQ(look.power_W.value_or(0), 698.25);
  EXPECT_EQ(look.nvlink_sent_bytes, 3e9 * 1024);
  EXPECT_EQ(look.nvlink_received_bytes, 7 * 1024);
}

TEST_F(NvmlTest, AMissingGaugeDoesNotAffectOthers) {
  const GaugeLook none = Look();
  EXPECT_FALSE(none.sm_clock_MHz || none.power_W || none.nvlink_sent_bytes ||
               none.nvlink_received_bytes);
  SetLong(kReceived, kAllLinks, 1);
  const GaugeLook one = Look();
  EXPECT_FALSE(one.sm_clock_MHz || one.power_W || one.nvlink_sent_bytes);
  EXPECT_EQ(one.nvlink_received_bytes, 1024);
  TheFakeNvml() = {};
  TheFakeNvml().sm_clock_MHz = 345;
  EXPECT_EQ(Look().sm_clock_MHz, 345);
}

TEST_F(NvmlTest, AValueIsReadWithItsType) {
  const auto power_W = [this](nvmlValueType_t type, nvmlValue_t value) {
    Set(kPower, kGpu, type, value);
    return Look().power_W;
  };
  EXPECT_EQ(power_W(NVML_VALUE_TYPE_DOUBLE, {.dVal = 2000}), 2);
  EXPECT_EQ(power_W(NVML_VALUE_TYPE_UNSIGNED_INT, {.uiVal = 3000}), 3);
  EXPECT_EQ(power_W(NVML_VALUE_TYPE_UNSIGNED_LONG, {.ulVal = 4000}), 4);
  EXPECT_EQ(power_W(NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, {.ullVal = 5000}), 5);
  EXPECT_EQ(power_W(NVML_VALUE_TYPE_SIGNED_LONG_LONG, {.sllVal = 6000}), 6);
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): a type that is yet to come.
  EXPECT_EQ(power_W(static_cast<nvmlValueType_t>(99), {.ullVal = 7000}), std::nullopt);
}

TEST_F(NvmlTest, TheEnergyCounterHasTicks) {
  TheFakeNvml().power_W = 350;
  EnergyMeter meter(std::make_shared<NvmlEnergy>(std::make_shared<Nvml>(kFakeBusId)));
  std::this_thread::sleep_for(std::chrono::milliseconds(750));
  const std::vector<EnergyTick> ticks = meter.Stop();
  ASSERT_GE(ticks.size(), 7U);
  EXPECT_NEAR(PeriodOf_ms(ticks), 100, 5);
  for (std::size_t i = 1; i < ticks.size(); ++i)
    EXPECT_NEAR(ticks[i].total_J - ticks[i - 1].total_J, 35, 1e-9);
  EXPECT_NEAR(UseBetween(ticks, ticks.front().at_ms, ticks.back().at_ms).watts(), 350, 10);
}

TEST_F(NvmlTest, SaysWhyTheEnergyIsUnknown) {
  const auto reason = [](const Nvml& nvml) {
    return Thrown<Error>([&] { (void)nvml.TotalEnergy_J(); });
  };
  for (const auto& [code, text] : {std::pair(3U, "this GPU has no energy counter"),
                                   {4U, "NVML denies permission to read the energy counter"},
                                   {13U, "the driver's NVML has no energy counter"},
                                   {15U, "the GPU has fallen off the bus"},
                                   {999U, "NVML's energy counter: error 999"}}) {
    TheFakeNvml().energy_result = code;
    EXPECT_EQ(reason(nvml_), text);
  }
  TheFakeNvml().power_W = 350;
  TheFakeNvml().is_in_mig_mode = true;
  EXPECT_EQ(reason(nvml_),
            "the GPU is in MIG mode, and NVML counts the energy of all its instances");
  EXPECT_EQ(reason(Nvml("0000:00:02.0")), "NVML is not available, or does not know this GPU");
}

// 10 is busy, 11 and 12 only have the GPU open.
TEST_F(NvmlTest, ProcessesThatUseNoSmDoNotUseTheGpu) {
  const auto own = static_cast<unsigned>(getpid());
  TheFakeNvml().processes = {10, own, 11, 12};
  TheFakeNvml().process_use = {{{own, 0}, {10, 0}, {10, 3}, {11, 0}}};
  EXPECT_EQ(nvml_.Use().processes, (std::vector<long>{10, own}));
}

TEST_F(NvmlTest, AllProcessesCountIfTheDriverDoesNotKnowWhatTheyDo) {
  const auto own = static_cast<unsigned>(getpid());
  const std::vector<long> all = {10, own, 11};
  TheFakeNvml().processes = {10, own, 11};
  EXPECT_EQ(nvml_.Use().processes, all);
  TheFakeNvml().process_use = {{{10, 3}}};  // not this process: the ids are others
  EXPECT_EQ(nvml_.Use().processes, all);
}

TEST_F(NvmlTest, AnUnknownGpuHasNoGauges) {
  TheFakeNvml().sm_clock_MHz = 1980;
  const Nvml other("0000:00:02.0");
  EXPECT_FALSE(other.available());
  EXPECT_FALSE(other.LookAtGauges().sm_clock_MHz);
}

}  // namespace
}  // namespace overlapbench
