// The files of --trace_out: JSON whatever names say, one file for each row and rank, bounded in
// size, written whole.
#include "report/trace_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "json.h"
#include "report/trace_json.h"

namespace overlapbench {
namespace {

// What a test does before an fsync: the file then has its text, but not its name.
std::function<void()>& BeforeFlush() {
  static std::function<void()> task;
  return task;
}

}  // namespace

// Takes the place of the C library's fsync in this program.
int InsteadOfFsync(int descriptor) asm("fsync");
int InsteadOfFsync(int descriptor) {
  if (BeforeFlush()) BeforeFlush()();
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace {

// A product, and two further lanes whose work waits for it.
RowTrace TwoLanes() {
  RowTrace trace{.row = "Family/A+B/bytes:1024", .run = {.name = "overlapped"}};
  trace.backend = Backend::kHost;
  trace.clock_offset_ms = 1000;
  WorkPlan plan{.name = "product"};
  const auto product = std::make_shared<const WorkPlan>(plan);
  plan.name = "sum";
  plan.work_class = WorkClass::kComm;
  const auto sum = std::make_shared<const WorkPlan>(plan);
  Schedule& schedule = trace.run.schedule;
  const auto comp = schedule.AddLane({"comp"});
  const auto comm = schedule.AddLane({"comm"});
  const auto first = schedule.Add(comp, product);
  schedule.Add(comm, sum, {.after = {first}});
  trace.step_bytes = {std::nullopt, 8192};
  trace.sm_sets = {{comp, {0, 1, 2, 5, 7, 8}}};
  TracedSample sample;
  sample.moments = {.begin_ms = 1, .enqueue = {1.5, 2}, .met_ms = 3, .end_ms = 10};
  sample.begin_ms = 3;
  sample.end_ms = 9;
  sample.enqueues = {{0, 1.6, 1.7}, {1, 1.7, 1.8}};
  sample.flush = {{.kind = ActivityKind::kCopy, .begin_ms = 1.1, .end_ms = 1.2}};
  sample.activities = {
      {.kind = ActivityKind::kGate, .begin_ms = 1.5, .end_ms = 3},
      {.name = "gemm<float>",
       .mark = 1,
       .stream = 7,
       .correlation = 11,
       .call_ms = 1.65,
       .enqueued_ms = 1.66,
       .begin_ms = 3,
       .end_ms = 6.25,
       .blocks = 64},
      {.kind = ActivityKind::kWait, .mark = 2, .stream = 8, .begin_ms = 3, .end_ms = 6.25},
      {.kind = ActivityKind::kCopy,
       .mark = 2,
       .stream = 8,
       .correlation = 12,
       .call_ms = 1.75,
       .enqueued_ms = 1.76,
       .begin_ms = 6.3,
       .end_ms = 9,
       .bytes = 4096},
      {.name = "cudaMemcpyAsync",
       .kind = ActivityKind::kCall,
       .mark = 2,
       .correlation = 12,
       .begin_ms = 1.75,
       .end_ms = 1.76}};
  trace.samples = {sample};
  return trace;
}

std::vector<Json> EventsOf(const RowTrace& trace) {
  return JsonReader::Read(TraceJson(trace)).At("traceEvents").items;
}
std::vector<Json> Named(const std::vector<Json>& events, const std::string& name) {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event.At("name").text == name) found.push_back(event);
  return found;
}

// Rank 1 of 3: one sample behind a gate and one without, with every kind of event.
RowTrace EveryKind() {
  RowTrace trace = TwoLanes();
  trace.rank = 1;
  trace.ranks = 3;
  trace.fault = "a fault";
  trace.breakdown.idle_ms = {0.25, 0.5, 1, 2, 4};
  Schedule& schedule = trace.run.schedule;
  const Work product = schedule.steps()[0].work;
  const auto away = schedule.AddLane({.name = "away", .sms = 8, .rank = 0});
  const auto last = schedule.AddLane({.name = "last", .sms = 1, .rank = 1});
  schedule.Add(away, product, {.name = "elsewhere"});
  schedule.Add(last, product, {.after = {0, 1}, .name = "end"});
  trace.step_bytes = {16, 8192, std::nullopt, 32};
  trace.sm_sets[last] = {0, 1, 2};
  TracedSample& first = trace.samples[0];
  first.enqueues.push_back({3, 1.8, 1.9});
  first.gauges = {{"sm_clock_MHz", 3.5, 1980}};
  first.activities.push_back({.kind = ActivityKind::kWait,
                              .mark = 4,
                              .stream = 9,
                              .begin_ms = 9,
                              .end_ms = 8.5,
                              .is_derived = true});
  for (const std::uint64_t stream : {9UL, 0x700000005UL, 9UL})
    first.activities.push_back({.kind = ActivityKind::kFill,
                                .mark = 4,
                                .stream = stream,
                                .correlation = 13,
                                .call_ms = 1.85,
                                .enqueued_ms = 1.875,
                                .begin_ms = 9.25,
                                .end_ms = 9.5,
                                .bytes = 64});
  TracedSample second;
  second.moments = {.begin_ms = 20, .enqueue = {22, 23}, .met_ms = 21, .end_ms = 30};
  second.begin_ms = 22.5;
  second.end_ms = 29;
  second.enqueues = {{0, 22, 22.5}};
  second.activities = {{.kind = ActivityKind::kKernel,
                        .mark = 1,
                        .stream = 8,
                        .correlation = 21,
                        .call_ms = 22.25,
                        .enqueued_ms = 22.375,
                        .begin_ms = 24,
                        .end_ms = 24.0000005,
                        .peer = 2},
                       {.mark = 4, .stream = 9, .begin_ms = 25, .end_ms = 26, .blocks = 3},
                       {.stream = 9, .call_ms = 0.5, .begin_ms = 27, .end_ms = 28}};
  trace.samples.push_back(second);
  return trace;
}

// To be compared line by line if it differs.
TEST(TraceFile, IsThisDocument) {
  std::ostringstream wanted;
  wanted << std::ifstream(TEST_DATA "/every_kind.trace.json").rdbuf();
  EXPECT_EQ(TraceJson(EveryKind()), wanted.str());
}

TEST(TraceFile, HasWorkWithItsStepLaneAndTimes) {
  const auto events = EventsOf(TwoLanes());
  const auto kernels = Named(events, "gemm<float>");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].At("cat").text, "kernel");
  EXPECT_EQ(kernels[0].At("ts").number, 1003000);
  EXPECT_EQ(kernels[0].At("dur").number, 3250);
  const Json& args = kernels[0].At("args");
  EXPECT_EQ(args.At("class").text, "COMP");
  EXPECT_EQ(args.At("step").text, "product");
  EXPECT_EQ(args.At("lane").text, "comp");
  EXPECT_EQ(args.At("row").text, "Family/A+B/bytes:1024");
  EXPECT_EQ(args.At("run").text, "overlapped");
  EXPECT_EQ(args.At("blocks").number, 64);
  EXPECT_EQ(args.At("correlation").number, 11);
  EXPECT_FALSE(args.Has("step_bytes")) << "not known";
  EXPECT_EQ(args.At("sm_set").text, "0-2,5,7-8");
  EXPECT_EQ(args.At("stream").number, kernels[0].At("tid").number);
  bool has_copy = false;
  for (const Json& event : events) {
    if (event.At("ph").text != "X" || event.At("cat").text != "gpu_memcpy") continue;
    EXPECT_FALSE(has_copy) << "the flush is no work of the row";
    has_copy = true;
    EXPECT_EQ(event.At("name").text, "sum") << "a copy without a name";
    EXPECT_EQ(event.At("args").At("class").text, "COMM");
    EXPECT_EQ(event.At("args").At("bytes").number, 4096);
    EXPECT_EQ(event.At("args").At("step_bytes").number, 8192);
    EXPECT_FALSE(event.At("args").Has("sm_set")) << "its lane is not limited";
  }
  EXPECT_TRUE(has_copy);
}

