#include "report/trace_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "fixtures/row_waits.h"
#include "report/counters.h"
#include "report/result_file.h"

namespace overlapbench {
namespace {

constexpr double kMicrosecondsInMillisecond = 1000;

std::string Quoted(std::string_view text) { return "\"" + EscapedJson(text) + "\""; }

std::string Member(const char* name, const std::string& json) {
  return fmt::format("\"{}\": {}", name, json);
}

std::string Text(const char* name, std::string_view text) { return Member(name, Quoted(text)); }

template <class Number>
std::string Count(const char* name, Number number) {
  return Member(name, fmt::format("{:.0f}", static_cast<double>(number)));
}

std::string Object(const std::vector<std::string>& members) {
  std::string text;
  for (const std::string& member : members) text += (text.empty() ? "" : ", ") + member;
  return "{" + text + "}";
}

// The track on which an event is drawn.
struct Track {
  int process = 0;
  int thread = 0;
  auto operator<=>(const Track&) const = default;
};

const char* CategoryOf(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::kKernel:
      return "kernel";
    case ActivityKind::kCopy:
      return "gpu_memcpy";
    case ActivityKind::kFill:
      return "gpu_memset";
    case ActivityKind::kCall:
      return "cuda_runtime";
    case ActivityKind::kWait:
    case ActivityKind::kGate:
      return "gpu_user_annotation";
  }
  return "";
}

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

class Events {
 public:
  explicit Events(const RowTrace& trace) : trace_(trace), schedule_(trace.run.schedule) {}

  // The events of one sample, each preceded by a comma.
  std::string OfSample(std::size_t index) {
    text_.clear();
    sample_ = index;
    const TracedSample& sample = trace_.samples[index];
    const StepRuns runs = RunsOf(schedule_, sample);
    awaited_ = AwaitedBy(trace_, sample, runs);
    OfHost(sample);
    AddSpan("gpu_user_annotation", fmt::format("sample {}", index), {device(), 0}, sample.begin_ms,
            sample.end_ms, About(0));
    for (const Activity& activity : sample.activities) AddActivity(activity);
    AddCallsOf(sample);
    for (const auto& [key, run] : runs) {
      const Schedule::Step& step = schedule_.steps()[key.first];
      AddSpan("gpu_user_annotation", step.name, LaneTrack(step.lane), run.begin_ms, run.end_ms,
              About(key.first + 1));
    }
    AddFlows(runs);
    for (const GaugeReading& reading : sample.gauges) AddGauge(reading);
    return std::exchange(text_, {});
  }

  // An empty step of the profiler after the last sample.
  std::string Closing() {
    text_.clear();
    if (trace_.samples.empty()) return "";
    const double end_ms = trace_.samples.back().moments.end_ms;
    AddProfilerStep(trace_.samples.size(), end_ms, end_ms);
    return std::exchange(text_, {});
  }

  // The names of all tracks that events are drawn on.
  std::string Names() {
    text_.clear();
    NameProcess(device(), "device");
    NameProcess(host(), "host");
    NameThread({device(), 0}, "fork");
    NameThread({host(), 0}, "enqueueing thread");
    for (std::size_t i = 0; i < schedule_.lanes().size(); ++i)
      if (schedule_.lanes()[i].IsOf(trace_.rank))
        NameThread(LaneTrack(i), schedule_.lanes()[i].name);
    for (const auto& [key, track] : more_tracks_) {
      NameThread(track, fmt::format("{}, stream {}", schedule_.lanes()[key.first].name,
                                    key.second & 0xffffffffU));
    }
    return std::exchange(text_, {});
  }

 private:
  [[nodiscard]] int device() const { return 2 * trace_.rank; }
  [[nodiscard]] int host() const { return 2 * trace_.rank + 1; }
  [[nodiscard]] Track LaneTrack(std::size_t lane) const {
    return {device(), static_cast<int>(lane) + 1};
  }

  // The first stream of a lane has the lane's track, and each further one a track of its own.
  Track TrackOf(const Activity& activity) {
    if (activity.kind == ActivityKind::kCall) return {host(), 0};
    if (activity.mark == 0) return {device(), 0};
    const std::size_t lane = StepOf(activity.mark).lane;
    const auto first = first_stream_.try_emplace(lane, activity.stream).first;
    if (first->second == activity.stream) return LaneTrack(lane);
    const int next = static_cast<int>(schedule_.lanes().size() + more_tracks_.size()) + 1;
    return more_tracks_.try_emplace({lane, activity.stream}, Track{device(), next}).first->second;
  }

