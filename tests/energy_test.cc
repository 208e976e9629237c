// What an energy counter's ticks make of work whose power and length are known; the CPU's counter,
// on files like the kernel's; and what is said where there is no counter.
#include "fixtures/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "device/host/rapl.h"
#include "fake_root.h"
#include "fake_workload.h"
#include "forwarding_device.h"
#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using Clock = std::chrono::steady_clock;

constexpr double kIdle_W = 80;
constexpr auto kTick = 10ms;

// Counts the power that the test's works add to that of an idle device, up to its last tick.
class KnownCounter : public EnergyCounter {
 public:
  [[nodiscard]] double Read_J() override {
    const std::lock_guard lock(mutex_);
    if (!fault.empty()) throw Error(fault);
    AdvanceTo(Clock::now());
    return shown_;
  }
  [[nodiscard]] std::string name() const override { return "known"; }
  [[nodiscard]] bool is_of_machine() const override { return of_machine; }

  void Add(double watts) {
    const std::lock_guard lock(mutex_);
    AdvanceTo(Clock::now());
    watts_ += watts;
  }
  void Reset() {
    const std::lock_guard lock(mutex_);
    shown_ = total_ = 0;
  }

  bool of_machine = false;
  std::string fault;

 private:
  void AdvanceTo(Clock::time_point now) {
    for (; tick_ + kTick <= now; tick_ += kTick) {
      Count(tick_ + kTick);
      shown_ = total_;
    }
    Count(now);
  }
  void Count(Clock::time_point until) {
    total_ += watts_ * std::chrono::duration<double>(until - counted_).count();
    counted_ = until;
  }

  std::mutex mutex_;
  Clock::time_point tick_ = Clock::now();
  Clock::time_point counted_ = tick_;
  double watts_ = kIdle_W;
  double total_ = 1000;  // joules, as the next
  double shown_ = 1000;
};

class MeteredDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::shared_ptr<EnergyCounter> Energy() override { return counter; }
  std::shared_ptr<KnownCounter> counter = std::make_shared<KnownCounter>();
};

class EnergyTest : public testing::Test {
 protected:
  // A work that takes `length`, in which it adds `watts`.
  Work WorkOf(const std::string& name, WorkClass work_class, Behaviour& behaviour, double watts,
              std::chrono::milliseconds length) {
    behaviour.enqueue = [this, watts, length](Stream& stream) {
      stream.EnqueueTask(
          [this, watts, length] {
            const auto end = Clock::now() + length;
            device_.counter->Add(watts);
            std::this_thread::sleep_until(end);
            device_.counter->Add(-watts);
          },
          ActivityKind::kKernel);
    };
    return FakeWork(name, work_class, behaviour);
  }
  // A computation of 300 W for 10 ms, and a communication of 150 W for 20 ms.
  std::vector<overlapbench::Run> Pair() {
    const Work comp = WorkOf("comp", WorkClass::kCompute, comp_, 300 - kIdle_W, 10ms);
    const Work comm = WorkOf("comm", WorkClass::kComm, comm_, 150 - kIdle_W, 20ms);
    overlapbench::Run both{.name = "overlap"};
    both.schedule.Add(both.schedule.AddLane({"COMM"}), comm);
    both.schedule.Add(both.schedule.AddLane({"COMP"}), comp);
    return {SoloRun(comp), SoloRun(comm), both};
  }
  Counters Measured(EnergyOf of = EnergyOf::kAllRuns, double tokens = 0) {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"cold", "warm"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    Session session({device_, TestRanks()}, {.name = "Family/Row",
                                             .settings = SettingsOf(axes, {}),
                                             .runs = [this](const Settings&) { return Pair(); },
                                             .report = {}});
    session.SetUp(true);
    Counters counters;
    ReportEnergy(MeasureEnergy(session, {.of = of, .period_ms = 10, .window = 300ms, .rounds = 2}),
                 tokens, counters);
    return counters;
  }
  // How often the ranks' counters are summed up.
  [[nodiscard]] double counted() const {
    return device_.counter->of_machine ? 1 : TestRanks().size();
  }
  [[nodiscard]] Machine machine() { return {device_, TestRanks()}; }

