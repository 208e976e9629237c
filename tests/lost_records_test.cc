// Traces whose records are not those of the work that was enqueued: the row's breakdown is invalid
// on all ranks.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "row_traces.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""us;

class LostRecordsTest : public RowTraceTest {};
INSTANTIATE_ON_EACH_BACKEND(LostRecordsTest);

TEST_P(LostRecordsTest, AStepThatEnqueuesNothingIsAFaultOnAllRanks) {
  Behaviour idle;
  const auto delay = Delay("delay", WorkClass::kCompute, 100us)->make();
  idle.enqueue = [&](Stream& stream) {
    if (TestRanks().rank() > 0 || TestRanks().size() == 1) return;
    delay->Enqueue(stream);
  };
  Open(SoloRun(FakeWork("idler", WorkClass::kCompute, idle)));
  const RowTrace trace = Trace();
  EXPECT_NE(trace.fault.find("step 'idler' has no record"), std::string::npos) << trace.fault;
  EXPECT_EQ(SharesOf(trace), (Shares{{"breakdown_valid", 0}}));
}

// The last work to begin.
std::vector<Activity>::iterator LastWork(std::vector<Activity>& records) {
  return std::ranges::max_element(
      records, {}, [](const Activity& one) { return std::pair(IsWork(one.kind), one.begin_ms); });
}

// Loses the call of the last kernel to begin, and the mark that came with it.
class LosingWatch : public ActivityWatch {
 public:
  explicit LosingWatch(std::unique_ptr<ActivityWatch> watch) : watch_(std::move(watch)) {}
  void Mark(std::uint64_t mark) override { watch_->Mark(mark); }
  Activities Stop() override {
    Activities all = watch_->Stop();
    std::erase_if(all.records, [](const Activity& one) { return one.kind == ActivityKind::kCall; });
    const auto last = LastWork(all.records);
    last->mark = 0;
    last->call_ms = last->enqueued_ms = 0;
    return all;
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
};

TEST_P(LostRecordsTest, AKernelWithoutItsCallIsAFaultOfTheSampleInWhichItRan) {
  Run run{.name = "two"};
  const auto lane = run.schedule.AddLane({"lane"});
  const Work delay = Delay("delay", WorkClass::kCompute, 100us);
  run.schedule.Add(lane, delay);
  run.schedule.Add(lane, delay, {.name = "again"});
  Open(run);
  LosingWatch watch(device().watches().Activities());
  const RowTrace trace = TraceRow(session(), watch, kSamples);
  EXPECT_NE(trace.fault.find("has no record of its call"), std::string::npos) << trace.fault;
  EXPECT_EQ(SharesOf(trace), (Shares{{"breakdown_valid", 0}}));
}

// Loses the record of the last work of a step.
class ForgetfulWatch : public ActivityWatch {
 public:
  explicit ForgetfulWatch(std::unique_ptr<ActivityWatch> watch) : watch_(std::move(watch)) {}
  void Mark(std::uint64_t mark) override { watch_->Mark(mark); }
  Activities Stop() override {
    Activities all = watch_->Stop();
    all.records.erase(LastWork(all.records));
    return all;
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
};

TEST_P(LostRecordsTest, AStepWithFewerRecordsInOneSampleIsAFault) {
  Open(SoloRun(Delay("delay", WorkClass::kCompute, 100us)), "streaming");
  ForgetfulWatch watch(device().watches().Activities());
  const RowTrace trace = TraceRow(session(), watch, kSamples);
  EXPECT_NE(trace.fault.find("step 'delay' has 20 records in one sample and 19 in another"),
            std::string::npos)
      << trace.fault;
}

// Enqueues something on another stream when the last sample begins, as a thread that nobody knows
// of may.
class StrayWatch : public ActivityWatch {
 public:
  StrayWatch(std::unique_ptr<ActivityWatch> watch, Workload& stray, Stream& aside)
      : watch_(std::move(watch)), stray_(stray), aside_(aside) {}
  void Mark(std::uint64_t mark) override {
    constexpr std::uint64_t kMarks = 3;  // of a sample: no step, the step, the flush
    watch_->Mark(mark);
    if (mark == kSamples * kMarks && !std::exchange(has_strayed_, true)) stray_.Enqueue(aside_);
  }
  // On a busy machine the work may begin after the sample. A watch drops what ends after it.
  Activities Stop() override {
    aside_.Synchronize(kPatience, "the stray work");
    return watch_->Stop();
  }

 private:
  std::unique_ptr<ActivityWatch> watch_;
  Workload& stray_;
  Stream& aside_;
  bool has_strayed_ = false;
};

TEST_P(LostRecordsTest, WorkOfNoStepIsAFault) {
  const Work delay = Delay("delay", WorkClass::kCompute, 100us);
  const auto stray = delay->make();
  const auto aside = device().CreateStream();
  Open(SoloRun(delay));
  StrayWatch watch(device().watches().Activities(), *stray, *aside);
  const RowTrace trace = TraceRow(session(), watch, kSamples);
  EXPECT_NE(trace.fault.find("belongs to no step"), std::string::npos) << trace.fault;
  EXPECT_EQ(SharesOf(trace), (Shares{{"breakdown_valid", 0}}));
}

}  // namespace
}  // namespace overlapbench
