#include "device/cuda/cupti_watch.h"

#include "device/error.h"

#if __has_include(<cupti.h>)

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cupti.h"
#include "device/text.h"

namespace overlapbench {
namespace {

constexpr auto kKinds = std::to_array<CUpti_ActivityKind>(
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
     CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
     CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
// Waiting code makes these calls thousands of times, which would leave no room for other records.
constexpr auto kRuntimePolls =
    std::to_array<CUpti_CallbackId>({CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
                                     CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020});
constexpr auto kDriverPolls = std::to_array<CUpti_CallbackId>(
    {CUPTI_DRIVER_TRACE_CBID_cuEventQuery, CUPTI_DRIVER_TRACE_CBID_cuStreamQuery});
constexpr auto kMarks = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// Opened by the first watch.
const Cupti& TheCupti() {
  static const Cupti cupti;
  return cupti;
}

// The buffers that CUPTI fills. Its callbacks carry no user argument and run on its own threads, so
// a process has one Collector. Callers of Only() must be CUPTI's one subscriber: a profiler that
// subscribed first has callbacks of its own, and would never get its buffers back.
class Collector {
 public:
  static Collector& Only() {
    static Collector collector;
    return collector;
  }

  // The buffers filled since the last call, in the order of completion.
  std::vector<std::vector<std::uint8_t>> Take() {
    const std::lock_guard lock(mutex_);
    left_bytes_ = kMostBytes;
    return std::exchange(filled_, {});
  }
  long TakeDropped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(dropped_, 0);
  }

 private:
  Collector() {
    TheCupti().Check(TheCupti().register_callbacks(&Collector::Request, &Collector::Complete),
                     "cuptiActivityRegisterCallbacks");
  }

  static constexpr std::size_t kBytes = 1 << 20;        // per buffer, which need not come back full
  static constexpr std::size_t kMostBytes = 512 << 20;  // per watch; further records are dropped
  static constexpr std::align_val_t kAlignment{8};

  static void CUPTIAPI Request(std::uint8_t** buffer, std::size_t* size,
                               std::size_t* most_records) {
    Collector& self = Only();
    const std::lock_guard lock(self.mutex_);
    const bool has_room = self.left_bytes_ >= kBytes;
    if (has_room) self.left_bytes_ -= kBytes;
    *buffer = has_room ? static_cast<std::uint8_t*>(::operator new(kBytes, kAlignment)) : nullptr;
    *size = has_room ? kBytes : 0;
    *most_records = 0;  // as many as fit
  }

  static void CUPTIAPI Complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                std::size_t /*size*/, std::size_t valid_size) {
    Collector& self = Only();
    std::size_t dropped = 0;
    TheCupti().get_dropped(context, stream, &dropped);
    const std::lock_guard lock(self.mutex_);
    self.dropped_ += static_cast<long>(dropped);
    if (buffer == nullptr) return;
    self.left_bytes_ += kBytes - valid_size;
    self.filled_.emplace_back(buffer, buffer + valid_size);
    ::operator delete(buffer, kAlignment);
  }

  std::mutex mutex_;
  std::size_t left_bytes_ = kMostBytes;
  std::vector<std::vector<std::uint8_t>> filled_;
  long dropped_ = 0;
};

double Milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Both clocks at one moment.
struct Moment {
  std::uint64_t cupti_ns = 0;
  double steady_ms = 0;

  // Nanoseconds of CUPTI's clock since this moment. Those since 1970 are too many for a double.
  [[nodiscard]] double Since_ns(std::uint64_t later_ns) const {
    return static_cast<double>(static_cast<std::int64_t>(later_ns - cupti_ns));
  }
};

// Takes the quickest of several comparisons, which is the most accurate.
Moment CompareClocks(const Cupti& cupti) {
  using Clock = std::chrono::steady_clock;
  constexpr int kComparisons = 20;
  Moment best;
  double least_ms = std::numeric_limits<double>::max();
  for (int i = 0; i < kComparisons; ++i) {
    std::uint64_t cupti_ns = 0;
    const auto before = Clock::now();
    cupti.Check(cupti.get_timestamp(&cupti_ns), "cuptiGetTimestamp");
    const auto took = Clock::now() - before;
    if (Milliseconds(took) >= least_ms) continue;
    least_ms = Milliseconds(took);
    best = {cupti_ns, Milliseconds((before + took / 2).time_since_epoch())};
  }
  return best;
}

class Conversion {
 public:
  Conversion(const Moment& begin, const Moment& end)
      : begin_(begin),
        ms_in_ns_((end.steady_ms - begin.steady_ms) / begin.Since_ns(end.cupti_ns)) {}
  [[nodiscard]] double Steady_ms(std::uint64_t cupti_ns) const {
    return begin_.steady_ms + begin_.Since_ns(cupti_ns) * ms_in_ns_;
  }

