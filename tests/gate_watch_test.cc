// The watched gate opens on every way out, and after its timeout, and says so.
#include "fixtures/gate_watch.h"

#include <stdexcept>
#include <thread>

#include "backends.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kShort = 150ms;

class GateWatchTest : public OnEachBackend {
 protected:
  void SetUp() override {
    OnEachBackend::SetUp();
    if (!IsSkipped()) stream_ = device().CreateStream();
  }
  void ExpectFree() { EXPECT_NO_THROW(stream_->Synchronize(kPatience, "a free stream")); }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Stream> stream_;
};
INSTANTIATE_ON_EACH_BACKEND(GateWatchTest);

TEST_P(GateWatchTest, HoldsUntilItIsOpened) {
  const auto event = device().CreateEvent();
  GateWatch watch(device(), kPatience);
  GateWatch::Hold hold(watch, stream());
  stream().Record(*event);
  std::this_thread::sleep_for(kShort);
  EXPECT_FALSE(event->Done());
  EXPECT_NO_THROW(hold.Open());
  ExpectFree();
}

TEST_P(GateWatchTest, OpensWhenItsScopeIsLeft) {
  GateWatch watch(device(), kPatience);
  {
    const GateWatch::Hold hold(watch, stream());
  }
  ExpectFree();
}

TEST_P(GateWatchTest, OpensWhenAnExceptionLeavesItsScope) {
  GateWatch watch(device(), kPatience);
  const auto enqueue = [&] {
    const GateWatch::Hold hold(watch, stream());
    throw std::runtime_error("enqueueing failed");
  };
  EXPECT_THROW(enqueue(), std::runtime_error);
  ExpectFree();
}

// As if an enqueueing call needed the work behind the gate.
TEST_P(GateWatchTest, OpensAfterItsTimeoutAndReportsIt) {
  GateWatch watch(device(), kShort);
  GateWatch::Hold hold(watch, stream());
  ExpectFree();
  try {
    hold.Open();
    FAIL() << "the timeout was not reported";
  } catch (const FatalError& error) {
    EXPECT_NE(std::string(error.what()).find("150 ms"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("--gate=off"), std::string::npos) << error.what();
  }
}

TEST_P(GateWatchTest, CanBeClosedAgainAfterATimeout) {
  GateWatch watch(device(), kShort);
  {
    const GateWatch::Hold hold(watch, stream());
    ExpectFree();
  }
  GateWatch::Hold hold(watch, stream());
  EXPECT_NO_THROW(hold.Open());
  ExpectFree();
}

TEST_P(GateWatchTest, MeasuresItsTimeoutFromTheLastClosing) {
  GateWatch watch(device(), kShort);
  for (int i = 0; i < 6; ++i) {
    GateWatch::Hold hold(watch, stream());
    std::this_thread::sleep_for(kShort / 3);
    EXPECT_NO_THROW(hold.Open());
  }
  ExpectFree();
}

}  // namespace
}  // namespace overlapbench