// What moved the data, between which GPUs and with how many SMs; on the host backend, a core.
TEST(TraceFile, NamesTheEngineOfTheWork) {
  const auto told = [](const RowTrace& trace) {
    std::vector<std::string> facts;
    for (const Json& event : EventsOf(trace)) {
      if (event.At("ph").text != "X") continue;
      const std::string& category = event.At("cat").text;
      if (category != "kernel" && category != "gpu_memcpy") continue;
      const Json& args = event.At("args");
      std::string fact = args.At("engine").text;
      for (const char* name : {"peer", "sms"})
        if (args.Has(name)) fact += fmt::format(" {}:{}", name, args.At(name).number);
      facts.push_back(fact);
    }
    return facts;
  };
  RowTrace trace = TwoLanes();
  EXPECT_EQ(told(trace), (std::vector<std::string>{"core", "core"}));
  trace.backend = Backend::kCuda;
  EXPECT_EQ(told(trace), (std::vector<std::string>{"SM", "SM"}));
  Schedule limited;
  for (const Schedule::Lane& lane : trace.run.schedule.lanes()) {
    Schedule::Lane own = lane;
    own.sms = lane.name == "comp" ? 16 : 0;
    limited.AddLane(own);
  }
  for (const Schedule::Step& step : trace.run.schedule.steps())
    limited.Add(step.lane, step.work, step.options);
  trace.run.schedule = limited;
  for (Activity& activity : trace.samples[0].activities) {
    if (activity.mark != 2 || activity.kind != ActivityKind::kCopy) continue;
    activity.by_copy_engine = true;
    activity.peer = 1;
  }
  EXPECT_EQ(told(trace), (std::vector<std::string>{"SM sms:16", "copy peer:1"}));
}

