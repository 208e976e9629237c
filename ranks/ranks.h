// Ranks: the processes of one run, one per GPU, and everything they agree on.
//
// Ranks starts MPI (also for a single process), knows which ranks are on this machine, and offers
// the few collective calls that the suite needs. All ranks make every call, in the same order. A
// call that waits longer than the timeout throws FatalError, which names the waiting call, its rank
// and the missing ranks: those that do not answer when asked whether they also wait (notices.h). To
// be able to time out, calls use MPI's non-blocking operations. Not every version of MPI has
// non-blocking forms for starting and ending MPI, or for making and freeing communicators. Only the
// watchdog bounds these calls. They happen at the start and at the end, never in between.
//
// A rank that fails does not leave the others waiting (notices.h):
//
// - A rank that ends the job calls TellOthers. Every wait of the others then throws FatalError with
//   its text (ThrowIfEnding).
// - All ranks run a step that may fail on one of them Together, and end it with AgreeOnError. A
//   wait inside a step, unless it is MPI's, calls ThrowIfOthersFailed, because a rank that has
//   failed will never arrive there.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/error.h"
#include "ranks/notices.h"
#include "ranks/progress.h"

namespace overlapbench {

// Throws Error with the call and MPI's own text unless `code` is MPI_SUCCESS.
void ThrowIfMpiFailed(int code, const char* call);
#define MPI_CHECK(call) ::overlapbench::ThrowIfMpiFailed((call), #call)

// This process's rank and their number, known from the launcher before MPI starts.
struct RankPlace {
  int rank = 0;
  int size = 1;
  bool lacks_mpi = false;  // srun without PMIx: MPI could not start
};
// Read from the environment that mpirun or srun sets; rank 0 of 1 without a launcher. Slurm sets
// its variables also in the shell of an allocation, which is not a rank.
RankPlace ByLauncher();

// Another rank has failed in the step that this rank is in. Ranks::Together does not count it as an
// error of this rank.
class OthersFailed : public Error {
 public:
  OthersFailed() : Error("another rank has failed in this step") {}
};

// "rank 3", "ranks 0, 2", "ranks 0-6, 9".
std::string NameRanks(const std::vector<int>& ranks);

// Combines the errors of all ranks. `errors` has one text per rank; some may be empty, but not all.
// The result names each distinct error with its ranks, as in "rank 1: a; ranks 2, 5-7: b", or is
// the error alone if all ranks have the same.
std::string CombineErrors(const std::vector<std::string>& errors);

// What connects this rank to the others beside MPI, such as an NCCL communicator.
class Link {
 public:
  virtual ~Link() = default;
  // What has gone wrong with the link; "" if nothing.
  virtual std::string Fault() = 0;
  // Ends the operations in progress, even while another thread waits for them.
  virtual void Abort() = 0;
};

class Ranks {
 public:
  // Starts MPI, and ends it on destruction, unless this process had already started it. `timeout`
  // bounds every later wait. Ranks reports its phases to `progress`.
  Ranks(std::chrono::milliseconds timeout, Progress& progress);
  // Stands for one of many ranks in lists and plans, without MPI and without starting the others.
  // Nothing that meets or asks other ranks may be called. `hosts` share the ranks.
  Ranks(const RankPlace& posed, Progress& progress, int hosts = 1);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int local_rank() const { return local_rank_; }  // among this machine's ranks
  [[nodiscard]] int local_size() const { return local_size_; }
  // This rank's share of the cores that this machine's ranks may use, by affinity and quota.
  [[nodiscard]] double cores() const { return cores_; }
  [[nodiscard]] bool is_root() const { return rank_ == 0; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }  // on any thread
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  [[nodiscard]] static std::string LibraryVersion();
  [[nodiscard]] static std::string HostName();
  // The host as NCCL counts it: NCCL_HOSTID if that is set (NCCL User Guide), else HostName().
  // Ranks of one machine with different values connect as if they were on several.
  [[nodiscard]] static std::string HostId();
  // Every rank's HostId(), by rank, and how many hosts they are.
  [[nodiscard]] const std::vector<std::string>& host_ids() const { return host_ids_; }
  [[nodiscard]] int hosts() const;
  [[nodiscard]] Progress& progress() const { return progress_; }

  void Barrier(const std::string& what);
  // Replaces each value by its maximum over the ranks: the same bits everywhere.
  void Max(std::span<double> values, const std::string& what);
  [[nodiscard]] double Max(double value, const std::string& what);
  // Whether it holds on at least one rank.
  [[nodiscard]] bool Any(bool holds, const std::string& what) { return Max(holds, what) > 0; }
  // Every rank's text, by rank. Texts are cut to kTextBytes.
  static constexpr std::size_t kTextBytes = Notices::kTextBytes;
  [[nodiscard]] std::vector<std::string> Gather(const std::string& text, const std::string& what);
  // Every rank's numbers, by rank. All ranks must pass the same count.
  [[nodiscard]] std::vector<double> GatherNumbers(std::span<const double> numbers,
                                                  const std::string& what);
  // As Gather, but returns no texts if all are empty. That is the usual case; it then needs no
  // memory and hardly more time on many ranks.
  [[nodiscard]] std::vector<std::string> GatherIfAny(const std::string& text,
                                                     const std::string& what);
  // Whether all ranks pass the same text. It compares hashes, in one maximum.
  [[nodiscard]] bool IsSameOnAll(const std::string& text, const std::string& what);
  // Copies rank 0's bytes to every rank.
  void Broadcast(std::span<std::byte> bytes, const std::string& what);

