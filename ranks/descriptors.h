// Exchange of file descriptors between the ranks of one machine. It shares what MPI cannot carry,
// such as GPU memory (device/cuda/shared_memory.h).
//
// A descriptor's number means nothing to another process. The kernel makes a new one for the
// receiver when a message on a Unix socket carries it (unix(7), SCM_RIGHTS).
//
// Any local process can send to such a socket: its name is listed in /proc/net/unix. A rank
// therefore takes only what its own user sends, as the kernel says (SCM_CREDENTIALS), and drops
// everything else. The name is random and told over MPI, because containers may share names but not
// process numbers.
#pragma once

#include <string>
#include <vector>

#include "device/descriptor.h"
#include "ranks/ranks.h"

namespace overlapbench {

// One rank's end, for as long as it lives.
class DescriptorSocket {
 public:
  DescriptorSocket();
  [[nodiscard]] const std::string& name() const { return name_; }
  // Sends the descriptor to the socket of this name, as that of `rank`. Throws Error if it cannot.
  void Send(const std::string& name, int rank, const Descriptor& descriptor) const;
  // Receives one descriptor into the sender's place, if one comes within a short time. Returns
  // whether a message was dropped: it is not from a rank.
  bool Receive(std::vector<Descriptor>& descriptors) const;

 private:
  std::string name_;
  Descriptor descriptor_;
};

// Every rank's descriptor, by rank; this rank's place is empty. All ranks call it together, on one
// machine. Throws AgreedError if a rank fails or does not answer within the timeout.
std::vector<Descriptor> ExchangeDescriptors(Ranks& ranks, const Descriptor& own);

}  // namespace overlapbench