  [[nodiscard]] double Microseconds(double own_ms) const {
    return (own_ms + trace_.clock_offset_ms) * kMicrosecondsInMillisecond;
  }

  void Add(const std::vector<std::string>& members) { text_ += ",\n" + Object(members); }

  void AddSpan(const char* category, const std::string& name, const Track& track, double begin_ms,
               double end_ms, const std::string& args) {
    Add({Text("ph", "X"), Text("cat", category), Text("name", name), Count("pid", track.process),
         Count("tid", track.thread), Member("ts", fmt::format("{:.3f}", Microseconds(begin_ms))),
         Member("dur", fmt::format("{:.3f}",
                                   std::max(0.0, end_ms - begin_ms) * kMicrosecondsInMillisecond)),
         Member("args", args)});
  }

  [[nodiscard]] const Schedule::Step& StepOf(std::uint64_t mark) const {
    return schedule_.steps()[mark - 1];
  }

  // The number of a step in this sample, the same on all ranks.
  [[nodiscard]] std::uint64_t NumberOf(std::uint64_t mark) const {
    return sample_ * schedule_.steps().size() + mark;
  }

  // The arguments that say where an event belongs, and `more`. `mark`: its step's; 0: it has none.
  [[nodiscard]] std::string About(std::uint64_t mark,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> members = {Text("row", trace_.row), Text("run", trace_.run.name),
                                        Count("sample", sample_), Count("rank", trace_.rank)};
    if (mark > 0) {
      members.push_back(Text("step", StepOf(mark).name));
      members.push_back(Text("lane", schedule_.lanes()[StepOf(mark).lane].name));
      members.push_back(Count("External id", NumberOf(mark)));
    }
    members.insert(members.end(), more.begin(), more.end());
    return Object(members);
  }

  // The arguments that only work, only waits and gates, or only calls have.
  [[nodiscard]] std::vector<std::string> FactsOf(const Activity& activity,
                                                 const Track& track) const {
    switch (activity.kind) {
      case ActivityKind::kGate:
        return FactsOfWait("GATE", activity);
      case ActivityKind::kWait:
        return FactsOfWait("WAIT", activity);
      case ActivityKind::kCall:
        return {Count("correlation", activity.correlation)};
      default:
        return FactsOfWork(activity, track);
    }
  }
  [[nodiscard]] static std::vector<std::string> FactsOfWait(const char* name,
                                                            const Activity& activity) {
    std::vector<std::string> facts = {Text("class", name)};
    if (activity.is_derived) facts.push_back(Count("derived", 1));
    return facts;
  }
  [[nodiscard]] std::vector<std::string> FactsOfWork(const Activity& activity,
                                                     const Track& track) const {
    std::vector<std::string> facts = {
        Count("device", trace_.rank), Count("stream", track.thread), Count("bytes", activity.bytes),
        Count("blocks", activity.blocks), Count("correlation", activity.correlation)};
    const char* const of_gpu = activity.by_copy_engine ? "copy" : "SM";
    facts.push_back(Text("engine", trace_.backend == Backend::kHost ? "core" : of_gpu));
    if (const std::string peer = PeerOf(activity); !peer.empty())
      facts.push_back(Member("peer", peer));
    if (activity.mark == 0) return facts;  // a fault
    if (const auto cause = awaited_.find(&activity); cause != awaited_.end())
      facts.push_back(Text("awaits", ToString(cause->second)));
    AddFactsOfStep(activity.mark, facts);
    return facts;
  }
  // The rank at the other end if the schedule gives it, else the GPU that a copy's record names;
  // "all" for a communication among more than two ranks; "" if there is no other end.
  [[nodiscard]] std::string PeerOf(const Activity& activity) const {
    const bool communicates =
        activity.mark > 0 && StepOf(activity.mark).work->work_class == WorkClass::kComm;
    if (communicates && trace_.ranks == 2) return fmt::format("{}", 1 - trace_.rank);
    if (communicates)
      if (const auto rank = schedule_.OtherEndOf(activity.mark - 1))
        return fmt::format("{}", *rank);
    if (activity.peer.has_value()) return fmt::format("{}", *activity.peer);
    return communicates && trace_.ranks > 2 ? Quoted("all") : "";
  }
  void AddFactsOfStep(std::uint64_t mark, std::vector<std::string>& facts) const {
    const Schedule::Step& step = StepOf(mark);
    facts.push_back(Text("class", ToString(step.work->work_class)));
    // Tools read "bytes" as a copy's bytes, so a step's have a name of their own.
    if (const auto& bytes = trace_.step_bytes.at(mark - 1); bytes.has_value())
      facts.push_back(Count("step_bytes", *bytes));
    if (const int sms = schedule_.lanes()[step.lane].sms; sms > 0)
      facts.push_back(Count("sms", sms));
    if (const auto set = trace_.sm_sets.find(step.lane); set != trace_.sm_sets.end())
      facts.push_back(Text("sm_set", RangesOf(set->second)));
    if (step.work->work_class == WorkClass::kComm)
      facts.push_back(Count("communication", NumberOf(schedule_.CommunicationOf(mark - 1) + 1)));
  }

