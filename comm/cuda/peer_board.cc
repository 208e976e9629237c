#include "comm/cuda/peer_board.h"

#include <cuda_runtime.h>
#include <fmt/core.h>

#include "comm/peer_plan.h"
#include "device/cuda/cuda_check.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

// Flags of kernels, those of streams, and those of recorded kernels. Then two words for each block
// of this rank's kernels: its SM, and its count. The mailboxes follow: that of launched calls, and
// that of recorded ones.
constexpr std::size_t kStreamFlags = kPeerFlagBytes;
constexpr std::size_t kRecordedFlags = 2 * kPeerFlagBytes;
constexpr std::size_t kMultiprocessors = 3 * kPeerFlagBytes;
constexpr std::size_t kCounts = kMultiprocessors + sizeof(std::uint32_t) * kMostPeerBlocks;
constexpr std::size_t kWordsBytes = kCounts + sizeof(std::uint32_t) * kMostPeerBlocks;
constexpr std::size_t kMailboxes = 2;
static_assert(kWordsBytes % sizeof(uint4) == 0);

}  // namespace

PeerBoard::PeerBoard(const Machine& machine, bool has_mail)
    : machine_(machine),
      half_mailbox_bytes_(has_mail ? machine.ranks.size() * kMailFactor * kMostMailBytes : 0),
      words_(machine.ranks, kWordsBytes + kMailboxes * kMailHalves * half_mailbox_bytes_) {
  CUDA_CHECK(cudaGetDevice(&ordinal_));
  CUDA_CHECK(cudaMemset(words_.At(machine.ranks.rank()), 0,
                        kWordsBytes + kMailboxes * kMailHalves * half_mailbox_bytes_));
  CUDA_CHECK(cudaDeviceSynchronize());
  meeting_.rank = machine.ranks.rank();
  meeting_.ranks = machine.ranks.size();
  for (int peer = 0; peer < meeting_.ranks; ++peer)
    meeting_.flags[peer] = reinterpret_cast<std::uint32_t*>(words_.At(peer));
  meeting_.multiprocessors =
      reinterpret_cast<std::uint32_t*>(words_.At(meeting_.rank) + kMultiprocessors);
  meeting_.stop = stop_.on_device();
  meeting_.failed = failed_.on_device();
  meeting_.timeout_ns = std::chrono::nanoseconds(machine.timeout).count();
  // No rank may write to another's board before that rank has cleared it.
  machine.ranks.Together("sharing memory", [] {});
  machine.ranks.Add(*this);
}

PeerBoard::~PeerBoard() { machine_.ranks.Remove(*this); }

PeerMeeting PeerBoard::Meetings() const {
  PeerMeeting meeting = meeting_;
  if (!is_recorded_) return meeting;
  for (int peer = 0; peer < meeting.ranks; ++peer)
    meeting.flags[peer] = reinterpret_cast<std::uint32_t*>(words_.At(peer) + kRecordedFlags);
  meeting.counts = reinterpret_cast<std::uint32_t*>(words_.At(meeting.rank) + kCounts);
  return meeting;
}

PeerMeeting PeerBoard::NextMeetings(int steps) {
  PeerMeeting meeting = Meetings();
  if (is_recorded_) return meeting;
  meeting.number = kernel_meetings_ + 1;
  kernel_meetings_ += static_cast<std::uint32_t>(steps) + 1;
  return meeting;
}

std::vector<std::uint32_t> PeerBoard::Multiprocessors(int blocks) const {
  std::vector<std::uint32_t> multiprocessors(blocks);
  CUDA_CHECK(cudaMemcpy(multiprocessors.data(), meeting_.multiprocessors,
                        multiprocessors.size() * sizeof(std::uint32_t), cudaMemcpyDefault));
  return multiprocessors;
}

MailCall PeerBoard::NextMail() {
  MailCall call{.meeting = Meetings()};
  if (is_recorded_) {
    call.half_bytes = half_mailbox_bytes_;
    return call;
  }
  const MailNumbers::Call numbers = mail_.Next(kernel_meetings_);
  call.meeting.number = numbers.number;
  call.free_at = numbers.free_at;
  return call;
}

std::byte* PeerBoard::Mail(int rank) const {
  const std::size_t half = is_recorded_ ? kMailHalves : mail_.half();
  return words_.At(rank) + kWordsBytes + half * half_mailbox_bytes_;
}

CUdeviceptr PeerBoard::StreamWord(int of, int from, std::size_t index) const {
  return reinterpret_cast<CUdeviceptr>(words_.At(of) + kStreamFlags) +
         (index * kMostPeers + from) * sizeof(std::uint32_t);
}

std::string PeerBoard::Fault() {
  if (failed_.Load() == 0) return "";
  return fmt::format("another rank did not reach a collective's kernel within {}",
                     InSeconds(machine_.timeout));
}

void PeerBoard::Abort() {
  constexpr int kLatest = 0x7F;  // in each byte; comparisons are signed
  stop_.Store(1);
  cudaStream_t stream = nullptr;
  if (cudaSetDevice(ordinal_) != cudaSuccess ||
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
    return;
  std::byte* const of_streams = words_.At(meeting_.rank) + kStreamFlags;
  cudaMemsetAsync(of_streams, kLatest, kPeerFlagBytes, stream);
  cudaStreamDestroy(stream);  // once its work is done
}

}  // namespace overlapbench
