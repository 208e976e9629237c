// Which transports carry an operation at which settings, the reason where one does not, and which
// communicators a run shares.
#include "comm/transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "scenarios.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using enum Operation;

// Settings of a collective on two ranks.
Settings At(const std::string& transport, const Values& values = {}) {
  Settings settings = Settings()
                          .With("transport", transport)
                          .With("comm_ctas", "0")
                          .With("comm_sms", "0")
                          .With("bytes", "8192")
                          .With("place", "out");
  for (const auto& [axis, value] : values) settings = settings.With(axis, value);
  return settings;
}

// Two ranks on one host, each with an H200. Neither is started.
class TransportTest : public testing::Test {
 protected:
  std::string Refused(const std::string& transport, Operation operation, const Values& values = {},
                      bool own_stays = false) {
    return NoTransport(machine_, {operation}, At(transport, values), own_stays);
  }
  // It is as far as settings go; what the machine lacks is another matter.
  void ExpectCarries(const std::string& transport, Operation operation, const Values& values = {}) {
    std::string lacks = PeersUnavailable(machine_);
    if (transport == "nccl") lacks = "";
    if (transport == "nccl_ce") lacks = NcclUnavailable(NcclOptions{0, true, true});
    if (transport == "nccl_sym") lacks = NcclUnavailable(NcclOptions{0, true, false});
    EXPECT_EQ(Refused(transport, operation, values), lacks) << transport;
  }

  std::unique_ptr<PosingDevice> device_ = PosingDevice::H200();
  Progress progress_{0, 2};
  Ranks ranks_{RankPlace{.rank = 0, .size = 2}, progress_};
  Machine machine_{*device_, ranks_};
};

TEST_F(TransportTest, CarriesTheOperationsThatItSupports) {
  for (const Operation operation :
       {kAllToAll, kAllReduce, kAllGather, kReduceScatter, kBroadcast, kShiftRing}) {
    for (const char* transport : {"nccl", "copy", "sm_load", "sm_store"})
      ExpectCarries(transport, operation);
    if (operation != kReduceScatter) ExpectCarries("sm_bulk", operation);
    if (operation == kAllToAll || operation == kAllGather)
      ExpectCarries("nccl_ce", operation);
    else
      EXPECT_EQ(Refused("nccl_ce", operation), "nccl_ce supports AllToAll and AllGather only");
    if (operation == kAllGather || Adds(operation))
      ExpectCarries("nccl_sym", operation);
    else
      EXPECT_EQ(Refused("nccl_sym", operation),
                "nccl_sym supports AllReduce, AllGather and ReduceScatter only");
  }
  for (const Operation operation : {kSend, kReceive}) {
    for (const char* transport : {"nccl", "copy"}) ExpectCarries(transport, operation);
    for (const std::string transport : {"sm_load", "sm_store", "sm_bulk"})
      EXPECT_EQ(Refused(transport, operation),
                transport + " does not support transfers between two ranks; use nccl or copy");
  }
}

TEST_F(TransportTest, TakesSettingsUpToTheirLimits) {
  ExpectCarries("nccl", kAllReduce, {{"comm_ctas", "4"}});
  ExpectCarries("nccl", kAllReduce, {{"comm_ctas", "3"}});
  ExpectCarries("nccl", kAllReduce, {{"comm_ctas", "8"}});
  EXPECT_EQ(Refused("nccl", kAllReduce, {{"comm_ctas", "5"}}),
            "NCCL launches clusters of 4 CTAs: comm_ctas must be 1, 2, or a multiple of 4");
  ExpectCarries("nccl", kAllToAll, {{"comm_ctas", "2"}});
  EXPECT_EQ(
      Refused("nccl", kAllToAll, {{"comm_ctas", "3"}}),
      "NCCL rounds the CTAs of an all-to-all to a power of two: comm_ctas must be 1, 2, 4, ...");
  EXPECT_EQ(Refused("nccl_ce", kAllToAll, {{"comm_ctas", "4"}}),
            "comm_ctas is for NCCL only; nccl_ce does not use it");
  for (const std::string transport : {"nccl", "nccl_ce", "nccl_sym"})
    EXPECT_EQ(Refused(transport, kAllGather, {{"comm_sms", "8"}}).find("comm_sms is for "), 0U)
        << transport;
  ExpectCarries("nccl_sym", kAllReduce, {{"comm_ctas", "4"}});
  ExpectCarries("nccl_sym", kAllReduce, {{"bytes", "4096"}});
  EXPECT_EQ(Refused("nccl_sym", kAllReduce, {{"bytes", "6144"}}),
            "nccl_sym needs bytes to be a multiple of 4K");
  EXPECT_EQ(Refused("nccl_sym", kAllReduce, {{"place", "in"}}),
            "nccl_sym needs two buffers (place:out)");
  ExpectCarries("nccl", kAllReduce, {{"place", "in"}, {"bytes", "4"}});
  for (const std::string transport : {"copy", "sm_load", "sm_store", "sm_bulk"}) {
    ExpectCarries(transport, kAllReduce, {{"bytes", "96"}, {"comm_sms", "132"}});
    ExpectCarries(transport, kReduceScatter, {{"bytes", "1073741824"}});
    EXPECT_EQ(Refused(transport, kAllReduce, {{"bytes", "80"}}),
              transport + " needs bytes to be a multiple of 16 x ranks");
    EXPECT_EQ(Refused(transport, kAllReduce, {{"comm_sms", "133"}}),
              "comm_sms:133 is more than the GPU's 132 SMs");
  }
  ExpectCarries("copy", kAllReduce, {{"cadence", "isolated"}});
  EXPECT_EQ(Refused("copy", kAllReduce, {{"cadence", "streaming"}}),
            "transport:copy supports cadence:isolated only");
  ExpectCarries("sm_load", kAllReduce, {{"cadence", "streaming"}});
  EXPECT_EQ(Refused("copy", kAllGather, {{"comm_sms", "8"}}),
            "copies between GPUs use no SMs; comm_sms is for sums");
  ExpectCarries("sm_load", kAllGather, {{"comm_sms", "8"}});
}

