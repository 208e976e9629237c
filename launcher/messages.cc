#include "launcher/messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <regex>
#include <sstream>

namespace overlapbench {
namespace {

// `line` may name groups of `pattern` as in std::regex_replace.
struct Rule {
  Weight weight;
  const char* pattern;  // of the text with single blanks in place of line breaks
  const char* line;
};

// The first that matches counts.
constexpr auto kFramed = std::to_array<Rule>({
    // The host file.
    {Weight::kCause, R"(parse error in the hostfile: (\S+) It occured on line number (\d+))",
     "--hostfile: line $2 of $1 is not understood; write lines such as 'node1 slots=8'"},
    {Weight::kCause, R"(bad parameter in the hostfile: (\S+) The slots parameter)",
     "--hostfile: $1 has slots that are no number; write lines such as 'node1 slots=8'"},
    {Weight::kCause, R"(multiple definitions of the slot count .* hostfile: (\S+) node: (\S+))",
     "--hostfile: $1 lists $2 twice; write one line for each machine, with all its slots"},
    {Weight::kCause, R"(illegal character in the following node name: node: (\S+))",
     "--hostfile: '$1' is no host name; write lines such as 'node1 slots=8'"},
    {Weight::kCause, R"(No nodes are available for this job)",
     "there is no machine to run on: the host file or the allocation has none"},
    {Weight::kCause, R"(not enough slots available in the system to satisfy the (\d+) slots)",
     "$1 ranks do not fit: the host file or the allocation has fewer slots; lower --ranks, "
     "or raise slots="},
    // Programs and folders.
    {Weight::kCause, R"(could not access or execute an executable: Executable: (\S+) Node: (\S+))",
     "$1 is missing on $2, or cannot be executed there; every machine must see this folder under "
     "the same path"},
    {Weight::kCause, R"(unable to find the specified executable .* Node: (\S+) Executable: (\S+))",
     "$2 is missing on $1; every machine must see this folder under the same path"},
    {Weight::kCause,
     R"(could not change to .*? directory: (?:Working )?[Dd]irectory: (\S+) Node: (\S+))",
     "the folder $1 is missing on $2; every machine must see it under the same path"},
    {Weight::kCause,
     R"(mkdir was unable to create the desired directory: Directory: (\S+) Error: (.*?) Please)",
     "OpenMPI cannot make its folder $1 ($2); set TMPDIR to a folder that can be written"},
    // Machines and networks.
    {Weight::kCause, R"(unable to reliably start one or more daemons)",
     "not every machine could be reached, or ssh to it ended: 'ssh HOST orted --version' must work "
     "for each, without a password"},
    {Weight::kCause,
     R"(lost communication with a remote daemon.* Remote daemon: \S+ on node (\S+))",
     "the connection to $1 was lost"},
    {Weight::kCause, R"(ORTE daemon has unexpectedly failed .* before communicating back)",
     "not every machine could be reached: OpenMPI's daemon started there, and could not call back; "
     "is a firewall in between?"},
    {Weight::kCause, R"(None of the TCP networks .* could be found: Value given: (\S+))",
     "there is no network interface '$1' here; correct OMPI_MCA_oob_tcp_if_include"},
    {Weight::kCause, R"(invalid value was given for (btl_tcp_if_\w+).*? Value: (\S+))",
     "there is no network interface '$2' on some machine; correct OMPI_MCA_$1"},
    {Weight::kHint, R"(No network interfaces were found for out-of-band communications)",
     "OpenMPI found no network interface"},
    {Weight::kCause,
     R"(processes are unable to reach each other .* on host: (\S+) .* on host: (\S+) BTLs attempted: (.*?) Your)",
     "ranks on $1 and $2 cannot reach each other through '$3'; correct OMPI_MCA_btl"},
    // Settings.
    {Weight::kCause, R"(requested component was not found.* Framework: (\S+) Component: (\S+))",
     "OpenMPI has no $1 component '$2'; correct OMPI_MCA_$1"},
    {Weight::kCause, R"re(The value of the MCA parameter "(\w+)" .* not be found: \S+ (\S+))re",
     "OMPI_MCA_$1: '$2' cannot be found"},
    {Weight::kCause, R"(Failed to parse|was unable to parse the (?:file|param))",
     "OpenMPI cannot read one of its settings; correct the OMPI_MCA_ variables"},
    {Weight::kCause, R"(specified (\w+) policy is not recognized: Policy: (\S+))",
     "OpenMPI knows no $1 policy '$2'; correct the OMPI_MCA_ variable that has it"},
    {Weight::kHint,
     R"(invalid value was supplied for an enum variable. Variable : (\S+) Value : (\S+))",
     "OMPI_MCA_$1: '$2' is no valid value"},
    // Ranks. A rank that only says that it aborts has told why.
    {Weight::kDeath, R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))",
     "rank $1 on $2 was killed by "},  // the name of $3
    {Weight::kHint, R"(due to process rank (\d+) with PID \d+ on node (\S+) exiting improperly)",
     "rank $1 on $2 exited before the run had ended"},
    {Weight::kHint,
     R"(exited with non-zero status, .* Process name: \[\[\d+,\d+\],(\d+)\] Exit code: (\d+))",
     "rank $1 exited with status $2, without a word"},
    {Weight::kNone, R"(Primary job +terminated normally|MPI_ABORT was invoked)", ""},
    // From ranks on other machines, when one is gone.
    {Weight::kNone, R"(peer process has unexpectedly disconnected)", ""},
    {Weight::kNone, R"(Open MPI failed to TCP connect to a peer)", ""},
    {Weight::kHint, R"(It looks like (?:MPI_INIT|orte_init|opal_init) failed)",
     "MPI could not start"},
    {Weight::kHint, R"(FORCE-TERMINATE AT)", "mpirun gave up"},
});

