// Progress: where this rank is, for whoever has to say why nothing goes on.
//
// Whatever may wait, or fail in a way of its own, is a phase. The main thread begins it with a
// `Progress::Scope`; the watchdog (watchdog.h) reads from its own thread what goes on and since
// when. Phases nest: at a scope's end the outer one goes on. A scope that is left by an exception
// changes nothing, so that the message can still say where it happened.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace overlapbench {

enum class Phase : std::uint8_t {
  kStart,    // before and while MPI starts
  kAgree,    // comparing flags, choosing devices
  kConnect,  // making a communicator
  kMake,     // making workloads: allocating memory
  kFill,     // filling inputs
  kFirst,    // the first run of every workload
  kVerify,   // verifying it
  kEnqueue,  // enqueueing a sample
  kMeet,     // the ranks meet before it
  kWait,     // waiting for its streams
  kTimes,    // agreeing on its times
  kReport,   // a row's counters
  kWrite,    // writing result files
  kEnd,      // the end of the run, and MPI's
  kBetween,  // none of these
};

// The name by which a phase is told, "waiting for a sample", and by which it is chosen, "wait".
std::string_view Describe(Phase phase);
std::string_view ShortName(Phase phase);
// Throws UsageError naming all phases if there is none of that short name.
Phase PhaseNamed(std::string_view short_name);

class Progress {
 public:
  class Scope {
   public:
    // `detail`: what of it, such as a lane's "COMM".
    Scope(Progress& progress, Phase phase, std::string_view detail = "");
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Progress& progress_;
    Phase outer_;
    std::string outer_detail_;
    int exceptions_;
  };

  Progress(int rank, int size) : rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const { return rank_; }
  // "" when none is running.
  void set_benchmark(const std::string& name);
  // Counts samples from 1 in each benchmark.
  void BeginSample(const std::string& run);

  // "rank 1 of 2, Overlap/AllToAll+Gemm/bytes:1, sample 7 (run 'overlap'), waiting for COMM".
  [[nodiscard]] std::string Where() const;
  // For how long it has not changed.
  [[nodiscard]] std::chrono::milliseconds Unchanged() const;
  // Called by the main thread whenever it begins a phase, before anything of it is done.
  void Observe(std::function<void(Phase)> observer) { observer_ = std::move(observer); }

 private:
  void Enter(Phase phase, std::string_view detail);

  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point changed_ = std::chrono::steady_clock::now();
  Phase phase_ = Phase::kBetween;
  std::string detail_;
  std::string benchmark_;
  std::string run_;
  long sample_ = 0;
  int rank_;
  int size_;
  std::function<void(Phase)> observer_;
};

}  // namespace overlapbench
