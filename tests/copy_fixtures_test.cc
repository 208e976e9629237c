// What rows of Copy report, from groups whose truth is known: counters, and what they say of
// themselves.
#include <string>
#include <vector>

#include "fixtures/duplex_fixture.h"
#include "fixtures/pipeline_fixture.h"
#include "fixtures/transfer_fixture.h"
#include "reporting.h"

namespace overlapbench {
namespace {

Cost CopyOf(double bytes) {
  Cost cost;
  cost.copied_bytes = bytes;
  return cost;
}

class DuplexFixtureTest : public ReportingTest<DuplexFixture> {
 protected:
  DuplexFixtureTest() { has_comm_ = true; }
};

// 8 MB in 2 ms alone, 4 MB in 1 ms. Together one takes 4 ms and the other, from 1 ms on, 2 ms.
TEST_F(DuplexFixtureTest, EachDirectionHasItsOwnRateAndLoss) {
  comm_.cost = CopyOf(8e6);
  comp_.cost = CopyOf(4e6);
  const Row row = Report({Took(2), Took(1), Ran({0, 4}, {1, 3})});
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("host_to_device_GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("device_to_host_GBps"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("host_to_device_slowdown"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("device_to_host_slowdown"), 2);
}

class PipelineFixtureTest : public ReportingTest<PipelineFixture> {
 protected:
  PipelineFixtureTest() {
    references_ = std::vector<Behaviour>(4);
    references_[0].fingerprint = comp_.fingerprint = 4711;
    settings_ = {{"pipeline_streams", "4"}, {"memory", "pinned"}};
  }
  // Alone 8 in all: in 2, compute 4, out 2; `pipelined_ms` as a pipeline. Copies that meet take
  // `duplex_ms`.
  static Group Measured(double pipelined_ms, double duplex_ms = 2) {
    return {Took(8), Took(2), Took(4), Took(2), Took(duplex_ms, duplex_ms), Took(pipelined_ms)};
  }
};

// Parts of 0.5, 1 and 0.5: at best the last of four leaves at 5.
TEST_F(PipelineFixtureTest, ComparesWithTheSequentialFormAndTheIdeal) {
  const Row row = Report(Measured(6.25));
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("sequential_ms"), 8);
  EXPECT_DOUBLE_EQ(row.counters.at("in_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("compute_ms"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("out_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("ideal_ms"), 5);
  EXPECT_DOUBLE_EQ(row.counters.at("speedup"), 1.28);
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_ideal"), 80);
  EXPECT_EQ(row.counters.at("identical"), 1);
}

TEST_F(PipelineFixtureTest, SaysThatCopiesThatDoNotDisturbEachOtherAreNotTheReason) {
  EXPECT_EQ(Report(Measured(5.5)).finding,
            "over the ideal: 0.0 % copies in both directions at once, 10.0 % the rest");
}

// In two parts of 2, 0 and 2, ideally 6. The second comes in while the first goes out: both take 3,
// and all is done at 7.
TEST_F(PipelineFixtureTest, SaysHowMuchOfTheLossIsTheOtherDirections) {
  settings_["pipeline_streams"] = "2";
  const Row row = Report({Took(8), Took(4), Took(0), Took(4), Took(6, 6), Took(7.5)});
  EXPECT_DOUBLE_EQ(row.counters.at("ideal_ms"), 6);
  EXPECT_EQ(row.finding,
            "over the ideal: 16.7 % copies in both directions at once, 8.3 % the rest");
}

TEST_F(PipelineFixtureTest, AResultThatIsNotTheSequentialOnesIsAFault) {
  comp_.fingerprint = 4712;
  const Row row = Report(Measured(5));
  EXPECT_EQ(row.fault, "the result is not that of the sequential run");
  EXPECT_EQ(row.counters.at("identical"), 0);
}

TEST_F(PipelineFixtureTest, SaysThatPageableMemoryDoesNotOverlap) {
  settings_["memory"] = "pageable";
  const Row row = Report(Measured(8));
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.finding, "no overlap: the host waits in every copy of pageable memory");
}

TEST_F(PipelineFixtureTest, OfOnePartHasNothingToExplain) {
  settings_["pipeline_streams"] = "1";
  settings_["memory"] = "pageable";
  const Row row = Report(Measured(8));
  EXPECT_EQ(row.finding, "");
  EXPECT_DOUBLE_EQ(row.counters.at("pct_of_ideal"), 100);
}

class ComputeTransferFixtureTest : public ReportingTest<ComputeTransferFixture> {
 protected:
  ComputeTransferFixtureTest() {
    references_ = std::vector<Behaviour>(2);
    references_[0].fingerprint = comp_.fingerprint = 4711;
  }
  // 6 in turn, 4 tied by events, 5 tied as the row is.
  Row ReportTied(const std::string& tie) {
    settings_["tie"] = tie;
    return Report({Took(6), Took(4), Took(5)});
  }
};

TEST_F(ComputeTransferFixtureTest, ComparesWithTheSameInTurn) {
  const Row row = ReportTied("events");
  EXPECT_EQ(row.fault, "");
  EXPECT_DOUBLE_EQ(row.counters.at("sequential_ms"), 6);
  EXPECT_DOUBLE_EQ(row.counters.at("speedup"), 1.2);
  EXPECT_EQ(row.counters.at("identical"), 1);
}

TEST_F(ComputeTransferFixtureTest, OnlyATieByTheHostHasACostOfItsOwn) {
  EXPECT_FALSE(ReportTied("events").counters.contains("sync_cost_ms"));
  EXPECT_DOUBLE_EQ(ReportTied("host").counters.at("sync_cost_ms"), 1);
}

TEST_F(ComputeTransferFixtureTest, AResultThatIsNotTheSequentialOnesIsAFault) {
  comp_.fingerprint = 4712;
  const Row row = ReportTied("events");
  EXPECT_EQ(row.fault, "the result is not that of the sequential run");
  EXPECT_EQ(row.counters.at("identical"), 0);
}

class FragmentedFixtureTest : public ReportingTest<FragmentedFixture> {
 protected:
  FragmentedFixtureTest() {
    references_ = std::vector<Behaviour>(1);
    settings_ = {{"fragments", "100"}};
    comp_.cost = CopyOf(4e6);
  }
};

// One copy of 1 ms in 100, for which the host takes 0.5 of the 4 ms.
TEST_F(FragmentedFixtureTest, TellsWhatAFragmentCosts) {
  const Row row = Report({TookWithHost(1, 0.125), TookWithHost(4, 0.5)});
  EXPECT_DOUBLE_EQ(row.counters.at("one_transfer_ms"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("fragmented_slowdown"), 4);
  EXPECT_DOUBLE_EQ(row.counters.at("us_per_fragment"), 40);
  EXPECT_DOUBLE_EQ(row.counters.at("host_us_per_fragment"), 5);
  EXPECT_DOUBLE_EQ(row.counters.at("GBps"), 1);
}

TEST_F(FragmentedFixtureTest, SaysWhatBoundsIt) {
  EXPECT_EQ(Report({Took(1), Took(1.4)}).finding, "bandwidth-bound");
  EXPECT_EQ(Report({Took(1), Took(1.6)}).finding, "latency-bound");
}

}  // namespace
}  // namespace overlapbench