constexpr auto kLines = std::to_array<Rule>({
    {Weight::kHint, R"(^(?:\[\S+\] )?\*\*\* An error occurred in MPI_Init)", "MPI could not start"},
    {Weight::kNone, R"(^(?:\[\S+\] )?\*\*\*)", ""},
    {Weight::kNone, R"(^mpirun: (?:Forwarding signal|abort is already in progress))", ""},
    {Weight::kNone, R"(^\[\S+\] plm:rsh: Warning: setpgid)", ""},
    {Weight::kNone, R"(^\[warn\] Epoll )", ""},
    {Weight::kNone, R"(^\[\S+/btl_tcp_\w+\.c:)", ""},
    {Weight::kNone, R"(^\[\S+\] Local abort before MPI_INIT completed)", ""},
    {Weight::kNone, R"(^\[\S+\] \d+ more process(?:es)? (?:has|have) sent help message)", ""},
    {Weight::kNone, R"(^\[\S+\] Set MCA parameter "orte_base_help_aggregate")", ""},
    // OpenMPI 4.1.4 loses some messages so.
    {Weight::kNone, R"(^\[\S+\] \[\[\S+\] ORTE_ERROR_LOG: .*show_help\.c)", ""},
    {Weight::kHint, R"(^\[\S+\] PMIX ERROR: OUT-OF-RESOURCE)",
     "OpenMPI cannot write its files; is there space in TMPDIR (/tmp if it is not set), and does "
     "'ulimit -f' allow them?"},
    {Weight::kHint,
     R"(^\[\S+\] (?:\[\[\S+\] )?(?:PMIX ERROR|ORTE_ERROR_LOG|OPAL ERROR): (.*) in file)",
     "MPI could not start ($1)"},
    {Weight::kHint, R"(^\[\S+\] \[\[\S+\] FORCE-TERMINATE AT (.*?):?-?\d* - error)",
     "mpirun gave up ($1)"},
});

std::string InOneLine(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

template <std::size_t Count>
std::optional<Message> Match(const std::array<Rule, Count>& rules, const std::string& text) {
  // OpenMPI's are shorter, and std::regex needs stack for every character.
  constexpr std::size_t kMostBytes = 8192;
  if (text.size() > kMostBytes) return std::nullopt;
  for (const Rule& rule : rules) {
    std::smatch match;
    if (!std::regex_search(text, match, std::regex(rule.pattern))) continue;
    std::string line = match.format(std::string(rule.line));
    if (rule.weight == Weight::kDeath) line += NameSignal(std::stoi(match[3]));
    return Message{rule.weight, line};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Message> Understand(const std::string& framed) {
  return Match(kFramed, InOneLine(framed));
}

std::optional<Message> UnderstandLine(const std::string& line) { return Match(kLines, line); }

std::string CauseOf(const std::vector<Message>& messages, int status, Told told) {
  const auto weightiest = std::ranges::max_element(messages, {}, &Message::weight);
  const Weight weight = weightiest == messages.end() ? Weight::kNone : weightiest->weight;
  if (weight >= Weight::kCause) return weightiest->line;
  // mpirun sends the ranks a signal when it has lost one: theirs is then no reason.
  if (weight == Weight::kHint && told != Told::kReason) return weightiest->line;
  if (told != Told::kNothing) return "";
  constexpr int kSignalled = 128;  // plus the signal's number, as in shells
  if (status > kSignalled && sigabbrev_np(status - kSignalled) != nullptr)
    return fmt::format("a rank was killed by {}", NameSignal(status - kSignalled));
  return fmt::format("mpirun ended with status {}, and did not say why", status);
}

std::string NameSignal(int signal) {
  const char* name = sigabbrev_np(signal);
  std::string text =
      name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
  switch (signal) {
    case SIGKILL:
      return text + " (out of memory, or kill -9)";
    case SIGXFSZ:
      return text + " (a file grew beyond the limit of ulimit -f)";
    case SIGXCPU:
      return text + " (it took more time than ulimit -t allows)";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
      return text + " (a crash)";
    default:
      return text;
  }
}

}  // namespace overlapbench
