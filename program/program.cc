#include "program/program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/catalog.h"
#include "benchmarks/help.h"
#include "benchmarks/injected_delay.h"
#include "benchmarks/name_filter.h"
#include "benchmarks/plan.h"
#include "benchmarks/planned_schedules.h"
#include "benchmarks/preflight.h"
#include "benchmarks/prologue.h"
#include "benchmarks/run.h"
#include "fixtures/build.h"
#include "fixtures/options.h"
#include "launcher/launcher.h"
#include "ranks/mpi_settings.h"
#include "ranks/signs.h"
#include "ranks/watchdog.h"
#include "report/run_reporter.h"

namespace overlapbench {
namespace {

constexpr int kUsage = 2;

// The command line as this rank has read it. Options are needed before the ranks can compare them.
// A mistake is reported only after that comparison; until then the default options are used.
struct CommandLine {
  Options options;
  std::string error;  // "" if there is none
};

CommandLine Read(std::vector<std::string> arguments, ProgramHooks& hooks) {
  try {
    std::erase_if(arguments, [&](const std::string& argument) { return hooks.Take(argument); });
    CommandLine line{ParseOptions(arguments), ""};
    RequireUsableFilters(line.options);
    const NameFilter filter("--benchmark_filter", line.options.filter);  // throws
    return line;
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

// Names the first rank whose flags differ from rank 0's. Texts may be cut off, so it compares
// hashes.
[[noreturn]] void RefuseFlags(Ranks& ranks, const std::string& text) {
  const auto all = ranks.Gather(text, "comparing flags");
  const std::array hash = {static_cast<double>(std::hash<std::string>()(text))};
  const auto hashes = ranks.GatherNumbers(hash, "comparing flags");
  const auto other = std::ranges::find_if(hashes, [&](double one) { return one != hashes[0]; });
  const auto rank = other - hashes.begin();
  throw FatalError(
      fmt::format("the ranks were not given the same flags: rank 0: '{}', rank {}: '{}'{}; start "
                  "all ranks with the same flags and environment",
                  all[0], rank, all[rank], all[rank] == all[0] ? ", which differ further on" : ""),
      FatalError::kKnownToAll);
}

// Every rank has its own command line and environment. If they differ, or if one is refused, all
// ranks end here instead of waiting for each other.
void CompareFlags(Ranks& ranks, const CommandLine& line) {
  const Progress::Scope scope(ranks.progress(), Phase::kAgree);
  const std::string& text = line.error.empty() ? line.options.shared_flags : line.error;
  if (!ranks.IsSameOnAll(text, "comparing flags")) RefuseFlags(ranks, text);
  if (!line.error.empty()) throw UsageError(line.error);
}

// Prints what cannot run here, and the lists that were requested.
void ShowPlan(const Options& options, const Registry& registry, const Plan& plan,
              const Selection& selection) {
  if (options.format == ConsoleFormat::kText) {
    std::cerr << ShownUnavailable(selection, FindScreen(options.columns, options.colour));
  }
  if (options.list_axes) PrintAxes(registry, plan);
  if (options.dry_run) PrintDryRun(options, selection.benchmarks);
  if (!options.list_tests) return;
  for (const Benchmark& one : selection.benchmarks) std::cout << one.name << "\n";
}

struct Planned {
  Plan plan;
  Selection selection;
};

Planned PlanRows(const Catalog& catalog, const Options& options) {
  Plan plan = MakePlan(catalog, options.axes, options.pairs);
  Selection selection = Select(plan, options.filter);
  if (!options.list_axes) RequireSomething(plan, selection, options.filter);
  if (!options.inject_delay.empty()) RequireInjectable(options.inject_delay, catalog.workloads);
  return {std::move(plan), std::move(selection)};
}

// GPUs of different models, or parts of one, may not allow the same rows.
Planned PlanTogether(Ranks& ranks, const Catalog& catalog, const Options& options) {
  std::optional<Planned> planned;
  std::string error;
  try {
    planned = PlanRows(catalog, options);
  } catch (const UsageError& mistake) {
    error = mistake.what();
  }
  RefuseTogether(ranks, error);
  return std::move(*planned);
}

int Run(Watchdog& watchdog, Ranks& ranks, ProgramHooks& hooks, const CommandLine& line) {
  CompareFlags(ranks, line);
  const Options& options = line.options;
  const auto device = hooks.Wrap(OpenDevice(ranks, options), [&] { ranks.AbortLinks(); });
  Machine machine{*device, ranks, options.timeout, options.share_gpu};
  Registry registry;
  FillRegistry(registry, machine);
  CounterTable table = AllCounters();
  AddWorkloads(table, registry);
  const Catalog catalog{registry, *device, machine};
  auto [plan, selection] = PlanTogether(ranks, catalog, options);
  if (ranks.is_root()) ShowPlan(options, registry, plan, selection);
  if (options.list_axes || options.list_tests || options.dry_run) return 0;
  std::vector<Benchmark> known;
  if (options.self_test) known = KnownBenchmarks(catalog);
  if (!options.inject_delay.empty()) {
    InjectDelay(options.inject_delay, registry, selection.benchmarks);
    InjectDelayIfAny(options.inject_delay, registry, known);
  }
  if (options.predictable)
    for (Benchmark& benchmark : selection.benchmarks) benchmark.is_predictable = true;
  Suite suite{machine, options};
  return RunAll(watchdog, suite, table, known, selection.benchmarks);
}

// The other ranks do not know of an error here and wait for this rank, so it ends the job.
std::unique_ptr<Ranks> StartRanks(Watchdog& watchdog, std::chrono::milliseconds timeout,
                                  Progress& progress) {
  try {
    return std::make_unique<Ranks>(timeout, progress);
  } catch (const std::exception& error) {
    EndJob(watchdog, progress, nullptr, error);
  }
}

int Refuse(const std::exception& error, int status, bool show) {
  if (show) std::cerr << "overlapbench: " << error.what() << "\n" << std::flush;
  return status;
}

int Main(const std::vector<std::string>& arguments, ProgramHooks& hooks) {
  const CommandLine line = Read(arguments, hooks);
  const RankPlace place = ByLauncher();
  // Ranks that a launcher started must learn of each other's mistakes.
  if (!line.error.empty() && place.size == 1) return Refuse(UsageError(line.error), kUsage, true);
  const Question question = line.options.question;
  if (question == Question::kFlags || (question == Question::kNone && place.size == 1)) {
    try {
      RequireUsable(line.options, [&](const Registry& registry) {
        const std::string& delay = line.options.inject_delay;
        if (!delay.empty()) RequireInjectable(delay, registry);
      });
    } catch (const UsageError& error) {
      return Refuse(error, kUsage, true);
    }
  }
  if (line.options.question != Question::kNone) {
    if (place.rank == 0) Answer(line.options.question, line.options.help_topic);
    return 0;
  }
  if (line.options.plan_ranks > 0) {
    try {
      if (place.rank == 0) PrintSchedules(line.options);
      return 0;
    } catch (const Error& error) {
      return Refuse(error, kUsage, true);
    }
  }
  try {
    RequireMpiFrom(place);
  } catch (const Error& error) {
    return Refuse(error, kFailed, place.rank == 0);
  }
  Progress progress(place.rank, place.size);
  Watchdog watchdog(progress, line.options.timeout);
  hooks.Begin(progress);
  SetMpiDefaults();
  const auto started = StartRanks(watchdog, line.options.timeout, progress);
  Give(Sign::kStarted);
  Ranks& ranks = *started;
  const auto aborting = watchdog.AtEnd([&](const std::string&) { ranks.AbortLinks(); });
  const auto asking = watchdog.OnTerminated([&] { return ranks.RollCall(); });
  const auto refuse = [&](const std::exception& error, int status) {
    return Refuse(error, status, ranks.is_root());
  };
  try {
    RequireRanksOfOneRun(place, ranks);
    return Run(watchdog, ranks, hooks, line);
  } catch (const FatalError& error) {
    EndJob(watchdog, progress, &ranks, error);
  } catch (const UsageError& error) {
    return refuse(error, kUsage);
  } catch (const AgreedError& error) {
    return refuse(error, kFailed);
  } catch (const std::exception& error) {
    // Only this rank knows of the error, and the others wait for it.
    if (ranks.size() > 1) EndJob(watchdog, progress, &ranks, error);
    return refuse(error, kFailed);
  }
}

// What ./bench calls.
int MainOfLauncher(const std::string& program, const StartRequest& request, ProgramHooks& hooks) {
  Signals signals;
  const CommandLine line = Read(request.flags, hooks);
  if (!line.error.empty()) return Refuse(UsageError(line.error), kUsage, true);
  try {
    return StartRanks(program, request, line.options, signals);
  } catch (const std::exception& error) {
    std::cerr << request.caller << ": " << error.what() << "\n";
    return dynamic_cast<const UsageError*>(&error) != nullptr ? kUsage : kFailed;
  }
}

// The next file that is opened would take the place of a standard descriptor that is closed, as by
// >&-, and get the output. Reading and writing these fails, as for a closed one.
void OccupyStandardDescriptors() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(standard, F_GETFD) == -1) open("/", O_PATH);  // takes the lowest number
}

}  // namespace

int RunProgram(int argc, char** argv, ProgramHooks& hooks) {
  OccupyStandardDescriptors();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (const auto request = ReadStartRequest(arguments)) {
      const int status = MainOfLauncher(argv[0], *request, hooks);
      TellDone(*request);
      return status;
    }
    const int status = Main(arguments, hooks);
    if (status == 0 && OutputFailed()) throw Error("cannot write to standard output");
    Give(Sign::kEnded);
    return status;
  } catch (const std::exception& error) {
    std::cerr << "overlapbench: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace overlapbench
