#include "report/trace_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "fixtures/row_waits.h"
#include "report/json.h"
#include "report/trace_facts.h"

namespace overlapbench {
namespace {

// Where an event is drawn. Each rank has two processes: its device and its host.
struct Track {
  int process = 0;
  int thread = 0;
};

// The tracks of a device: the stream that forks the lanes, the lanes, the idle time, and each
// further stream of a lane.
class Tracks {
 public:
  explicit Tracks(const RowTrace& trace)
      : schedule_(trace.run.schedule), rank_(trace.rank), device_(2 * trace.rank) {}

  [[nodiscard]] Track host() const { return {device_ + 1, 0}; }
  [[nodiscard]] Track fork() const { return {device_, 0}; }
  [[nodiscard]] Track lane(std::size_t lane) const { return {device_, static_cast<int>(lane) + 1}; }
  [[nodiscard]] Track idle() const { return lane(schedule_.lanes().size()); }

  // The first stream of a lane has the lane's track.
  Track Of(const Activity& activity) {
    if (activity.kind == ActivityKind::kCall) return host();
    if (activity.mark == 0) return fork();
    const std::size_t lane = schedule_.steps()[activity.mark - 1].lane;
    const auto first = first_stream_.try_emplace(lane, activity.stream).first;
    if (first->second == activity.stream) return this->lane(lane);
    const Track next = {device_, idle().thread + 1 + static_cast<int>(more_.size())};
    return more_.try_emplace({lane, activity.stream}, next).first->second;
  }

  // The name of every track that events are drawn on.
  [[nodiscard]] std::vector<std::pair<Track, std::string>> Names() const {
    std::vector<std::pair<Track, std::string>> names = {
        {fork(), "fork"}, {host(), "enqueueing thread"}, {idle(), "idle"}};
    const auto& lanes = schedule_.lanes();
    for (std::size_t i = 0; i < lanes.size(); ++i)
      if (lanes[i].IsOf(rank_)) names.emplace_back(lane(i), lanes[i].name);
    for (const auto& [key, track] : more_) {
      const auto& [lane, stream] = key;
      names.emplace_back(track,
                         fmt::format("{}, stream {}", lanes[lane].name, stream & 0xffffffffU));
    }
    return names;
  }

 private:
  const Schedule& schedule_;
  int rank_;
  int device_;
  std::map<std::size_t, std::uint64_t> first_stream_;            // by lane
  std::map<std::pair<std::size_t, std::uint64_t>, Track> more_;  // by lane and stream
};

const char* CategoryOf(ActivityKind kind) {
  constexpr std::array<const char*, 3> kOfWork = {"kernel", "gpu_memcpy", "gpu_memset"};
  if (IsWork(kind)) return kOfWork.at(static_cast<std::size_t>(kind));
  return kind == ActivityKind::kCall ? "cuda_runtime" : "gpu_user_annotation";
}

// Each text that it returns has events one after the other, each preceded by a comma.
class Events {
 public:
  explicit Events(const RowTrace& trace)
      : trace_(trace), schedule_(trace.run.schedule), tracks_(trace) {}

  std::string OfSample(std::size_t index) {
    const TracedSample& sample = trace_.samples[index];
    const StepRuns runs = RunsOf(schedule_, sample);
    const TraceFacts facts(trace_, index, AwaitedBy(trace_, sample, runs));
    AddHost(index, sample, facts);
    AddSpan("gpu_user_annotation", fmt::format("sample {}", index), tracks_.fork(), sample.begin_ms,
            sample.end_ms, facts.About());
    for (const Activity& activity : sample.activities) AddActivity(activity, facts);
    AddCalls(sample, facts);
    for (const auto& [key, run] : runs) {
      const Schedule::Step& step = schedule_.steps()[key.first];
      AddSpan("gpu_user_annotation", step.name, tracks_.lane(step.lane), run.begin_ms, run.end_ms,
              facts.About(key.first + 1));
    }
    for (const Idle& idle : sample.idle) AddIdle(idle, facts);
    AddArrows(runs);
    for (const GaugeReading& reading : sample.gauges) AddGauge(reading);
    return std::exchange(text_, {});
  }

  // An empty step of the profiler after the last sample.
  std::string Closing() {
    if (trace_.samples.empty()) return "";
    const std::size_t count = trace_.samples.size();
    const double end_ms = trace_.samples.back().moments.end_ms;
    AddProfilerStep(count, end_ms, end_ms, TraceFacts(trace_, count, {}));
    return std::exchange(text_, {});
  }

  std::string Names() {
    const auto rank = [&](const char* part) {
      return fmt::format("rank {}, {}", trace_.rank, part);
    };
    AddName("process_name", tracks_.fork(), rank("device"));
    AddName("process_name", tracks_.host(), rank("host"));
    for (const auto& [track, name] : tracks_.Names()) AddName("thread_name", track, name);
    return std::exchange(text_, {});
  }

 private:
  void Add(const JsonObject& event) { text_ += ",\n" + event.Line(); }

  [[nodiscard]] static JsonObject Event(const char* phase, const std::string& name,
                                        const Track& track) {
    return JsonObject()
        .Text("ph", phase)
        .Text("name", name)
        .Count("pid", track.process)
        .Count("tid", track.thread);
  }
  void AddTime(JsonObject& event, double own_ms) const {
    event.Number("ts", (own_ms + trace_.clock_offset_ms) * kMicrosecondsInMillisecond, 3);
  }

