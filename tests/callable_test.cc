// Callables as workloads: on which thread they are called, with which arguments, and which one is
// named if it does not return.
#include "interface/callable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "device/host/host_stream.h"
#include "interface/measuring.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// Stands for a CUDA stream: nothing runs on it, and it has a native one.
class NativeStream : public Stream {
 public:
  void Record(Event& /*event*/) override {}
  void Wait(const Event& /*event*/) override {}
  void Copy(void* /*destination*/, const void* /*source*/, std::size_t /*bytes*/) override {}
  void Synchronize(std::chrono::milliseconds /*timeout*/, const std::string& /*what*/) override {}
  [[nodiscard]] void* native() const override { return const_cast<NativeStream*>(this); }
};

using Answering = std::function<int32_t(void* stream, overlapbench_answer& answer)>;

int32_t Call(void* context, void* stream, overlapbench_answer* answer) {
  return (*static_cast<Answering*>(context))(stream, *answer);
}

class CallableTest : public testing::Test {
 protected:
  CallableWorkload Make(bool verifies = false) {
    return {{.name = "mine",
             .callbacks = {Call, nullptr, verifies ? Call : nullptr},
             .context = &answering_},
            log_};
  }
  static std::string ErrorOf(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // The fault of a result with this error if 0.5 is allowed; "" if there is none.
  std::string FaultAt(double max_rel_err) {
    answering_ = [=](void*, overlapbench_answer& answer) {
      answer.max_rel_err = max_rel_err;
      answer.tolerance = 0.5;
      return 0;
    };
    return Make(true).Verify(stream_).fault;
  }

  CallLog log_;
  NativeStream stream_;
  Answering answering_;
};

TEST_F(CallableTest, IsCalledOnTheEnqueueingThreadForANativeStream) {
  std::thread::id thread;
  void* native = nullptr;
  answering_ = [&](void* stream, overlapbench_answer&) {
    thread = std::this_thread::get_id();
    native = stream;
    return 0;
  };
  Make().Enqueue(stream_);
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_EQ(native, &stream_);
}

TEST(NativeStreams, RunNoHostCode) {
  NativeStream stream;
  EXPECT_THROW(stream.Enqueue([] {}), Error);
  EXPECT_THROW(stream.EnqueueBlocks(1, [](int) {}), Error);
}

TEST_F(CallableTest, IsTheWorkItselfOnAHostStream) {
  std::thread::id thread = std::this_thread::get_id();
  answering_ = [&](void* stream, overlapbench_answer&) {
    EXPECT_EQ(stream, nullptr);
    thread = std::this_thread::get_id();
    return 0;
  };
  CallableWorkload workload = Make();
  HostStream stream(std::make_shared<CorePool>(1));
  workload.Enqueue(stream);
  stream.Synchronize(1000ms, "the test");
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(CallableTest, AFailureIsAnErrorThatNamesTheCallable) {
  answering_ = [](void*, overlapbench_answer& answer) {
    std::memset(answer.text, 'x', sizeof answer.text);  // without an end
    return 1;
  };
  EXPECT_EQ(ErrorOf([&] { Make().Enqueue(stream_); }),
            "mine: " + std::string(sizeof(overlapbench_answer::text) - 1, 'x'));
  answering_ = [](void*, overlapbench_answer&) { return 1; };
  EXPECT_EQ(ErrorOf([&] { Make().Enqueue(stream_); }), "mine: failed without a message");
}

TEST_F(CallableTest, RejectsErrorsBeyondTheToleranceAndNaN) {
  EXPECT_EQ(FaultAt(0.5), "");
  EXPECT_EQ(FaultAt(0.75), "mine: its relative error is 0.75, but at most 0.5 is allowed");
  EXPECT_NE(FaultAt(std::nan("")), "");
}

TEST_F(CallableTest, NamesACallableThatDoesNotReturn) {
  std::string blame;
  answering_ = [&](void*, overlapbench_answer&) {
    std::this_thread::sleep_for(30ms);
    EXPECT_EQ(log_.Blame(60'000ms), "");
    blame = log_.Blame(20ms);
    return 0;
  };
  Make().Enqueue(stream_);
  EXPECT_EQ(blame, "; 'mine' has not returned for 0.0 s");
  EXPECT_EQ(log_.Blame(0ms), "") << "it has returned";
}

// It looks all the time, so that no load makes a difference.
TEST_F(CallableTest, BlamesACallAtNineTenthsOfTheTimeout) {
  using Clock = std::chrono::steady_clock;
  const auto called = Clock::now();
  answering_ = [&](void*, overlapbench_answer&) {
    const auto begin = Clock::now();
    auto last = begin;  // that did not blame it
    for (auto look = begin; log_.Blame(50ms).empty(); look = Clock::now()) last = look;
    EXPECT_LE(last - begin, 45ms);
    EXPECT_GE(Clock::now() - called, 45ms);
    return 0;
  };
  Make().Enqueue(stream_);
}

class GivenUp : public CallableTest {
 protected:
  void SetUp() override {
    signals = 0;
    std::signal(SIGURG, [](int) { signals = signals + 1; });
  }
  void TearDown() override { std::signal(SIGURG, SIG_DFL); }
  // A callable that calls `look` after 30 ms.
  void LookInACall(const std::function<void()>& look) {
    answering_ = [look](void*, overlapbench_answer&) {
      std::this_thread::sleep_for(30ms);
      look();
      return 0;
    };
  }

  static inline volatile std::sig_atomic_t signals = 0;
};

TEST_F(GivenUp, ACallIsInterruptedOnceAndFailsWhenItReturns) {
  std::string early;
  std::string first;
  std::string second;
  LookInACall([&] {
    early = log_.GiveUp(60'000ms, "rank 1: ", SIGURG);
    first = log_.GiveUp(20ms, "rank 1: ", SIGURG);
    second = log_.GiveUp(20ms, "rank 1: ", SIGURG);
  });
  try {
    Make().Enqueue(stream_);
    ADD_FAILURE() << "it was given up";
  } catch (const FatalError& error) {
    EXPECT_EQ(error.what(), first);
    EXPECT_EQ(error.audience(), FatalError::kPrinted) << "the others have been told";
  }
  EXPECT_EQ(early, "");
  EXPECT_EQ(first,
            "rank 1: 'mine' has not returned for 0.0 s; if it compiles or connects, call it once "
            "before it is measured, or set a longer timeout_s");
  EXPECT_EQ(second, "");
  EXPECT_EQ(signals, 1);
  EXPECT_EQ(log_.Blame(20ms), "");
}

TEST_F(GivenUp, NoSignalIsSentWhereThereIsNone) {
  LookInACall([&] { EXPECT_NE(log_.GiveUp(20ms, "", 0), ""); });
  EXPECT_THROW(Make().Enqueue(stream_), FatalError);
  EXPECT_EQ(signals, 0);
}

TEST_F(GivenUp, ACallThatHasReturnedIsLeftAlone) {
  LookInACall([&] { EXPECT_EQ(log_.Overdue(20ms), "'mine' has not returned for 0.0 s"); });
  EXPECT_NO_THROW(Make().Enqueue(stream_));
  EXPECT_EQ(log_.Overdue(0ms), "");
  EXPECT_EQ(log_.GiveUp(0ms, "", SIGURG), "");
}

// Waits for a lane have their own timeout.
TEST_F(GivenUp, ACallOnALaneIsLeftAlone) {
  LookInACall([&] {
    EXPECT_EQ(log_.Overdue(20ms), "");
    EXPECT_EQ(log_.GiveUp(20ms, "", SIGURG), "");
  });
  CallableWorkload workload = Make();
  HostStream stream(std::make_shared<CorePool>(1));
  workload.Enqueue(stream);
  stream.Synchronize(1000ms, "the test");
  EXPECT_EQ(signals, 0);
}

// The last resort. A timeout that has passed long ago stands for a call that lasts far longer.
TEST(StuckCall, EndsTheProcess) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer reports races among OpenMPI's own threads";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stick = [] {
    Measuring measuring({"--backend=host", "--no-self-test", "--budget_ms=1"});
    const auto nothing = [](void*, void*, overlapbench_answer*) { return 0; };
    const auto hangs = [](void* suite, void*, overlapbench_answer*) -> int32_t {
      static_cast<Measuring*>(suite)->ranks().set_timeout(100ms - Watchdog::kMargin);
      std::this_thread::sleep_for(10'000ms);
      return 0;
    };
    UserRow row;
    row.kind = OVERLAPBENCH_ALONE;
    row.name = "mine";
    row.works = {{.name = "own", .callbacks = {nothing, hangs, nothing}, .context = &measuring}};
    measuring.Measure(row);
  };
  EXPECT_EXIT(stick(), testing::ExitedWithCode(1),
              "overlapbench: 'own' has not returned for 0.. s and cannot be interrupted: the "
              "process ends; call it once before it is measured, or set a longer timeout_s "
              ".Compute/mine/");
}

}  // namespace
}  // namespace overlapbench
