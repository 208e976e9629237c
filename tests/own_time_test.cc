// The shortest time of work alone, by a device whose clock shows given times.
#include "workload/own_time.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test_ranks.h"
#include "tests/forwarding_device.h"
#include "watched_stream.h"

namespace overlapbench {
namespace {

// What is asked of the stream and of the clock, in order.
class NotingStream : public WatchedStream {
 public:
  NotingStream(Stream& stream, std::string& noted) : WatchedStream(stream), noted_(noted) {}
  void Record(Event& event) override {
    noted_ += "record ";
    WatchedStream::Record(event);
  }
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override {
    noted_ += what + " ";
    WatchedStream::Synchronize(timeout, what);
  }

 private:
  std::string& noted_;
};

class ClockedDevice : public ForwardingDevice {
 public:
  ClockedDevice(std::vector<double> times_ms, std::string& noted)
      : ForwardingDevice(OpenHostDevice(1)), times_ms_(std::move(times_ms)), noted_(noted) {}
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    noted_ += ForwardingDevice::ElapsedMs(from, to) > 0 ? "read. " : "read backwards. ";
    return times_ms_.at(read_++);
  }

 private:
  std::vector<double> times_ms_;
  std::string& noted_;
  mutable std::size_t read_ = 0;
};

TEST(ShortestTime, IsOfTheRunsBetweenTheEvents) {
  std::string noted;
  ClockedDevice device({5, 3, 4}, noted);
  const Machine machine{device, TestRanks(), kPatience};
  const auto stream = device.CreateStream({});
  NotingStream noting(*stream, noted);
  const auto enqueue = [&] { noted += "run "; };
  EXPECT_EQ(ShortestTime_us(machine, noting, 3, "it", enqueue), 3000);
  const std::string one = "run record run record timing it read. ";
  EXPECT_EQ(noted, one + one + one);
}

}  // namespace
}  // namespace overlapbench
