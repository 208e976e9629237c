// What a fixture makes of groups of samples whose truth is known: the counters of its row, and what
// the row says of itself.
//
//   class SupplyFixtureTest : public ReportingTest<SupplyFixture> {};
//   TEST_F(SupplyFixtureTest, ...) {
//     references_ = std::vector<Behaviour>(2);
//     settings_ = {{"workers", "2"}};
//     const Row row = Report({Took(8), Took(4), Took(10)});
//     EXPECT_DOUBLE_EQ(row.counters.at("make_ms"), 2);
//   }
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fake_workload.h"
#include "fixtures/suite.h"
#include "fixtures/timed_fixture.h"
#include "test_ranks.h"

namespace overlapbench {

// Opens a fixture's Report.
template <class Fixture>
class Reporting : public Fixture {
 public:
  using Fixture::Fixture;
  using Fixture::Report;
};

// A sample in which the lanes ran so.
inline Sample Ran(SideTimes first, SideTimes second = {}) {
  Sample sample;
  sample.total_ms = std::max(first.end_ms, second.end_ms);
  sample.lanes = {first, second};
  return sample;
}

// A sample of lanes that started at once.
inline Sample Took(double first_ms, double second_ms = 0) {
  return Ran({0, first_ms}, {0, second_ms});
}

// A sample whose work the host took `enqueue_ms` to enqueue.
inline Sample TookWithHost(double total_ms, double enqueue_ms) {
  Sample sample = Took(total_ms);
  sample.enqueue_ms = {enqueue_ms, 0};
  return sample;
}

struct Row {
  std::string fault;
  std::string finding;
  std::map<std::string, double> counters;
};

// What Fixture's row is when a benchmark, whose session is the suite's, has measured `groups`.
template <class Fixture>
Row ReportOf(Suite& suite, const Configuration& configuration, const std::vector<Group>& groups) {
  benchmark::UserCounters counters;
  const auto remark = Reporting<Fixture>(suite, configuration).Report(groups, counters);
  return {remark.fault, remark.finding, {counters.begin(), counters.end()}};
}

// A benchmark of fakes, which a test describes before it calls Report.
template <class Fixture>
class ReportingTest : public testing::Test {
 protected:
  // Of several groups. Sets the benchmark up on the host backend.
  Row ReportAll(const std::vector<Group>& groups) {
    const auto device = OpenHostDevice(1);
    const Machine machine{*device, TestRanks()};
    const Configuration configuration = Configure();
    const Options options;
    auto session = std::make_unique<Session>(machine, configuration);
    session->SetUp(true);
    Suite suite{machine, options, std::move(session)};
    return ReportOf<Fixture>(suite, configuration, groups);
  }
  Row Report(const Group& group) { return ReportAll({group}); }

  std::map<std::string, std::string> settings_;  // of its axes
  std::vector<Behaviour> references_;            // what it is held against
  Behaviour comp_;                               // the only workload where there is no comm
  bool has_comm_ = false;
  Behaviour comm_;
  Side comp_side_ = Side::kCompute;
  Side comm_side_ = Side::kComm;

 private:
  Configuration Configure() {
    Configuration configuration;
    configuration.name = "Family/Workload";
    configuration.make_scene = &Fixture::MakeScene;
    configuration.comp = Fake("Work", comp_side_, comp_);
    if (has_comm_) configuration.comm = Fake("Talk", comm_side_, comm_);
    settings_.insert({{"cache", "warm"}, {"cadence", "isolated"}});
    for (const auto& [name, value] : settings_) {
      Axis axis;
      axis.name = name;
      configuration.settings.Set(axis, value);
    }
    for (const Behaviour& reference : references_) {
      configuration.references.push_back(
          {Fake("Reference", comp_side_, reference), configuration.settings});
    }
    return configuration;
  }
  const WorkloadSpec* Fake(const std::string& name, Side side, const Behaviour& behaviour) {
    specs_.push_back(FakeSpec(name, side, behaviour));
    return &specs_.back();
  }

  std::deque<WorkloadSpec> specs_;
};

}  // namespace overlapbench