  Behaviour comp_;
  Behaviour comm_;
  MeteredDevice device_{OpenHostDevice(2)};
};

// A tick may be seen some milliseconds late.
constexpr double kShare = 0.05;
void ExpectNear(double value, double expected) { EXPECT_NEAR(value, expected, kShare * expected); }

TEST(EnergyMeter, TakesTheTicksInsideAnInterval) {
  const std::vector<EnergyTick> ticks = {{100, 1}, {200, 9}, {300, 12}, {400, 14}, {500, 99}};
  for (const auto& [from_ms, to_ms] : {std::pair(200.0, 400.0), std::pair(101.0, 499.0)}) {
    const EnergyUse use = UseBetween(ticks, from_ms, to_ms);
    EXPECT_DOUBLE_EQ(use.joules, 5);
    EXPECT_DOUBLE_EQ(use.seconds, 0.2);
    EXPECT_DOUBLE_EQ(use.watts(), 25);
  }
  EXPECT_EQ(Thrown<Error>([&] { (void)UseBetween(ticks, 150, 250); }),
            "the energy counter changed only once within 0.10 s");
  EXPECT_EQ(Thrown<Error>([&] { (void)UseBetween({}, 0, 2000); }),
            "the energy counter did not change within 2.00 s");
  EXPECT_EQ(PeriodOf_ms({{0, 0}, {100, 1}, {201, 2}, {400, 3}}), 101);
  EXPECT_EQ(Thrown<Error>([&] { (void)PeriodOf_ms({{0, 0}}); }),
            "the energy counter did not change twice");
}

TEST_F(EnergyTest, AnIdleDeviceTakesItsPower) {
  const EnergyLook look = LookAtEnergy(machine());
  EXPECT_EQ(look.missing, "");
  EXPECT_EQ(look.counter, "known");
  ExpectNear(look.idle_W, kIdle_W * counted());
  EXPECT_NEAR(look.period_ms, 10, 1);
}

// One after the other they take 6 J. At once they share the idle power of 10 ms.
TEST_F(EnergyTest, RunsOfKnownLengthAndPower) {
  const Counters counters = Measured(EnergyOf::kAllRuns, 100);
  ExpectNear(counters.at("comp_energy_J"), 3 * counted());
  ExpectNear(counters.at("comp_average_W"), 300 * counted());
  ExpectNear(counters.at("comm_energy_J"), 3 * counted());
  ExpectNear(counters.at("comm_average_W"), 150 * counted());
  ExpectNear(counters.at("serial_energy_J"), 6 * counted());
  ExpectNear(counters.at("energy_J"), 5.2 * counted());
  ExpectNear(counters.at("average_W"), 260 * counted());
  ExpectNear(counters.at("energy_run_ms"), 20);
  ExpectNear(counters.at("energy_time_Js"), 5.2 * counted() * 0.020);
  ExpectNear(counters.at("energy_per_token_J"), 0.052 * counted());
  EXPECT_NEAR(counters.at("energy_saved"), 0.8 / 6, 0.05);
  EXPECT_TRUE(counters.at("energy_J").interval);
  EXPECT_TRUE(counters.at("energy_saved").interval);
}

TEST_F(EnergyTest, ACounterOfTheMachineCountsOnce) {
  device_.counter->of_machine = true;
  const Counters counters = Measured(EnergyOf::kOwnRun);
  ExpectNear(counters.at("energy_J"), 5.2 * counted());
  for (const char* missing :
       {"comp_energy_J", "comm_energy_J", "serial_energy_J", "energy_saved", "energy_per_token_J"})
    EXPECT_FALSE(counters.contains(missing)) << missing;
}

