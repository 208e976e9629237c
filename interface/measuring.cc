#include "interface/measuring.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <utility>

#include "benchmarks/catalog.h"
#include "benchmarks/prologue.h"
#include "fixtures/build.h"
#include "report/result_json.h"

namespace overlapbench {
namespace {

// How long a failed row's remaining work may take to end.
constexpr std::chrono::seconds kPatience(1);
// Rare enough not to disturb samples.
constexpr std::chrono::milliseconds kLook(100);

// The flags that may change from row to row.
constexpr std::array kOfRows = {"--budget_ms=", "--warmup_ms=", "--precision=", "--timeout_s="};

// Destroys the session on another thread. Returns whether it ended within kPatience; otherwise that
// thread goes on waiting for the work that hangs.
bool DestroyInTime(Device& device, std::unique_ptr<Session> session) {
  if (session == nullptr) return true;
  std::promise<void> destroyed;
  auto done = destroyed.get_future();
  std::thread([&device, session = std::move(session), destroyed = std::move(destroyed)]() mutable {
    device.UseInThisThread();
    session.reset();
    destroyed.set_value();
  }).detach();
  return done.wait_for(kPatience) == std::future_status::ready;
}

// Makes the document of the rows that Google Benchmark runs.
class DocumentReporter : public benchmark::BenchmarkReporter {
 public:
  DocumentReporter(FinishedRows& finished, const CounterTable& table)
      : finished_(finished), json_(table) {}
  bool ReportContext(const Context& context) override {
    text_ = json_.Begin(context);
    return true;
  }
  void ReportRuns(const std::vector<Run>& report) override {
    text_ += json_.Runs(report, finished_.Take(report));
  }
  void Finalize() override { text_ += ResultJson::End(); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  FinishedRows& finished_;
  ResultJson json_;
  std::string text_;
};

CounterTable TableOfRows() {
  CounterTable table = AllCounters();
  table.Add(ScheduleFamily());
  return table;
}

}  // namespace

Measuring::Measuring(const std::vector<std::string>& flags)
    : at_start_(flags),
      options_(ParseOptions(flags)),
      progress_(ByLauncher().rank, ByLauncher().size),
      ranks_(std::make_unique<Ranks>(options_.timeout, progress_)),
      table_(TableOfRows()),
      calls_(*new CallLog),
      watchdog_(progress_),
      watch_(kLook, [this] { LookAtCalls(); }) {
  RequireRanksOfOneRun(ByLauncher(), *ranks_);
  device_ = OpenDevice(*ranks_, options_);
  suite_ = std::make_unique<Suite>(Suite{{*device_, *ranks_, options_.timeout}, options_});
  own_rows_ = std::make_unique<OwnRows>(suite_->machine);
  AddWorkloads(table_, own_rows_->catalog().workloads);
  Prepare();
  suite_->write_samples = [this](const std::string& lines) { samples_ = lines; };
  suite_->outlive = [this](const FatalError& error) { return Outlive(error); };
}

void Measuring::Prepare() {
  InitializeGoogleBenchmark(options_, flags_);
  const FirstLook first_look = LookAround(*suite_);
  AddContext(*suite_,
             options_.self_test ? RunSelfTest(*suite_, KnownBenchmarks(own_rows_->catalog()))
                                : SelfTest{.text = "left out"},
             first_look);
}

Measuring::~Measuring() {
  if (!leaves_something_) return;
  // Work still running uses the device and communicators, and its session refers to the suite's
  // members.
  [[maybe_unused]] const OwnRows* const own_rows = own_rows_.release();
  [[maybe_unused]] const Suite* const suite = suite_.release();
  [[maybe_unused]] const Device* const device = device_.release();
}

int DeviceNumber(int visible_gpus, int local_rank) { return visible_gpus == 1 ? 0 : local_rank; }

overlapbench_place Measuring::place() const {
  const bool has_gpu = device_->backend() == Backend::kCuda;
  return {.rank = ranks_->rank(),
          .ranks = ranks_->size(),
          .local_rank = ranks_->local_rank(),
          .device = has_gpu ? DeviceNumber(VisibleGpus(), ranks_->local_rank()) : -1};
}

void Measuring::Configure(const std::vector<std::string>& flags) {
  if (!ended_.empty()) throw Error(ended_);  // the ranks no longer meet
  for (const std::string& flag : flags) {
    if (std::ranges::none_of(kOfRows, [&](const char* one) { return flag.starts_with(one); }))
      throw UsageError(flag + " can only be set at the start");
  }
  std::vector<std::string> all = at_start_;
  all.insert(all.end(), flags.begin(), flags.end());
  options_ = ParseOptions(all);
  suite_->settings = fmt::format("{}", fmt::join(flags, " "));
  ranks_->set_timeout(options_.timeout);
  suite_->machine.timeout = options_.timeout;
}

std::string Measuring::Measure(const UserRow& row) {
  std::optional<Registry> registry;
  std::optional<Catalog> catalog;
  return Measure([&] {
    registry.emplace(RegistryOf(row, calls_));
    catalog.emplace(*registry, *device_, suite_->machine);
    return BenchmarkOf(row, *catalog, calls_);
  });
}

std::string Measuring::Measure(const std::string& name) {
  return Measure([&] { return own_rows_->Find(name); });
}

std::string Measuring::Measure(const std::function<Benchmark()>& find) {
  if (!ended_.empty()) throw Error(ended_);
  if (std::exchange(is_measuring_, true))
    throw UsageError("a measured callable must not start a measurement");
  const std::shared_ptr<void> measured(nullptr, [this](void*) { is_measuring_ = false; });
  calls_.Begin();
  samples_.clear();
  device_->UseInThisThread();  // the program may have chosen another
  Benchmark benchmark = find();
  benchmark.is_predictable = options_.predictable;
  Register(*suite_, benchmark);
  DocumentReporter reporter(suite_->finished, table_);
  try {
    benchmark::RunSpecifiedBenchmarks(&reporter);
    benchmark::ClearRegisteredBenchmarks();
    suite_->session.reset();
    if (ended_.empty()) ranks_->Barrier("freeing memory");
  } catch (const std::exception& error) {
    // The others do not know of the error and wait for this rank.
    benchmark::ClearRegisteredBenchmarks();
    ended_ = fmt::format("an earlier row ended the measuring: {}", error.what());
    ranks_->TellOthers(error.what());
    throw;
  }
  return reporter.text();
}

std::string Measuring::Outlive(const FatalError& error) {
  const std::string text = error.what() + calls_.Blame(ranks_->timeout());
  const bool is_quiet =
      !ranks_->has_given_up() && DestroyInTime(*device_, std::move(suite_->session));
  if (ranks_->has_given_up()) {  // MPI may still write to its memory
    [[maybe_unused]] const Session* const session = suite_->session.release();
  }
  if (!is_quiet) leaves_something_ = true;
  if (ranks_->size() == 1) return text;
  if (error.audience() == FatalError::kThisRank) ranks_->TellOthers(text);
  if (!error.known_to_all() || !AllAreQuiet(is_quiet))
    ended_ = "an earlier row ended the measuring: " + text;
  return text;
}

// Runs in the watch's thread. A call is given up earlier than the timeout, so that the other ranks
// are notified before they time out, and far later than the gate opens for a call that waits for
// it.
void Measuring::LookAtCalls() {
  const auto timeout = ranks_->timeout();
  const std::string given_up = calls_.GiveUp(timeout, ranks_->Prefix(), interrupt_);
  if (!given_up.empty()) ranks_->TellOthers(given_up);
  const std::string stuck = calls_.Overdue(timeout + Watchdog::kMargin);
  if (stuck.empty()) return;
  EndJob(watchdog_, progress_, ranks_.get(),
         FatalError(stuck + " and cannot be interrupted: the process ends; call it once before it "
                            "is measured, or set a longer timeout_s"));
}

bool Measuring::AllAreQuiet(bool here) {
  try {
    return !ranks_->Any(!here, "going on after an error");
  } catch (const Error&) {
    return false;
  }
}

}  // namespace overlapbench
