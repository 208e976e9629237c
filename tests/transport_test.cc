// Which transports carry an operation at which settings, the reason where one does not, and which
// communicators a run shares.
#include "comm/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "noting_transports.h"
#include "scenarios.h"
#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {

std::vector<WorkloadSpec> Collectives(Machine& machine);

// What a run has asked for, of communicators that only a GPU can have.
struct AskedFor {
  std::vector<NcclOptions> of_nccl;
  std::vector<PeerOptions> of_peers;
  std::vector<std::shared_ptr<PeerMemory>> memories;  // each communicator's
  int memories_made = 0;
  std::size_t scratch_factor = 0;  // of what is made, as the next
  NotingCommunicator* last = nullptr;

  std::unique_ptr<Communicator> Make(const Machine& machine) {
    auto communicator = std::make_unique<NotingCommunicator>(machine.device, scratch_factor);
    last = communicator.get();
    return communicator;
  }
};
AskedFor*& Notes() {
  static AskedFor* notes = nullptr;
  return notes;
}

// The linker puts these in the place of what makes them. Without notes, they make what was there.
using UniqueCommunicator = std::unique_ptr<Communicator>;
using SharedMemory = std::shared_ptr<PeerMemory>;
UniqueCommunicator RealNccl(const Machine&, const NcclOptions&) asm(
    "__real__ZN12overlapbench20MakeNcclCommunicatorERKNS_7MachineERKNS_11NcclOptionsE");
UniqueCommunicator NoteNccl(const Machine& machine, const NcclOptions& options) asm(
    "__wrap__ZN12overlapbench20MakeNcclCommunicatorERKNS_7MachineERKNS_11NcclOptionsE");
UniqueCommunicator NoteNccl(const Machine& machine, const NcclOptions& options) {
  if (Notes() == nullptr) return RealNccl(machine, options);
  Notes()->of_nccl.push_back(options);
  return Notes()->Make(machine);
}
SharedMemory NoteMemory(const Machine& machine) asm(
    "__wrap__ZN12overlapbench14MakePeerMemoryERKNS_7MachineE");
SharedMemory NoteMemory(const Machine& /*machine*/) {
  const auto owner = std::make_shared<int>(Notes()->memories_made++);
  return {owner, reinterpret_cast<PeerMemory*>(owner.get())};
}
UniqueCommunicator
NotePeers(const Machine& machine, const PeerOptions& options, SharedMemory memory) asm(
    "__wrap__ZN12overlapbench20MakePeerCommunicat"
    "orERKNS_7MachineERKNS_11PeerOptionsESt10shar"
    "ed_ptrINS_10PeerMemoryEE");
UniqueCommunicator NotePeers(const Machine& machine, const PeerOptions& options,
                             SharedMemory memory) {
  Notes()->of_peers.push_back(options);
  Notes()->memories.push_back(std::move(memory));
  return Notes()->Make(machine);
}

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

TEST_F(TransportTest, RefusesCtasOfWhatIsNotNccl) {
  for (const std::string transport : {"nccl_ce", "copy", "sm_load", "sm_store", "sm_bulk"})
    EXPECT_EQ(Refused(transport, kAllGather, {{"comm_ctas", "4"}}),
              "comm_ctas is for NCCL only; " + transport + " does not use it");
}

TEST_F(TransportTest, AllToAllsTakeAPowerOfTwoOfCtas) {
  for (const char* ctas : {"0", "1", "2", "4", "8", "64"})
    ExpectCarries("nccl", kAllToAll, {{"comm_ctas", ctas}});
  for (const char* ctas : {"3", "6", "12", "48"})
    EXPECT_EQ(Refused("nccl", kAllToAll, {{"comm_ctas", ctas}}).find("NCCL rounds the CTAs "), 0U);
}

