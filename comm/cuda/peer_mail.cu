#include <algorithm>
#include <tuple>
#include <type_traits>

#include "comm/cuda/peer_mail.h"
#include "comm/cuda/peer_meeting.cuh"
#include "comm/cuda/peer_sum.cuh"
#include "comm/mail_numbers.h"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// Each thread has more than 32 registers, so that two blocks do not fit on an SM.
constexpr int kMailThreads = 1024;
constexpr int kMailWarp = 32;
constexpr int kMailInFlight = 4;

// A plan in the kernel's form.
struct PackedMail {
  AddressedMove sent[kMostPeers];
  int sent_moves;
  int sources;
  unsigned mail;                 // one bit per source: whether it is mail
  std::uint32_t free_at;         // see MailCall
  std::size_t half_bytes;        // likewise
  const void* from[kMostPeers];  // the sources of the only sum, or of all copies
  void* to[kMostPeers];          // the first is the sum's; or one per copy
  int units;                     // of each move
};

// A call's number, when its half of the mailbox is free, and where that half is.
struct MailTurn {
  std::uint32_t number;
  std::uint32_t free_at;
  std::size_t offset_bytes;
};

// Called by all threads of a block, before any of them ends it.
__device__ MailTurn TurnOf(const PackedMail& plan, const PeerMeeting& meeting) {
  const std::uint32_t number = FirstNumber(meeting);
  if (meeting.counts == nullptr) return {number, plan.free_at, 0};
  __syncthreads();
  return {number, number - 1, number % kMailHalves * plan.half_bytes};
}

// ---- Words

__device__ uint2 LoadUnit(const void* from, int unit) {
  uint2 value;
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(static_cast<const uint2*>(from) + unit)
               : "memory");
  return value;
}

__device__ void StoreMail(void* mail, int unit, uint2 value, std::uint32_t number) {
  const std::uint64_t numbered = static_cast<std::uint64_t>(number) << 32U;
  asm volatile(
      "st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(static_cast<uint4*>(mail) + unit),
      "l"(numbered | value.x), "l"(numbered | value.y)
      : "memory");
}

// Whether the word has arrived; only then is `value` its data.
__device__ bool LoadMail(const void* mail, int unit, std::uint32_t number, uint2& value) {
  std::uint64_t one;
  std::uint64_t other;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(one), "=l"(other)
               : "l"(static_cast<const uint4*>(mail) + unit)
               : "memory");
  value = {static_cast<std::uint32_t>(one), static_cast<std::uint32_t>(other)};
  return one >> 32U == number && other >> 32U == number;
}

// ---- Shares
//
// Each warp handles 32 consecutive units. Consecutive shares go to different blocks, so that even
// few units occupy all blocks.

__device__ int FirstUnit() {
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / kMailWarp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  return group * kMailWarp + thread % kMailWarp;
}
__device__ int UnitStride() { return static_cast<int>(gridDim.x) * kMailThreads; }

// ---- Sending

// Iterates over what a thread sends: its units, and for each all moves.
struct MailCursor {
  int unit;
  int move;

  [[nodiscard]] __device__ bool Valid(const PackedMail& plan) const { return unit < plan.units; }
  __device__ void Next(const PackedMail& plan) {
    if (++move < plan.sent_moves) return;
    move = 0;
    unit += UnitStride();
  }
};

struct OutgoingMail {
  uint2 value[kMailInFlight];
  MailCursor at[kMailInFlight];

  __device__ void Load(const PackedMail& plan, MailCursor& cursor) {
#pragma unroll
    for (int i = 0; i < kMailInFlight; ++i) {
      at[i] = cursor;
      if (!cursor.Valid(plan)) continue;
      value[i] = LoadUnit(plan.sent[cursor.move].from[0], cursor.unit);
      cursor.Next(plan);
    }
  }
  __device__ void Send(const PackedMail& plan, const MailTurn& turn) const {
#pragma unroll
    for (int i = 0; i < kMailInFlight; ++i) {
      if (!at[i].Valid(plan)) continue;
      const AddressedMove& move = plan.sent[at[i].move];
#pragma unroll 1
      for (int to = 0; to < move.destinations; ++to)
        StoreMail(static_cast<std::byte*>(move.to[to]) + turn.offset_bytes, at[i].unit, value[i],
                  turn.number);
    }
  }
};

// Tells the other ranks that the call has begun. The first block does it, as in its meetings.
__device__ void TellBegun(const PeerMeeting& meeting, std::uint32_t number) {
  const int peer = static_cast<int>(threadIdx.x);
  if (blockIdx.x == 0 && peer < meeting.ranks && peer != meeting.rank)
    StoreRelaxed(meeting.flags[peer] + meeting.rank, number);
}

// Waits until this half is free in all mailboxes. Called by all threads of a block.
__device__ bool AwaitFree(const PeerMeeting& meeting, std::uint32_t free_at) {
  const int peer = static_cast<int>(threadIdx.x);
  bool is_free = true;
  if (peer < meeting.ranks && peer != meeting.rank) {
    is_free = Arrived(meeting.flags[meeting.rank] + peer, free_at, meeting);
    if (!is_free) *meeting.failed = 1;
  }
  return __syncthreads_and(static_cast<int>(is_free)) != 0;
}

// Issues the first loads before it polls the flags.
__device__ bool SendAll(const PackedMail& plan, const PeerMeeting& meeting, const MailTurn& turn) {
  if (plan.sent_moves == 0) return true;
  MailCursor cursor{FirstUnit(), 0};
  OutgoingMail mail;
  mail.Load(plan, cursor);
  if (!AwaitFree(meeting, turn.free_at)) return false;
  mail.Send(plan, turn);
#pragma unroll 1
  while (cursor.Valid(plan)) {
    mail.Load(plan, cursor);
    mail.Send(plan, turn);
  }
  return true;
}