  void AddActivity(const Activity& activity) {
    const Track track = TrackOf(activity);
    std::string name = activity.name;
    if (name.empty())
      name = IsWork(activity.kind) && activity.mark > 0 ? StepOf(activity.mark).name
                                                        : ToString(activity.kind);
    AddSpan(CategoryOf(activity.kind), name, track, activity.begin_ms, activity.end_ms,
            About(activity.mark, FactsOf(activity, track)));
  }

  // Adds the calls of the host backend's work. Nothing is known of a lost call.
  void AddCallsOf(const TracedSample& sample) {
    std::set<std::uint64_t> called;
    for (const Activity& activity : sample.activities)
      if (activity.kind == ActivityKind::kCall) called.insert(activity.correlation);
    for (const Activity& activity : sample.activities) {
      if (!IsWork(activity.kind) || activity.call_ms <= 0 ||
          !called.insert(activity.correlation).second)
        continue;
      AddActivity({.name = "enqueue",
                   .kind = ActivityKind::kCall,
                   .mark = activity.mark,
                   .correlation = activity.correlation,
                   .begin_ms = activity.call_ms,
                   .end_ms = activity.enqueued_ms});
    }
  }

  void AddProfilerStep(std::size_t number, double begin_ms, double end_ms) {
    AddSpan("user_annotation", fmt::format("ProfilerStep#{}", number), {host(), 0}, begin_ms,
            end_ms, About(0));
  }

  void OfHost(const TracedSample& sample) {
    const Moments& moments = sample.moments;
    AddProfilerStep(sample_, moments.begin_ms, moments.end_ms);
    const auto add = [&](const std::string& name, double begin_ms, double end_ms,
                         std::uint64_t mark = 0) {
      AddSpan("user_annotation", name, {host(), 0}, begin_ms, end_ms, About(mark));
    };
    add("enqueue", moments.enqueue.begin_ms, moments.enqueue.end_ms);
    for (const StepEnqueue& one : sample.enqueues)
      add("enqueue " + schedule_.steps()[one.step].name, one.begin_ms, one.end_ms, one.step + 1);
    add("meet", moments.gated() ? moments.enqueue.end_ms : moments.begin_ms, moments.met_ms);
    add("wait", moments.gated() ? moments.met_ms : moments.enqueue.end_ms, moments.end_ms);
  }

  // From a step to each that waits for it. An arrow starts inside the work that it comes from.
  void AddFlows(const StepRuns& runs) {
    constexpr double kInside_ms = 1e-6;
    for (const auto& [key, run] : runs) {
      for (const std::size_t earlier : schedule_.steps()[key.first].options.after) {
        const auto from = runs.find({earlier, key.second});
        if (from == runs.end()) continue;
        const double from_ms = std::max(from->second.begin_ms, from->second.end_ms - kInside_ms);
        ++flows_;
        AddFlowEnd("s", LaneTrack(schedule_.steps()[earlier].lane), from_ms);
        AddFlowEnd("f", LaneTrack(schedule_.steps()[key.first].lane), run.begin_ms);
      }
    }
  }
  void AddFlowEnd(const char* phase, const Track& track, double at_ms) {
    constexpr std::uint64_t kOfARank = 1U << 31U;
    std::vector<std::string> members = {
        Text("ph", phase),
        Text("cat", "dependency"),
        Text("name", "waits for"),
        Count("id", static_cast<std::uint64_t>(trace_.rank) * kOfARank + flows_),
        Count("pid", track.process),
        Count("tid", track.thread),
        Member("ts", fmt::format("{:.3f}", Microseconds(at_ms)))};
    if (*phase == 'f') members.push_back(Text("bp", "e"));
    Add(members);
  }

  // Viewers draw the readings of one name as a track of the process.
  void AddGauge(const GaugeReading& reading) {
    Add({Text("ph", "C"), Text("name", reading.name), Count("pid", device()), Count("tid", 0),
         Member("ts", fmt::format("{:.3f}", Microseconds(reading.at_ms))),
         Member("args", Object({Member("value", fmt::format("{:.3f}", reading.value))}))});
  }

