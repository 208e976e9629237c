#include "ranks/progress.h"

#include <exception>
#include <sstream>

#include "device/error.h"

namespace overlapbench {
namespace {

struct PhaseText {
  Phase phase;
  std::string_view short_name;
  std::string_view text;
};

constexpr PhaseText kPhases[] = {
    {Phase::kStart, "start", "starting MPI"},
    {Phase::kAgree, "agree", "comparing flags and devices"},
    {Phase::kConnect, "connect", "making a communicator"},
    {Phase::kMake, "make", "making workloads"},
    {Phase::kFill, "fill", "filling inputs"},
    {Phase::kFirst, "first", "first run"},
    {Phase::kVerify, "verify", "verifying"},
    {Phase::kEnqueue, "enqueue", "enqueueing a sample"},
    {Phase::kMeet, "meet", "meeting the other ranks"},
    {Phase::kWait, "wait", "waiting for the stream"},
    {Phase::kTimes, "times", "agreeing on a sample's times"},
    {Phase::kReport, "report", "reporting a row"},
    {Phase::kWrite, "write", "writing results"},
    {Phase::kEnd, "end", "ending"},
    {Phase::kBetween, "between", "between benchmarks"},
};

const PhaseText& TextOf(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

}  // namespace

std::string_view Describe(Phase phase) { return TextOf(phase).text; }
std::string_view ShortName(Phase phase) { return TextOf(phase).short_name; }

Phase PhaseNamed(std::string_view short_name) {
  std::string names;
  for (const auto& [phase, name, text] : kPhases) {
    if (name == short_name) return phase;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError("there is no phase '" + std::string(short_name) + "': choose one of " + names);
}

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
