// What an energy counter's ticks make of work whose power and length are known; the CPU's counter,
// on files like the kernel's; and what is said where there is no counter.
#include "fixtures/energy.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
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
constexpr double kComp_J = 0.44;
constexpr double kComm_J = 0.28;
constexpr auto kTick = 10ms;

// A tick may be seen some milliseconds late.
constexpr double kShare = 0.05;

// Counts an idle device's power, and what the test's works add, up to its last tick.
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

  void Add(double joules) {
    const std::lock_guard lock(mutex_);
    AdvanceTo(Clock::now());
    total_ += joules;
  }
  void Reset() {
    const std::lock_guard lock(mutex_);
    shown_ = total_ = 0;
  }

  double idle_W = kIdle_W;
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
    total_ += idle_W * std::chrono::duration<double>(until - counted_).count();
    counted_ = until;
  }

  std::mutex mutex_;
  Clock::time_point tick_ = Clock::now();
  Clock::time_point counted_ = tick_;
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
  // A work that takes `length` or, on a busy machine, longer, and in any case `joules`.
  Work WorkOf(const std::string& name, WorkClass work_class, Behaviour& behaviour, double joules,
              std::chrono::milliseconds length) {
    behaviour.enqueue = [this, joules, length](Stream& stream) {
      stream.EnqueueTask(
          [this, joules, length] {
            std::this_thread::sleep_for(length);
            device_.counter->Add(joules);
          },
          ActivityKind::kKernel);
    };
    return FakeWork(name, work_class, behaviour);
  }
  std::vector<overlapbench::Run> Pair() {
    const Work comp = WorkOf("comp", WorkClass::kCompute, comp_, kComp_J, 2ms);
    const Work comm = WorkOf("comm", WorkClass::kComm, comm_, kComm_J, 4ms);
    overlapbench::Run both{.name = "overlap"};
    both.schedule.Add(both.schedule.AddLane({"COMM"}), comm);
    both.schedule.Add(both.schedule.AddLane({"COMP"}), comp);
    return {SoloRun(comp), SoloRun(comm), both};
  }
  RowEnergy Measured(EnergyOf of) {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"cold", "warm"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    Session session({device_, TestRanks()}, {.name = "Family/Row",
                                             .settings = SettingsOf(axes, {}),
                                             .runs = [this](const Settings&) { return Pair(); },
                                             .report = {}});
    session.SetUp(true);
    return MeasureEnergy(session, {.of = of, .period_ms = 10, .window = 300ms, .rounds = 2});
  }
  // How far the rounds' energies are at most from that of the works, and of the idle device for as
  // long as they took.
  [[nodiscard]] double ErrorOf(const RunEnergy& run, double works_J) const {
    double most = 0;
    for (std::size_t i = 0; i < run.energy_J.values().size(); ++i) {
      const double seconds = 1e-3 * run.run_ms.values()[i];
      const double expected_J =
          (device_.counter->of_machine ? 1 : TestRanks().size()) * (works_J + kIdle_W * seconds);
      most = std::max({most, std::abs(run.energy_J.values()[i] / expected_J - 1),
                       std::abs(run.average_W.values()[i] * seconds / expected_J - 1)});
    }
    return most;
  }
  // Measures until no error is too large: a passing disturbance spoils one attempt, a wrong method
  // all. The same on all ranks.
  std::pair<RowEnergy, double> MeasuredWell(EnergyOf of) {
    constexpr int kAttempts = 4;
    for (int attempt = 1;; ++attempt) {
      RowEnergy energy = Measured(of);
      double error = ErrorOf(energy.at(""), kComp_J + kComm_J);
      if (energy.contains("comp_")) error = std::max(error, ErrorOf(energy.at("comp_"), kComp_J));
      if (energy.contains("comm_")) error = std::max(error, ErrorOf(energy.at("comm_"), kComm_J));
      if (error < kShare || attempt == kAttempts) return {std::move(energy), error};
    }
  }
  [[nodiscard]] Machine machine() { return {device_, TestRanks()}; }

  Behaviour comp_;
  Behaviour comm_;
  MeteredDevice device_{OpenHostDevice(2)};
};

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
  EXPECT_EQ(PeriodOf_ms({{0, 0}, {100, 1}, {201, 2}}), 101);
  EXPECT_EQ(Thrown<Error>([&] { (void)PeriodOf_ms({{0, 0}}); }),
            "the energy counter did not change twice");
}