  void NameProcess(int process, const std::string& what) {
    const std::string name = fmt::format("rank {}, {}", trace_.rank, what);
    Add({Text("ph", "M"), Text("name", "process_name"), Count("pid", process), Count("tid", 0),
         Member("args", Object({Text("name", name)}))});
  }
  void NameThread(const Track& track, const std::string& name) {
    Add({Text("ph", "M"), Text("name", "thread_name"), Count("pid", track.process),
         Count("tid", track.thread), Member("args", Object({Text("name", name)}))});
  }

  const RowTrace& trace_;
  const Schedule& schedule_;
  std::size_t sample_ = 0;
  Awaited awaited_;  // in this sample
  std::string text_;
  std::map<std::size_t, std::uint64_t> first_stream_;                   // by lane
  std::map<std::pair<std::size_t, std::uint64_t>, Track> more_tracks_;  // by lane and stream
  std::uint64_t flows_ = 0;
};

// FNV-1a.
std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// The idle time of this rank in all samples: its part in the row's counters.
std::string Idle_ms(const Breakdown& breakdown) {
  std::vector<std::string> causes;
  for (std::size_t i = 0; i < breakdown.idle_ms.size(); ++i) {
    causes.push_back(Member(ToString(static_cast<IdleCause>(i)),
                            fmt::format("{:.6f}", breakdown.idle_ms.at(i))));
  }
  return Object(causes);
}

// The text before the events.
std::string Beginning(const RowTrace& trace, std::size_t written) {
  const std::string about =
      Object({Text("row", trace.row), Text("run", trace.run.name),
              Text("backend", ToString(trace.backend)), Count("samples", written),
              Count("left_out_samples", trace.samples.size() - written), Text("fault", trace.fault),
              Member("idle_ms", Idle_ms(trace.breakdown))});
  return fmt::format(
      "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"rank\": {}, \"world_size\": {}}},\n"
      "\"displayTimeUnit\": \"ms\",\n\"overlapbench\": {},\n\"traceEvents\": [\n",
      trace.rank, trace.ranks, about);
}

}  // namespace

std::string TraceFileName(const std::string& row, int rank) {
  constexpr std::size_t kMostCharacters = 200;  // of the 255 that file systems allow
  constexpr std::string_view kAsTheyAre = "+-._";
  std::string name;
  bool is_ordinary = !row.empty() && row.size() <= kMostCharacters && !row.starts_with('.');
  for (const char c : row.substr(0, kMostCharacters)) {
    const bool keeps = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kAsTheyAre.find(c) != std::string_view::npos;
    is_ordinary = is_ordinary && (keeps || c == '/' || c == ':');
    name += keeps ? c : c == '/' ? ',' : c == ':' ? '=' : '_';
  }
  if (name.starts_with('.')) name.front() = '_';
  if (!is_ordinary) name += fmt::format("-{:016x}", HashOf(row));
  return fmt::format("{}.rank{}.json", name, rank);
}

std::string TraceJson(const RowTrace& trace, std::size_t most_bytes) {
  Events events(trace);
  const std::string closing = events.Closing();
  const auto document = [&](std::size_t written, const std::string& samples) {
    return Beginning(trace, written) + events.Names().substr(2) + samples + closing + "\n]\n}\n";
  };
  std::string samples;
  std::size_t written = 0;
  for (; written < trace.samples.size(); ++written) {
    const std::string more = events.OfSample(written);
    if (document(written + 1, more).size() + samples.size() > most_bytes) break;
    samples += more;
  }
  return document(written, samples);
}

TraceFiles::TraceFiles(std::string folder) : folder_(std::move(folder)) {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (code) throw UsageError("cannot write to the folder " + folder_ + ": " + code.message());
  // Ranks of one machine may try this at the same time.
  std::string trial = folder_ + "/.trial.XXXXXX";
  const int descriptor = mkstemp(trial.data());
  if (descriptor < 0)
    throw UsageError("cannot write to the folder " + folder_ + ": " + std::strerror(errno));
  close(descriptor);
  unlink(trial.c_str());
}

void TraceFiles::Write(const RowTrace& trace) {
  const std::string text = TraceJson(trace);
  const std::lock_guard lock(mutex_);
  if (abandoned_) return;
  ResultFile file(folder_ + "/" + TraceFileName(trace.row, trace.rank));
  file.Append(text, "");
  file.Finish();
}

void TraceFiles::Abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

}  // namespace overlapbench
