#include "ranks/progress.h"

#include <exception>
#include <iterator>
#include <sstream>

namespace overlapbench {
namespace {

// In the order of Phase.
constexpr std::string_view kPhases[] = {"starting MPI",
                                        "comparing flags and devices",
                                        "making a communicator",
                                        "making workloads",
                                        "filling inputs",
                                        "first run",
                                        "verifying",
                                        "enqueueing a sample",
                                        "meeting the other ranks",
                                        "waiting for the stream",
                                        "agreeing on a sample's times",
                                        "reporting a row",
                                        "writing results",
                                        "ending",
                                        "between benchmarks"};
static_assert(std::size(kPhases) == static_cast<std::size_t>(Phase::kBetween) + 1);

}  // namespace

std::string_view Describe(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

Progress::Scope::Scope(Progress& progress, Phase phase, std::string_view detail)
    : progress_(progress),
      outer_(progress.phase_),
      outer_detail_(progress.detail_),
      exceptions_(std::uncaught_exceptions()) {
  progress.Enter(phase, detail);
  if (progress.observer_) progress.observer_(phase);
}

Progress::Scope::~Scope() {
  if (std::uncaught_exceptions() > exceptions_) return;
  progress_.Enter(outer_, outer_detail_);
}

Phase Progress::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

void Progress::Enter(Phase phase, std::string_view detail) {
  frozen_.wait(true);
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  detail_ = detail;
  changed_ = std::chrono::steady_clock::now();
}

void Progress::set_benchmark(const std::string& name) {
  const std::lock_guard lock(mutex_);
  benchmark_ = name;
  sample_ = 0;
  run_.clear();
}

void Progress::BeginSample(const std::string& run) {
  const std::lock_guard lock(mutex_);
  run_ = run;
  ++sample_;
}

std::string Progress::Where() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream where;
  if (size_ > 1) where << "rank " << rank_ << " of " << size_ << ", ";
  if (!benchmark_.empty()) where << benchmark_ << ", ";
  if (sample_ > 0) where << "sample " << sample_ << ", ";
  if (!run_.empty()) where << "run '" << run_ << "', ";
  where << Describe(phase_) << (detail_.empty() ? "" : " ") << detail_;
  return where.str();
}

std::chrono::milliseconds Progress::Unchanged() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               changed_);
}

}  // namespace overlapbench
