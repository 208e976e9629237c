#include "launcher/launcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include "device/error.h"
#include "device/text.h"
#include "launcher/gpu_count.h"
#include "launcher/start.h"
#include "launcher/supervisor.h"
#include "ranks/mpi_settings.h"
#include "ranks/ranks.h"
#include "ranks/signs.h"
#include "ranks/watchdog.h"

namespace overlapbench {
namespace {

// For mpirun to start and to reach other machines, in addition to what the ranks themselves take.
constexpr std::chrono::seconds kForMpirun(10);

long RanksOf(const StartRequest& request) {
  if (request.ranks.empty()) return 0;
  const auto ranks = WholeNumber(request.ranks);
  if (ranks && *ranks >= 1 && *ranks <= kMostRanks) return *ranks;
  throw UsageError(fmt::format("--ranks takes a whole number from 1 to {}, got '{}'", kMostRanks,
                               request.ranks));
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// A pipe can be read only once, and mpirun reads it.
std::vector<Host> HostsOf(const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && !std::filesystem::is_regular_file(path)) return {};
  std::ifstream file(path);
  if (is_folder || !file) throw UsageError("--hostfile: cannot read " + path);
  return ReadHosts({std::istreambuf_iterator<char>(file), {}}, path);
}

// "OMPI_MCA_btl=tcp": what the user, and not the suite, has set.
std::string SettingsOfUser() {
  std::string settings;
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::string_view(*one).starts_with("OMPI_MCA_") && !IsMpiDefault(*one))
      settings += (settings.empty() ? "" : ", ") + std::string(*one);
  }
  return settings;
}

// The ranks write to pipes, so they do not see the terminal.
std::vector<std::string> TerminalFlags() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0) return {};
  const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {fmt::format("--columns={}", is_known ? size.ws_col : 80)};
}

int NodesHere() {
  return AllocatedNodes(
      [](const std::string& name) {
        const char* value = std::getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
      },
      LinesOf);
}

Job JobOf(const std::string& program, const StartRequest& request, const Options& options,
          const Start& start) {
  Job job;
  job.caller = request.caller;
  job.parent = request.parent;
  job.command = start.command;
  job.is_on_one_machine = request.hostfile.empty();
  job.start_limit = options.timeout + Watchdog::kMargin + Watchdog::kPatience + kForMpirun;
  job.result = options.out;
  job.settings = SettingsOfUser();
  job.command.push_back(program);
  for (const auto& flags : {TerminalFlags(), request.flags, start.flags})
    job.command.insert(job.command.end(), flags.begin(), flags.end());
  return job;
}

void SetEnvironment(bool is_on_one_machine) {
  SetMpiDefaults();
  if (is_on_one_machine) {
    for (const auto& [name, value] : OneMachineSettings()) setenv(name.c_str(), value.c_str(), 0);
  }
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv(kSignsVariable, "1", 1);
}

}  // namespace

std::optional<StartRequest> ReadStartRequest(const std::vector<std::string>& arguments) {
  constexpr std::string_view kStart = "--start=";
  if (arguments.empty() || !arguments[0].starts_with(kStart)) return std::nullopt;
  StartRequest request;
  request.caller = arguments[0].substr(kStart.size());
  std::size_t next = 1;
  for (; next < arguments.size() && arguments[next] != "--"; ++next) {
    const std::string& word = arguments[next];
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "--parent")
      request.parent = static_cast<int>(WholeNumber(value).value_or(0));
    else if (name == "--done")
      request.done = static_cast<int>(WholeNumber(value).value_or(-1));
    else if (name == "--ranks")
      request.ranks = value;
    else if (name == "--hostfile")
      request.hostfile = value;
    else if (name == "--connections")
      request.connections = value;
    else
      throw UsageError(fmt::format("--start is for ./bench; it has no '{}'", word));
  }
  // mpirun must not inherit it.
  if (request.done >= 0) fcntl(request.done, F_SETFD, FD_CLOEXEC);
  for (++next; next < arguments.size(); ++next) request.flags.push_back(arguments[next]);
  return request;
}

void TellDone(const StartRequest& request) {
  if (request.done >= 0 && write(request.done, "done\n", 5) < 0) return;  // the caller has gone
}

int StartRanks(const std::string& program, const StartRequest& request, const Options& options,
               Signals& signals) {
  const Wish wish{options.backend, RanksOf(request), request.hostfile, request.connections};
  const auto gpus = [&] { return CountGpus(signals, {.answer = options.timeout}); };
  try {
    const Start start =
        PlanStart(wish, HostsOf(wish.hostfile), Ranks::HostName(), gpus, NodesHere());
    const Job job = JobOf(program, request, options, start);
    SetEnvironment(job.is_on_one_machine);
    std::cerr << fmt::format("{}: starting {}\n", job.caller, start.told);
    return Supervise(job, signals);
  } catch (const Interrupted& interrupted) {
    return EndBeforeStart(request.caller, interrupted.signal());
  }
}

}  // namespace overlapbench