TEST_F(TransportTest, UsesNcclsCopyEnginesOnOneHostOnly) {
  Ranks apart(RankPlace{.rank = 0, .size = 2}, progress_, 2);
  const Machine machine{*device_, apart};
  EXPECT_EQ(NoTransport(machine, {kAllGather}, At("nccl_ce")),
            "NCCL's collectives by copy engine work within one host only");
  EXPECT_EQ(NoTransport(machine, {kAllGather}, At("nccl")), "");
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

class TransportsOnGpusTest : public TransportTest {
 protected:
  void SetUp() override { Notes() = &asked_; }
  void TearDown() override { Notes() = nullptr; }

  AskedFor asked_;
  Transports transports_{machine_};
};

// One for all rows of the same options, and another one for each channel.
TEST_F(TransportsOnGpusTest, ShareNcclsCommunicators) {
  const std::vector<std::pair<Settings, int>> different = {
      {At("nccl"), 0},      {At("nccl", {{"comm_ctas", "8"}}), 0},
      {At("nccl"), 3},      {At("nccl_ce"), 0},
      {At("nccl_sym"), 0},  {At("nccl_sym"), 1},
      {At("nccl_sym"), 10}, {At("nccl_sym", {{"comm_ctas", "4"}}), 0}};
  std::vector<std::shared_ptr<Communicator>> made;
  for (const auto& [settings, channel] : different)
    made.push_back(transports_.Connect(settings, channel));
  EXPECT_EQ(asked_.of_nccl, (std::vector<NcclOptions>{{},
                                                      {8},
                                                      {0, false, false, 3},
                                                      {0, true, true},
                                                      {0, true},
                                                      {0, true, false, 1},
                                                      {0, true, false, 10},
                                                      {4, true}}));
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_NE(made[i], nullptr);
    EXPECT_EQ(transports_.Connect(different[i].first, different[i].second), made[i]) << i;
  }
  EXPECT_EQ(asked_.of_nccl.size(), made.size());
  EXPECT_TRUE(asked_.of_peers.empty());
}

// Their flags belong to one work, but each reaches the memory of all.
TEST_F(TransportsOnGpusTest, GiveEachWorkItsPeers) {
  struct {
    const char* transport;
    const char* sms;
    PeerEngine engine;
    int expected_sms;
  } const cases[] = {{"copy", "0", PeerEngine::kCopy, 16},
                     {"sm_load", "1", PeerEngine::kSmLoad, 1},
                     {"sm_store", "8", PeerEngine::kSmStore, 8},
                     {"sm_bulk", "0", PeerEngine::kSmBulk, 16}};
  std::vector<std::shared_ptr<Communicator>> made;
  for (const auto& [transport, sms, engine, expected_sms] : cases) {
    for (int work = 0; work < 2; ++work) {
      made.push_back(transports_.Connect(At(transport, {{"comm_sms", sms}})));
      EXPECT_EQ(asked_.of_peers.back().engine, engine) << transport;
      EXPECT_EQ(asked_.of_peers.back().sms, expected_sms) << transport;
      EXPECT_NE(asked_.memories.back(), nullptr);
      EXPECT_EQ(asked_.memories.back(), asked_.memories.front());
    }
  }
  EXPECT_EQ(asked_.of_peers.size(), made.size());
  EXPECT_EQ(asked_.memories_made, 1);
  EXPECT_TRUE(asked_.of_nccl.empty());
}

// The collectives of rank 1 of two. In place, the smaller buffer is its half of the larger one.
class CollectivesOnGpusTest : public TransportsOnGpusTest {
 protected:
  const WorkloadSpec& Spec(const std::string& name) {
    return *std::ranges::find(specs_, name, &WorkloadSpec::name);
  }
  static Settings SettingsOf(const WorkloadSpec& spec, const char* transport, const char* place) {
    return overlapbench::SettingsOf(
        spec.axes, {{"bytes", "8192"}, {"transport", transport}, {"place", place}});
  }

 private:
  Progress second_progress_{1, 2};
  Ranks second_{RankPlace{.rank = 1, .size = 2}, second_progress_};
  Machine rank_1_{*device_, second_};
  std::vector<WorkloadSpec> specs_ = Collectives(rank_1_);
};

