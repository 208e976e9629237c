// A session of two fake works, alone and at once, for tests of sessions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "fake_workload.h"
#include "fixtures/session.h"
#include "test_ranks.h"

namespace overlapbench {

inline constexpr bool kGate = true;
inline constexpr bool kNoGate = false;

class SessionTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's
  using Runs = std::vector<Run>;

  Work comp() { return FakeWork("comp", WorkClass::kCompute, work_); }
  Work comm() { return FakeWork("comm", WorkClass::kComm, talk_); }

  // Both alone and both at once, on two lanes. In the last the communication is enqueued first.
  Runs Pair() {
    const Work comp = this->comp();
    const Work comm = this->comm();
    Run both{.name = "overlap"};
    both.schedule.Add(both.schedule.AddLane({"COMM"}), comm);
    both.schedule.Add(both.schedule.AddLane({"COMP"}), comp);
    return {SoloRun(comp), SoloRun(comm), both};
  }
  // The communication waits for the computation.
  Runs Chain() {
    Run chain{.name = "chain"};
    const std::size_t first = chain.schedule.Add(chain.schedule.AddLane({"COMP"}), comp());
    chain.schedule.Add(chain.schedule.AddLane({"COMM"}), comm(), {.after = {first}});
    return {chain};
  }

  // The session of a benchmark of these runs, in a warm cache unless `values` say otherwise.
  std::unique_ptr<Session> Open(
      const std::function<Runs()>& runs, bool gate = kGate,
      const std::vector<std::pair<std::string, std::string>>& values = {}) {
    auto session = Prepare(runs, gate, values);
    session->WarmUp();
    return session;
  }
  // The same, not warmed up.
  std::unique_ptr<Session> Prepare(
      const std::function<Runs()>& runs, bool gate,
      const std::vector<std::pair<std::string, std::string>>& values = {}) {
    auto session = std::make_unique<Session>(machine(), RowOf(runs, values));
    session->SetUp(gate);
    return session;
  }
  static Benchmark RowOf(const std::function<Runs()>& runs,
                         const std::vector<std::pair<std::string, std::string>>& values = {}) {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"cold", "warm"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    return {.name = "Family/Row",
            .settings = SettingsOf(axes, values),
            .runs = [runs](const Settings&) { return runs(); },
            .report = {}};
  }
  std::unique_ptr<Session> OpenPair(bool gate = kGate) {
    return Open([this] { return Pair(); }, gate);
  }
  // What setting up throws, as text.
  std::string RefusalOf(const std::function<Runs()>& runs) {
    try {
      Open(runs);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string Refusal() {
    return RefusalOf([this] { return Pair(); });
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }
  static std::string LastRank() {
    const int size = TestRanks().size();
    return size == 1 ? "" : "rank " + std::to_string(size - 1) + ": ";
  }

  Behaviour work_;
  Behaviour talk_;
};

}  // namespace overlapbench
