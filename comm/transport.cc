#include "comm/transport.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace overlapbench {
namespace {

enum class Carrier : std::uint8_t { kNccl, kPeers };

struct TransportRow {
  std::string_view name;
  Carrier carrier;
  NcclOptions nccl;
  PeerEngine engine;
  bool takes_ctas;  // and takes_sms: whether it has the axes comm_ctas and comm_sms
  bool takes_sms;
  // The operations that an NCCL transport supports; the suite's own support all.
  std::vector<Operation> operations;
};

const std::vector<TransportRow>& Rows() {
  using enum Operation;
  static const std::vector<Operation> all = {kAllToAll,  kAllReduce, kAllGather, kReduceScatter,
                                             kBroadcast, kShiftRing, kSend,      kReceive};
  static const std::vector<TransportRow> rows = {
      {"nccl", Carrier::kNccl, {}, {}, true, false, all},
      // NCCL has copy-engine forms of all-gather, all-to-all, gather and scatter only (NCCL 2.28,
      // src/ce_coll.cc), and silently uses SMs for the others.
      {"nccl_ce", Carrier::kNccl, {0, true, true}, {}, false, false, {kAllToAll, kAllGather}},
      {"nccl_sym",
       Carrier::kNccl,
       {0, true, false},
       {},
       true,
       false,
       {kAllReduce, kAllGather, kReduceScatter}},
      {"copy", Carrier::kPeers, {}, PeerEngine::kCopy, false, true, all},
      {"sm_load", Carrier::kPeers, {}, PeerEngine::kSmLoad, false, true, all},
      {"sm_store", Carrier::kPeers, {}, PeerEngine::kSmStore, false, true, all},
      {"sm_bulk", Carrier::kPeers, {}, PeerEngine::kSmBulk, false, true, all},
  };
  return rows;
}

const TransportRow& RowOf(const Settings& settings) {
  return *std::ranges::find(Rows(), settings.Text("transport"), &TransportRow::name);
}

constexpr const char* kMpi = "mpi";

std::string NotOnTheHost(const Settings& settings) {
  if (settings.Text("transport") != kMpi)
    return fmt::format("transport:{} needs GPUs; the host backend uses {}",
                       settings.Text("transport"), kMpi);
  for (const char* axis : {"comm_ctas", "comm_sms"})
    if (settings.Integer(axis) != 0)
      return fmt::format("{} is for kernels on GPUs; the host backend communicates by MPI", axis);
  return "";
}

std::string ExcludedOfNccl(const Machine& machine, const TransportRow& row, Operation operation,
                           bool own_stays, const Settings& settings) {
  if (row.nccl.copy_engines && machine.ranks.hosts() > 1)
    return "NCCL's collectives by copy engine work within one host only";
  if (std::ranges::find(row.operations, operation) == row.operations.end())
    return fmt::format("{} supports {} only", row.name,
                       row.nccl.copy_engines ? "AllToAll and AllGather"
                                             : "AllReduce, AllGather and ReduceScatter");
  if (own_stays && row.nccl.copy_engines)
    return fmt::format(
        "{} also moves the part that stays on its rank (ncclAlltoAll): use nccl or copy", row.name);
  if (row.nccl.symmetric) {
    // NCCL 2.28.3 corrupts results at a granularity below 8 bytes (fixed in 2.28.7).
    if (settings.Integer("bytes") % 4096 != 0)
      return fmt::format("{} needs bytes to be a multiple of 4K", row.name);
    if (settings.Text("place") == "in")
      return fmt::format("{} needs two buffers (place:out)", row.name);
  }
  const long ctas = settings.Integer("comm_ctas");
  const bool is_power_of_two = (ctas & (ctas - 1)) == 0;
  if (operation == Operation::kAllToAll && !is_power_of_two)
    return "NCCL rounds the CTAs of an all-to-all to a power of two: comm_ctas must be 1, 2, 4, "
           "...";
  constexpr long kCluster = 4;  // of CTAs, on Hopper
  if (ctas > kCluster && ctas % kCluster != 0)
    return "NCCL launches clusters of 4 CTAs: comm_ctas must be 1, 2, or a multiple of 4";
  return row.nccl == NcclOptions{} ? "" : NcclUnavailable(row.nccl);
}

std::string ExcludedOfPeers(const Machine& machine, const TransportRow& row, Operation operation,
                            const Settings& settings) {
  if (IsPointToPoint(operation) && row.engine != PeerEngine::kCopy)
    return fmt::format("{} does not support transfers between two ranks; use nccl or copy",
                       row.name);
  // Behind a closed gate the driver queues a limited number of operations, and a sum by copy engine
  // needs dozens of them.
  if (row.engine == PeerEngine::kCopy && settings.Has("cadence") &&
      settings.Text("cadence") == "streaming")
    return "transport:copy supports cadence:isolated only";
  if (IsPointToPoint(operation)) return PeersUnavailable(machine);
  constexpr long kWordBytes = 16;
  if (settings.Integer("bytes") % (kWordBytes * machine.ranks.size()) != 0)
    return fmt::format("{} needs bytes to be a multiple of 16 x ranks", row.name);
  const long sms = settings.Integer("comm_sms");
  if (sms > machine.device.info().multiprocessors) {
    return fmt::format("comm_sms:{} is more than the GPU's {} SMs", sms,
                       machine.device.info().multiprocessors);
  }
  constexpr int kHopper = 90;
  if (row.engine == PeerEngine::kSmBulk && machine.device.info().compute_capability < kHopper)
    return "sm_bulk needs a GPU of compute capability 9.0 or later";
  return PeersUnavailable(machine);
}

}  // namespace

