#include "launcher/launcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include "device/device.h"
#include "device/error.h"
#include "device/text.h"
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
  if (path.empty() || !std::filesystem::is_regular_file(path)) return {};
  std::ifstream file(path);
  if (!file) throw UsageError("--hostfile: cannot read " + path);
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

// In a process of its own, because a driver may take seconds, or hang, and signals must end it. A
// signal is left for the supervisor. Nobody reads the process's status.
int CountGpus(Signals& signals) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return 0;
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    const int count = VisibleGpus();
    _exit(static_cast<int>(write(ends[1], &count, sizeof(count))));
  }
  writing = Descriptor();
  std::array<pollfd, 2> all = {{{reading.get(), POLLIN, 0}, {signals.descriptor(), POLLIN, 0}}};
  poll(all.data(), all.size(), -1);
  int count = 0;
  if (all[0].revents == 0 || read(reading.get(), &count, sizeof(count)) != sizeof(count)) count = 0;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return count;
}

// The ranks write to pipes, so they do not see the terminal.
std::vector<std::string> TerminalFlags() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0) return {};
  const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {fmt::format("--columns={}", is_known ? size.ws_col : 80)};
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
  const auto hosts = HostsOf(wish.hostfile);
  const int nodes = AllocatedNodes(
      [](const std::string& name) {
        const char* value = std::getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
      },
      LinesOf);
  const Start start =
      PlanStart(wish, hosts, Ranks::HostName(), [&] { return CountGpus(signals); }, nodes);
  Job job;
  job.caller = request.caller;
  job.parent = request.parent;
  job.command = start.command;
  job.is_on_one_machine = wish.hostfile.empty();
  job.start_limit = options.timeout + Watchdog::kMargin + Watchdog::kPatience + kForMpirun;
  job.result = options.out;
  job.settings = SettingsOfUser();
  job.command.push_back(program);
  for (const auto& flags : {TerminalFlags(), request.flags, start.flags})
    job.command.insert(job.command.end(), flags.begin(), flags.end());
  SetEnvironment(job.is_on_one_machine);
  std::cerr << fmt::format("{}: starting {}\n", job.caller, start.told);
  return Supervise(job, signals);
}

}  // namespace overlapbench
