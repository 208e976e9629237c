// overlapbench: the program. Reads the command line, starts the ranks, plans the benchmarks that
// exist on this machine, chooses by filter, and lets Google Benchmark run them.
//
// Exit status: 0 all rows measured; 1 a row or the job failed; 2 usage.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <regex>
#include <thread>

#include "benchmarks/catalog.h"
#include "benchmarks/injected_delay.h"
#include "benchmarks/injected_fault.h"
#include "benchmarks/plan.h"
#include "fixtures/context.h"
#include "fixtures/resources.h"
#include "ranks/launcher.h"
#include "ranks/watchdog.h"
#include "report/run_reporter.h"

namespace overlapbench {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
// How long rank 0 may take to show an error that all ranks know of.
constexpr std::chrono::seconds kTimeToSpeak(2);

void PrintHelp() {
  std::cout
      << "overlapbench: what overlapping computation and communication costs on this machine.\n\n"
         "Families: Compute, Comm, Overlap, Copy, Priority, Supply, Launch, Gelu, Softmax,\n"
         "Mlp.\n"
         "A name reads Family/Workload[+Workload]/axis:value/...\n\n"
         "Examples:\n"
         "  --benchmark_filter=Overlap\n"
         "  --benchmark_filter='Overlap/AllToAll.Gemm' --axis bytes=1M,64M --axis grid=1x1,16x16\n"
         "  --benchmark_filter=Copy/Pipelined --axis pipeline_streams=1,4 --axis intensity=2048\n"
         "  --benchmark_filter=Comm --axis cache=warm --axis cadence=streaming   (as nccl-tests "
         "does)\n"
         "  --benchmark_out=result.json --benchmark_repetitions=3\n\nFlags:\n"
      << OptionsHelp()
      << "  --query=gpus               print the number of visible GPUs, and end\n\n"
         "Google Benchmark's flags, such as --benchmark_filter=REGEX, --benchmark_list_tests,\n"
         "--benchmark_out=FILE.json, --benchmark_min_time=, --benchmark_repetitions= and\n"
         "--benchmark_min_warmup_time=, work as they do there.\n";
}

// If any rank gives an error, ends all of them with it as a mistake of usage.
void RefuseTogether(Ranks& ranks, const std::string& error) {
  try {
    ranks.AgreeOnError(error, "starting");
  } catch (const AgreedError& agreed) {
    throw UsageError(agreed.what());
  }
}

// One rank a GPU. A launcher may also show each rank one GPU of its own.
std::unique_ptr<Device> OpenGpu(Ranks& ranks) {
  const int visible = VisibleGpus();
  std::string error = CudaUnavailable();
  if (error.empty() && visible > 1 && ranks.local_rank() >= visible) {
    error = std::to_string(ranks.local_size()) + " ranks on this machine but " +
            std::to_string(visible) + " GPUs: start at most one rank a GPU (--ranks " +
            std::to_string(visible) + ")";
  }
  RefuseTogether(ranks, error);
  auto device = OpenCudaDevice(visible > 1 ? ranks.local_rank() : 0);
  const auto identities = ranks.Gather(device->info().identity, "choosing GPUs");
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto first = std::ranges::find(identities, identities[rank]) - identities.begin();
    if (first == rank) continue;
    throw UsageError("more ranks than GPUs: ranks " + std::to_string(first) + " and " +
                     std::to_string(rank) + " have the same GPU; start one rank a GPU");
  }
  return device;
}

std::unique_ptr<Device> OpenHost(const Ranks& ranks, const Options& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int share = std::max(1, cores / ranks.local_size());
  return OpenHostDevice(options.host_cores > 0 ? options.host_cores : share);
}

std::unique_ptr<Device> OpenDevice(Ranks& ranks, const Options& options) {
  const bool cuda = options.backend == Options::BackendChoice::kCuda ||
                    (options.backend == Options::BackendChoice::kAuto && VisibleGpus() > 0);
  const auto choices =
      ranks.Gather(ToString(cuda ? Backend::kCuda : Backend::kHost), "choosing a backend");
  for (const auto& choice : choices) {
    if (choice == choices[0]) continue;
    throw UsageError("some ranks see a GPU and some do not: name the backend with --backend=");
  }
  return cuda ? OpenGpu(ranks) : OpenHost(ranks, options);
}