// With two ranks, the other one. With more, the other end of a send or receive, or all.
TEST(TraceFile, CommunicationsNameTheirPeer) {
  RowTrace trace = TwoLanes();
  trace.rank = 1;
  trace.ranks = 4;
  Schedule& schedule = trace.run.schedule;
  const Work sum = schedule.steps()[1].work;
  const auto sender = schedule.AddLane({.name = "out", .rank = 1});
  const auto receiver = schedule.AddLane({.name = "in", .rank = 3});
  const auto sent = schedule.Add(sender, sum, {.name = "send"});
  schedule.Add(receiver, sum, {.other_end = sent, .name = "receive"});
  trace.step_bytes.resize(schedule.steps().size());
  for (const std::uint64_t mark : {3, 4})
    trace.samples[0].activities.push_back({.mark = mark, .stream = mark, .begin_ms = 4});
  const auto peers_of = [](const RowTrace& told) {
    std::map<std::string, std::string> peers;  // by step
    for (const Json& event : EventsOf(told)) {
      if (event.At("ph").text != "X" || !event.At("args").Has("engine")) continue;
      const Json& args = event.At("args");
      if (!args.Has("peer")) continue;
      const Json& peer = args.At("peer");
      peers[args.At("step").text] = peer.text.empty() ? fmt::format("{}", peer.number) : peer.text;
    }
    return peers;
  };
  using Peers = std::map<std::string, std::string>;
  EXPECT_EQ(peers_of(trace), (Peers{{"sum", "all"}, {"send", "3"}, {"receive", "1"}}));
  trace.samples[0].activities[3].peer = 2;  // a copy of the sum, as its record says
  EXPECT_EQ(peers_of(trace)["sum"], "2");
  trace.ranks = 2;
  EXPECT_EQ(peers_of(trace), (Peers{{"sum", "0"}, {"send", "0"}, {"receive", "0"}}));
  trace.ranks = 1;
  trace.rank = 0;
  trace.samples[0].activities[3].peer.reset();
  EXPECT_EQ(peers_of(trace), (Peers{{"send", "3"}, {"receive", "1"}}));
  RowTrace alone = TwoLanes();  // one that nothing precedes
  alone.ranks = 2;
  alone.run.schedule = Schedule();
  alone.run.schedule.Add(alone.run.schedule.AddLane({"comm"}), sum);
  alone.step_bytes = {std::nullopt};
  alone.sm_sets.clear();
  alone.samples[0].enqueues.clear();
  alone.samples[0].activities = {{.mark = 1, .begin_ms = 3, .end_ms = 4}};
  EXPECT_EQ(peers_of(alone), (Peers{{"sum", "1"}}));
}

// Such work is a fault, but is shown anyway, without a class.
TEST(TraceFile, WorkOfNoStepIsOnTheForksTrack) {
  RowTrace trace = TwoLanes();
  trace.samples[0].activities.push_back({.name = "stray",
                                         .stream = 9,
                                         .correlation = 13,
                                         .call_ms = 2,
                                         .enqueued_ms = 2.1,
                                         .begin_ms = 4,
                                         .end_ms = 5});
  const auto strays = Named(EventsOf(trace), "stray");
  ASSERT_EQ(strays.size(), 1U);
  EXPECT_EQ(strays[0].At("tid").number, 0);
  EXPECT_FALSE(strays[0].At("args").Has("class"));
  EXPECT_FALSE(strays[0].At("args").Has("step"));
}