TEST_F(TransportTest, RefusesWhatTheMachineCannotDo) {
  const std::string keeps = Refused("nccl_ce", kAllToAll, {}, true);
  EXPECT_EQ(keeps,
            "nccl_ce also moves the part that stays on its rank (ncclAlltoAll): use nccl or copy");
  EXPECT_EQ(Refused("nccl", kAllToAll, {}, true), "");
  machine_.shares_gpus = true;
  EXPECT_EQ(Refused("nccl", kAllReduce),
            "NCCL supports one rank per GPU; with --share_gpu use copy or sm_load");
  EXPECT_EQ(Refused("copy", kAllReduce, {{"bytes", "80"}}),
            "copy needs bytes to be a multiple of 16 x ranks");
}

TEST_F(TransportTest, UsesBulkCopiesFromHopperOn) {
  class Older : public PosingDevice {
   public:
    explicit Older(int capability) : info_(H200()->info()) {
      info_.compute_capability = capability;
    }
    [[nodiscard]] Backend backend() const override { return Backend::kCuda; }
    [[nodiscard]] const DeviceInfo& info() const override { return info_; }

   private:
    DeviceInfo info_;
  };
  const auto refused = [&](const char* transport, int capability) {
    Older device(capability);
    return NoTransport({device, ranks_}, {kAllGather}, At(transport));
  };
  EXPECT_EQ(refused("sm_bulk", 89), "sm_bulk needs a GPU of compute capability 9.0 or later");
  EXPECT_EQ(refused("sm_bulk", 90), PeersUnavailable(machine_));
  EXPECT_EQ(refused("sm_load", 80), PeersUnavailable(machine_));
}

// All operations of a work must be possible.
TEST_F(TransportTest, RefusesAWorkForAnyOfItsOperations) {
  EXPECT_EQ(NoTransport(machine_, {kAllGather, kAllReduce}, At("nccl_ce")),
            NcclUnavailable(NcclOptions{0, true, true}).empty()
                ? "nccl_ce supports AllToAll and AllGather only"
                : NcclUnavailable(NcclOptions{0, true, true}));
  EXPECT_EQ(NoTransport(machine_, {kAllReduce, kAllGather}, At("nccl_ce")),
            "nccl_ce supports AllToAll and AllGather only");
  EXPECT_EQ(NoTransport(machine_, {}, At("sm_load")), "");
}

TEST(Transports, AreMpiAloneOnTheHost) {
  const auto device = OpenHostDevice(1);
  const Machine machine{*device, TestRanks()};
  const auto refused = [&](const std::string& transport, const Values& values) {
    return NoTransport(machine, {kAllReduce}, At(transport, values));
  };
  EXPECT_EQ(refused("mpi", {}), "");
  EXPECT_EQ(refused("nccl", {}), "transport:nccl needs GPUs; the host backend uses mpi");
  for (const std::string axis : {"comm_ctas", "comm_sms"})
    EXPECT_EQ(refused("mpi", {{axis, "1"}}),
              axis + " is for kernels on GPUs; the host backend communicates by MPI");
}

TEST(Transports, AreByCopyEngineIfTheyAreNamedSo) {
  for (const char* transport : {"nccl_ce", "copy"})
    EXPECT_TRUE(IsByCopyEngine(At(transport))) << transport;
  for (const char* transport : {"nccl", "nccl_sym", "sm_load", "sm_store", "sm_bulk"})
    EXPECT_FALSE(IsByCopyEngine(At(transport))) << transport;
}

// As in a build without NCCL.
TEST(Transports, ThatCannotBeMadeAreErrors) {
  if (NcclUnavailable().empty()) GTEST_SKIP() << "it can be made";
  const auto device = PosingDevice::H200();
  Transports transports({*device, TestRanks()});
  for (const char* transport : {"nccl", "nccl_ce", "nccl_sym"})
    EXPECT_THROW(transports.Connect(At(transport)), Error) << transport;
}

// What must not wait for each other has channels of its own.
TEST(Transports, ShareACommunicatorForEachChannel) {
  const auto device = OpenHostDevice(1);
  Transports transports({*device, TestRanks()});
  const auto first = transports.Connect(At("mpi"));
  EXPECT_EQ(transports.Connect(At("mpi"), 0), first);
  const auto other = transports.Connect(At("mpi"), 1);
  EXPECT_NE(other, first);
  EXPECT_EQ(transports.Connect(At("mpi"), 1), other);
  EXPECT_EQ(first->rank(), TestRanks().rank());
  EXPECT_EQ(first->size(), TestRanks().size());
}

}  // namespace
}  // namespace overlapbench
