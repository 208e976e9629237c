// Errors: every failure in overlapbench is one of these exceptions.
//
// - `Error`: one benchmark (or the start-up) cannot go on. If an Error leaves a benchmark before
//   the ranks have agreed on it, it ends the job, because the others would wait for this rank.
// - `UsageError`: the user asked for something that does not exist. All ranks throw it alike, and
//   the program ends with status 2.
// - `AgreedError`: all ranks throw the same error at this place, so all skip the same row.
// - `FatalError`: the ranks can no longer agree (a timeout, a divergence, a rank that has ended):
//   the whole job ends.
//
// A message says what failed, where, and what to do. Errors of CUDA, NCCL and MPI add the call and
// the code's name. The rank is added where the message is printed (ranks/watchdog.h).
#pragma once

#include <stdexcept>
#include <string>

namespace overlapbench {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UsageError : public Error {
 public:
  using Error::Error;
};

class AgreedError : public Error {
 public:
  using Error::Error;
};

class FatalError : public Error {
 public:
  // Which ranks know of the error, and so which one prints it:
  // - kThisRank: only this rank, which prints it and notifies the others;
  // - kKnownToAll: all ranks throw the same, and rank 0 prints it;
  // - kPrinted: another rank ends the job and has printed this text.
  enum Audience { kThisRank, kKnownToAll, kPrinted };
  explicit FatalError(const std::string& message, Audience audience = kThisRank)
      : Error(message), audience_(audience) {}
  [[nodiscard]] Audience audience() const { return audience_; }
  [[nodiscard]] bool known_to_all() const { return audience_ == kKnownToAll; }

 private:
  Audience audience_;
};

}  // namespace overlapbench
