#include "interface/callable.h"

#include <fmt/core.h>

#include <algorithm>

#include "device/host/host_stream.h"

namespace overlapbench {
namespace {

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

CallLog::Call::Call(CallLog& log, const std::string& name) : log_(log) {
  const std::lock_guard lock(log_.mutex_);
  log_.running_[std::this_thread::get_id()] = {name, std::chrono::steady_clock::now()};
}

CallLog::Call::~Call() {
  const std::lock_guard lock(log_.mutex_);
  auto call = log_.running_.extract(std::this_thread::get_id());
  const auto took = std::chrono::steady_clock::now() - call.mapped().since;
  if (took > log_.longest_.took) log_.longest_ = {call.mapped().name, took};
}

void CallLog::Forget() {
  const std::lock_guard lock(mutex_);
  longest_ = {};
}

std::string CallLog::Blame(std::chrono::milliseconds timeout) const {
  // What waits and what times it do not start at the same moment.
  const auto long_enough = timeout * 9 / 10;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [thread, call] : running_) {
    if (now - call.since >= long_enough)
      return fmt::format("; '{}' has not returned for {:.1f} s", call.name,
                         Seconds(now - call.since));
  }
  if (longest_.took < long_enough) return "";
  return fmt::format(
      "; '{}' took {:.1f} s to return: it waits for the device, so it cannot be measured behind a "
      "closed gate",
      longest_.name, Seconds(longest_.took));
}

overlapbench_answer CallableWorkload::Ask(overlapbench_callback callback, void* stream) const {
  overlapbench_answer answer{};
  const CallLog::Call call(log_, callable_.name);
  const int32_t failed = callback(callable_.context, stream, &answer);
  answer.text[sizeof(answer.text) - 1] = '\0';
  if (failed != 0)
    throw Error(fmt::format("{}: {}", callable_.name,
                            answer.text[0] == '\0' ? "failed, and did not say why" : answer.text));
  return answer;
}

void CallableWorkload::Reset(Stream& stream) {
  if (callable_.callbacks.reset != nullptr) Ask(callable_.callbacks.reset, stream.native());
}

void CallableWorkload::Enqueue(Stream& stream) {
  if (HostStream* const host = stream.host()) {
    host->Enqueue([this] { Ask(callable_.callbacks.enqueue, nullptr); });
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
    verdict.fault = fmt::format("{}: its relative error is {:.3g}, and {:.3g} is allowed",
                                callable_.name, verdict.max_rel_err, verdict.tolerance);
  }
  return verdict;
}

}  // namespace overlapbench