 private:
  Moment begin_;
  double ms_in_ns_;
};

// Names of templates can be very long.
std::string ReadableKernel(const char* name) {
  constexpr std::size_t kMost_bytes = 300;
  if (name == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return WithinBytes(readable == nullptr ? name : readable.get(), kMost_bytes);
}

const char* CopyName(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "Memcpy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "Memcpy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "Memcpy DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "Memcpy PtoP";
    default:
      return "Memcpy";
  }
}

// "cudaLaunchKernel" of "cudaLaunchKernel_v7000": HTA matches calls by that name.
std::string ReadableCall(const char* name) {
  const std::string text = name == nullptr ? "" : name;
  const auto version = text.rfind("_v");
  const bool has_one = version != std::string::npos && version + 2 < text.size() &&
                       text.find_first_not_of("0123456789", version + 2) == std::string::npos;
  return has_one ? text.substr(0, version) : text;
}

// When a mark was set, in milliseconds of the steady clock.
struct MarkTime {
  double at_ms = 0;
  std::uint64_t mark = 0;
};

// Sorts CUPTI's records into works, calls and marks, and joins them by their correlations. It reads
// each record as the oldest version of its struct that has the fields needed; later versions begin
// with the same fields.
class Join {
 public:
  // `marked`: all marks, in the order in which they were set.
  Join(const Cupti& cupti, const Conversion& conversion, const std::vector<MarkTime>& marked)
      : cupti_(cupti), clock_(conversion), marked_(marked) {}

  void Add(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = As<CUpti_ActivityKernel9>(record);
        Activity& work = AddWork(kernel, ActivityKind::kKernel, ReadableKernel(kernel.name));
        work.blocks = static_cast<long>(kernel.gridX) * kernel.gridY * kernel.gridZ;
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        AddCopy(As<CUpti_ActivityMemcpy5>(record));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = As<CUpti_ActivityMemcpyPtoP4>(record);
        AddCopy(copy).peer = static_cast<int>(copy.dstDeviceId == copy.deviceId ? copy.srcDeviceId
                                                                                : copy.dstDeviceId);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill = As<CUpti_ActivityMemset4>(record);
        AddWork(fill, ActivityKind::kFill, "Memset").bytes = static_cast<double>(fill.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME:
        AddCall(As<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_RUNTIME_API);
        break;
      case CUPTI_ACTIVITY_KIND_DRIVER:
        AddCall(As<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_DRIVER_API);
        break;
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& external = As<CUpti_ActivityExternalCorrelation>(record);
        if (external.externalKind == kMarks) marks_[external.correlationId] = external.externalId;
        break;
      }
      default:
        break;
    }
  }

  std::vector<Activity> Result() {
    std::vector<Activity> all;
    std::map<std::uint64_t, Activity> calls;  // those that enqueued something
    for (Activity& work : works_) {
      if (const auto call = calls_.find(work.correlation); call != calls_.end()) {
        work.call_ms = call->second.begin_ms;
        work.enqueued_ms = call->second.end_ms;
        call->second.mark = MarkOf(work);
        calls.insert(*call);
      }
      work.mark = MarkOf(work);
      all.push_back(std::move(work));
    }
    for (auto& [correlation, call] : calls) all.push_back(std::move(call));
    return all;
  }

 private:
  template <class Record>
  static const Record& As(const CUpti_Activity& record) {
    return reinterpret_cast<const Record&>(record);
  }
  // CUPTI's marks are per thread. NCCL's non-blocking communicators launch on a thread of NCCL's
  // while the enqueueing thread waits. Such work gets the last mark set before the call.
  [[nodiscard]] std::uint64_t MarkOf(const Activity& work) const {
    const auto found = marks_.find(work.correlation);
    if (found != marks_.end()) return found->second;
    const auto later = std::ranges::upper_bound(marked_, work.call_ms, {}, &MarkTime::at_ms);
    return later == marked_.begin() ? 0 : std::prev(later)->mark;
  }

  template <class Record>
  Activity& AddWork(const Record& record, ActivityKind kind, const std::string& name) {
    return works_.emplace_back(Activity{.name = name,
                                        .kind = kind,
                                        .stream = record.streamId,
                                        .correlation = record.correlationId,
                                        .begin_ms = clock_.Steady_ms(record.start),
                                        .end_ms = clock_.Steady_ms(record.end)});
  }

  template <class Record>
  Activity& AddCopy(const Record& copy) {
    Activity& work = AddWork(copy, ActivityKind::kCopy, CopyName(copy.copyKind));
    work.bytes = static_cast<double>(copy.bytes);
    work.by_copy_engine = copy.copyKind != CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    return work;
  }

