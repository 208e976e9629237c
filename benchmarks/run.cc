#include "benchmarks/run.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/prologue.h"
#include "fixtures/context.h"
#include "fixtures/load.h"
#include "fixtures/rank_times.h"
#include "fixtures/resources.h"
#include "report/run_reporter.h"
#include "report/trace_file.h"

namespace overlapbench {
namespace {

// Opens the file on rank 0, if there is one to open. If that fails, all ranks throw.
std::unique_ptr<ResultFile> OpenOnRoot(Ranks& ranks, const std::string& path,
                                       ResultFile::Kind kind) {
  std::unique_ptr<ResultFile> file;
  std::string error;
  try {
    if (ranks.is_root() && !path.empty()) file = std::make_unique<ResultFile>(path, kind);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  if (ranks.Any(!error.empty(), "opening output files"))
    throw UsageError(error);  // rank 0 prints it
  return file;
}

// Every rank writes its own traces, on its own machine. Returns nullptr without --trace_out.
std::shared_ptr<TraceFiles> OpenTraces(Suite& suite) {
  const std::string& folder = suite.options.trace_out;
  if (folder.empty()) return nullptr;
  std::shared_ptr<TraceFiles> files;
  try {
    suite.machine.ranks.Together("opening the folder of traces",
                                 [&] { files = std::make_shared<TraceFiles>(folder); });
  } catch (const AgreedError& error) {
    throw UsageError(error.what());
  }
  suite.write_trace = [files](const RowTrace& trace) { files->Write(trace); };
  return files;
}

// The CSV files beside the result. They are opened with their headers and filled through the suite.
class LineFiles {
 public:
  explicit LineFiles(Suite& suite) : ranks_(suite.machine.ranks) {
    const Options& options = suite.options;
    // All are opened before anything is written. If one cannot be opened, none is left behind.
    ResultFile* const samples = Open(options.samples_out);
    ResultFile* const rank_times = Open(options.rank_times_out);
    ResultFile* const resources = Open(options.resources_out);
    suite.write_samples = Begin(samples, "name,group,run,total_ms,skew_us\n");
    suite.write_rank_times = Begin(rank_times, RankTimesHeader());
    const Write write = Begin(resources, ResourceLog::Header());
    if (options.resources_out.empty()) return;
    // On every rank, because all ranks contribute to a line.
    const ResourceLog log(suite.machine);
    suite.note_resources = [log, write](const std::string& benchmark, std::size_t groups) {
      const std::string line = log.Line(benchmark, groups);
      if (write) write(line);
    };
  }
  void Finish() {
    for (auto& file : files_) file->Finish();
  }
  void Abandon(const std::string& reason) {
    for (auto& file : files_) file->Abandon(Incomplete(reason));
  }

 private:
  using Write = std::function<void(const std::string& lines)>;

  ResultFile* Open(const std::string& path) {
    auto file = OpenOnRoot(ranks_, path, ResultFile::Kind::kLines);
    return file == nullptr ? nullptr : files_.emplace_back(std::move(file)).get();
  }
  static Write Begin(ResultFile* file, const std::string& header) {
    if (file == nullptr) return {};
    file->Begin(header);
    return [file](const std::string& lines) { file->Append(lines, Incomplete(kStillRunning)); };
  }
  static std::string Incomplete(const std::string& reason) {
    return "# incomplete: " + reason + "\n";
  }

  Ranks& ranks_;
  std::vector<std::unique_ptr<ResultFile>> files_;
};

// Runs the self-test, or ends the job: the other ranks do not know of an error that reaches this
// function. An AgreedError passes: all ranks throw it, nothing hangs.
SelfTest TestItself(Watchdog& watchdog, Suite& suite, const std::vector<Benchmark>& known) {
  Ranks& ranks = suite.machine.ranks;
  try {
    return RunSelfTest(suite, known);
  } catch (const AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    EndJob(watchdog, ranks.progress(), &ranks, error);
  }
}

// The exit status, and what the rows do not say themselves.
int Conclude(const Suite& suite, const SelfTest& self_test) {
  const auto tell = [&](const std::string& what) {
    if (suite.machine.ranks.is_root()) std::cerr << "overlapbench: " << what << "\n";
  };
  if (suite.error_rows > 0) tell(fmt::format("{} benchmark runs failed", suite.error_rows));
  if (suite.energy && !suite.energy->missing.empty())
    tell("energy not available: " + suite.energy->missing);
  if (!suite.no_traces.empty()) tell("rows were measured without traces: " + suite.no_traces);
  if (!self_test.passed)
    tell(fmt::format("the self-test {}; do not trust this run's figures", self_test.text));
  const bool failed = suite.error_rows > 0 || !suite.no_traces.empty();
  return failed ? kFailed : self_test.passed ? 0 : kNotToBeTrusted;
}

// Set by ./bench, which reads its findings from the result and then removes it.
constexpr const char* kTemporaryResult = "OVERLAPBENCH_TEMPORARY_RESULT";

// What to do about a row whose sides could have run together.
constexpr const char* kSerialOnGpus =
    "Start the communication first, leave it SMs, or move it by copy engines; ./bench --tune finds "
    "which is best (docs/apply.md).";
constexpr const char* kSerialOnHost =
    "Leave a core free for each side: fewer ranks, or --host_cores.";

RunReporter::Options ReporterOptions(const Suite& suite, const std::vector<Benchmark>& chosen) {
  const Options& options = suite.options;
  std::vector<std::string> planned;
  for (const Benchmark& benchmark : chosen) planned.push_back(benchmark.name);
  const bool on_host = suite.machine.device.backend() == Backend::kHost;
  return {options.format,
          {.screen = FindScreen(options.columns, options.colour),
           .unit = {options.time_unit},
           .planned = planned,
           .repetitions = options.repetitions,
           .serial_advice = on_host ? kSerialOnHost : kSerialOnGpus},
          std::getenv(kTemporaryResult) == nullptr};
}

}  // namespace

int RunAll(Watchdog& watchdog, Suite& suite, const CounterTable& table,
           const std::vector<Benchmark>& known, const std::vector<Benchmark>& chosen) {
  Ranks& ranks = suite.machine.ranks;
  const Options& options = suite.options;
  std::vector<std::string> flags;
  InitializeGoogleBenchmark(options, flags);
  // First, so that no file can take the folder's place.
  const std::shared_ptr<TraceFiles> traces = OpenTraces(suite);
  auto file = OpenOnRoot(ranks, options.out, ResultFile::Kind::kDocument);
  LineFiles line_files(suite);
  RunReporter reporter(ranks.progress(), suite.finished, table, ReporterOptions(suite, chosen),
                       std::move(file));
  Console* const console = reporter.console();
  if (console != nullptr) watchdog.BeforeLines([console] { console->HideProgress(); });
  const auto keeping = watchdog.AtEnd([&](const std::string& own_reason) {
    reporter.Stop();
    const std::string told = ranks.is_root() ? ranks.LastWords() : "";
    const std::string reason =
        own_reason + (told.empty() ? "" : "; another rank reported: " + told);
    reporter.Abandon(reason);
    line_files.Abandon(reason);
    if (traces != nullptr) traces->Abandon();
  });
  const FirstLook first_look = LookAround(suite);
  const SelfTest self_test = TestItself(watchdog, suite, known);
  const auto context = AddContext(suite, self_test, first_look);
  if (console != nullptr) {
    console->ShowContext(DescribeInOneLine(context),
                         first_look.load.empty() ? "" : "this machine is busy: " + first_look.load);
  }
  suite.observer = console;
  for (const Benchmark& benchmark : chosen) Register(suite, benchmark);
  try {
    benchmark::RunSpecifiedBenchmarks(&reporter);
    ranks.progress().set_benchmark("");
    // The tripwire for a rank that has other benchmarks to run.
    const Progress::Scope scope(ranks.progress(), Phase::kEnd);
    ranks.AgreeOnEntry("the end of the run", 0);
  } catch (const std::exception& error) {
    EndJob(watchdog, ranks.progress(), &ranks, error);  // the other ranks do not know of it
  }
  watchdog.BeforeLines(nullptr);
  suite.session.reset();
  line_files.Finish();
  benchmark::Shutdown();
  return Conclude(suite, self_test);
}

}  // namespace overlapbench
