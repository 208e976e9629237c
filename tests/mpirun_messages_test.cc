// What OpenMPI 4.1 says, in its own words, and the line that ./bench makes of it.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <utility>

#include "launcher/messages.h"
#include "launcher/mpirun_output.h"

namespace overlapbench {
namespace {

const std::string kDashes = std::string(74, '-') + "\n";

std::string Framed(const std::string& text) { return kDashes + text + kDashes; }

// The last line of a job whose mpirun writes `text` and ends with `status`.
std::string Cause(const std::string& text, int status = 1, Told told = Told::kNothing) {
  MpirunOutput output;
  const std::string shown = output.Take(text);
  return shown + CauseOf(output.messages(), status, told);
}

// As they follow a mistake.
const std::string kInternal = Framed(
    "An internal error has occurred in ORTE:\n\n[[13167,0],0] FORCE-TERMINATE AT (null):1 - "
    "error ../../../../../orte/mca/ras/base/ras_base_allocate.c(352)\n\nThis is something "
    "that should be reported to the developers.\n");
const std::string kPrimary = Framed(
    "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per "
    "user-direction, the job has been aborted.\n");
const std::string kAbort = Framed(
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 143.\n\nNOTE: "
    "invoking MPI_ABORT causes Open MPI to kill all MPI processes.\nYou may or may not see output "
    "from other processes, depending on\nexactly when Open MPI kills them.\n");
const std::string kMore =
    "[vm:26460] 1 more process has sent help message help-mpi-api.txt / mpi-abort\n"
    "[vm:26460] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error "
    "messages\n";

TEST(MpirunMessages, NamesTheKilledRank) {
  const std::string killed = Framed(
      "mpirun noticed that process rank 1 with PID 0 on node node2 exited on signal 9 (Killed).\n");
  EXPECT_EQ(Cause(kPrimary + kAbort + killed, 137),
            "rank 1 on node2 was killed by SIGKILL (out of memory, or kill -9)");
  // Whatever the ranks have said: it is not the reason.
  EXPECT_EQ(Cause(killed, 137, Told::kSignal),
            "rank 1 on node2 was killed by SIGKILL (out of memory, or kill -9)");
  EXPECT_EQ(Cause(Framed("mpirun noticed that process rank 0 with PID 12 on node vm exited on "
                         "signal 11 (Segmentation fault).\n")),
            "rank 0 on vm was killed by SIGSEGV (a crash)");
  EXPECT_EQ(Cause(kPrimary, 128 + SIGBUS), "a rank was killed by SIGBUS (a crash)");
}

TEST(MpirunMessages, NamesTheRankThatExited) {
  const std::string improper = Framed(
      "mpirun has exited due to process rank 1 with PID 0 on\nnode vm exiting improperly. "
      "There are three reasons this could occur:\n\n1. this process did not call \"init\" "
      "before exiting, but others in\nthe job did.\n");
  EXPECT_EQ(Cause(kAbort + improper), "rank 1 on vm exited before the run had ended");
  EXPECT_EQ(Cause(improper, 1, Told::kSignal), "rank 1 on vm exited before the run had ended");
  const std::string status = Framed(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe "
      "job to be terminated. The first process to do so was:\n\n  Process name: [[3300,1],1]\n  "
      "Exit code:    3\n");
  EXPECT_EQ(Cause(kPrimary + status, 3), "rank 1 exited with status 3, without a word");
  EXPECT_EQ(Cause(kPrimary + status + kMore, 3, Told::kReason), "");
}

TEST(MpirunMessages, SaysNothingMoreWhereTheRanksHaveToldWhy) {
  EXPECT_EQ(Cause(kAbort + kMore, 1, Told::kReason), "");
  EXPECT_EQ(Cause(kAbort + kMore, 143, Told::kSignal), "");
  // Ranks on other machines, when one has gone.
  const std::string disconnected = Framed(
      "An MPI communication peer process has unexpectedly disconnected.  This\nusually indicates a "
      "failure in the peer process (e.g., a crash or\notherwise exiting without calling "
      "MPI_FINALIZE first).\n\n  Local host: node1\n  Local PID:  436\n  Peer host:  node2\n");
  const std::string unconnected = Framed(
      "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n\n"
      "  Local host: node2\n  Message:    connect() to 10.77.0.1:1025 failed\n");
  const std::string broken =
      "[node1][[19143,1],0][../../../../../../opal/mca/btl/tcp/btl_tcp_frag.c:135:"
      "mca_btl_tcp_frag_send] mca_btl_tcp_frag_send: writev failed: Broken pipe (32)\n"
      "mpirun: abort is already in progress...hit ctrl-c again to forcibly terminate\n"
      "[warn] Epoll MOD(1) on fd 19 failed. Old events were 6; read change was 0 (none)\n";
  EXPECT_EQ(Cause(kAbort + disconnected + unconnected + broken, 143, Told::kSignal), "");
  EXPECT_EQ(
      Cause("[node1:00046] plm:rsh: Warning: setpgid(50,50) failed in parent with errno=13\n", 7),
      "mpirun ended with status 7, and did not say why");
  for (const int status : {7, 128, 200})
    EXPECT_EQ(Cause("", status),
              "mpirun ended with status " + std::to_string(status) + ", and did not say why");
}

TEST(MpirunMessages, NamesTheMistakeInTheHostFile) {
  EXPECT_EQ(
      Cause(Framed("Open RTE detected a parse error in the hostfile:\n    hosts\nIt occured on "
                   "line number 2 on token 1.\n") +
            kInternal),
      "--hostfile: line 2 of hosts is not understood; write lines such as 'node1 slots=8'");
  EXPECT_EQ(Cause(Framed("Open RTE detected a bad parameter in the hostfile:\n    word\nThe slots "
                         "parameter is less than 0:\n    slots=-1\n") +
                  kInternal),
            "--hostfile: word has slots that are no number; write lines such as 'node1 slots=8'");
  EXPECT_EQ(
      Cause(Framed("A hostfile was provided that contains multiple definitions\nof the slot "
                   "count for at least one node:\n\n  hostfile:  twice\n  node:      vm\n\nYou "
                   "can either list a node multiple times\n") +
            kInternal),
      "--hostfile: twice lists vm twice; write one line for each machine, with all its slots");
  EXPECT_EQ(
      Cause(Framed("No nodes are available for this job, either due to a failure to\nallocate "
                   "nodes to the job, or allocated nodes being marked\n")),
      "there is no machine to run on: the host file or the allocation has none");
  EXPECT_EQ(
      Cause(Framed("There are not enough slots available in the system to satisfy the 4\nslots "
                   "that were requested by the application:\n\n  hostname\n")),
      "4 ranks do not fit: the host file or the allocation has fewer slots; lower --ranks, or "
      "raise slots=");
}

TEST(MpirunMessages, NamesWhatIsMissingOnAMachine) {
  EXPECT_EQ(Cause(Framed("mpirun was unable to launch the specified application as it could not "
                         "access\nor execute an executable:\n\nExecutable: /a/overlapbench\nNode: "
                         "node2\n\nwhile attempting to start process rank 0.\n"),
                  132),
            "/a/overlapbench is missing on node2, or cannot be executed there; every machine must "
            "see this folder under the same path");
  // ssh's own line comes first, as it is.
  EXPECT_EQ(Cause("ssh: Could not resolve hostname x: Name or service not known\n" +
                  Framed("ORTE was unable to reliably start one or more daemons.\nThis usually is "
                         "caused by:\n")),
            "ssh: Could not resolve hostname x: Name or service not known\n"
            "not every machine could be reached, or ssh to it ended: 'ssh HOST orted --version' "
            "must work for each, "
            "without a password");
}

TEST(MpirunMessages, NamesTheSettingThatIsWrong) {
  EXPECT_EQ(
      Cause(Framed("A requested component was not found, or was unable to be opened.  "
                   "This\nmeans ...\n\nHost:      vm\nFramework: pml\nComponent: nonsense\n") +
            Framed("It looks like MPI_INIT failed for some reason; your parallel process is\n")),
      "OpenMPI has no pml component 'nonsense'; correct OMPI_MCA_pml");
  EXPECT_EQ(Cause(Framed("None of the TCP networks specified to be included for out-of-band "
                         "communications\ncould be found:\n\n  Value given: eth77\n\nPlease revise "
                         "the specification and try again.\n") +
                  Framed("No network interfaces were found for out-of-band communications. We "
                         "require\nat least one available network for out-of-band messaging.\n")),
            "there is no network interface 'eth77' here; correct OMPI_MCA_oob_tcp_if_include");
  EXPECT_EQ(Cause(Framed("The value of the MCA parameter \"plm_rsh_agent\" was set to a path\nthat "
                         "could not be found:\n\n  plm_rsh_agent: nosuchagent\n\nPlease either "
                         "unset the parameter\n")),
            "OMPI_MCA_plm_rsh_agent: 'nosuchagent' cannot be found");
  EXPECT_EQ(
      Cause(Framed("The specified mapping policy is not recognized:\n\n  Policy: nowhere\n\n"
                   "Please check for a typo or ensure that the option is a supported\none.\n")),
      "OpenMPI knows no mapping policy 'nowhere'; correct the OMPI_MCA_ variable that has it");
}

// The rest of the table: which of a message's words are in the line, and where.
TEST(MpirunMessages, NamesWhatEachOfTheOthersIsAbout) {
  struct Case {
    const char* text;
    const char* line;
  };
  for (const auto& [text, line] : std::to_array<Case>({
           {"presence of an illegal character in the following node name:\n\n  node:  a_b\n\nNode "
            "names must be composed of\n",
            "--hostfile: 'a_b' is no host name; write lines such as 'node1 slots=8'"},
           {"mpirun was unable to find the specified executable file, and therefore\n"
            "did not launch the job.\n\nNode:       node2\nExecutable: /a/program\n",
            "/a/program is missing on node2; every machine must see this folder under the same "
            "path"},
           {"mpirun could not change to the specified working directory:\n\nWorking Directory: "
            "/a/folder\nNode: node2\nError: No such file or directory\n",
            "the folder /a/folder is missing on node2; every machine must see it under the same "
            "path"},
           {"A call to mkdir was unable to create the desired directory:\n\n  Directory: /a/tmp\n  "
            "Error:     No space left on device\n\nPlease check to ensure you have\n",
            "OpenMPI cannot make its folder /a/tmp (No space left on device); set TMPDIR to a "
            "folder that can be written"},
           {"ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on "
            "node node1\n  Remote daemon: [[1,0],1] on node node2\n\nThis is usually due to\n",
            "the connection to node2 was lost"},
           {"An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to "
            "mpirun.\n",
            "not every machine could be reached: OpenMPI's daemon started there, and could not "
            "call back; is a firewall in between?"},
           {"WARNING: An invalid value was given for btl_tcp_if_include.  This\nvalue will be "
            "ignored.\n\n  Local host: node1\n  Value:      eth77\n  Message:    Unknown\n",
            "there is no network interface 'eth77' on some machine; correct "
            "OMPI_MCA_btl_tcp_if_include"},
           {"At least one pair of MPI processes are unable to reach each other for\nMPI "
            "communications.\n\n  Process 1 ([[1,1],0]) is on host: node1\n  Process 2 ([[1,1],1]) "
            "is on host: node2\n  BTLs attempted: self tcp\n\nYour MPI job is now going to abort\n",
            "ranks on node1 and node2 cannot reach each other through 'self tcp'; correct "
            "OMPI_MCA_btl"},
           {"Failed to parse one of them\n",
            "OpenMPI cannot read one of its settings; correct the OMPI_MCA_ variables"},
           {"Open MPI was unable to parse the file\n",
            "OpenMPI cannot read one of its settings; correct the OMPI_MCA_ variables"},
       })) {
    EXPECT_EQ(Cause(Framed(text) + kInternal), line);
    EXPECT_EQ(Cause(Framed(text), 1, Told::kReason), line) << "whatever the ranks have said";
  }
  // Hints, which count only if nothing else is known.
  for (const auto& [text, line] : std::to_array<Case>({
           {"An invalid value was supplied for an enum variable.\n\n  Variable     : "
            "btl_base_x\n  Value        : often\n  Valid values : 0: never\n",
            "OMPI_MCA_btl_base_x: 'often' is no valid value"},
           {"No network interfaces were found for out-of-band communications. We\n",
            "OpenMPI found no network interface"},
           {"It looks like orte_init failed for some reason; your parallel process is\n",
            "MPI could not start"},
           {"[[1,0],0] FORCE-TERMINATE AT (null):1 - error a.c(352)\n", "mpirun gave up"},
       })) {
    EXPECT_EQ(Cause(Framed(text)), line);
    EXPECT_EQ(Cause(Framed(text), 1, Told::kReason), "") << line;
    EXPECT_EQ(Cause(Framed(text) + Framed("No nodes are available for this job\n")),
              "there is no machine to run on: the host file or the allocation has none");
  }
  EXPECT_EQ(Cause("[vm:1] [[1,0],0] ORTE_ERROR_LOG: Out of resource in file a.c at line 1\n"),
            "MPI could not start (Out of resource)");
  EXPECT_EQ(Cause("[vm:1] [[1,0],0] FORCE-TERMINATE AT Timeout:-5 - error a.c(352)\n"),
            "mpirun gave up (Timeout)");
}

TEST(NameSignal, SaysWhatItUsuallyMeans) {
  for (const auto& [signal, name] :
       {std::pair{SIGKILL, "SIGKILL (out of memory, or kill -9)"},
        {SIGXFSZ, "SIGXFSZ (a file grew beyond the limit of ulimit -f)"},
        {SIGXCPU, "SIGXCPU (it took more time than ulimit -t allows)"},
        {SIGSEGV, "SIGSEGV (a crash)"},
        {SIGBUS, "SIGBUS (a crash)"},
        {SIGABRT, "SIGABRT (a crash)"},
        {SIGFPE, "SIGFPE (a crash)"},
        {SIGILL, "SIGILL (a crash)"},
        {SIGTERM, "SIGTERM"},
        {SIGRTMIN + 1, "signal 35"},
        {200, "signal 200"}})
    EXPECT_EQ(NameSignal(signal), name);
}

// OpenMPI 4.1.4 loses its own message.
TEST(MpirunMessages, SaysThatMpiCouldNotStart) {
  EXPECT_EQ(
      Cause("[vm:25776] [[2126,0],0] ORTE_ERROR_LOG: Data unpack had inadequate space in file "
            "../../../orte/util/show_help.c at line 513\n"
            "[vm:25781] *** An error occurred in MPI_Init_thread\n"
            "[vm:25781] *** reported by process [139329537,1]\n"
            "[vm:25781] *** on a NULL communicator\n",
            1, Told::kSignal),
      "MPI could not start");
  EXPECT_EQ(
      Cause("[vm:28773] PMIX ERROR: OUT-OF-RESOURCE in file ../../dstore_segment.c at line 208\n"
            "*** An error occurred in MPI_Init_thread\n"),
      "OpenMPI cannot write its files; is there space in TMPDIR (/tmp if it is not set), and "
      "does 'ulimit -f' allow them?");
}

TEST(MpirunMessages, ShowsWhatIsNotKnownAsItIs) {
  EXPECT_EQ(Cause(Framed("WARNING: something new.\n\n  Host: a\n"), 0, Told::kReason),
            "WARNING: something new.\n\n  Host: a\n");
  MpirunOutput output;
  EXPECT_EQ(output.Take("[new:1] a line\n*** another\n"), "[new:1] a line\n");
}

// std::regex needs stack for every character.
TEST(MpirunMessages, ShowsLongTextsAsTheyAre) {
  const std::string line = "[" + std::string(400'000, '1') + "]";
  EXPECT_EQ(MpirunOutput().Take(line + "\n"), line + "\n");
  EXPECT_EQ(MpirunOutput().Take(Framed(line + " in the hostfile: ")), line + " in the hostfile: ");
  std::string known = "mpirun: Forwarding signal ";
  known.resize(8192, 'x');
  EXPECT_EQ(MpirunOutput().Take(known + "\n"), "");
  EXPECT_EQ(MpirunOutput().Take(known + "x\n"), known + "x\n");
}

TEST(MpirunOutput, PassesOnTheRanksOutputAtOnce) {
  MpirunOutput output;
  EXPECT_EQ(output.Take("\r[2/7] half of a progress line"), "\r[2/7] half of a progress line");
  EXPECT_EQ(output.Take("; a --flag"), "; a --flag");
  EXPECT_FALSE(output.IsHolding());
  EXPECT_EQ(output.Take("\n- a list\n--- dashes\n"), "\n- a list\n--- dashes\n");
}

// A frame may begin within a progress line, and arrive in pieces of any size. A line of mpirun's
// own is one only at the beginning of a line.
TEST(MpirunOutput, FindsFramesWhereverTheyBeginAndBreak) {
  const std::string line = "[vm:1] *** An error occurred in MPI_Init\n";
  const std::string text = "overlapbench: one\n\r[1/2] progress" + kPrimary + line +
                           "overlapbench: two\n***\n\x1eother\n*" + line + "mpirun: " + line +
                           "half" + kSigns[0] + "\n" + kAbort + kMore + "\rend -----\n" + line +
                           "\rend --";
  const std::string wanted = "overlapbench: one\n\r[1/2] progressoverlapbench: two\n\x1eother\n*" +
                             line + "mpirun: " + line + "half\n\rend -----\n\rend --";
  for (std::size_t size = 1; size < 100; ++size) {
    MpirunOutput output;
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += size)
      shown += output.Take(text.substr(at, size));
    shown += output.Flush();
    EXPECT_EQ(shown, wanted) << size;
    EXPECT_EQ(output.messages().size(), 4U) << size;
    EXPECT_TRUE(output.Has(Sign::kStarted)) << size;
    EXPECT_FALSE(output.Has(Sign::kEnded)) << size;
  }
}

// Whether what follows is at the beginning of a line.
TEST(MpirunOutput, KnowsWhereALineBeginsAfterAFlush) {
  const std::string mpis = "*** a line of mpirun's\n";
  MpirunOutput output;
  EXPECT_EQ(output.Take("[cut"), "");
  EXPECT_EQ(output.Flush(), "[cut");
  EXPECT_EQ(output.Take(mpis), mpis) << "the rest of that line";
  EXPECT_EQ(output.Take(kDashes), "");
  EXPECT_EQ(output.Flush(), kDashes);
  EXPECT_EQ(output.Take(mpis), "");
  EXPECT_EQ(output.Flush(), "");
  EXPECT_EQ(output.Take(mpis), "");
}

TEST(MpirunOutput, GivesBackAFrameThatDoesNotEnd) {
  MpirunOutput output;
  EXPECT_EQ(output.Take(kDashes + "cut off"), "");
  EXPECT_TRUE(output.IsHolding());
  EXPECT_EQ(output.Flush(), kDashes + "cut off");
  EXPECT_FALSE(output.IsHolding());
}

}  // namespace
}  // namespace overlapbench
