// overlapbench: the program. Reads the command line, starts the ranks, plans the benchmarks that
// exist on this machine, chooses by filter, and lets Google Benchmark run them.
//
// Exit status: 0 all rows measured; 1 a row or the job failed; 2 usage.
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "benchmarks/help.h"
#include "benchmarks/injected_delay.h"
#include "benchmarks/injected_fault.h"
#include "benchmarks/open_device.h"
#include "benchmarks/plan.h"
#include "benchmarks/run.h"
#include "benchmarks/selection.h"
#include "fixtures/options.h"
#include "ranks/end_job.h"
#include "ranks/launcher.h"

namespace overlapbench {
namespace {

constexpr int kUsage = 2;

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
  const std::string& text = error.empty() ? options.shared_flags : error;
  const auto all = ranks.Gather(text, "comparing flags");
  // What is gathered may be cut off.
  const auto hash = static_cast<double>(std::hash<std::string>()(text));
  const auto hashes = ranks.GatherNumbers({&hash, 1}, "comparing flags");
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (all[rank] == all[0] && hashes[rank] == hashes[0]) continue;
    throw FatalError("the ranks were not given the same flags: rank 0: '" + all[0] + "', rank " +
                         std::to_string(rank) + ": '" + all[rank] +
                         (all[rank] == all[0] ? "', and differ further on" : "'") +
                         "; start all ranks with the same flags and environment",
                     FatalError::kKnownToAll);
  }
  if (!error.empty()) throw UsageError(error);
  return options;
}

// What cannot run here, and the lists that were asked for.
void ShowPlan(const Options& options, const Registry& registry, const Plan& plan,
              const Selection& selection) {
  if (!options.json_to_console) {
    for (const auto& line : selection.unavailable) std::cerr << line << "\n";
  }
  if (options.list_axes) PrintAxes(registry, plan);
  if (!options.list_tests) return;
  for (const auto& one : selection.benchmarks) std::cout << one.configuration.name << "\n";
}

int Run(Watchdog& watchdog, Ranks& ranks, FaultInjector& faults,
        const std::vector<std::string>& arguments) {
  const Options options = AgreeOnOptions(ranks, arguments);
  const auto device = faults.Wrap(OpenDevice(ranks, options), [&] { ranks.AbortLinks(); });
  Machine machine{*device, ranks};
  Registry registry;
  FillRegistry(registry, machine);
  const Plan plan = MakePlan(registry, options.axes, *device);
  Selection selection = Select(plan, options.filter);
  if (!options.list_axes) RequireSomething(selection, options.filter);
  if (ranks.is_root()) ShowPlan(options, registry, plan, selection);
  if (options.list_axes || options.list_tests) return 0;
  std::vector<std::unique_ptr<WorkloadSpec>> delayed;
  if (!options.inject_delay.empty()) {
    delayed = InjectDelay(options.inject_delay, registry, selection.benchmarks);
  }
  Suite suite{machine, options};
  return RunAll(watchdog, suite, selection.benchmarks);
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
    EndJob(watchdog, progress, nullptr, error);
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
    EndJob(watchdog, progress, &ranks, error);
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