Plan MakePlan(const Registry& registry, const Options& options, const Device& device) {
  const Backend backend = device.backend();
  Plan plan(registry, backend, options.axes);
  PlanCompute(plan, registry);
  PlanComm(plan, registry);
  PlanOverlap(plan, backend);
  PlanCopy(plan, backend);
  PlanPriority(plan, device);
  PlanSupply(plan);
  PlanLaunch(plan);
  PlanGelu(plan, backend);
  PlanSoftmax(plan, backend);
  PlanMlp(plan);
  plan.RequireKnownAxes();
  return plan;
}

// Google Benchmark's filters: an extended regular expression that is searched for, or, behind '-',
// one that must not be found.
class Filter {
 public:
  explicit Filter(std::string text) {
    negative_ = text.starts_with('-');
    if (negative_) text.erase(0, 1);
    try {
      expression_.assign(text, std::regex::extended);
    } catch (const std::regex_error&) {
      throw UsageError("--benchmark_filter: '" + text + "' is not a regular expression");
    }
  }
  [[nodiscard]] bool Matches(const std::string& name) const {
    return std::regex_search(name, expression_) != negative_;
  }

 private:
  std::regex expression_;
  bool negative_ = false;
};

std::vector<PlannedBenchmark> Choose(const Plan& plan, const Filter& filter) {
  std::vector<PlannedBenchmark> chosen;
  for (const auto& benchmark : plan.benchmarks()) {
    if (filter.Matches(benchmark.configuration.name)) chosen.push_back(benchmark);
  }
  return chosen;
}

// A line for each reason, with the names that share it.
std::vector<std::string> DescribeUnavailable(const Plan& plan, const Filter& filter) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const auto& [name, reason] : plan.unavailable()) {
    if (!filter.Matches(name)) continue;
    auto entry = std::ranges::find(by_reason, reason, [](const auto& pair) { return pair.first; });
    if (entry == by_reason.end()) entry = by_reason.insert(by_reason.end(), {reason, {}});
    if (std::ranges::find(entry->second, name) == entry->second.end())
      entry->second.push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : by_reason) {
    std::string line = "not available: " + names.front();
    if (names.size() > 1) line += " and " + std::to_string(names.size() - 1) + " more";
    lines.push_back(line + ": " + reason);
  }
  return lines;
}

void RequireSomething(const Plan& plan, const Filter& filter, const Options& options) {
  std::string message = "no benchmark matches --benchmark_filter=" + options.filter;
  const auto lines = DescribeUnavailable(plan, filter);
  message += lines.empty() ? "; --benchmark_list_tests lists the names" : "; " + lines.front();
  throw UsageError(message);
}

void PrintAxes(const std::string& owner, const std::vector<Axis>& axes) {
  std::cout << owner << "\n";
  for (const auto& axis : axes) {
    std::cout << "  " << axis.name << " = ";
    for (std::size_t i = 0; i < axis.values.size(); ++i) {
      std::cout << (i > 0 ? "," : "") << axis.values[i];
    }
    std::cout << "  (" << axis.help << ")\n";
  }
}

void PrintAllAxes(const Registry& registry, const Plan& plan) {
  for (const auto& spec : registry.specs()) {
    const std::string& missing = spec.missing;
    PrintAxes(spec.name + ": " + (missing.empty() ? spec.summary : "not available: " + missing),
              spec.axes);
  }
  PrintAxes("The method: of every sample (cache, cadence), and of some families:",
            plan.method_axes());
}

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
  } catch (const Error& caught) {
    error = caught.what();
  }
  double failed = error.empty() ? 0 : 1;
  ranks.Max({&failed, 1}, "opening output files");
  if (failed > 0) throw UsageError(error);  // which rank 0 shows
  return file;
}

// Shows an error that ends the job, and ends it: rank 0 for all, where all ranks know of it.
// `ranks` may be nullptr.
[[noreturn]] void EndOn(Watchdog& watchdog, const Progress& progress, Ranks* ranks,
                        const std::exception& error) {
  const auto* fatal = dynamic_cast<const FatalError*>(&error);
  const bool known_to_all = fatal != nullptr && fatal->known_to_all();
  const bool is_root = progress.rank() == 0;
  // Ending ends rank 0 too, which may not have said yet what happened.
  if (known_to_all && !is_root) std::this_thread::sleep_for(kTimeToSpeak);
  const std::string where = known_to_all ? "" : " [" + progress.Where() + "]";
  const std::string reason = error.what() + where;
  if (ranks != nullptr && !known_to_all) ranks->TellRoot(reason);
  watchdog.End(kFailed, reason, !known_to_all || is_root);
}

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
    EndOn(watchdog, ranks.progress(), &ranks, error);
  }
}

