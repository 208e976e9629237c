// NcclLog: what NCCL says about the network it uses, which no function of it tells.
//
// NCCL reads its logging variables once, when it first has something to say (NCCL User Guide,
// "NCCL_DEBUG"). NcclLog sets them for that moment, so make one before the process's first
// communicator. The log is a file in memory, so nothing is left behind. A user's own NCCL_DEBUG
// stays as it is; the log is then empty.
#pragma once

#include <string>

namespace overlapbench {

class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  [[nodiscard]] std::string text() const;

 private:
  int file_ = -1;
};

// The name behind "Using network ": "Socket", "IB"; "" if the log names none.
std::string NetworkIn(const std::string& log);

}  // namespace overlapbench