  // A runtime call makes a driver call with the same correlation: the outer one counts.
  void AddCall(const CUpti_ActivityAPI& record, CUpti_CallbackDomain domain) {
    const double begin_ms = clock_.Steady_ms(record.start);
    const auto known = calls_.find(record.correlationId);
    if (known != calls_.end() && known->second.begin_ms <= begin_ms) return;
    const char* name = nullptr;
    cupti_.get_callback_name(domain, record.cbid, &name);
    calls_[record.correlationId] = {.name = ReadableCall(name),
                                    .kind = ActivityKind::kCall,
                                    .correlation = record.correlationId,
                                    .call_ms = begin_ms,
                                    .enqueued_ms = clock_.Steady_ms(record.end),
                                    .begin_ms = begin_ms,
                                    .end_ms = clock_.Steady_ms(record.end)};
  }

  const Cupti& cupti_;
  Conversion clock_;
  const std::vector<MarkTime>& marked_;
  std::vector<Activity> works_;
  std::map<std::uint64_t, Activity> calls_;       // by correlation
  std::map<std::uint64_t, std::uint64_t> marks_;  // by correlation
};

void CUPTIAPI Ignore(void* /*user*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/,
                     const void* /*data*/) {}

class CuptiWatch : public ActivityWatch {
 public:
  explicit CuptiWatch(std::shared_ptr<ActivityLog> host) : host_(std::move(host)) {
    // Subscribes, which fails if another subscriber exists.
    const CUptiResult place = cupti_.subscribe(&subscriber_, &Ignore, nullptr);
    if (place == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
      throw Error("CUPTI is in use: is a profiler attached to this process?");
    cupti_.Check(place, "cuptiSubscribe");
    try {
      Collector::Only().Take();
      Collector::Only().TakeDropped();
      Begin();
      begin_ = CompareClocks(cupti_);
      cupti_.Check(cupti_.push_external(kMarks, 0), "cuptiActivityPushExternalCorrelationId");
    } catch (const Error&) {
      End();
      throw;
    }
    is_on_ = true;
  }
  ~CuptiWatch() override {
    if (is_on_) End();
  }
  CuptiWatch(const CuptiWatch&) = delete;
  CuptiWatch& operator=(const CuptiWatch&) = delete;

  void Mark(std::uint64_t mark) override {
    std::uint64_t last = 0;
    cupti_.pop_external(kMarks, &last);
    cupti_.Check(cupti_.push_external(kMarks, mark), "cuptiActivityPushExternalCorrelationId");
    marked_.push_back({Milliseconds(std::chrono::steady_clock::now().time_since_epoch()), mark});
    host_.Mark(mark);
  }

  Activities Stop() override {
    is_on_ = false;
    const Moment end = CompareClocks(cupti_);
    std::uint64_t last = 0;
    cupti_.pop_external(kMarks, &last);
    cupti_.flush_all(0);
    End();
    Join join(cupti_, Conversion(begin_, end), marked_);
    long unread = 0;
    for (auto& buffer : Collector::Only().Take()) {
      CUpti_Activity* record = nullptr;
      CUptiResult found = CUPTI_SUCCESS;
      while ((found = cupti_.get_next_record(buffer.data(), buffer.size(), &record)) ==
             CUPTI_SUCCESS) {
        join.Add(*record);
      }
      if (found != CUPTI_ERROR_MAX_LIMIT_REACHED) ++unread;  // at least one of the rest
    }
    Activities all{join.Result(), Collector::Only().TakeDropped() + unread};
    for (Activity& activity : host_.Stop().records) all.records.push_back(std::move(activity));
    return all;
  }

 private:
  void Begin() {
    for (const CUpti_ActivityKind kind : kKinds)
      cupti_.Check(cupti_.enable(kind), "cuptiActivityEnable");
    for (const CUpti_CallbackId call : kRuntimePolls)
      cupti_.Check(cupti_.enable_runtime_call(call, 0), "cuptiActivityEnableRuntimeApi");
    for (const CUpti_CallbackId call : kDriverPolls)
      cupti_.Check(cupti_.enable_driver_call(call, 0), "cuptiActivityEnableDriverApi");
  }
  // Also flushes the buffers that are not full.
  void End() {
    for (const CUpti_ActivityKind kind : kKinds) cupti_.disable(kind);
    cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    cupti_.unsubscribe(subscriber_);
  }

  HostActivityWatch host_;  // first: it refuses a second watch
  const Cupti& cupti_ = TheCupti();
  CUpti_SubscriberHandle subscriber_ = nullptr;
  Moment begin_;
  std::vector<MarkTime> marked_;
  bool is_on_ = false;
};

}  // namespace

std::unique_ptr<ActivityWatch> WatchByCupti(std::shared_ptr<ActivityLog> host) {
  return std::make_unique<CuptiWatch>(std::move(host));
}

}  // namespace overlapbench

#else

namespace overlapbench {

std::unique_ptr<ActivityWatch> WatchByCupti(std::shared_ptr<ActivityLog> /*host*/) {
  throw Error("this build has no CUPTI: its headers were not found");
}

}  // namespace overlapbench

#endif