// The counter lags, and the first tick within a run is of what was before.
TEST(EnergyMeter, TheFirstTickOfARunDoesNotCount) {
  const std::vector<EnergyTick> ticks = {{100, 0}, {200, 50}, {300, 55}, {400, 60}, {500, 99}};
  EXPECT_DOUBLE_EQ(SettledUse(ticks, {150, 450}, 100).watts(), 50);
}

TEST(Repetitions, ChangeIfTheyWereTooFewOrFarTooMany) {
  EXPECT_EQ(RepetitionsAfter(10, 1), 10);
  EXPECT_EQ(RepetitionsAfter(10, 0.5), 10);
  EXPECT_EQ(RepetitionsAfter(7, 1.2), 9) << "8.82";
  EXPECT_EQ(RepetitionsAfter(10, 3), 32) << "31.5";
  EXPECT_EQ(RepetitionsAfter(10, 1000), 500);
  EXPECT_EQ(RepetitionsAfter(100, 0.25), 27) << "26.25";
  EXPECT_EQ(RepetitionsAfter(1, 0.01), 1);
}

TEST_F(EnergyTest, AnIdleDeviceTakesItsPower) {
  const EnergyLook look = LookAtEnergy(machine());
  EXPECT_EQ(look.missing, "");
  EXPECT_EQ(look.counter, "known");
  EXPECT_NEAR(look.idle_W / TestRanks().size(), kIdle_W, kShare * kIdle_W);
  EXPECT_NEAR(look.period_ms, 10, 1);
}

TEST_F(EnergyTest, RunsTakeWhatTheirWorksAndTheIdleDeviceTake) {
  std::string order;  // of the runs in the last attempt
  Progress& progress = TestRanks().progress();
  progress.Observe([&](Phase phase) {
    const std::string where = progress.Where();
    if (where.ends_with("energy")) order.clear();
    if (phase != Phase::kMeet) return;
    const std::string run = where.substr(where.find("run '"));
    if (!order.ends_with(run)) order += run;
  });
  const auto [energy, error] = MeasuredWell(EnergyOf::kAllRuns);
  progress.Observe({});
  std::string there_and_back;
  for (const char* run : {"comp", "comm", "overlap", "comm", "comp"})
    there_and_back += fmt::format("run '{}', meeting the other ranks", run);
  EXPECT_EQ(order, there_and_back);
  EXPECT_EQ(energy.size(), 3U);
  for (const auto& [role, run] : energy) EXPECT_EQ(run.energy_J.values().size(), 2U) << "rounds";
  EXPECT_LT(error, kShare);
  EXPECT_GE(energy.at("comp_").run_ms.median(), 2);
  EXPECT_GE(energy.at("").run_ms.median(), 4);
}

TEST_F(EnergyTest, ACounterOfTheMachineCountsOnce) {
  device_.counter->of_machine = true;
  const auto [energy, error] = MeasuredWell(EnergyOf::kOwnRun);
  EXPECT_EQ(energy.size(), 1U);
  EXPECT_LT(error, kShare);
}

RunEnergy Constant(double energy_J, double average_W, double run_ms) {
  const auto twice = [](double value) { return Series({0.99 * value, 1.01 * value}); };
  return {twice(energy_J), twice(average_W), twice(run_ms)};
}

TEST(RowEnergy, IsReportedOfAllRunsAndWhatOverlappingSaves) {
  Counters counters;
  ReportEnergy({{"comp_", Constant(3, 300, 10)},
                {"comm_", Constant(3, 150, 20)},
                {"", Constant(5.2, 260, 20)}},
               100, counters);
  const std::map<std::string, double> expected = {
      {"comp_energy_J", 3},      {"comp_average_W", 300}, {"comm_energy_J", 3},
      {"comm_average_W", 150},   {"serial_energy_J", 6},  {"energy_J", 5.2},
      {"average_W", 260},        {"energy_run_ms", 20},   {"energy_time_Js", 5.2 * 0.02},
      {"energy_saved", 0.8 / 6}, {"time_saved", 1.0 / 3}, {"energy_per_token_J", 0.052}};
  EXPECT_EQ(counters.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const Figure& figure = counters.at(name);
    EXPECT_NEAR(figure, value, 2e-4 * value) << name;
    const Interval ends = figure.interval.value_or(Interval{1, -1});
    EXPECT_LE(ends.low, figure.value) << name;
    EXPECT_GE(ends.high, figure.value) << name;
  }
}