// A lost call is not invented.
TEST(TraceFile, WorkWithoutItsCallHasNone) {
  RowTrace trace = TwoLanes();
  trace.samples[0].activities[1].call_ms = trace.samples[0].activities[1].enqueued_ms = 0;
  for (const Json& event : EventsOf(trace)) {
    if (event.At("ph").text != "X" || event.At("cat").text != "cuda_runtime") continue;
    EXPECT_NE(event.At("args").At("correlation").number, 11);
  }
}

// HTA treats any event with a stream as a kernel, and ignores work without a call.
TEST(TraceFile, OnlyWorkHasAStreamAndEachHasItsCall) {
  std::set<double> works;
  std::set<double> calls;
  for (const Json& event : EventsOf(TwoLanes())) {
    if (event.At("ph").text != "X") continue;
    const Json& args = event.At("args");
    const std::string& category = event.At("cat").text;
    const bool is_work = category == "kernel" || category == "gpu_memcpy";
    EXPECT_EQ(args.Has("stream"), is_work) << event.At("name").text;
    if (is_work) works.insert(args.At("correlation").number);
    if (category == "cuda_runtime") calls.insert(args.At("correlation").number);
  }
  EXPECT_EQ(works.size(), 2U);
  EXPECT_EQ(works, calls);
}

TEST(TraceFile, WaitsAndGatesAreMarked) {
  const auto events = EventsOf(TwoLanes());
  ASSERT_EQ(Named(events, "wait").size(), 2U);  // of the host, and of the stream
  ASSERT_EQ(Named(events, "gate").size(), 1U);
  EXPECT_EQ(Named(events, "gate")[0].At("args").At("class").text, "GATE");
  EXPECT_EQ(Named(events, "gate")[0].At("tid").number, 0);
}

// Readers need no rule of their own.
TEST(TraceFile, StatesWhyNothingRan) {
  RowTrace trace = TwoLanes();
  trace.samples[0].idle = {{IdleCause::kDependency, 6.25, 6.3}};
  const auto events = EventsOf(trace);
  const auto idle = Named(events, "idle: dependency");
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_EQ(idle[0].At("args").At("idle").text, "dependency");
  EXPECT_EQ(idle[0].At("ts").number, 1006250);
  EXPECT_EQ(idle[0].At("dur").number, 50);
  for (const Json& thread : Named(events, "thread_name")) {
    if (thread.At("pid").number != 0) continue;
    EXPECT_EQ(thread.At("args").At("name").text == "idle",
              thread.At("tid").number == idle[0].At("tid").number);
  }
}

TEST(TraceFile, AnArrowLeadsFromAStepToItsWaiter) {
  const auto ends = Named(EventsOf(TwoLanes()), "waits for");
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].At("ph").text, "s");
  EXPECT_EQ(ends[1].At("ph").text, "f");
  EXPECT_EQ(ends[0].At("id").number, ends[1].At("id").number);
  EXPECT_LT(ends[0].At("ts").number, 1006250);  // inside the work
  EXPECT_EQ(ends[1].At("ts").number, 1006300);
  EXPECT_NE(ends[0].At("tid").number, ends[1].At("tid").number);
}

// The parts of one communication have its number, in the files of all ranks.
TEST(TraceFile, CommunicationsHaveNumbers) {
  RowTrace trace = TwoLanes();
  Schedule& schedule = trace.run.schedule;
  const Work sum = schedule.steps()[1].work;
  const auto sender = schedule.AddLane({.name = "out", .rank = 0});
  const auto receiver = schedule.AddLane({.name = "in", .rank = 1});
  const auto sent = schedule.Add(sender, sum, {.name = "send"});
  schedule.Add(receiver, sum, {.other_end = sent, .name = "receive"});
  trace.step_bytes.resize(schedule.steps().size());
  for (const std::uint64_t mark : {3, 4})
    trace.samples[0].activities.push_back({.mark = mark, .stream = mark, .begin_ms = 4});
  trace.samples.resize(2, trace.samples[0]);
  std::map<std::string, std::vector<double>> numbers;  // by step
  for (const Json& event : EventsOf(trace)) {
    if (event.At("ph").text != "X" || !event.At("args").Has("class")) continue;
    const Json& args = event.At("args");
    EXPECT_EQ(args.Has("communication"), args.At("class").text == "COMM");
    if (args.Has("communication"))
      numbers[args.At("step").text].push_back(args.At("communication").number);
  }
  EXPECT_EQ(numbers["sum"], (std::vector<double>{2, 6}));
  EXPECT_EQ(numbers["send"], (std::vector<double>{3, 7}));
  EXPECT_EQ(numbers["receive"], numbers["send"]);
}

