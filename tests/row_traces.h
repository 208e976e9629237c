// Traces of schedules of delays, whose times are known, for tests of rows' traces.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "device/watches.h"
#include "fake_workload.h"
#include "fixtures/row_breakdown.h"
#include "fixtures/row_trace.h"
#include "test_ranks.h"

namespace overlapbench {

using Shares = std::map<std::string, double>;  // by counter
constexpr double kTolerance_pct = 1;
constexpr int kSamples = 3;

class RowTraceTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    try {
      device().watches().Activities();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  Work Delay(const std::string& name, WorkClass work_class, std::chrono::microseconds delay) {
    WorkPlan plan = *DelayWork(machine(), name, delay);
    plan.work_class = work_class;
    return std::make_shared<const WorkPlan>(std::move(plan));
  }

  void Open(const Run& run, const std::string& cadence = "isolated",
            const std::string& cache = "warm") {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"warm", "cold"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    session_ = std::make_unique<Session>(
        machine(), Benchmark{.name = "Family/Row",
                             .settings = SettingsOf(axes, {{"cadence", cadence}, {"cache", cache}}),
                             .runs = [run](const Settings&) { return std::vector{run}; },
                             .report = {}});
    session_->SetUp(true);
    session_->WarmUp();
  }
  std::vector<double> Untraced_ms(int samples) { return UntracedTimes_ms(*session_, samples); }
  RowTrace Trace(int samples = kSamples) {
    std::vector<double> untraced_ms = Untraced_ms(samples);
    const auto watch = device().watches().Activities();
    RowTrace trace = TraceRow(*session_, *watch, samples);
    trace.untraced_ms = std::move(untraced_ms);
    return trace;
  }

  // The shares of the first right trace, else of the last one. On the host other processes may
  // spoil most: each is of one sample, which they spoil least often, and is soon taken.
  template <class IsRight>
  Shares FirstRight(const IsRight& is_right, const std::function<RowTrace()>& trace) {
    constexpr int kAttemptsOnHost = 200;
    Shares shares;
    for (int left = GetParam() == Backend::kHost ? kAttemptsOnHost : 1; left > 0; --left) {
      const RowTrace traced = trace();
      EXPECT_EQ(traced.fault, "");
      shares = SharesOf(traced);
      if (is_right(shares)) break;
    }
    return shares;
  }

  // The shares of a pair of delays of 4 and 2 ms, which takes `expected_ms`.
  Shares PairOn(int streams, double expected_ms, const Shares& expected) {
    Run run{.name = "pair"};
    const auto comp = run.schedule.AddLane({"comp"});
    const auto comm = streams == 1 ? comp : run.schedule.AddLane({"comm"});
    run.schedule.Add(comm, Delay("second", WorkClass::kComm, std::chrono::microseconds(2000)));
    run.schedule.Add(comp, Delay("first", WorkClass::kCompute, std::chrono::microseconds(4000)));
    Open(run);
    const double tolerance_ms = 0.025 * expected_ms;
    const auto is_right = [&](const Shares& shares) {
      const double traced_ms = shares.at("traced_ms");
      return std::abs(traced_ms - expected_ms) <= tolerance_ms &&
             std::abs(traced_ms - shares.at("traced_events_ms")) <= tolerance_ms &&
             std::ranges::all_of(expected, [&](const auto& one) {
               return std::abs(shares.at(one.first) - one.second) <= kTolerance_pct;
             });
    };
    const Shares shares = FirstRight(is_right, [&] { return Trace(1); });
    EXPECT_NEAR(shares.at("traced_ms"), expected_ms, tolerance_ms);
    for (const auto& [name, share] : expected)
      EXPECT_NEAR(shares.at(name), share, kTolerance_pct) << name;
    EXPECT_NEAR(shares.at("traced_ms"), shares.at("traced_events_ms"), tolerance_ms);
    return shares;
  }
  static Shares SharesOf(const RowTrace& trace) {
    Counters counters;
    ReportBreakdown(trace, counters);
    Shares shares;
    for (const auto& [name, counter] : counters) shares[name] = counter.value;
    return shares;
  }
  static double Sum(const Shares& shares, const std::vector<std::string>& names) {
    double sum = 0;
    for (const std::string& name : names) sum += shares.at(name);
    return sum;
  }

  Session& session() { return *session_; }

 private:
  std::unique_ptr<Session> session_;
};

}  // namespace overlapbench