// Sums by copy engine need a third buffer.
TEST_F(CollectivesOnGpusTest, NeedTheMemoryOfTheirBuffers) {
  struct {
    const char* name;
    const char* transport;
    const char* place;
    std::size_t buffers;
  } const cases[] = {{"AllReduce", "copy", "out", 3},     {"AllReduce", "copy", "in", 2},
                     {"AllReduce", "nccl", "out", 2},     {"AllReduce", "sm_store", "in", 1},
                     {"AllGather", "copy", "out", 2},     {"Broadcast", "copy", "in", 1},
                     {"ReduceScatter", "copy", "out", 3}, {"ReduceScatter", "nccl", "in", 1}};
  for (const auto& [name, transport, place, buffers] : cases) {
    const WorkloadSpec& spec = Spec(name);
    EXPECT_EQ(spec.footprint(SettingsOf(spec, transport, place)).device_bytes, 8192 * buffers)
        << name << transport << place;
  }
}

TEST_F(CollectivesOnGpusTest, PassTheirBuffersToTheCommunicator) {
  using Sizes = std::vector<std::size_t>;
  struct {
    const char* name;
    const char* place;
    Sizes allocated;
    long receive_offset;  // of what it receives from what it sends, in place
  } const cases[] = {
      {"AllReduce", "out", {8192, 8192}, 0},     {"AllGather", "out", {4096, 8192}, 0},
      {"ReduceScatter", "out", {8192, 4096}, 0}, {"AllReduce", "in", {8192}, 0},
      {"AllGather", "in", {8192}, -4096},        {"ReduceScatter", "in", {8192}, 4096}};
  const auto stream = device_->CreateStream({});
  for (const auto& [name, place, allocated, receive_offset] : cases) {
    for (const std::size_t scratch_factor : {0U, 2U}) {
      SCOPED_TRACE(std::string(name) + place);
      asked_.scratch_factor = scratch_factor;
      const WorkloadSpec& spec = Spec(name);
      const auto workload = spec.make(SettingsOf(spec, "copy", place));
      workload->Connect();
      Sizes expected = allocated;
      if (scratch_factor > 0) expected.push_back(scratch_factor * 2048);
      EXPECT_EQ(asked_.last->allocated, expected);
      workload->Enqueue(*stream);
      const CollectiveCall& call = asked_.last->calls.back();
      EXPECT_EQ(call.count, 2048);
      EXPECT_EQ(call.segment, 1024);
      EXPECT_EQ(call.scratch != nullptr, scratch_factor > 0);
      const auto* const sent = static_cast<const std::byte*>(call.send);
      const auto* const received = static_cast<const std::byte*>(call.receive);
      if (std::string_view(place) == "in") {
        EXPECT_EQ(received - sent, receive_offset);
      } else {
        EXPECT_NE(sent, received);
      }
      EXPECT_EQ(workload->IneffectiveKnob(), "it took another kernel");
      EXPECT_EQ(workload->sms(), 7);
    }
  }
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

// A call to no rank moves nothing, however large it is.
TEST(Transports, MpiRefusesWhatItCannotCountOrName) {
  const auto device = OpenHostDevice(1);
  const auto stream = device->CreateStream({});
  const auto mpi = MakeMpiCommunicator({*device, TestRanks()});
  float value = 0;
  const auto fault = [&](CollectiveCall call) {
    call.send = call.receive = &value;
    call.peer = MPI_PROC_NULL;
    mpi->Enqueue(*stream, call);
    return Thrown<Error>([&] { stream->Synchronize(kRanksPatience, "the test"); });
  };
  constexpr long kMost = 2147483647;
  for (const Operation operation : {kSend, kReceive}) {
    EXPECT_EQ(fault({.operation = operation, .count = kMost}), "nothing");
    EXPECT_EQ(fault({.operation = operation, .count = kMost + 1}),
              "MPI counts at most 2147483647 elements in one operation: choose a smaller size");
    EXPECT_EQ(fault({.operation = operation, .count = 1, .element = Element::kFloat16}),
              "MPI does not support element type float16");
  }
  EXPECT_EQ(mpi->Prove({.operation = kSend}).fault, "");
}

}  // namespace
}  // namespace overlapbench