TEST(TraceFile, GaugesAreCounterTracks) {
  RowTrace trace = TwoLanes();
  trace.rank = 2;
  trace.samples[0].gauges = {{"sm_clock_MHz", 3.5, 1980}, {"nvlink_sent_GBps", 4, 0.0625}};
  const auto events = EventsOf(trace);
  const auto clocks = Named(events, "sm_clock_MHz");
  ASSERT_EQ(clocks.size(), 1U);
  EXPECT_EQ(clocks[0].At("ph").text, "C");
  EXPECT_EQ(clocks[0].At("pid").number, 4) << "the rank's device";
  EXPECT_EQ(clocks[0].At("ts").number, 1003500) << "of the common clock";
  EXPECT_EQ(clocks[0].At("args").At("value").number, 1980);
  const auto sent = Named(events, "nvlink_sent_GBps");
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_NEAR(sent[0].At("args").At("value").number, 0.0625, 0.001);
}

TEST(TraceFile, AProfilerStepFollowsTheLastSample) {
  const auto events = EventsOf(TwoLanes());
  ASSERT_EQ(Named(events, "ProfilerStep#0").size(), 1U);
  ASSERT_EQ(Named(events, "ProfilerStep#1").size(), 1U);
  EXPECT_GE(Named(events, "ProfilerStep#1")[0].At("ts").number,
            Named(events, "ProfilerStep#0")[0].At("ts").number +
                Named(events, "ProfilerStep#0")[0].At("dur").number);
}

TEST(TraceFile, ASecondStreamOfALaneHasItsOwnTrack) {
  RowTrace trace = TwoLanes();
  trace.samples[0].activities[3].stream = 9;
  trace.samples[0].activities.push_back({.mark = 2, .stream = 10, .begin_ms = 7, .end_ms = 8});
  const auto threads = Named(EventsOf(trace), "thread_name");
  std::set<double> tids;
  for (const Json& thread : threads)
    if (thread.At("pid").number == 0) tids.insert(thread.At("tid").number);
  EXPECT_EQ(tids.size(), 6U);  // fork, two lanes, idle, 9 and 10 of the second, which waited on 8
}

// HTA looks for it with this pattern, line by line, and takes the first.
TEST(TraceFile, HtaFindsTheRank) {
  RowTrace trace = TwoLanes();
  trace.rank = 3;
  const std::string text = TraceJson(trace);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, std::regex(R"re("rank":\s+(\d+))re")));
  EXPECT_EQ(found[1], "3");
  EXPECT_EQ(found.position(0), static_cast<std::ptrdiff_t>(text.find("\"rank\"")));
}

TEST(TraceFile, IsValidJsonForAnyNames) {
  RowTrace trace = TwoLanes();
  const std::string hostile = "a\"b\\c\n\t\x01</script>{{}}%s\xc3\xa9";
  trace.row = trace.run.name = trace.fault = hostile;
  trace.samples[0].activities[1].name = hostile;
  const auto events = EventsOf(trace);
  EXPECT_EQ(Named(events, "a\"b\\c   </script>{{}}%s\xc3\xa9").size(), 1U);
}

TEST(TraceFile, OmitsSamplesThatDoNotFit) {
  RowTrace trace = TwoLanes();
  trace.samples.resize(10, trace.samples[0]);
  const auto samples = [&](std::size_t most_bytes) {
    return JsonReader::Read(TraceJson(trace, most_bytes)).At("overlapbench").At("samples").number;
  };
  const Json whole = JsonReader::Read(TraceJson(trace));
  EXPECT_EQ(whole.At("overlapbench").At("samples").number, 10);
  EXPECT_EQ(whole.At("overlapbench").At("left_out_samples").number, 0);
  const std::size_t bytes = TraceJson(trace).size();
  EXPECT_EQ(samples(bytes), 10);
  EXPECT_EQ(samples(bytes - 1), 9);
  trace.samples.resize(3);
  const std::size_t of_three = TraceJson(trace).size();
  const std::string cut = TraceJson(trace, of_three * 2 / 3);
  EXPECT_LT(cut.size(), of_three * 4 / 5);
  const Json document = JsonReader::Read(cut);
  EXPECT_EQ(document.At("overlapbench").At("samples").number, 1);
  EXPECT_EQ(document.At("overlapbench").At("left_out_samples").number, 2);
  EXPECT_EQ(samples(10), 0);
  trace.samples.clear();
  EXPECT_TRUE(Named(EventsOf(trace), "ProfilerStep#0").empty());
}