std::vector<Axis> TransportAxes(const Machine& machine) {
  // The host backend has one transport but accepts all: a row of another one reports why it is
  // unavailable.
  const bool host = machine.device.backend() == Backend::kHost;
  const std::string standing = host ? kMpi : "nccl";
  std::vector<std::string> names;
  if (host) names.emplace_back(kMpi);
  for (const TransportRow& row : Rows()) names.emplace_back(row.name);
  return {
      ChoiceAxis("transport", "what moves the data: NCCL, copy engines, our own kernel, or MPI",
                 names, standing, standing),
      IntegerAxis("comm_ctas", "CTAs that NCCL uses; 0: its choice", 0, 64, "0", "0"),
      IntegerAxis("comm_sms", "SMs that our own kernel uses; 0: 16", 0, kMostCommSms, "0", "0")};
}

std::string NoTransport(const Machine& machine, const std::vector<Operation>& operations,
                        const Settings& settings, bool own_stays) {
  if (machine.device.backend() == Backend::kHost) return NotOnTheHost(settings);
  const TransportRow& row = RowOf(settings);
  if (settings.Integer("comm_ctas") != 0 && !row.takes_ctas)
    return fmt::format("comm_ctas is for NCCL only; {} does not use it", row.name);
  if (settings.Integer("comm_sms") != 0 && !row.takes_sms)
    return fmt::format("comm_sms is for our own kernels; with {}, use comm_ctas", row.name);
  if (row.carrier == Carrier::kNccl && machine.shares_gpus)
    return "NCCL supports one rank per GPU; with --share_gpu use copy or sm_load";
  if (row.carrier == Carrier::kPeers && row.engine == PeerEngine::kCopy &&
      settings.Integer("comm_sms") != 0 && std::ranges::none_of(operations, Adds))
    return "copies between GPUs use no SMs; comm_sms is for sums";
  for (const Operation operation : operations) {
    std::string why = row.carrier == Carrier::kPeers
                          ? ExcludedOfPeers(machine, row, operation, settings)
                          : ExcludedOfNccl(machine, row, operation, own_stays, settings);
    if (!why.empty()) return why;
  }
  return "";
}

bool IsByCopyEngine(const Settings& settings) {
  const TransportRow& row = RowOf(settings);
  return row.carrier == Carrier::kNccl ? row.nccl.copy_engines : row.engine == PeerEngine::kCopy;
}

std::shared_ptr<Communicator> Transports::Connect(const Settings& settings, int channel) {
  if (machine_.device.backend() == Backend::kHost) {
    auto& communicator = of_mpi_[channel];
    if (communicator == nullptr) communicator = MakeMpiCommunicator(machine_, channel);
    return communicator;
  }
  constexpr int kDefaultSms = 16;
  const TransportRow& row = RowOf(settings);
  if (row.carrier == Carrier::kPeers) {
    const long sms = settings.Integer("comm_sms");
    if (of_peers_ == nullptr) of_peers_ = MakePeerMemory(machine_);
    return MakePeerCommunicator(
        machine_, {row.engine, sms == 0 ? kDefaultSms : static_cast<int>(sms)}, of_peers_);
  }
  NcclOptions options = row.nccl;
  options.ctas = static_cast<int>(settings.Integer("comm_ctas"));
  options.channel = channel;
  auto& communicator = of_nccl_[options];
  if (communicator == nullptr) communicator = MakeNcclCommunicator(machine_, options);
  return communicator;
}

}  // namespace overlapbench
