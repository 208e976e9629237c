// PeerBoard: the words in every rank's memory by which the ranks of a peer communicator meet, and
// their mail.
//
// Each rank has mapped the boards of all others. Kernels meet by writing a word to the peers'
// boards and reading their own (comm/cuda/peer_meeting.cuh); streams, by operations that need no SM
// (CUDA Driver API, "Stream Memory Operations").
//
// A kernel's wait ends after the timeout. A stream's wait does not end by itself: the host, which
// waits for the stream with a timeout, ends the job, and Abort releases the streams.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>

#include "comm/cuda/peer_mail.h"
#include "comm/cuda/peer_memory.h"
#include "comm/mail_numbers.h"
#include "device/cuda/host_word.h"
#include "workload/workload.h"

namespace overlapbench {

class PeerBoard : public Link {
 public:
  // `has_mail`: whether it has mailboxes. All ranks make it together.
  PeerBoard(const Machine& machine, bool has_mail);
  ~PeerBoard() override;
  PeerBoard(const PeerBoard&) = delete;
  PeerBoard& operator=(const PeerBoard&) = delete;

  // Whether the next calls are recorded into a graph. They have flags and mailboxes of their own,
  // since they are counted apart (comm/cuda/peer_move.h).
  void set_recorded(bool recorded) { is_recorded_ = recorded; }

  // The meetings of the next kernel: before each step, and at the end.
  [[nodiscard]] PeerMeeting NextMeetings(int steps);
  // The SM that each of the last kernel's blocks ran on.
  [[nodiscard]] std::vector<std::uint32_t> Multiprocessors(int blocks) const;

  [[nodiscard]] MailCall NextMail();
  // The half of a rank's mailbox that the next call by mail uses; the first half in a graph.
  [[nodiscard]] std::byte* Mail(int rank) const;

  // Word `index` from rank `from` on the board of rank `of`, for streams.
  [[nodiscard]] CUdeviceptr StreamWord(int of, int from, std::size_t index) const;

  // ---- Link
  std::string Fault() override;
  // Ends the waits of kernels and, by setting flags later than any meeting, those of streams. May
  // be called from any thread, whose current device may be another. It must not throw, since other
  // links must be aborted, too.
  void Abort() override;

 private:
  // Of the calls that are recorded, or of the others.
  [[nodiscard]] PeerMeeting Meetings() const;

  Machine machine_;
  int ordinal_ = 0;
  HostWord stop_;
  HostWord failed_;
  std::size_t half_mailbox_bytes_;
  PeerArray words_;
  PeerMeeting meeting_{};  // all but its number
  bool is_recorded_ = false;
  std::uint32_t kernel_meetings_ = 0;
  MailNumbers mail_;
};

}  // namespace overlapbench