  void AddSpan(const char* category, const std::string& name, const Track& track, double begin_ms,
               double end_ms, const JsonObject& facts) {
    JsonObject event = Event("X", name, track);
    AddTime(event, begin_ms);
    event.Number("dur", std::max(0.0, end_ms - begin_ms) * kMicrosecondsInMillisecond, 3);
    Add(event.Text("cat", category).Object("args", facts));
  }

  void AddActivity(const Activity& activity, const TraceFacts& facts) {
    const Track track = tracks_.Of(activity);
    std::string name = activity.name;
    if (name.empty())
      name =
          IsOfStep(activity) ? schedule_.steps()[activity.mark - 1].name : ToString(activity.kind);
    AddSpan(CategoryOf(activity.kind), name, track, activity.begin_ms, activity.end_ms,
            facts.Of(activity, track.thread));
  }

  // The calls of the host backend's work. Nothing is known of a lost call.
  void AddCalls(const TracedSample& sample, const TraceFacts& facts) {
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
                   .end_ms = activity.enqueued_ms},
                  facts);
    }
  }

  void AddIdle(const Idle& idle, const TraceFacts& facts) {
    const char* const cause = ToString(idle.cause);
    AddSpan("gpu_user_annotation", fmt::format("idle: {}", cause), tracks_.idle(), idle.begin_ms,
            idle.end_ms, facts.About().Text("idle", cause));
  }

  void AddProfilerStep(std::size_t number, double begin_ms, double end_ms,
                       const TraceFacts& facts) {
    AddSpan("user_annotation", fmt::format("ProfilerStep#{}", number), tracks_.host(), begin_ms,
            end_ms, facts.About());
  }

  // What the enqueueing thread did.
  void AddHost(std::size_t index, const TracedSample& sample, const TraceFacts& facts) {
    const Moments& moments = sample.moments;
    AddProfilerStep(index, moments.begin_ms, moments.end_ms, facts);
    const auto add = [&](const std::string& name, double begin_ms, double end_ms,
                         std::uint64_t mark = 0) {
      AddSpan("user_annotation", name, tracks_.host(), begin_ms, end_ms, facts.About(mark));
    };
    add("enqueue", moments.enqueue.begin_ms, moments.enqueue.end_ms);
    for (const StepEnqueue& one : sample.enqueues)
      add("enqueue " + schedule_.steps()[one.step].name, one.begin_ms, one.end_ms, one.step + 1);
    add("meet", moments.gated() ? moments.enqueue.end_ms : moments.begin_ms, moments.met_ms);
    add("wait", moments.gated() ? moments.met_ms : moments.enqueue.end_ms, moments.end_ms);
  }

  // From a step to each that waits for it. An arrow starts inside the work that it comes from.
  void AddArrows(const StepRuns& runs) {
    constexpr double kInside_ms = 1e-6;
    for (const auto& [key, run] : runs) {
      const Schedule::Step& step = schedule_.steps()[key.first];
      for (const std::size_t earlier : step.options.after) {
        const auto from = runs.find({earlier, key.second});
        if (from == runs.end()) continue;
        const double from_ms = std::max(from->second.begin_ms, from->second.end_ms - kInside_ms);
        ++arrows_;
        AddArrowEnd("s", schedule_.steps()[earlier].lane, from_ms);
        AddArrowEnd("f", step.lane, run.begin_ms);
      }
    }
  }
  void AddArrowEnd(const char* phase, std::size_t lane, double at_ms) {
    constexpr std::uint64_t kOfARank = 1U << 31U;
    JsonObject event = Event(phase, "waits for", tracks_.lane(lane));
    AddTime(event, at_ms);
    event.Text("cat", "dependency");
    event.Count("id", static_cast<std::uint64_t>(trace_.rank) * kOfARank + arrows_);
    if (*phase == 'f') event.Text("bp", "e");
    Add(event);
  }

  // Viewers draw the readings of one name as a track of the process.
  void AddGauge(const GaugeReading& reading) {
    JsonObject event = Event("C", reading.name, tracks_.fork());
    AddTime(event, reading.at_ms);
    Add(event.Object("args", JsonObject().Number("value", reading.value, 3)));
  }

  void AddName(const char* of, const Track& track, const std::string& name) {
    Add(Event("M", of, track).Object("args", JsonObject().Text("name", name)));
  }

  static constexpr double kMicrosecondsInMillisecond = 1000;
  const RowTrace& trace_;
  const Schedule& schedule_;
  Tracks tracks_;
  std::string text_;
  std::uint64_t arrows_ = 0;
};

// The idle time of this rank in all samples.
JsonObject IdleOf_ms(const Breakdown& breakdown) {
  JsonObject causes;
  for (std::size_t i = 0; i < breakdown.idle_ms.size(); ++i)
    causes.Number(ToString(static_cast<IdleCause>(i)), breakdown.idle_ms.at(i), 6);
  return causes;
}

// The text before the events.
std::string Beginning(const RowTrace& trace, std::size_t written) {
  JsonObject about;
  about.Text("row", trace.row).Text("run", trace.run.name);
  about.Text("backend", ToString(trace.backend)).Count("samples", written);
  about.Count("left_out_samples", trace.samples.size() - written).Text("fault", trace.fault);
  about.Object("idle_ms", IdleOf_ms(trace.breakdown));
  return fmt::format(
      "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"rank\": {}, \"world_size\": {}}},\n"
      "\"displayTimeUnit\": \"ms\",\n\"overlapbench\": {},\n\"traceEvents\": [\n",
      trace.rank, trace.ranks, about.Line());
}

}  // namespace

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

}  // namespace overlapbench
