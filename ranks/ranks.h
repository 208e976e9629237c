// Ranks: the processes of one run, one a GPU, and everything they agree on.
//
// Starts MPI (also for a single process), knows who is on this machine, and offers the few
// collective calls the suite needs. Every call is made by all ranks in the same order, and waits no
// longer than the time-out: then it throws FatalError saying which call of which rank is waiting.
// MPI is used through non-blocking calls only, so that no wait can hang.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/error.h"

namespace overlapbench {

// Throws Error with the call and MPI's own text unless `code` is MPI_SUCCESS.
void ThrowIfMpiFailed(int code, const char* call);
#define MPI_CHECK(call) ::overlapbench::ThrowIfMpiFailed((call), #call)

class Ranks {
 public:
  // Starts MPI. `timeout` bounds every later wait.
  explicit Ranks(std::chrono::milliseconds timeout);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int local_rank() const { return local_rank_; }  // among this machine's ranks
  [[nodiscard]] int local_size() const { return local_size_; }
  [[nodiscard]] bool is_root() const { return rank_ == 0; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  [[nodiscard]] static std::string LibraryVersion();

  void Barrier(const std::string& what);
  // Replaces each value by its maximum over the ranks: the same bits everywhere.
  void Max(std::span<double> values, const std::string& what);
  // Every rank's text, by rank. Texts are cut at kTextBytes.
  static constexpr std::size_t kTextBytes = 480;
  [[nodiscard]] std::vector<std::string> Gather(const std::string& text, const std::string& what);
  // rank 0's bytes, on every rank.
  void Broadcast(std::span<std::byte> bytes, const std::string& what);

  // If any rank passes a non-empty text, throws the same Error on all of them.
  void AgreeOnError(const std::string& local_error, const std::string& what);
  // The tripwire: throws FatalError on all ranks, naming both sides, unless all are about to do the
  // same number of iterations of the same benchmark.
  void AgreeOnEntry(const std::string& benchmark, std::int64_t iterations);

  // Milliseconds on a clock that is common to all ranks.
  [[nodiscard]] double CommonClockMs() const;

  // Waits for `request` and frees it; yields the core while waiting.
  void Await(MPI_Request& request, const std::string& what) const;
  // "rank 1: " when there are several ranks, else "".
  [[nodiscard]] std::string Prefix() const;
  // Ends all ranks at once with `status`.
  [[noreturn]] void Abort(int status) const;

 private:
  void MeasureClockOffset();

  std::chrono::milliseconds timeout_;
  MPI_Comm control_ = MPI_COMM_NULL;  // the suite's own messages, apart from measured traffic
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  double clock_offset_ms_ = 0;  // added to this rank's clock gives rank 0's
};

}  // namespace overlapbench
