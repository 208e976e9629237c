// Ranks: the processes of one run, one a GPU, and everything they agree on.
//
// Starts MPI (also for a single process), knows who is on this machine, and offers the few
// collective calls the suite needs. Every call is made by all ranks in the same order, and waits no
// longer than the time-out: then it throws FatalError saying which call of which rank is waiting.
// For that they use MPI's non-blocking operations. Starting and ending MPI, and making and freeing
// communicators, have none that all versions of MPI know: those block, and the watchdog alone
// bounds them.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/error.h"
#include "ranks/progress.h"

namespace overlapbench {

// Throws Error with the call and MPI's own text unless `code` is MPI_SUCCESS.
void ThrowIfMpiFailed(int code, const char* call);
#define MPI_CHECK(call) ::overlapbench::ThrowIfMpiFailed((call), #call)

// A connection to the other ranks beside MPI's, such as an NCCL communicator.
class Link {
 public:
  virtual ~Link() = default;
  // What has gone wrong with it meanwhile; "" when nothing.
  virtual std::string Fault() = 0;
  // Ends what is under way on it, also while another thread waits for that.
  virtual void Abort() = 0;
};

class Ranks {
 public:
  // Starts MPI. `timeout` bounds every later wait, `progress` hears where this rank is.
  Ranks(std::chrono::milliseconds timeout, Progress& progress);
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
  [[nodiscard]] static std::string HostName();
  [[nodiscard]] Progress& progress() const { return progress_; }

  void Barrier(const std::string& what);
  // Replaces each value by its maximum over the ranks: the same bits everywhere.
  void Max(std::span<double> values, const std::string& what);
  // Every rank's text, by rank. Texts are cut at kTextBytes.
  static constexpr std::size_t kTextBytes = 480;
  [[nodiscard]] std::vector<std::string> Gather(const std::string& text, const std::string& what);
  // Every rank's numbers, by rank; all give as many.
  [[nodiscard]] std::vector<double> GatherNumbers(std::span<const double> numbers,
                                                  const std::string& what);
  // The same, or no texts when all are empty. That is the rule, and it costs no memory and hardly
  // more time on many ranks.
  [[nodiscard]] std::vector<std::string> GatherIfAny(const std::string& text,
                                                     const std::string& what);
  // rank 0's bytes, on every rank.
  void Broadcast(std::span<std::byte> bytes, const std::string& what);

  // If any rank passes a non-empty text, throws the same AgreedError on all of them.
  void AgreeOnError(const std::string& local_error, const std::string& what);
  // The tripwire: throws FatalError on all ranks, naming both sides, unless all are about to do the
  // same number of iterations of the same benchmark.
  void AgreeOnEntry(const std::string& benchmark, std::int64_t iterations);

  // Last words: why this rank ends the job, for rank 0 to write down. Waits for nobody, at most a
  // tenth of a second, and never throws.
  void TellRoot(const std::string& reason);
  // On rank 0, also from another thread: the last words of some other rank; "" if there are none.
  [[nodiscard]] std::string LastWords() const;

  // Milliseconds on a clock that is common to all ranks.
  [[nodiscard]] double CommonClockMs() const;

  // Waits for `request` and frees it; yields the core while waiting.
  void Await(MPI_Request& request, const std::string& what) const;
  // "rank 1: " when there are several ranks, else "".
  [[nodiscard]] std::string Prefix() const;

  // `link` is looked at in every wait of the main thread until it is removed.
  void Add(Link& link);
  void Remove(Link& link);
  // Throws FatalError if a link has a fault.
  void CheckLinks() const;
  // Safe from another thread.
  void AbortLinks();

 private:
  void MeasureClockOffset(MPI_Comm machine);

  std::chrono::milliseconds timeout_;
  Progress& progress_;
  std::string last_words_;
  mutable std::mutex links_mutex_;
  std::vector<Link*> links_;
  MPI_Comm control_ = MPI_COMM_NULL;  // the suite's own messages, apart from measured traffic
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  double clock_offset_ms_ = 0;  // added to this rank's clock gives rank 0's
};

}  // namespace overlapbench
