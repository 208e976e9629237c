// What --inject_fault understands and refuses, and when a fault strikes. That the job then ends as
// it should is tested on real ranks (tests/cli/test_faults.py).
#include "tests/injection/injected_fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace overlapbench {
namespace {

std::string Refusal(const std::string& text) {
  try {
    ParseFault(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ParseFaultTest, TakesKindAndPhase) {
  const Fault fault = ParseFault("kill@wait");
  EXPECT_EQ(fault.kind, "kill");
  EXPECT_EQ(fault.phase, Phase::kWait);
  EXPECT_EQ(fault.rank, 0);
  EXPECT_EQ(fault.visit, 1);
}

TEST(ParseFaultTest, TakesEveryField) {
  const Fault fault = ParseFault("delay@start,rank=3,visit=7,ms=250,bytes=99");
  EXPECT_EQ(fault.rank, 3);
  EXPECT_EQ(fault.visit, 7);
  EXPECT_EQ(fault.ms, 250);
  EXPECT_EQ(fault.bytes, 99);
}

TEST(ParseFaultTest, KnowsEveryPhaseByItsName) {
  EXPECT_EQ(ParseFault("kill@start").phase, Phase::kStart);
  EXPECT_EQ(ParseFault("kill@times").phase, Phase::kTimes);
  EXPECT_EQ(ParseFault("kill@between").phase, Phase::kBetween);
  EXPECT_EQ(Refusal("kill@lunch"),
            "there is no phase 'lunch': choose one of start, agree, connect, make, fill, first, "
            "verify, enqueue, meet, wait, times, report, write, end, between");
}

TEST(ParseFaultTest, RefusesMalformedFaults) {
  EXPECT_NE(Refusal("kill").find("takes KIND@PHASE"), std::string::npos);
  EXPECT_NE(Refusal("sulk@wait").find("there is no kind 'sulk'"), std::string::npos);
  for (const char* field :
       {"rank", "rank=", "rank=-1", "rank=one", "colour=3", "rank=1234567890123"}) {
    EXPECT_NE(Refusal(std::string("kill@wait,") + field).find("'" + std::string(field) + "'"),
              std::string::npos)
        << field;
  }
}

class FaultInjectorTest : public testing::Test {
 protected:
  void Inject(FaultInjector& injector, const std::vector<std::string>& faults) {
    for (const auto& fault : faults) EXPECT_TRUE(injector.Take("--inject_fault=" + fault));
    injector.Begin(progress_);
  }
  // The visits, of `visits` to this phase on this rank, at which `fault` failed it.
  std::vector<int> Failed(const std::string& fault, Phase phase, int visits) {
    FaultInjector injector;
    Inject(injector, {fault});
    std::vector<int> failed;
    for (int visit = 1; visit <= visits; ++visit) {
      try {
        const Progress::Scope scope(progress_, phase);
      } catch (const Error&) {
        failed.push_back(visit);
      }
    }
    return failed;
  }
  Progress progress_{1, 2};
};

TEST_F(FaultInjectorTest, StrikesOnceAtItsVisit) {
  EXPECT_EQ(Failed("fail@enqueue,rank=1,visit=3", Phase::kEnqueue, 5), std::vector{3});
}

TEST_F(FaultInjectorTest, SparesOtherRanksAndPhases) {
  EXPECT_TRUE(Failed("fail@enqueue,rank=0", Phase::kEnqueue, 3).empty());
  EXPECT_TRUE(Failed("fail@enqueue,rank=1", Phase::kWait, 3).empty());
}

TEST_F(FaultInjectorTest, LeavesOtherFlagsToTheSuite) {
  FaultInjector injector;
  EXPECT_FALSE(injector.Take("--budget_ms=1"));
  Inject(injector, {});
  EXPECT_FALSE(
      injector.Wrap(OpenHostDevice(1), [] {})->watches().Surroundings().contains("injected_fault"));
}

// Rank 0 writes the context, whichever rank is to fail.
TEST_F(FaultInjectorTest, TheContextNamesTheFaultsOfAllRanks) {
  FaultInjector injector;
  Inject(injector, {"fail@enqueue,rank=0", "kill@wait,rank=5"});
  EXPECT_EQ(injector.Wrap(OpenHostDevice(1), [] {})->watches().Surroundings().at("injected_fault"),
            "fail@enqueue,rank=0 kill@wait,rank=5");
}

TEST_F(FaultInjectorTest, StrikesTheDeviceOnceItExists) {
  FaultInjector injector;
  Inject(injector, {"corrupt@verify,rank=1", "throttle@report,rank=1"});
  EXPECT_NO_THROW(Progress::Scope(progress_, Phase::kReport));  // no device yet
  FaultInjector second;
  Inject(second, {"corrupt@verify,rank=1", "throttle@report,rank=1"});
  const auto device = second.Wrap(OpenHostDevice(1), [] {});
  const Buffer buffer = device->Allocate(64, MemoryKind::kDevice);
  auto* words = static_cast<std::uint32_t*>(buffer.data());
  std::fill_n(words, 16, 0U);
  const auto watch_made_before = device->watches().Throttling();
  EXPECT_EQ(watch_made_before->Reason(), "");
  {
    const Progress::Scope scope(progress_, Phase::kVerify);
  }
  {
    const Progress::Scope scope(progress_, Phase::kReport);
  }
  EXPECT_EQ(words[8], 1U << 22U);
  EXPECT_EQ(std::count(words, words + 16, 0U), 15);
  EXPECT_EQ(watch_made_before->Reason(), "injected");
  EXPECT_EQ(device->watches().Throttling()->Reason(), "injected");
}

TEST_F(FaultInjectorTest, DoesNotTouchAFreedBuffer) {
  FaultInjector injector;
  Inject(injector, {"corrupt@verify,rank=1"});
  const auto device = injector.Wrap(OpenHostDevice(1), [] {});
  {
    const Buffer gone = device->Allocate(64, MemoryKind::kDevice);
  }
  EXPECT_NO_THROW(Progress::Scope(progress_, Phase::kVerify));
}

}  // namespace
}  // namespace overlapbench
