// The ranks of a test program. MPI can be started once in a process, so all its tests share them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "backends.h"
#include "ranks/ranks.h"
#include "workload/workload.h"

namespace overlapbench {

// How long the ranks of a test wait for each other.
inline constexpr std::chrono::milliseconds kRanksPatience = std::chrono::seconds(20);

Ranks& TestRanks();

class RanksTest : public testing::Test {
 protected:
  Ranks& ranks() { return TestRanks(); }
  int rank() { return ranks().rank(); }
  int size() { return ranks().size(); }
  bool is_last() { return rank() == size() - 1; }
};

// OnEachBackend with a GPU for each rank.
class RanksOnEachBackend : public OnEachBackend {
 protected:
  void SetUp() override {
    OnEachBackend::SetUp();
    if (!IsSkipped()) machine_ = std::make_unique<Machine>(Machine{device(), TestRanks()});
  }
  Machine& machine() { return *machine_; }
  int gpus_needed() const override { return TestRanks().local_size(); }
  int ordinal() const override { return TestRanks().local_rank(); }

 private:
  std::unique_ptr<Machine> machine_;
};

// A link that every wait looks at for as long as it lives. `fault` is what it says then.
class TestLink : public Link {
 public:
  explicit TestLink(std::function<std::string()> fault) : fault_(std::move(fault)) {
    TestRanks().Add(*this);
  }
  ~TestLink() override { TestRanks().Remove(*this); }
  TestLink(const TestLink&) = delete;
  TestLink& operator=(const TestLink&) = delete;
  std::string Fault() override { return fault_(); }
  void Abort() override {}

 private:
  std::function<std::string()> fault_;
};

// Sets the ranks' timeout for as long as it lives.
class ShortTimeout {
 public:
  explicit ShortTimeout(std::chrono::milliseconds timeout) { TestRanks().set_timeout(timeout); }
  ~ShortTimeout() { TestRanks().set_timeout(kRanksPatience); }
  ShortTimeout(const ShortTimeout&) = delete;
  ShortTimeout& operator=(const ShortTimeout&) = delete;
};

}  // namespace overlapbench