  // If any rank passes a non-empty text, throws the same AgreedError on all of them, with the texts
  // combined by CombineErrors.
  void AgreeOnError(const std::string& local_error, const std::string& what);
  // A step of all ranks. Runs `action`, and throws the same AgreedError on all ranks if it throws
  // an Error on any. FatalError propagates. `action` may itself agree on errors, even between
  // waits. A rank that has already failed joins that agreement with its error, and the AgreedError
  // ends the step on all ranks.
  void Together(const std::string& what, const std::function<void()>& action);
  // For waits inside a step: throws OthersFailed if another rank has failed in this step, and
  // FatalError if it ends the job.
  void ThrowIfOthersFailed();
  // The tripwire. Throws FatalError on all ranks, naming both sides, unless all are about to run
  // the same number of iterations of the same benchmark, with the same settings.
  void AgreeOnEntry(const std::string& benchmark, std::int64_t iterations,
                    const std::string& settings = "");

  // Sends all other ranks the reason why this one ends the job, after it has printed the reason.
  // Never throws, and takes at most a tenth of a second.
  void TellOthers(const std::string& reason);
  // Throws FatalError, marked as printed, once another rank has ended the job. Every wait here does
  // so, on any thread.
  void ThrowIfEnding() const;
  // For the end of the job; may be called from any thread. Waits up to a tenth of a second for
  // another rank's reason for ending the job. Returns "" if none arrived or a wait has already
  // thrown it.
  [[nodiscard]] std::string LastWords() const;

  // For the end by a signal; may be called from any thread. Rank 0 asks which ranks still answer
  // and returns "; rank 1 did not answer within 0.3 s". The others answer, and return "". Takes at
  // most three tenths of a second.
  [[nodiscard]] std::string RollCall();

  // Milliseconds on the clock that all ranks share when this process's clock shows `own_ms`
  // (NowMs).
  [[nodiscard]] double OnCommonClockMs(double own_ms) const { return own_ms + clock_offset_ms_; }

  // The communicators of the measured traffic, separate from that of the suite's own messages. They
  // are made at the start, so that no later step has to wait for all ranks to make one. Channels
  // whose collectives run beside each other need separate ones: MPI accepts those of one
  // communicator in the same order on all ranks only.
  [[nodiscard]] MPI_Comm traffic(int channel) const {
    return traffic_[static_cast<std::size_t>(channel) % traffic_.size()];
  }

  // Waits for `request` and frees it. Yields the core while waiting. If it throws, MPI may still
  // read and write the operation's memory. `memory` then stays as long as the process does.
  // nullptr: the memory is a workload's, and has_given_up keeps it from being freed.
  void Await(MPI_Request& request, const std::string& what,
             const std::shared_ptr<const void>& memory) const;
  // Whether a wait for MPI has been given up: MPI may then use its operation's memory at any time.
  [[nodiscard]] bool has_given_up() const { return has_given_up_; }
  // "rank 1: " if there are several ranks, else "".
  [[nodiscard]] std::string Prefix() const;

  // Every wait of the main thread checks `link`, until it is removed.
  void Add(Link& link);
  void Remove(Link& link);
  // Throws FatalError if a link has a fault, or another rank ends the job.
  void CheckLinks() const;
  // May be called from any thread.
  void AbortLinks();

 private:
  void MeasureClockOffset(MPI_Comm machine);
  void ShareCores(MPI_Comm machine);
  // Waits for the request of a call that all ranks make. `memory` as for Await.
  void Meet(MPI_Request& request, const std::string& what,
            const std::shared_ptr<const void>& memory);
  // Whether the request ends before the timeout. Calls `look` until then.
  bool EndsInTime(MPI_Request& request, const std::shared_ptr<const void>& memory,
                  const std::function<void()>& look) const;

  std::atomic<std::chrono::milliseconds> timeout_;
  Progress& progress_;
  mutable std::mutex links_mutex_;
  std::vector<Link*> links_;
  std::vector<std::string> host_ids_;
  MPI_Comm control_ = MPI_COMM_NULL;  // the suite's own messages
  std::array<MPI_Comm, 3> traffic_ = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};
  std::unique_ptr<Notices> notices_;  // made as soon as control_ is
  mutable std::atomic<bool> has_thrown_ending_ = false;
  mutable std::atomic<bool> has_given_up_ = false;
  std::int64_t step_ = 0;      // agreements on errors so far; equal on all ranks
  std::int64_t meetings_ = 0;  // collective calls so far
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  double cores_ = 1;
  bool ends_mpi_ = true;
  double clock_offset_ms_ = 0;  // this rank's clock plus the offset is rank 0's clock
};

// Throws Error if the launcher started several processes without MPI: before MPI starts, if that is
// known, since MPI would end the process; afterwards, if each believes it is alone.
void RequireMpiFrom(const RankPlace& place);
void RequireStartedBy(const RankPlace& place, const Ranks& ranks);

// Milliseconds of this process's clock.
double NowMs();

// The offset that turns this rank's clock into rank 0's. Called by all of `comm` together; `ranks`
// bounds the waiting. Every other rank asks rank 0 for the time, several times. The quickest
// exchange is the most accurate, to half its length (F. Cristian, Probabilistic clock
// synchronization, 1989). Rank 0 answers the others one after the other, so `comm` should hold one
// process per machine; the processes of a machine share its clock.
double ClockOffsetMs(const Ranks& ranks, MPI_Comm comm, const std::function<double()>& now_ms);

}  // namespace overlapbench
