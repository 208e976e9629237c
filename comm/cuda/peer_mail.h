// Peer mail: the kernel that executes a rank's part of a plan of Direction::kMail
// (comm/peer_plan.h), for collectives so short that waits take most of their time.
//
// The ranks do not meet. A word of mail is 16 bytes: each 4 bytes of data are followed by the
// 4-byte number of the call. The receiver reads the word until both numbers are the call's. A half
// of 8 bytes is stored and loaded as one, so its data has arrived once its number has. The PTX ISA
// does not guarantee this for a whole two-element vector ("Memory Consistency Model", "Vector
// Data-types"). NCCL's protocol LL uses the same words (Z. Hu et al., Demystifying NCCL, 2025).
// Mail sends two bytes over the link for each byte of data.
//
// Each rank has a mailbox in memory that all ranks have mapped. It starts as zeros, and no call's
// number is 0. A mailbox has two halves, which the calls use in turn. Before a rank writes to a
// half, the others must have read what an earlier call left there. The start of a later kernel on
// their stream proves it, since a kernel begins only after the earlier ones have ended. So each
// call first writes its number to the flags that ordinary collectives use to meet. A call waits for
// the flag of the call in between, which was normally written long ago.
//
// The kernel's threads divide a move into units of 8 bytes. One thread handles the same unit of all
// moves, and sends before it receives. In place, a unit is therefore overwritten by the thread that
// has read it. A thread sends all its units before it waits for any, so the blocks may run one
// after the other, in order.
//
// In a graph, the kernel itself counts the calls (comm/cuda/peer_move.h). Its number then tells
// which half of a mailbox for such calls it uses: odd and even numbers take turns, and a half is
// free once the others have begun the call before.
//
// A wait ends as in a meeting (comm/cuda/peer_move.h). A thread that has given up reads no further
// mail. No thread sends after waiting for mail.
#pragma once

#include <cstdint>

#include "comm/cuda/peer_move.h"

namespace overlapbench {

constexpr std::size_t kMailFactor = 2;  // bytes of mail per byte of data

struct MailCall {
  PeerMeeting meeting;  // its number is the call's
  // The half is free once the other ranks' flags show this number or a later one.
  std::uint32_t free_at = 0;
  // In a graph: from the first half, which the plan names, to the second; otherwise 0.
  std::size_t half_bytes = 0;
};
void EnqueueMail(Stream& stream, int blocks, const MailCall& call, const AddressedPlan& plan);

}  // namespace overlapbench