TEST(RowEnergy, SavesAgainstAllSidesOrASequentialRun) {
  RowEnergy energy = {{"comp_", Constant(3, 300, 10)},
                      {"comm_", Constant(3, 150, 20)},
                      {"second_", Constant(4, 200, 20)},
                      {"", Constant(10, 250, 40)}};
  Counters counters;
  ReportEnergy(energy, 0, counters);
  EXPECT_NEAR(counters.at("second_energy_J"), 4, 1e-9);
  EXPECT_NEAR(counters.at("serial_energy_J"), 10, 1e-9);
  EXPECT_NEAR(counters.at("energy_saved"), 0, 1e-9);
  EXPECT_NEAR(counters.at("time_saved"), 0.2, 1e-9);
  energy.emplace("serial_", Constant(8, 100, 80));
  ReportEnergy(energy, 0, counters);
  EXPECT_NEAR(counters.at("serial_energy_J"), 8, 1e-9);
  EXPECT_NEAR(counters.at("energy_saved"), -0.25, 1e-9);
  EXPECT_NEAR(counters.at("time_saved"), 0.5, 1e-9);
  EXPECT_FALSE(counters.contains("energy_per_token_J"));
}

TEST(RowEnergy, OneSideAloneSavesNothing) {
  for (const char* side : {"comp_", "comm_"}) {
    Counters counters;
    ReportEnergy({{side, Constant(3, 300, 10)}, {"", Constant(5, 250, 20)}}, 0, counters);
    EXPECT_EQ(counters.count("energy_saved") + counters.count("serial_energy_J"), 0U) << side;
    EXPECT_TRUE(counters.contains(side + std::string("energy_J")));
  }
}

TEST_F(EnergyTest, SaysWhyThereIsNoCounter) {
  device_.counter->fault = "the meter is on strike";
  EXPECT_EQ(LookAtEnergy(machine()).missing, "the meter is on strike");
  Machine shared = machine();
  shared.shares_gpus = true;
  EXPECT_EQ(LookAtEnergy(shared).missing, "ranks share a GPU, which counts their energy together");
}

TEST_F(EnergyTest, ACounterThatNeverTicksIsNone) {
  device_.counter->idle_W = 0;
  std::this_thread::sleep_for(2 * kTick);  // the last one has passed
  EXPECT_EQ(LookAtEnergy(machine()).missing, "the energy counter did not change within 1.00 s");
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

// The counter begins again after a joule.
TEST_F(RaplTest, GoesOnWhereItWraps) {
  struct Case {
    long before_uJ;
    long now_uJ;
    double joules;
  };
  for (const auto& [before_uJ, now_uJ, joules] :
       {Case{0, 300'000, 0.3}, Case{990'000, 40'000, 0.05}, Case{600'000, 400'000, 0.8},
        Case{500'000, 500'000, 0}, Case{500'000, 499'999, 0.999999},
        Case{999'999, 500'000, 0.500001}}) {
    WritePackage(0, before_uJ);
    Rapl rapl(root_);
    EXPECT_EQ(rapl.Read_J(), 0);
    WritePackage(0, now_uJ);
    EXPECT_DOUBLE_EQ(rapl.Read_J(), joules) << before_uJ;
  }
}

TEST_F(RaplTest, SaysThatItWasReset) {
  for (const auto& [before_uJ, now_uJ] :
       {std::pair{499'999, 0}, {40'000, 10'000}, {999'999, 500'001}}) {
    WritePackage(0, before_uJ);
    Rapl rapl(root_);
    EXPECT_EQ(rapl.Read_J(), 0);
    WritePackage(0, now_uJ);
    EXPECT_NE(Thrown<Error>([&] { (void)rapl.Read_J(); }).find("went backwards: it was reset"),
              std::string::npos)
        << before_uJ;
  }
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
