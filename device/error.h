// Errors: every failure in overlapbench is one of these exceptions.
//
// `Error`       one benchmark (or the start-up) cannot go on: the row is skipped on all ranks, or
// the
//               program ends with one line.
// `UsageError`  the user asked for something that does not exist; the program ends with status 2.
// `AgreedError` an Error that all ranks throw alike at this place, so that all skip the same row.
// Any
//               other Error that leaves a benchmark is one rank's alone, and ends the job: the
//               others would wait for it.
// `FatalError`  the ranks can no longer agree (a time-out, a divergence): the whole job ends.
//
// A message says what failed, where, and what to do; calls into CUDA, NCCL and MPI add the call and
// the code's name. The rank is added where the message is printed (ranks/ranks.h).
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
  // Whether this rank alone knows, or all ranks throw the same, so that one line from rank 0 is
  // enough.
  enum Audience { kThisRank, kKnownToAll };
  explicit FatalError(const std::string& message, Audience audience = kThisRank)
      : Error(message), known_to_all_(audience == kKnownToAll) {}
  [[nodiscard]] bool known_to_all() const { return known_to_all_; }

 private:
  bool known_to_all_;
};

}  // namespace overlapbench
