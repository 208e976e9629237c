// The families' own scenarios in a test: on a device that poses as another one, and their reports
// on samples whose truth is known.
//
//   ScenarioReport pair("Overlap/AllToAll+Gemm", {{"streams", "2"}});
//   const Reported row = pair.Report({{"comp", Took(4)},
//                                     {"comm", Took(2)},
//                                     {"overlap", Ran({{"comp", {0, 4}}, {"comm", {0, 2}}})}});
//   EXPECT_DOUBLE_EQ(row.counters.at("slowdown"), 1);
//
// A ScenarioReport has the runs that the scenario makes, with their lanes, steps and names. Fakes
// that do nothing replace their works, so that it needs neither memory nor a GPU. The test sets the
// works' costs and results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/catalog.h"
#include "fixtures/measurement.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {

// A host device that passes for another one, where nothing is run on it that only that one could.
class PosingDevice : public ForwardingDevice {
 public:
  PosingDevice() : ForwardingDevice(OpenHostDevice(2)), info_(ForwardingDevice::info()) {}
  // An H200: 132 SMs, six priorities, and nothing that the cuda backend lacks. But its partitions
  // limit nothing.
  static std::unique_ptr<PosingDevice> H200() {
    auto device = std::make_unique<PosingDevice>();
    device->backend_ = Backend::kCuda;
    device->info_.multiprocessors = 132;
    device->info_.partitions = {.least = 8, .step = 8, .most = 128};
    device->info_.compute_capability = 90;
    device->info_.most_clock_GHz = 1.98;
    device->info_.memory_GBps = 4800;
    device->info_.link_GBps = 450;
    device->info_.priorities = 6;
    device->info_.no_batch_copy = "";
    return device;
  }
  static std::unique_ptr<PosingDevice> WithMultiprocessors(
      int multiprocessors, const SmPartitions& partitions = H200()->info_.partitions) {
    auto device = H200();
    device->info_.multiprocessors = multiprocessors;
    device->info_.partitions = partitions;
    return device;
  }
  // An H200 whose bandwidths nobody knows.
  static std::unique_ptr<PosingDevice> WithoutRates() {
    auto device = H200();
    device->info_.memory_GBps = device->info_.link_GBps = 0;
    return device;
  }
  // The host device, if its streams had priorities.
  static std::unique_ptr<PosingDevice> WithPriorities(int priorities) {
    auto device = std::make_unique<PosingDevice>();
    device->info_.priorities = priorities;
    return device;
  }

  [[nodiscard]] Backend backend() const override { return backend_; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    const bool poses = backend_ == Backend::kCuda;
    return ForwardingDevice::CreateStream(poses ? StreamOptions{.on_host = options.on_host}
                                                : options);
  }

 private:
  Backend backend_ = Backend::kHost;
  DeviceInfo info_;
};

// Every workload, as if this build lacked none. Those that it does lack have no axes.
inline Registry AllWorkloads(Machine& machine) {
  Registry known;
  FillRegistry(known, machine);
  Registry all;
  for (WorkloadSpec spec : known.specs()) {
    if (!spec.axes.empty()) spec.missing = "";
    if (!spec.footprint) spec.footprint = [](const Settings&) { return Footprint{}; };
    all.Add(std::move(spec));
  }
  return all;
}

// The times that a test gives a run.
struct Timing {
  double total_ms = 0;
  std::map<std::string, TimeSpan> spans = {};  // of lanes and steps, by name; the others: all of it
  double enqueue_ms = 0;
};
inline Timing Took(double total_ms) { return {.total_ms = total_ms}; }
// The host took `enqueue_ms` to enqueue it.
inline Timing TookWithHost(double total_ms, double enqueue_ms) {
  return {.total_ms = total_ms, .enqueue_ms = enqueue_ms};
}
inline Timing Ran(const std::map<std::string, TimeSpan>& spans) {
  Timing timing{.spans = spans};
  for (const auto& [name, span] : spans) timing.total_ms = std::max(timing.total_ms, span.end_ms);
  return timing;
}
using Timings = std::map<std::string, Timing>;  // by run: one group

