// Shared by the tests of measured rows: a device with the processes, times, peaks and faults that a
// test sets, and a fixture that measures the row Race/Horse of a fake work on it.
#pragma once

#include <benchmark/benchmark.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/activity.h"
#include "fake_workload.h"
#include "fixtures/timed_fixture.h"
#include "test_ranks.h"
#include "tests/injection/faulty_device.h"

namespace overlapbench {

class Rows : public benchmark::BenchmarkReporter {
 public:
  explicit Rows(FinishedRows& finished) : finished_(finished) {}
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    runs_.insert(runs_.end(), runs.begin(), runs.end());
    for (Row& row : finished_.Take(runs)) rows_.push_back(std::move(row));
  }
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  FinishedRows& finished_;
  std::vector<Run> runs_;
  std::vector<Row> rows_;
};

// A watch whose end fails.
class LosingWatch : public ActivityWatch {
 public:
  explicit LosingWatch(std::unique_ptr<ActivityWatch> watch) : watch_(std::move(watch)) {}
  void Mark(std::uint64_t mark) override { watch_->Mark(mark); }
  Activities Stop() override { throw Error("the records are lost"); }

 private:
  std::unique_ptr<ActivityWatch> watch_;
};

// Saw throttled clocks.
class HotWatch : public ThrottleWatch {
 public:
  explicit HotWatch(bool& is_hot) : is_hot_(is_hot) { is_hot_ = true; }
  ~HotWatch() override { is_hot_ = false; }
  [[nodiscard]] std::string Reason() override { return "hot"; }

 private:
  bool& is_hot_;
};

// A device with the processes, times, peaks and faults that a test sets.
class SharedDevice : public FaultyDevice {
 public:
  using FaultyDevice::FaultyDevice;
  [[nodiscard]] Backend backend() const override { return shown; }
  [[nodiscard]] const DeviceInfo& info() const override { return known; }
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    return elapsed_ms ? elapsed_ms() : FaultyDevice::ElapsedMs(from, to);
  }
  [[nodiscard]] DeviceUse Use() const override { return use; }
  std::unique_ptr<ThrottleWatch> Throttling() override {
    if (hot_groups == 0) return FaultyDevice::Throttling();
    --hot_groups;
    return std::make_unique<HotWatch>(is_hot);
  }
  std::shared_ptr<EnergyCounter> Energy() override { return energy; }
  std::unique_ptr<ActivityWatch> Activities() override {
    auto watch = FaultyDevice::Activities();
    return loses_records ? std::make_unique<LosingWatch>(std::move(watch)) : std::move(watch);
  }

  DeviceUse use;
  std::shared_ptr<EnergyCounter> energy;
  Backend shown = Backend::kHost;
  DeviceInfo known = FaultyDevice::info();
  std::function<double()> elapsed_ms;
  bool loses_records = false;
  int hot_groups = 0;  // how many more are throttled
  bool is_hot = false;
};

class TimedFixtureTest : public testing::Test {
 protected:
  TimedFixtureTest() {
    options_.budget = std::chrono::milliseconds(1);
    row_.name = "Race/Horse";
    row_.settings = row_.settings.With("cache", "warm").With("cadence", "isolated");
    row_.runs = [this](const Settings&) {
      return std::vector{SoloRun(FakeWork("horse", WorkClass::kCompute, horse_), false)};
    };
    row_.report = [](const Measurement&, Counters&) { return Remark(); };
    Register(suite_, row_);
  }
  void TearDown() override { benchmark::ClearRegisteredBenchmarks(); }

  // After `row_` has changed.
  void RegisterAnew() {
    benchmark::ClearRegisteredBenchmarks();
    Register(suite_, row_);
  }

  Row Measure() {
    Rows rows(suite_.finished);
    benchmark::RunSpecifiedBenchmarks(&rows, ".");
    return rows.rows().back();
  }
  // What a horse does whose samples take a time that is known.
  std::function<void(Stream&)> Takes(const std::function<double()>& time_ms) {
    return
        [this, time_ms](Stream&) { device_.elapsed_ms = [now_ms = time_ms()] { return now_ms; }; };
  }
  std::function<void(Stream&)> Takes(double time_ms) {
    return Takes([time_ms] { return time_ms; });
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }

  Behaviour horse_;
  overlapbench::Benchmark row_;
  SharedDevice device_{OpenHostDevice(1)};
  Options options_;
  Suite suite_{{device_, TestRanks()}, options_};
};

}  // namespace overlapbench
