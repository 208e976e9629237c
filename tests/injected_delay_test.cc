// An injected delay: which benchmarks get it, what it leaves alone, and what is refused.
#include "benchmarks/injected_delay.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_workload.h"

namespace overlapbench {
namespace {

// Runs of two works, `in` and `comp`, and of each alone.
class InjectedDelayTest : public testing::Test {
 protected:
  InjectedDelayTest() {
    for (Behaviour* behaviour : {&in_, &comp_}) behaviour->fault = [] { return "its own fault"; };
    comp_.fingerprint = 7;
    comp_.enqueue_waits = true;
    comp_.knob_fault = "its own knob";
    comp_.gate_advice = "its own advice";
    comp_.sms = 3;
    comp_.cost.flops = 5;
    delay_.enqueue = [this](Stream&) { log_ += "delay "; };
    WorkloadSpec delay = FakeSpec("Delay", WorkClass::kCompute, delay_);
    delay.axes = {IntegerAxis("delay_us", "", 1, 1000, "10")};
    delay.make = [this, make = delay.make](const Settings& settings) {
      delays_us_.push_back(settings.Integer("delay_us"));
      return make(settings);
    };
    registry_.Add(delay);
    for (const auto* name : {"Copy/Work/n:1/cache:cold", "Copy/Work/n:2/cache:cold"})
      benchmarks_.push_back({name, {}, [this](const Settings&) { return Runs(); }, {}});
  }

  // A workload in parts that logs what is enqueued.
  class Noted : public FakeWorkload {
   public:
    Noted(const Behaviour& behaviour, std::string name, std::string& log)
        : FakeWorkload(behaviour), name_(std::move(name)), log_(log) {}
    void Enqueue(Stream& /*stream*/) override { log_ += name_ + " "; }
    void EnqueuePart(Stream& /*stream*/, const Part& part) override {
      log_ += name_ + std::to_string(part.index) + "/" + std::to_string(part.count) + " ";
    }

   private:
    std::string name_;
    std::string& log_;
  };

  Work WorkOf(const std::string& name, WorkClass work_class, const Behaviour& behaviour) {
    WorkPlan plan{.name = name, .work_class = work_class};
    plan.make = [this, name, &behaviour] { return std::make_unique<Noted>(behaviour, name, log_); };
    return std::make_shared<const WorkPlan>(std::move(plan));
  }
  std::vector<overlapbench::Run> Runs() {
    overlapbench::Run both{.name = "both"};
    const std::size_t lane = both.schedule.AddLane({"lane"});
    const Work in = WorkOf("in", WorkClass::kMemory, in_);
    const Work comp = WorkOf("comp", comp_class_, comp_);
    for (long part = 0; part < 2; ++part) {
      both.schedule.Add(lane, in, {.part = {part, 2}});
      both.schedule.Add(lane, comp, {.part = {part, 2}});
    }
    return WithSoloRuns(both);
  }
  [[nodiscard]] std::vector<overlapbench::Run> RunsOf(std::size_t benchmark) const {
    return MakeRuns(benchmarks_.at(benchmark));
  }
  // The log of enqueueing this run.
  std::string Enqueued(const overlapbench::Run& run) {
    const auto device = OpenHostDevice(1);
    const auto stream = device->CreateStream();
    log_.clear();
    for (const Schedule::Step& step : run.schedule.steps())
      step.work->make()->EnqueuePart(*stream, step.options.part);
    return log_;
  }

  std::string Refusal(const std::string& flag) {
    try {
      InjectDelay(flag, registry_, benchmarks_);
    } catch (const UsageError& error) {
      return error.what();
    }
    ADD_FAILURE() << "taken: " << flag;
    return "";
  }