// What a row says of itself.
struct Reported {
  RowState state = RowState::kOk;
  std::string reason;
  Counters counters;
};

// It has these counters and no others.
inline void ExpectCounters(const Reported& row, const std::map<std::string, double>& expected) {
  for (const auto& [name, value] : row.counters)
    EXPECT_TRUE(expected.contains(name)) << name << " is " << value;
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(row.counters.contains(name)) << name;
    EXPECT_DOUBLE_EQ(row.counters.at(name), value) << name;
  }
}

class ScenarioReport {
 public:
  // At `values`, or an axis's first value by default. Axes that this build lacks are allowed.
  explicit ScenarioReport(const std::string& name, const Values& values = {})
      : ScenarioReport(name, values, PosingDevice::WithPriorities(3)) {}
  ScenarioReport(const std::string& name, const Values& values,
                 std::unique_ptr<PosingDevice> device)
      : device_(std::move(device)), scenario_(Find(name)) {
    std::vector<std::pair<std::string, std::string>> of_axes;
    Values others = values;
    for (const Axis& axis : scenario_.axes) {
      const auto value = others.extract(axis.name);
      if (!value.empty()) of_axes.emplace_back(axis.name, value.mapped());
    }
    settings_ = SettingsOf(scenario_.axes, of_axes);
    for (const auto& [axis, value] : others) settings_ = settings_.With(axis, value);
    settings_ = settings_.With("cache", "warm").With("cadence", "isolated");
  }

  // Sets the cost of the works of this name. Call before the first Report.
  void Costs(const std::string& work, const Cost& cost) { costs_[work] = cost; }
  // How many SMs a work of this name takes, and what it observes.
  void Takes(const std::string& work, long sms) { sms_[work] = sms; }
  void Observes(const std::string& work, double value) { observed_[work] = value; }
  // The results of this run; all runs that are not named have the same.
  void Leaves(const std::string& run, std::uint64_t fingerprint) { results_[run] = fingerprint; }

  [[nodiscard]] std::vector<Run> runs() const {
    return MakeRuns({.name = scenario_.name,
                     .settings = settings_,
                     .runs = scenario_.runs,
                     .report = scenario_.report,
                     .prioritizes_comm = scenario_.prioritizes_comm});
  }
  [[nodiscard]] const Machine& machine() const { return machine_; }
  // Why a row that was reported is invalid, whatever it says of itself; "" where it is not.
  [[nodiscard]] const std::string& knob_fault() const { return session_->knob_fault(); }
  // Why there is no row of these settings; "" where there is.
  [[nodiscard]] std::string excluded() const {
    return scenario_.excluded ? scenario_.excluded(settings_) : "";
  }

  Reported Report(const Timings& group) { return ReportAll({group}); }
  // Reports several groups.
  Reported ReportAll(const std::vector<Timings>& all) {
    SetUp();
    std::vector<Group> groups;
    for (const Timings& timings : all) groups.push_back(GroupOf(timings));
    Counters counters;
    const Remark remark = scenario_.report(Measurement(*session_, groups), counters);
    for (const auto& [name, figure] : counters)
      EXPECT_NE(table_.Find(name), nullptr) << name << " is not in the table of counters";
    return {remark.state, remark.reason, counters};
  }

 private:
  class FakeWork : public Workload {
   public:
    struct Facts {
      Cost cost;
      std::uint64_t result = 0;
      std::optional<long> sms;
      std::optional<double> observed;
    };
    explicit FakeWork(const Facts& facts) : facts_(facts) {}
    [[nodiscard]] Cost cost() const override { return facts_.cost; }
    [[nodiscard]] std::optional<long> sms() const override { return facts_.sms; }
    [[nodiscard]] std::optional<double> Observed() const override { return facts_.observed; }
    void Reset(Stream& /*stream*/) override {}
    void Enqueue(Stream& /*stream*/) override {}
    void EnqueuePart(Stream& /*stream*/, const Part& /*part*/) override {}
    Verdict Verify(Stream& /*stream*/) override { return {}; }
    [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override {
      return facts_.result;
    }

   private:
    Facts facts_;
  };

