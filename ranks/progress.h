// Progress: what this rank is doing, so that an error message can say where it happened.
//
// Every operation that may wait or fail belongs to a phase. The main thread enters it with a
// `Progress::Scope`. The watchdog (watchdog.h) reads from its own thread which phase it is, and
// since when. Phases nest: when a scope ends, the outer phase resumes. A scope that is left by an
// exception changes nothing, so the message can still say where it was thrown.
#pragma once

#include <atomic>
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
  kVerify,   // verifying a result
  kEnqueue,  // enqueueing a sample
  kMeet,     // meeting the other ranks before a sample
  kWait,     // waiting for a sample's streams
  kTimes,    // agreeing on a sample's times
  kReport,   // a row's counters
  kWrite,    // writing result files
  kEnd,      // ending the run, and MPI
  kBetween,  // none of these
};

// A phase's description in messages, such as "waiting for the stream".
std::string_view Describe(Phase phase);

class Progress {
 public:
  class Scope {
   public:
    // `detail`: what the phase works on, such as a lane's "COMM".
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
  // "" if none is running.
  void set_benchmark(const std::string& name);
  // Samples are counted from 1 in each benchmark.
  void BeginSample(const std::string& run);

  // "rank 1 of 2, Overlap/AllToAll+Gemm/bytes:1, sample 7, run 'overlap', waiting for the stream
  // COMM".
  [[nodiscard]] std::string Where() const;
  [[nodiscard]] Phase phase() const;
  // How long ago the progress last changed.
  [[nodiscard]] std::chrono::milliseconds Unchanged() const;
  // This rank ends: whoever enters or leaves a phase from now on stays there.
  void Freeze() const { frozen_ = true; }
  // `observer` is called by the main thread whenever it enters a phase, before the phase's work.
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
  mutable std::atomic<bool> frozen_ = false;
};

}  // namespace overlapbench