TEST(TraceFileName, IsReadableAndSafe) {
  EXPECT_EQ(TraceFileName("Overlap/AllToAll+Gemm/bytes:1024", 2),
            "Overlap,AllToAll+Gemm,bytes=1024.rank2.json");
  EXPECT_EQ(TraceFileName("azAZ09+-._", 10), "azAZ09+-._.rank10.json");
  EXPECT_EQ(TraceFileName("`{@[;\xff", 0),
            "______-bd90ff43a6c05067.rank0.json");  // the hash is FNV-1a
  EXPECT_EQ(TraceFileName(".x", 0).substr(0, 3), "_x-");
  EXPECT_EQ(TraceFileName(std::string(200, 'x'), 0), std::string(200, 'x') + ".rank0.json");
  EXPECT_EQ(TraceFileName(std::string(201, 'x'), 0),
            std::string(200, 'x') + "-3631500d06f3bba7.rank0.json");
  for (const std::string& row :
       {std::string("../../etc/passwd"), std::string("a\nb"), std::string(1000, 'x'),
        std::string("\xff\x00/", 3), std::string("<b>"), std::string()}) {
    const std::string name = TraceFileName(row, 0);
    EXPECT_TRUE(std::regex_match(name, std::regex("[A-Za-z0-9_,=+-][A-Za-z0-9_,=+.-]*"))) << name;
    EXPECT_LT(name.size(), 255U);
  }
  const std::string longer(300, 'x');
  const std::set<std::string> names = {TraceFileName("a,b", 0),  TraceFileName("a/b", 0),
                                       TraceFileName("a=b", 0),  TraceFileName("a_b", 0),
                                       TraceFileName("a:b", 0),  TraceFileName("a b", 0),
                                       TraceFileName(longer, 0), TraceFileName(longer + "y", 0)};
  EXPECT_EQ(names.size(), 8U);
}

class TraceFilesTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override {
    BeforeFlush() = {};
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::vector<std::string> Listed() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    return names;
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("traces." + std::to_string(getpid()));
};

TEST_F(TraceFilesTest, CreatesItsFolderAndReplacesWholeFiles) {
  TraceFiles files(folder_ / "deep");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "deep"));
  RowTrace trace = TwoLanes();
  files.Write(trace);
  trace.run.name = "again";
  files.Write(trace);
  folder_ /= "deep";
  ASSERT_EQ(Listed(), std::vector<std::string>{"Family,A+B,bytes=1024.rank0.json"});
  std::ifstream file(folder_ / Listed()[0]);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), TraceJson(trace));
  folder_ = folder_.parent_path();
}

// As where one rank dies while another one writes.
TEST_F(TraceFilesTest, ARunThatEndsWaitsForAWholeFileAndBeginsNone) {
  TraceFiles files(folder_);
  std::future<std::vector<std::string>> left;
  BeforeFlush() = [&] {
    left = std::async(std::launch::async, [&] {
      files.Abandon();
      return Listed();
    });
    left.wait_for(std::chrono::milliseconds(50));
  };
  RowTrace trace = TwoLanes();
  files.Write(trace);
  const std::vector<std::string> whole = {"Family,A+B,bytes=1024.rank0.json"};
  EXPECT_EQ(left.get(), whole);
  BeforeFlush() = {};
  trace.row = "Family/Next";
  files.Write(trace);
  EXPECT_EQ(Listed(), whole);
}

TEST_F(TraceFilesTest, RefusesAFolderThatCannotBeCreated) {
  std::filesystem::create_directory(folder_);
  std::ofstream(folder_ / "file") << "x";
  for (const auto& path : {folder_ / "file", folder_ / "file" / "folder"})
    EXPECT_THROW(TraceFiles{path}, UsageError) << path;
  try {
    const TraceFiles files("/proc/traces");
    FAIL() << "nothing can be written there";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "cannot write to the folder /proc/traces: No such file or directory");
  }
}

}  // namespace
}  // namespace overlapbench