// Called on all ranks; `file` is nullptr on all but rank 0.
void NoteResources(Suite& suite, ResultFile* file) {
  if (file != nullptr) file->Append(ResourceLog::Header(), "");
  const ResourceLog log(suite.machine);
  suite.note_resources = [log, file](const std::string& benchmark, std::size_t groups) {
    const std::string line = log.Line(benchmark, groups);
    if (file != nullptr) file->Append(line, "");
  };
}

int RunChosen(Watchdog& watchdog, Suite& suite, const std::vector<PlannedBenchmark>& chosen) {
  Ranks& ranks = suite.machine.ranks;
  const Options& options = suite.options;
  std::vector<std::string> flags;
  InitializeGoogleBenchmark(options, flags);
  auto file = OpenOnRoot(ranks, options.out);
  const auto samples_file = OpenOnRoot(ranks, options.samples_out);
  const auto rank_times_file = OpenOnRoot(ranks, options.rank_times_out);
  const auto resources_file = OpenOnRoot(ranks, options.resources_out);
  const auto each_file = [&](const auto& visit) {
    for (ResultFile* lines : {samples_file.get(), rank_times_file.get(), resources_file.get()}) {
      if (lines != nullptr) visit(*lines);
    }
  };
  RunReporter reporter(ranks.progress(), options.json_to_console, static_cast<int>(chosen.size()),
                       std::move(file));
  const auto keeping = watchdog.AtEnd([&](const std::string& own_reason) {
    reporter.Stop();
    const std::string told = ranks.is_root() ? ranks.LastWords() : "";
    const std::string reason = own_reason + (told.empty() ? "" : "; a rank said: " + told);
    reporter.Abandon(reason);
    each_file([&](ResultFile& lines) { lines.Abandon("# incomplete: " + reason + "\n", true); });
  });
  if (samples_file != nullptr) {
    samples_file->Append("name,group,run,total_ms,skew_us\n", "");
    suite.write_samples = [&](const std::string& lines) { samples_file->Append(lines, ""); };
  }
  if (rank_times_file != nullptr) {
    rank_times_file->Append(RankTimesHeader(), "");
    suite.write_rank_times = [&](const std::string& lines) { rank_times_file->Append(lines, ""); };
  }
  if (!options.resources_out.empty()) NoteResources(suite, resources_file.get());
  const auto context = DescribeRun(suite.machine, options);
  for (const auto& [key, value] : context) benchmark::AddCustomContext(key, value);
  if (ranks.is_root() && !options.json_to_console) std::cout << DescribeInOneLine(context) << "\n";
  for (const auto& [configuration, make_fixture] : chosen) {
    Register(suite, configuration.name, make_fixture(suite, configuration));
  }
  RunToTheEnd(watchdog, suite, reporter);
  suite.session.reset();
  each_file([](ResultFile& lines) { lines.Finish(); });
  benchmark::Shutdown();
  if (suite.error_rows > 0 && ranks.is_root()) {
    std::cerr << "overlapbench: " << suite.error_rows << " benchmark runs failed\n";
  }
  return suite.error_rows > 0 ? kFailed : 0;
}

// Every rank has a command line and an environment of its own. Where they differ, or one of them is
// refused, all ranks end here instead of waiting for each other.
Options AgreeOnOptions(Ranks& ranks, const std::vector<std::string>& arguments) {
  Options options;
  std::string error;
  try {
    const Progress::Scope scope(ranks.progress(), Phase::kAgree);
    options = ParseOptions(arguments);
    for (const auto& fault : options.inject_faults) ParseFault(fault);
  } catch (const Error& caught) {
    error = caught.what();
  }
  const auto all = ranks.Gather(error.empty() ? options.shared_flags : error, "comparing flags");
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw FatalError("the ranks were not given the same flags: rank 0: '" + all[0] + "', rank " +
                         std::to_string(rank) + ": '" + all[rank] +
                         "'; start all ranks with the same flags and environment",
                     FatalError::kKnownToAll);
  }
  if (!error.empty()) throw UsageError(error);
  return options;
}

