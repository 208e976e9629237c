#include "benchmarks/run.h"

#include <benchmark/benchmark.h>

#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/context.h"
#include "fixtures/rank_times.h"
#include "fixtures/resources.h"
#include "ranks/end_job.h"
#include "report/run_reporter.h"

namespace overlapbench {
namespace {

// `flags` must outlive the run: Google Benchmark keeps a pointer to the program's name.
void InitializeGoogleBenchmark(const Options& options, std::vector<std::string>& flags) {
  flags = {"overlapbench"};
  flags.insert(flags.end(), options.google_benchmark_flags.begin(),
               options.google_benchmark_flags.end());
  // Given last, these win over the environment: rank 0's reporter writes the file and shows the
  // rows, and only what was chosen is registered.
  flags.insert(flags.end(),
               {"--benchmark_out=", "--benchmark_filter=.", "--benchmark_format=console"});
  std::vector<char*> pointers;
  for (auto& flag : flags) pointers.push_back(flag.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1)
    throw UsageError(std::string("Google Benchmark does not know the flag ") + pointers[1]);
}

// Opens the file on rank 0, if there is one to open; its failure is everybody's.
std::unique_ptr<ResultFile> OpenOnRoot(Ranks& ranks, const std::string& path) {
  std::unique_ptr<ResultFile> file;
  std::string error;
  try {
    if (ranks.is_root() && !path.empty()) file = std::make_unique<ResultFile>(path);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  double failed = error.empty() ? 0 : 1;
  ranks.Max({&failed, 1}, "opening output files");
  if (failed > 0) throw UsageError(error);  // which rank 0 shows
  return file;
}

// The files of lines that stand beside the result: opened with their headers, and filled through
// the suite.
class LineFiles {
 public:
  explicit LineFiles(Suite& suite) : ranks_(suite.machine.ranks) {
    const Options& options = suite.options;
    // All are opened before anything is written: one that cannot be leaves none of them behind.
    ResultFile* const samples = Open(options.samples_out);
    ResultFile* const rank_times = Open(options.rank_times_out);
    ResultFile* const resources = Open(options.resources_out);
    suite.write_samples = Begin(samples, "name,group,run,total_ms,skew_us\n");
    suite.write_rank_times = Begin(rank_times, RankTimesHeader());
    const Write write = Begin(resources, ResourceLog::Header());
    if (options.resources_out.empty()) return;
    // On every rank, because the line is made by all of them.
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
    for (auto& file : files_) file->Abandon("# incomplete: " + reason + "\n", true);
  }

 private:
  using Write = std::function<void(const std::string& lines)>;

  ResultFile* Open(const std::string& path) {
    auto file = OpenOnRoot(ranks_, path);
    return file == nullptr ? nullptr : files_.emplace_back(std::move(file)).get();
  }
  static Write Begin(ResultFile* file, const std::string& header) {
    if (file == nullptr) return {};
    file->Append(header, "");
    return [file](const std::string& lines) { file->Append(lines, ""); };
  }

  Ranks& ranks_;
  std::vector<std::unique_ptr<ResultFile>> files_;
};

// Runs them to the end of the run, or ends the job. An error that comes as far as here is one that
// the other ranks cannot know of.
void RunToTheEnd(Watchdog& watchdog, const Suite& suite, RunReporter& reporter) {
  Ranks& ranks = suite.machine.ranks;
  try {
    benchmark::RunSpecifiedBenchmarks(&reporter);
    ranks.progress().set_benchmark("");
    // A rank that had other benchmarks to run would be met here.
    const Progress::Scope scope(ranks.progress(), Phase::kEnd);
    ranks.AgreeOnEntry("the end of the run", 0);
  } catch (const std::exception& error) {
    EndJob(watchdog, ranks.progress(), &ranks, error);
  }
}

}  // namespace

int RunAll(Watchdog& watchdog, Suite& suite, const std::vector<PlannedBenchmark>& chosen) {
  Ranks& ranks = suite.machine.ranks;
  const Options& options = suite.options;
  std::vector<std::string> flags;
  InitializeGoogleBenchmark(options, flags);
  auto file = OpenOnRoot(ranks, options.out);
  LineFiles line_files(suite);
  RunReporter reporter(ranks.progress(), options.json_to_console, static_cast<int>(chosen.size()),
                       std::move(file));
  const auto keeping = watchdog.AtEnd([&](const std::string& own_reason) {
    reporter.Stop();
    const std::string told = ranks.is_root() ? ranks.LastWords() : "";
    const std::string reason = own_reason + (told.empty() ? "" : "; a rank said: " + told);
    reporter.Abandon(reason);
    line_files.Abandon(reason);
  });
  const auto context = DescribeRun(suite.machine, options);
  for (const auto& [key, value] : context) benchmark::AddCustomContext(key, value);
  if (ranks.is_root() && !options.json_to_console) std::cout << DescribeInOneLine(context) << "\n";
  for (const auto& [configuration, make_fixture] : chosen) {
    Register(suite, configuration.name, make_fixture(suite, configuration));
  }
  RunToTheEnd(watchdog, suite, reporter);
  suite.session.reset();
  line_files.Finish();
  benchmark::Shutdown();
  if (suite.error_rows > 0 && ranks.is_root()) {
    std::cerr << "overlapbench: " << suite.error_rows << " benchmark runs failed\n";
  }
  return suite.error_rows > 0 ? kFailed : 0;
}

}  // namespace overlapbench