  template <class Value>
  static std::optional<Value> At(const std::map<std::string, Value>& values,
                                 const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional<Value>(found->second);
  }

  Scenario Find(const std::string& name) const {
    const Catalog catalog{workloads_, *device_, machine_};
    for (const Family& family : AllFamilies()) {
      for (const Scenario& scenario : family.scenarios(catalog))
        if (scenario.name == name) return scenario;
    }
    throw std::runtime_error("there is no scenario " + name);
  }

  // The scenario's runs, with fakes for all works.
  [[nodiscard]] std::vector<Run> FakeRuns() const {
    std::vector<Run> runs = this->runs();
    for (Run& run : runs) {
      for (const Work& work : run.schedule.works()) {
        WorkPlan fake{.name = work->name, .work_class = work->work_class};
        const FakeWork::Facts facts{At(costs_, work->name).value_or(Cost{}),
                                    At(results_, run.name).value_or(4711), At(sms_, work->name),
                                    At(observed_, work->name)};
        fake.make = [facts] { return std::make_unique<FakeWork>(facts); };
        run.schedule = run.schedule.With(work, std::make_shared<const WorkPlan>(std::move(fake)));
      }
    }
    return runs;
  }

  void SetUp() {
    if (session_ != nullptr) return;
    session_ = std::make_unique<Session>(
        machine_, Benchmark{scenario_.name, settings_,
                            [this](const Settings&) { return FakeRuns(); }, scenario_.report});
    session_->SetUp(true);
  }

  [[nodiscard]] Group GroupOf(Timings timings) const {
    Group group;
    for (const Run& run : session_->runs()) {
      const auto timing = timings.extract(run.name);
      if (timing.empty()) throw std::runtime_error("no time is given for the run " + run.name);
      group.push_back(SampleOf(run, timing.mapped()));
    }
    for (const auto& [name, timing] : timings) ADD_FAILURE() << "there is no run " << name;
    return group;
  }
  static Sample SampleOf(const Run& run, const Timing& timing) {
    std::map<std::string, TimeSpan> unused = timing.spans;
    const auto span_of = [&](const std::string& name) {
      const auto span = timing.spans.find(name);
      unused.erase(name);
      return span == timing.spans.end() ? TimeSpan{0, timing.total_ms} : span->second;
    };
    Sample sample;
    sample.total_ms = timing.total_ms;
    sample.ranks.assign(TestRanks().size(), {.time_ms = timing.total_ms});
    for (const Schedule::Lane& lane : run.schedule.lanes()) {
      if (run.timed >= Timed::kLanes) sample.lanes.push_back(span_of(lane.name));
      sample.enqueue_ms.push_back(sample.enqueue_ms.empty() ? timing.enqueue_ms : 0);
    }
    for (const Schedule::Step& step : run.schedule.steps())
      if (run.timed == Timed::kSteps) sample.steps.push_back(span_of(step.name));
    for (const auto& [name, span] : unused)
      ADD_FAILURE() << "the run " << run.name << " times nothing of the name " << name;
    return sample;
  }

  std::unique_ptr<PosingDevice> device_;
  Machine machine_{*device_, TestRanks()};
  Registry workloads_ = AllWorkloads(machine_);
  CounterTable table_ = AllCounters();
  Scenario scenario_;
  Settings settings_;
  std::map<std::string, Cost> costs_;
  std::map<std::string, std::uint64_t> results_;
  std::map<std::string, long> sms_;
  std::map<std::string, double> observed_;
  std::unique_ptr<Session> session_;
};

}  // namespace overlapbench