// ---- Taking

// A thread's kUnits units, UnitStride() apart, from all sources. kSources: at least the plan's.
template <int kSources, int kUnits>
struct IncomingMail {
  uint2 value[kUnits][kSources];

  template <class Visit>
  __device__ void ForEach(const PackedMail& plan, int first, bool mail, const Visit& visit) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = first + i * UnitStride();
      if (unit >= plan.units) continue;
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
        if (source < plan.sources && ((plan.mail >> source & 1U) != 0) == mail)
          visit(plan.from[source], unit, value[i][source]);
      }
    }
  }
  __device__ void LoadOwn(const PackedMail& plan, int first) {
    ForEach(plan, first, false,
            [](const void* from, int unit, uint2& into) { into = LoadUnit(from, unit); });
  }
  // Whether all units have arrived.
  __device__ bool LoadAll(const PackedMail& plan, int first, const MailTurn& turn) {
    bool all = true;
    ForEach(plan, first, true, [&all, &turn](const void* from, int unit, uint2& into) {
      const std::byte* const half = static_cast<const std::byte*>(from) + turn.offset_bytes;
      all &= LoadMail(half, unit, turn.number, into);
    });
    return all;
  }
};

// A unit widened to a word for adding; the other half is unused.
__device__ uint4 Widened(uint2 unit) { return {unit.x, unit.y, 0, 0}; }

// Type: the type of elements to add; void: the sources are copied.
template <class Type, int kSources>
__device__ void StoreUnit(const PackedMail& plan, const uint2 (&values)[kSources], int unit) {
  if constexpr (std::is_void_v<Type>) {
#pragma unroll
    for (int i = 0; i < kSources; ++i)
      if (i < plan.sources) static_cast<uint2*>(plan.to[i])[unit] = values[i];
  } else {
    Sum<Type> sum(Widened(values[0]));
#pragma unroll
    for (int i = 1; i < kSources; ++i)
      if (i < plan.sources) sum.Add(Widened(values[i]));
    const uint4 rounded = sum.Rounded();
    static_cast<uint2*>(plan.to[0])[unit] = {rounded.x, rounded.y};
  }
}

template <class Type, int kSources>
__device__ bool TakeAll(const PackedMail& plan, const PeerMeeting& meeting, const MailTurn& turn) {
  constexpr int kUnits = std::clamp(8 / kSources, 1, kMailInFlight);
#pragma unroll 1
  for (int first = FirstUnit(); first < plan.units; first += kUnits * UnitStride()) {
    IncomingMail<kSources, kUnits> mail;
    mail.LoadOwn(plan, first);
    if (!Await(meeting, [&] { return mail.LoadAll(plan, first, turn); })) {
      *meeting.failed = 1;
      return false;
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = first + i * UnitStride();
      if (unit < plan.units) StoreUnit<Type>(plan, mail.value[i], unit);
    }
  }
  return true;
}

template <class Type, int kSources>
__global__ __launch_bounds__(kMailThreads,
                             1) void CarryMail(const __grid_constant__ PackedMail plan,
                                               const __grid_constant__ PeerMeeting meeting) {
  const MailTurn turn = TurnOf(plan, meeting);
  TellBegun(meeting, turn.number);
  if (SendAll(plan, meeting, turn) && TakeAll<Type, kSources>(plan, meeting, turn))
    EndMeetings(meeting, 1);
}

// ---- Launching

PackedMail PackedForMail(const AddressedPlan& plan, const MailCall& call) {
  if (plan.phases.size() != 2) throw Error("mail is sent in one phase and taken in another");
  const auto& [sent, taken] = std::tie(plan.phases[0], plan.phases[1]);
  const bool adds = !taken.empty() && taken[0].sources > 1;
  if (sent.size() > kMostPeers || taken.size() > (adds ? 1 : kMostPeers))
    throw Error("a plan has more moves than the kernel of mail takes");
  PackedMail packed{};
  std::ranges::copy(sent, packed.sent);
  packed.sent_moves = static_cast<int>(sent.size());
  packed.free_at = call.free_at;
  packed.half_bytes = call.half_bytes;
  packed.units = static_cast<int>(plan.bytes() / sizeof(uint2));
  for (const AddressedMove& move : taken) {
    packed.to[packed.sources] = move.to[0];
    packed.mail |= move.mail << packed.sources;
    std::copy_n(move.from, move.sources, packed.from + packed.sources);
    packed.sources += move.sources;
  }
  return packed;
}

template <class Type>
void LaunchMail(cudaStream_t stream, int blocks, const PackedMail& plan,
                const PeerMeeting& meeting) {
  ForSources(plan.sources, [&]<int kSources>() {
    CarryMail<Type, kSources><<<blocks, kMailThreads, 0, stream>>>(plan, meeting);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void EnqueueMail(Stream& stream, int blocks, const MailCall& call, const AddressedPlan& plan) {
  const auto native = static_cast<cudaStream_t>(stream.native());
  const PackedMail packed = PackedForMail(plan, call);
  const bool adds = !plan.phases[1].empty() && plan.phases[1][0].sources > 1;
  if (!adds) return LaunchMail<void>(native, blocks, packed, call.meeting);
  ForSummedType(plan.element,
                [&]<class Type>() { LaunchMail<Type>(native, blocks, packed, call.meeting); });
}

}  // namespace overlapbench