TEST_F(EnergyTest, SaysWhyThereIsNoCounter) {
  device_.counter->fault = "the meter is on strike";
  EXPECT_EQ(LookAtEnergy(machine()).missing, "the meter is on strike");
  Machine shared = machine();
  shared.shares_gpus = true;
  EXPECT_EQ(LookAtEnergy(shared).missing, "ranks share a GPU, which counts their energy together");
}

TEST_F(EnergyTest, ACounterThatNeverTicksIsNone) {
  device_.counter->Add(-kIdle_W);
  std::this_thread::sleep_for(2 * kTick);  // the last one has passed
  EXPECT_EQ(LookAtEnergy(machine()).missing.find("the energy counter did not change within 1.0"),
            0U);
}

TEST_F(EnergyTest, ACounterThatIsResetIsNoted) {
  EnergyMeter meter(device_.counter);
  std::this_thread::sleep_for(3 * kTick);
  device_.counter->Reset();
  std::this_thread::sleep_for(3 * kTick);
  EXPECT_EQ(Thrown<Error>([&] { (void)meter.Stop(); }),
            "the energy counter (known) went backwards: it was reset");
}

class RaplTest : public FakeRoot {
 protected:
  void WriteDomain(const std::string& name, const std::string& kind, long energy_uJ) {
    const std::string folder = "sys/class/powercap/" + name;
    Write(folder + "/name", kind + "\n");
    Write(folder + "/max_energy_range_uj", "1000000\n");
    Write(folder + "/energy_uj", std::to_string(energy_uJ) + "\n");
  }
  void WritePackage(int number, long energy_uJ) {
    WriteDomain("intel-rapl:" + std::to_string(number), "package-" + std::to_string(number),
                energy_uJ);
  }
};

TEST_F(RaplTest, SumsThePackagesAndNotTheirParts) {
  WritePackage(0, 100'000);
  WritePackage(1, 200'000);
  WriteDomain("intel-rapl:0:0", "core", 1);
  WriteDomain("intel-rapl:2", "psys", 1);
  Rapl rapl(root_);
  const double begin_J = rapl.Read_J();
  WritePackage(0, 150'000);
  WritePackage(1, 500'000);
  WriteDomain("intel-rapl:0:0", "core", 900'000);
  WriteDomain("intel-rapl:2", "psys", 900'000);
  EXPECT_DOUBLE_EQ(rapl.Read_J() - begin_J, 0.35);
}

TEST_F(RaplTest, GoesOnWhereItWraps) {
  WritePackage(0, 990'000);
  Rapl rapl(root_);
  const double begin_J = rapl.Read_J();
  WritePackage(0, 40'000);
  EXPECT_DOUBLE_EQ(rapl.Read_J() - begin_J, 0.05);
  WritePackage(0, 10'000);
  EXPECT_NE(Thrown<Error>([&] { (void)rapl.Read_J(); }).find("went backwards: it was reset"),
            std::string::npos);
}

TEST_F(RaplTest, SaysWhyItCannotBeRead) {
  EXPECT_EQ(Thrown<Error>([&] { (void)Rapl(root_).Read_J(); }),
            "this machine shows no RAPL counters in /sys/class/powercap");
  WritePackage(0, 1);
  const auto file = root_ / "sys/class/powercap/intel-rapl:0/energy_uj";
  Write("sys/class/powercap/intel-rapl:0/energy_uj", "much");
  EXPECT_EQ(Thrown<Error>([&] { (void)Rapl(root_).Read_J(); }), file.string() + ": not a number");
  std::filesystem::permissions(file, std::filesystem::perms::none);
  if (geteuid() == 0) return;  // who may read it
  EXPECT_EQ(Thrown<Error>([&] { (void)Rapl(root_).Read_J(); }),
            file.string() + ": Permission denied; root may read it, or chmod a+r it");
}

}  // namespace
}  // namespace overlapbench
