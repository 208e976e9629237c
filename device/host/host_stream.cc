#include "device/host/host_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/host/host_graph.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

template <class AnyEvent, class AnyHostEvent>
AnyHostEvent& CastEvent(AnyEvent& event) {
  auto* host_event = dynamic_cast<AnyHostEvent*>(&event);
  if (host_event == nullptr) throw Error("a stream on a host thread takes host events only");
  return *host_event;
}
HostEvent& AsHostEvent(Event& event) { return CastEvent<Event, HostEvent>(event); }
const HostEvent& AsHostEvent(const Event& event) {
  return CastEvent<const Event, const HostEvent>(event);
}

std::chrono::steady_clock::time_point TimeOf(const HostEvent& event) {
  if (!event.timed()) throw Error("ElapsedMs: the event was made without timing");
  const auto mark = event.mark();
  if (mark == nullptr || !event.Done()) throw Error("ElapsedMs: the event has not been passed");
  return mark->time;
}

}  // namespace

void HostEvent::Mark::Pass(std::chrono::steady_clock::time_point when) {
  const std::lock_guard lock(mutex);
  time = when;
  passed = true;
  changed.notify_all();
}

std::chrono::steady_clock::time_point HostEvent::Mark::AwaitPassed() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return passed; });
  return time;
}

bool HostEvent::Done() const {
  if (mark_ == nullptr) return true;
  const std::lock_guard lock(mark_->mutex);
  return mark_->passed;
}

bool HostEvent::Await(std::chrono::milliseconds timeout) const {
  if (mark_ == nullptr) return true;
  std::unique_lock lock(mark_->mutex);
  return mark_->changed.wait_for(lock, timeout, [this] { return mark_->passed; });
}

std::shared_ptr<HostEvent::Mark> HostEvent::NewMark() {
  mark_ = std::make_shared<Mark>();
  return mark_;
}

HostStream::HostStream(std::shared_ptr<CorePool> pool, int most_cores,
                       std::shared_ptr<ActivityLog> log)
    : pool_(std::move(pool)), most_cores_(most_cores), log_(std::move(log)) {
  worker_ = std::thread([this] { Work(); });
}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

HostRecording* HostStream::Recording() const {
  return recording_ != nullptr && recording_->is_open() ? recording_.get() : nullptr;
}

void HostStream::EnqueueTimed(std::function<void()> task, const Activity& activity) {
  if (HostRecording* recording = Recording()) {
    return recording->Add(
        [this, task = std::move(task), activity](auto&) { EnqueueTimed(task, activity); });
  }
  EnqueueActivity(activity, [this, task = std::move(task)] {
    RunOne(task);
    clock_ = std::chrono::steady_clock::now();
  });
}

void HostStream::EnqueueActivity(const Activity& activity, std::function<void()> task) {
  if (!log_->is_on()) {
    EnqueueMark(std::move(task));
    return;
  }
  EnqueueMark([this, note = log_->Enqueued(number_, activity), task = std::move(task)] {
    const TimePoint begin = std::max(clock_, note.enqueued);
    task();
    log_->Add(note, begin, std::max(begin, clock_));
  });
}

void HostStream::EnqueueMark(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void HostStream::EnqueueBlocks(int blocks, std::function<void(int)> block) {
  EnqueueTimed([this, blocks, block = std::move(block)] { pool_->Run(blocks, block, most_cores_); },
               {.blocks = blocks});
}

void HostStream::Record(Event& event) {
  auto mark = AsHostEvent(event).NewMark();
  if (HostRecording* recording = Recording()) {
    mark->recording = recording_;
    return recording->Add([this, mark](auto& events) { Record(events[mark]); });
  }
  // A mark is passed even when an earlier task failed, so that streams waiting for it cannot hang.
  EnqueueMark([this, mark, enqueued = std::chrono::steady_clock::now()] {
    mark->Pass(std::max(clock_, enqueued));
  });
}

void HostStream::Wait(const Event& event) {
  auto mark = AsHostEvent(event).mark();
  if (mark == nullptr) return;
  if (const auto recording = mark->recording.lock()) {
    if (!recording->is_open()) throw Error("the event is a part of a graph");
    recording_ = recording;
    return recording->Add([this, mark](auto& events) { Wait(events.at(mark)); });
  }
  if (Recording() != nullptr) throw Error("a graph cannot wait for an event outside of it");
  EnqueueActivity({.kind = ActivityKind::kWait},
                  [this, mark] { clock_ = std::max(clock_, mark->AwaitPassed()); });
}

void HostStream::Copy(void* destination, const void* source, std::size_t bytes) {
  EnqueueTimed(
      [=] { std::memcpy(destination, source, bytes); },
      {.name = "Memcpy", .kind = ActivityKind::kCopy, .bytes = static_cast<double>(bytes)});
}

void HostStream::Synchronize(std::chrono::milliseconds timeout, const std::string& what) {
  if (Recording() != nullptr) throw Error(what + ": the stream is recorded, so nothing runs");
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [this] { return tasks_.empty() && !busy_; })) {
    throw FatalError(
        fmt::format("{}: the stream did not finish within {}", what, InSeconds(timeout)));
  }
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void HostStream::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void HostStream::RunOne(const std::function<void()>& task) {
  try {
    task();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

double HostElapsedMs(const Event& from, const Event& to) {
  return std::chrono::duration<double, std::milli>(TimeOf(AsHostEvent(to)) -
                                                   TimeOf(AsHostEvent(from)))
      .count();
}

void HostGate::Arm(Stream& stream) {
  const std::lock_guard lock(state_->mutex);
  const long generation = ++state_->armed;
  const auto wait = [state = state_, generation] {
    std::unique_lock wait_lock(state->mutex);
    state->changed.wait(wait_lock, [&] { return state->released >= generation; });
  };
  stream.EnqueueTask(wait, ActivityKind::kGate);
}

void HostGate::Release() {
  const std::lock_guard lock(state_->mutex);
  state_->released = state_->armed;
  state_->changed.notify_all();
}

}  // namespace overlapbench