int Run(Watchdog& watchdog, Ranks& ranks, FaultInjector& faults,
        const std::vector<std::string>& arguments) {
  const Options options = AgreeOnOptions(ranks, arguments);
  const auto device = faults.Wrap(OpenDevice(ranks, options), [&] { ranks.AbortLinks(); });
  Machine machine{*device, ranks};
  Registry registry;
  FillRegistry(registry, machine);
  const Plan plan = MakePlan(registry, options, *device);
  const Filter filter(options.filter);
  auto chosen = Choose(plan, filter);
  if (chosen.empty() && !options.list_axes) RequireSomething(plan, filter, options);
  if (ranks.is_root() && !options.json_to_console) {
    for (const auto& line : DescribeUnavailable(plan, filter)) std::cerr << line << "\n";
    if (options.list_axes) PrintAllAxes(registry, plan);
    for (const auto& one : chosen) {
      if (options.list_tests) std::cout << one.configuration.name << "\n";
    }
  }
  if (options.list_axes || options.list_tests) return 0;
  std::vector<std::unique_ptr<WorkloadSpec>> delayed;
  if (!options.inject_delay.empty()) {
    delayed = InjectDelay(options.inject_delay, registry, chosen);
  }
  Suite suite{machine, options};
  return RunChosen(watchdog, suite, chosen);
}

// What is needed before the ranks can compare their flags; a mistake in them is told then.
Options EarlyOptions(const std::vector<std::string>& arguments) {
  try {
    Options options = ParseOptions(arguments);
    for (const auto& fault : options.inject_faults) ParseFault(fault);
    return options;
  } catch (const UsageError&) {
    return {};
  }
}

// An error here is this rank's own, and the others wait for it.
std::unique_ptr<Ranks> StartRanks(Watchdog& watchdog, std::chrono::milliseconds timeout,
                                  Progress& progress) {
  try {
    return std::make_unique<Ranks>(timeout, progress);
  } catch (const std::exception& error) {
    EndOn(watchdog, progress, nullptr, error);
  }
}

// A launcher that does not start MPI leaves each of its ranks believing that it is alone.
void RequireSame(const Launched& launched, const Ranks& ranks) {
  if (ranks.size() > 1 || launched.size == 1) return;
  throw Error("started as rank " + std::to_string(launched.rank) + " of " +
              std::to_string(launched.size) +
              ", but MPI knows of one rank only: this launcher does not start MPI; with srun try "
              "--mpi=pmix (srun --mpi=list tells what there is)");
}

int Main(const std::vector<std::string>& arguments) {
  const Options early = EarlyOptions(arguments);
  const Launched launched = ByLauncher();
  Progress progress(launched.rank, launched.size);
  Watchdog watchdog(progress, early.timeout);
  FaultInjector faults(early.inject_faults, progress);
  const auto started = StartRanks(watchdog, early.timeout, progress);
  RequireSame(launched, *started);
  Ranks& ranks = *started;
  const auto aborting = watchdog.AtEnd([&](const std::string&) { ranks.AbortLinks(); });
  const auto refuse = [&](const std::exception& error, int status) {
    std::cout.flush();
    if (ranks.is_root()) std::cerr << "overlapbench: " << error.what() << "\n" << std::flush;
    return status;
  };
  try {
    return Run(watchdog, ranks, faults, arguments);
  } catch (const FatalError& error) {
    EndOn(watchdog, progress, &ranks, error);
  } catch (const UsageError& error) {
    return refuse(error, kUsage);
  } catch (const std::exception& error) {
    return refuse(error, kFailed);
  }
}

}  // namespace
}  // namespace overlapbench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto has = [&](const char* flag) {
    return std::ranges::find(arguments, flag) != arguments.end();
  };
  if (has("--help") || has("-h")) {
    overlapbench::PrintHelp();
    return 0;
  }
  if (has("--query=gpus")) {
    std::cout << overlapbench::VisibleGpus() << "\n";
    return 0;
  }
  try {
    return overlapbench::Main(arguments);
  } catch (const std::exception& error) {
    std::cerr << "overlapbench: " << error.what() << "\n";
    return overlapbench::kFailed;
  }
}
