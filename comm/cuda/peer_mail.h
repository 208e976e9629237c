// Peer mail: the kernel that carries out a rank's part of a plan of Direction::kMail
// (comm/peer_plan.h), for collectives so short that waits take most of their time.
//
// The ranks do not meet. A word of mail is 16 bytes: each 4 bytes of data are followed by the
// 4-byte number of the call. The receiver reads the word until both numbers are the call's. A half
// of 8 bytes is stored and loaded as one, so its data has arrived once its number has. The PTX ISA
// does not guarantee this for a whole two-element vector ("Memory Consistency Model", "Vector
// Data-types"). NCCL's protocol LL has the same words (Z. Hu et al., Demystifying NCCL, 2025). Mail
// sends twice as many bytes over the link as the data has.
//
// Each rank has a mailbox in memory that all ranks have mapped, zeroed at first; no call's number
// is 0. A mailbox has two halves, which the calls use in turn. Before a rank writes to a half, the
// others must have read what an earlier call left there. A later kernel of theirs proves it, since
// kernels of a stream begin when the earlier ones have ended. So each call first writes its number
// to the flags that ordinary collectives meet by. The flag to be waited for belongs to the call in
// between, and was normally written long ago.
//
// All threads of the kernel share the units, of 8 bytes, of a move. The same thread does the same
// unit of all moves, and sends before it takes. In place, it is thus the thread that overwrites a
// unit that has read it before. A thread sends all its units before it waits for any, so the blocks
// may run one after the other, in their order.
//
// A wait ends as in a meeting (comm/cuda/peer_move.h). A thread that has given up takes no further
// mail. Nobody sends after waiting for mail.
#pragma once

#include <cstdint>

#include "comm/cuda/peer_move.h"

namespace overlapbench {

constexpr std::size_t kMailFactor = 2;  // bytes of mail for a byte of data

// `meeting.number` is the call's. `free_at`: the half is free when the other ranks have told this
// number or a later one.
void EnqueueMail(Stream& stream, int blocks, const PeerMeeting& meeting, const AddressedPlan& plan,
                 std::uint32_t free_at);

}  // namespace overlapbench
