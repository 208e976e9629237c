#include "report/trace_facts.h"

#include <fmt/core.h>

#include <iterator>
#include <set>
#include <string>

namespace overlapbench {
namespace {

// The numbers as ranges, such as "0-103,128".
std::string RangesOf(const std::set<long>& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != numbers.end() && *next == *last + 1) last = next++;
    if (!text.empty()) text += ",";
    text += first == last ? fmt::format("{}", *first) : fmt::format("{}-{}", *first, *last);
    first = next;
  }
  return text;
}

}  // namespace

JsonObject TraceFacts::About(std::uint64_t mark) const {
  JsonObject facts;
  facts.Text("row", trace_.row).Text("run", trace_.run.name);
  facts.Count("sample", sample_).Count("rank", trace_.rank);
  if (mark == 0) return facts;
  const Schedule::Step& step = schedule_.steps()[mark - 1];
  facts.Text("step", step.name).Text("lane", schedule_.lanes()[step.lane].name);
  return facts.Count("External id", NumberOf(mark));
}

JsonObject TraceFacts::Of(const Activity& activity, int track) const {
  JsonObject facts = About(activity.mark);
  switch (activity.kind) {
    case ActivityKind::kCall:
      return facts.Count("correlation", activity.correlation);
    case ActivityKind::kGate:
    case ActivityKind::kWait:
      facts.Text("class", activity.kind == ActivityKind::kGate ? "GATE" : "WAIT");
      return activity.is_derived ? facts.Count("derived", 1) : facts;
    default:
      AddWork(activity, track, facts);
      return facts;
  }
}

// Work of no step is a fault.
void TraceFacts::AddWork(const Activity& activity, int track, JsonObject& facts) const {
  const char* const of_gpu = activity.by_copy_engine ? "copy" : "SM";
  facts.Count("device", trace_.rank).Count("stream", track);
  facts.Number("bytes", activity.bytes, 0).Count("blocks", activity.blocks);
  facts.Count("correlation", activity.correlation);
  facts.Text("engine", trace_.backend == Backend::kHost ? "core" : of_gpu);
  AddPeer(activity, facts);
  if (activity.mark == 0) return;
  if (const auto cause = awaited_.find(&activity); cause != awaited_.end())
    facts.Text("awaits", ToString(cause->second));
  AddStep(activity.mark, facts);
}

// The rank at the other end if the schedule gives it, else the GPU that a copy's record names;
// "all" for a communication among more than two ranks.
void TraceFacts::AddPeer(const Activity& activity, JsonObject& facts) const {
  std::optional<int> peer = activity.peer;
  const bool communicates =
      activity.mark > 0 &&
      schedule_.steps()[activity.mark - 1].work->work_class == WorkClass::kComm;
  if (communicates) {
    if (trace_.ranks == 2)
      peer = 1 - trace_.rank;
    else if (const auto other_end = schedule_.OtherEndOf(activity.mark - 1))
      peer = other_end;
  }
  if (peer.has_value())
    facts.Count("peer", *peer);
  else if (communicates && trace_.ranks != 1)
    facts.Text("peer", "all");
}

void TraceFacts::AddStep(std::uint64_t mark, JsonObject& facts) const {
  const Schedule::Step& step = schedule_.steps()[mark - 1];
  facts.Text("class", ToString(step.work->work_class));
  // Tools read "bytes" as a copy's bytes, so a step's have a name of their own.
  if (const auto& bytes = trace_.step_bytes.at(mark - 1)) facts.Count("step_bytes", *bytes);
  if (const int sms = schedule_.lanes()[step.lane].sms; sms > 0) facts.Count("sms", sms);
  if (const auto set = trace_.sm_sets.find(step.lane); set != trace_.sm_sets.end())
    facts.Text("sm_set", RangesOf(set->second));
  if (step.work->work_class == WorkClass::kComm)
    facts.Count("communication", NumberOf(schedule_.CommunicationOf(mark - 1) + 1));
}

}  // namespace overlapbench