  std::string log_;
  std::vector<long> delays_us_;
  Behaviour in_;
  Behaviour comp_;
  WorkClass comp_class_ = WorkClass::kCompute;
  Behaviour delay_;
  Registry registry_;
  std::vector<Benchmark> benchmarks_;
};

// The computation of the row's own run, wherever else it runs, and no other benchmark's.
TEST_F(InjectedDelayTest, FollowsTheComputationInEveryRunOfAMatchingBenchmark) {
  InjectDelay("n:2/:250", registry_, benchmarks_);
  const auto others = RunsOf(0);
  EXPECT_EQ(Enqueued(others[2]), "in0/2 comp0/2 in1/2 comp1/2 ");
  const auto runs = RunsOf(1);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(Enqueued(runs[0]), "in0/2 in1/2 ");
  EXPECT_EQ(Enqueued(runs[1]), "comp0/2 comp1/2 delay ");
  EXPECT_EQ(Enqueued(runs[2]), "in0/2 comp0/2 in1/2 comp1/2 delay ");
  EXPECT_FALSE(delays_us_.empty());
  for (const long delay_us : delays_us_) EXPECT_EQ(delay_us, 250);
}

TEST_F(InjectedDelayTest, FollowsAWholeWorkToo) {
  InjectDelay("n:2/:250", registry_, benchmarks_);
  const Work delayed = RunsOf(1)[1].schedule.works()[0];
  const auto device = OpenHostDevice(1);
  const auto stream = device->CreateStream();
  delayed->make()->Enqueue(*stream);
  EXPECT_EQ(log_, "comp delay ");
}

TEST_F(InjectedDelayTest, FollowsTheFirstWorkIfThereIsNoComputation) {
  comp_class_ = WorkClass::kComm;
  InjectDelay("n:2/:250", registry_, benchmarks_);
  const auto runs = RunsOf(1);
  EXPECT_EQ(Enqueued(runs[1]), "comp0/2 comp1/2 ");
  EXPECT_EQ(Enqueued(runs[2]), "in0/2 comp0/2 in1/2 delay comp1/2 ");
}

TEST_F(InjectedDelayTest, DelegatesEverythingElseToTheWork) {
  std::string called;
  comp_.connect = [&] { called += "connect "; };
  comp_.reset = [&] { called += "reset "; };
  comp_.poison = [&] { called += "poison "; };
  InjectDelay("Work:1", registry_, benchmarks_);
  const auto runs = RunsOf(0);
  EXPECT_EQ(runs.back().name, "both");
  const Work delayed = runs[1].schedule.works()[0];
  EXPECT_EQ(delayed->name, "comp");
  EXPECT_EQ(delayed->work_class, WorkClass::kCompute);
  const auto device = OpenHostDevice(1);
  const auto stream = device->CreateStream();
  const auto workload = delayed->make();
  EXPECT_EQ(workload->Verify(*stream).fault, "its own fault");
  EXPECT_EQ(workload->Fingerprint(), 7U);
  EXPECT_TRUE(workload->enqueue_waits());
  EXPECT_EQ(workload->IneffectiveKnob(), "its own knob");
  EXPECT_EQ(workload->cost().flops, 5);
  EXPECT_EQ(workload->gate_advice(), "its own advice");
  EXPECT_EQ(workload->sms(), 3);
  EXPECT_EQ(workload->Observed(), std::nullopt);
  workload->Connect();
  workload->Reset(*stream);
  workload->PoisonResult(*stream);
  EXPECT_EQ(called, "connect reset poison ");
}

TEST_F(InjectedDelayTest, RefusesMalformedDelaysAndThoseThatMatchNothing) {
  EXPECT_EQ(Refusal("Work"), "--inject_delay takes REGEX:MICROSECONDS, got 'Work'");
  EXPECT_EQ(Refusal("Work:soon"),
            "--inject_delay: microseconds: 'soon' is not a whole number from 1 to 1000");
  EXPECT_EQ(Refusal("Work:0"),
            "--inject_delay: microseconds: '0' is not a whole number from 1 to 1000");
  EXPECT_EQ(Refusal("(:5"), "--inject_delay: '(' is not a regular expression");
  EXPECT_EQ(Refusal("n:3/:5"),
            "--inject_delay=n:3/:5 matches none of the benchmarks that were chosen");
}

}  // namespace
}  // namespace overlapbench
