#include "interface/callable.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

namespace overlapbench {
namespace {

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string HasNotReturned(const std::string& name, std::chrono::steady_clock::time_point since) {
  return fmt::format("'{}' has not returned for {:.1f} s", name,
                     Seconds(std::chrono::steady_clock::now() - since));
}

// A call and the wait that has that timeout do not start at the same moment.
std::chrono::milliseconds LongEnough(std::chrono::milliseconds timeout) { return timeout * 9 / 10; }

}  // namespace

bool CallLog::Running::IsOver(std::chrono::milliseconds limit) const {
  return std::chrono::steady_clock::now() - since > limit;
}

void CallLog::Begin() {
  const std::lock_guard lock(mutex_);
  measuring_ = pthread_self();
}

void CallLog::Enter(const std::string& name) {
  const std::lock_guard lock(mutex_);
  running_[pthread_self()] = {name, std::chrono::steady_clock::now(), ""};
}

void CallLog::Leave() {
  const std::lock_guard lock(mutex_);
  const Running call = running_.extract(pthread_self()).mapped();
  if (!call.given_up.empty()) throw FatalError(call.given_up, FatalError::kPrinted);
}

const CallLog::Running* CallLog::FindOverdue(std::chrono::milliseconds limit) const {
  const auto call = running_.find(measuring_);
  return call != running_.end() && call->second.IsOver(limit) ? &call->second : nullptr;
}

std::string CallLog::Overdue(std::chrono::milliseconds limit) const {
  const std::lock_guard lock(mutex_);
  const Running* const call = FindOverdue(limit);
  return call == nullptr ? "" : HasNotReturned(call->name, call->since);
}

// The lock keeps the call, and so its thread, from ending before the signal has been sent.
std::string CallLog::GiveUp(std::chrono::milliseconds timeout, const std::string& prefix,
                            int signal) {
  const std::lock_guard lock(mutex_);
  const Running* const call = FindOverdue(LongEnough(timeout));
  if (call == nullptr || !call->given_up.empty()) return "";
  std::string& text = running_.at(measuring_).given_up;
  text = fmt::format(
      "{}{}; if it compiles or connects, call it once before it is measured, or set a longer "
      "timeout_s",
      prefix, HasNotReturned(call->name, call->since));
  pthread_kill(measuring_, signal);  // 0 sends nothing
  return text;
}

std::string CallLog::Blame(std::chrono::milliseconds timeout) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [thread, call] : running_) {
    if (call.IsOver(LongEnough(timeout))) return "; " + HasNotReturned(call.name, call.since);
  }
  return "";
}

overlapbench_answer CallableWorkload::Ask(overlapbench_callback callback, void* stream) const {
  overlapbench_answer answer{};
  log_.Enter(callable_.name);
  const int32_t failed = callback(callable_.context, stream, &answer);
  log_.Leave();
  answer.text[sizeof(answer.text) - 1] = '\0';
  if (failed != 0)
    throw Error(fmt::format("{}: {}", callable_.name,
                            answer.text[0] == '\0' ? "failed without a message" : answer.text));
  return answer;
}

void CallableWorkload::Reset(Stream& stream) {
  if (callable_.callbacks.reset != nullptr) Ask(callable_.callbacks.reset, stream.native());
}

void CallableWorkload::Enqueue(Stream& stream) {
  if (stream.on_host()) {
    stream.Enqueue([this] { Ask(callable_.callbacks.enqueue, nullptr); });
  } else {
    Ask(callable_.callbacks.enqueue, stream.native());
  }
}

Verdict CallableWorkload::Verify(Stream& stream) {
  if (callable_.callbacks.verify == nullptr) return {};
  const auto answer = Ask(callable_.callbacks.verify, stream.native());
  Verdict verdict{answer.max_rel_err, answer.tolerance, answer.text};
  if (!verdict.fault.empty()) verdict.fault = fmt::format("{}: {}", callable_.name, verdict.fault);
  if (verdict.fault.empty() && !(verdict.max_rel_err <= verdict.tolerance)) {
    verdict.fault = fmt::format("{}: its relative error is {:.3g}, but at most {:.3g} is allowed",
                                callable_.name, verdict.max_rel_err, verdict.tolerance);
  }
  return verdict;
}

}  // namespace overlapbench
