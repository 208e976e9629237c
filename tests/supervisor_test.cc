// How a job ends, with a script in place of mpirun. It writes what mpirun writes, and the signs of
// the ranks. supervisor_limits_test.cc has the jobs that hang.
#include "launcher/supervisor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/error.h"
#include "job_script.h"

namespace overlapbench {
namespace {

namespace fs = std::filesystem;

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    // What an mpirun that was killed leaves is looked for here.
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  // A job that writes its rows to result_.
  [[nodiscard]] Job WithResult() const {
    Job job;
    job.result = result_;
    return job;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("supervisor_test_" + std::to_string(getpid()));
  const std::string result_ = folder_ / "r.json";
};

// A framed message of mpirun.
std::string Says(const std::string& text) {
  const std::string dashes(74, '-');
  return "printf '%s\\n' " + dashes + " '" + text + "' " + dashes + " >&2; ";
}

const std::string kKilled =
    Says("mpirun noticed that process rank 1 with PID 0 on node a exited on signal 9 (Killed).");
const std::string kNoMachine = Says("No nodes are available for this job");

struct EndCase {
  std::string script;
  int status;
  const char* said;  // after "bench: "; "" if nothing
};

TEST_F(SupervisorTest, TheStatusAndTheLineAreThoseOfTheCause) {
  const std::string no_machine =
      "there is no machine to run on: the host file or the allocation has none";
  const std::string killed = "rank 1 on a was killed by SIGKILL (out of memory, or kill -9)";
  for (const auto& [script, status, said] : std::vector<EndCase>{
           {"exit 0", 0, ""},
           {"exit 7", 7, "mpirun ended with status 7, and did not say why"},
           {"kill -9 $$", 137, "mpirun was killed by SIGKILL (out of memory, or kill -9)"},
           {kStarted + "kill -TERM $$", 143, "mpirun was killed by SIGTERM"},
           {kKilled + "exit 137", 137, killed.c_str()},
           {kStarted + kEnded + kKilled + "exit 137", 137, killed.c_str()},
           {kKilled + "exit 3", 3, killed.c_str()},
           {"exit 137", 137, "a rank was killed by SIGKILL (out of memory, or kill -9)"},
           // mpirun's own statuses are no signals.
           {kNoMachine + "exit 140", 1, no_machine.c_str()},
           {kNoMachine + "exit 129", 1, no_machine.c_str()},
           {kNoMachine + "exit 128", 128, no_machine.c_str()},
           {kNoMachine + "exit 127", 127, no_machine.c_str()},
           {"exit 127", 127, ""},  // it has said why
           {kNoMachine + "exit 0", 0, ""},
           // What the ranks have said is enough.
           {kStarted + kEnded + "exit 1", 1, ""},
           {kStarted + kEnded + "exit 2", 2, ""},
           {kStarted + kSignalled + "exit 1", 143, ""},
           {kStarted + kEnded + kSignalled + "exit 1", 1, ""},
           {kStarted + kSignalled + "exit 2", 2, ""},
           {kStarted + kSignalled + kNoMachine + "exit 140", 140, no_machine.c_str()},
           {kNoMachine + "exit 141", 141, "ended by SIGUSR2, which something sent to the ranks"},
       }) {
    const EndedJob told = Supervised(script);
    EXPECT_EQ(told.status, status) << script;
    EXPECT_EQ(told.err, *said == '\0' ? "" : std::string("bench: ") + said + "\n") << script;
  }
}

TEST_F(SupervisorTest, BeforeTheStartTheLineNamesTheUsersSettings) {
  Job job;
  job.settings = "OMPI_MCA_btl=tcp";
  const std::string line = "bench: mpirun ended with status 7, and did not say why";
  EXPECT_EQ(Supervised("exit 7", job).err, line + "; set here: OMPI_MCA_btl=tcp\n");
  EXPECT_EQ(Supervised(kStarted + "exit 7", job).err, line + "\n");
}

// Only a file of this job: its rows may be those of an earlier one.
TEST_F(SupervisorTest, TheLineSaysWhereTheRowsAre) {
  const std::string rows = "; rows so far are in " + result_ + "\n";
  const std::string write = kStarted + "echo x >" + result_ + "; ";
  EXPECT_EQ(Supervised(write + "exit 7", WithResult()).err,
            "bench: mpirun ended with status 7, and did not say why" + rows);
  EXPECT_EQ(Supervised(write + "kill -TERM $$", WithResult()).err,
            "bench: mpirun was killed by SIGTERM" + rows);
  EXPECT_EQ(Supervised(write + "exit 141", WithResult()).err,
            "bench: ended by SIGUSR2, which something sent to the ranks" + rows);
  const std::array<timespec, 2> long_ago = {{{1000, 0}, {1000, 0}}};
  ASSERT_EQ(utimensat(AT_FDCWD, result_.c_str(), long_ago.data(), 0), 0);
  EXPECT_EQ(Supervised(kStarted + "kill -TERM $$", WithResult()).err,
            "bench: mpirun was killed by SIGTERM\n");
}

TEST_F(SupervisorTest, AJobThatFailsLeavesNoPartialFile) {
  const fs::path partial = result_ + ".partial";
  const std::string write = "echo y >" + partial.string() + "; ";
  Supervised(write + "exit 0", WithResult());
  EXPECT_TRUE(fs::exists(partial));
  Supervised(write + "exit 1", WithResult());
  EXPECT_FALSE(fs::exists(partial));
  Job orphan = WithResult();
  orphan.parent = 1;
  Supervised(write + "trap 'exit 0' ALRM; " + kForEver, orphan);
  EXPECT_FALSE(fs::exists(partial)) << "it was ended by its caller";
}

TEST_F(SupervisorTest, AJobThatFailsLeavesNothingOfMpirun) {
  const std::string own = folder_.string() + "/ompi.a.$UID";
  const std::string make = "mkdir -p " + own + "/pid.$$; ";
  Supervised(make + "exit 0");
  EXPECT_FALSE(fs::is_empty(folder_));
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  Supervised(make + "exit 1");
  EXPECT_TRUE(fs::is_empty(folder_));
}

// Nor has it a terminal to read from, or to receive Ctrl-C. ./bench ignores some signals.
TEST_F(SupervisorTest, MpirunHasNoDescriptorsAndNoSignalsOfTheLauncher) {
  for (const int signal : {SIGUSR2, SIGALRM}) std::signal(signal, SIG_IGN);
  const int own_input = dup(STDIN_FILENO);
  if (own_input < 0) FAIL() << "dup";  // ASSERT_GE does not tell the analyzer
  const Descriptor closed_at_the_end(own_input);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "a line\n", 7), 7);
  dup2(ends[0], STDIN_FILENO);
  for (const int end : ends) close(end);
  const EndedJob told = Supervised(R"(
      read -r line || echo no input
      pipes=0
      for fd in /proc/$$/fd/*; do [[ $fd -ef /dev/fd/1 || $fd -ef /dev/fd/2 ]] && ((++pipes)); done
      echo $pipes ends of pipes
      read -r _ _ _ parent group _ </proc/$$/stat; [[ $group == $$ ]] && echo own group
      while read -r name value; do
        [[ $name == SigBlk: ]] && echo $value
        [[ $name == SigIgn: ]] && echo $((0x$value & 0x37803a00))
      done </proc/$$/status
      kill -USR2 $$; echo not reached)");
  dup2(own_input, STDIN_FILENO);
  EXPECT_EQ(told.out, "no input\n2 ends of pipes\nown group\n0000000000000000\n0\n");
  for (const int signal : {SIGUSR2, SIGALRM}) std::signal(signal, SIG_DFL);
  EXPECT_EQ(told.status, 128 + SIGUSR2);
}

TEST_F(SupervisorTest, SaysThatMpirunIsMissing) {
  Job job;
  job.command = {"no-such-mpirun"};
  const EndedJob told = Supervised("", job);
  EXPECT_EQ(told.status, 127);
  EXPECT_EQ(told.err, "bench: cannot start no-such-mpirun: No such file or directory\n");
}

// What a supervisor says that cannot start, because `limit` has taken what it needs.
std::string WhyNotStarted(const std::function<void()>& limit) {
  Child job([&] {
    Signals signals;
    limit();
    try {
      return Supervise({}, signals);
    } catch (const Error& error) {
      std::cerr << error.what();
      return 1;
    }
  });
  EXPECT_EQ(job.End(), 1);
  return job.Err();
}

TEST_F(SupervisorTest, SaysThatItHasNoPipes) {
  const rlimit few = {3, 3};
  EXPECT_EQ(WhyNotStarted([&] { setrlimit(RLIMIT_NOFILE, &few); }),
            "cannot make a pipe: Too many open files");
}

TEST_F(SupervisorTest, SaysThatItCannotFork) {
  const std::string why = WhyNotStarted([] {
    constexpr uid_t kAnother = 65534;  // root may have any number of processes
    const rlimit none = {0, 0};
    if (geteuid() == 0 && setresuid(kAnother, kAnother, kAnother) != 0) std::_Exit(2);
    setrlimit(RLIMIT_NPROC, &none);
  });
  EXPECT_EQ(why, "cannot start mpirun: Resource temporarily unavailable");
}

// As a full pipe to a pager. A second is left for the last line.
TEST_F(SupervisorTest, AnErrorOutputThatIsStuckIsNotWaitedForLong) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0);
  while (write(ends[1], "x", 1) == 1) {
  }
  Child job([&] {
    dup2(ends[1], STDERR_FILENO);
    Job job;
    job.command = {"bash", "-c", "exit 7"};
    job.start_limit = std::chrono::seconds(30);
    Signals signals;
    return Supervise(job, signals);
  });
  EXPECT_EQ(job.End(), 7);
  EXPECT_GE(job.seconds(), 1);
  EXPECT_LT(job.seconds(), 8);
  for (const int end : ends) close(end);
}

// Nobody else would end it, or its ranks.
TEST_F(SupervisorTest, MpirunIsToldWhenItsLauncherIsKilled) {
  const fs::path told = folder_ / "told";
  Child job = Supervise("trap 'touch " + told.string() + "; exit' TERM; echo up; " + kForEver);
  EXPECT_TRUE(job.Writes("up"));
  kill(job.id(), SIGKILL);
  EXPECT_EQ(job.End(), 128 + SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (!fs::exists(told) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(fs::exists(told));
}

TEST_F(SupervisorTest, PassesOnTheOutputOfTheRanks) {
  const EndedJob told =
      Supervised("echo a row; echo 'overlapbench: a word' >&2; " + kStarted + kEnded);
  EXPECT_EQ(told.out, "a row\n");
  EXPECT_EQ(told.err, "overlapbench: a word\n");
}

// It may be one of mpirun's.
TEST_F(SupervisorTest, ALineWithoutAnEndIsHeldBackForASecond) {
  EXPECT_EQ(Supervised("printf '[a cut' >&2; exit 0").err, "[a cut");
  Child job = Supervise("printf '[a cut' >&2; echo up; sleep 1.9; echo end");
  EXPECT_TRUE(job.Writes("up"));
  EXPECT_EQ(job.Err(), "");
  EXPECT_TRUE(job.Writes("[a cut"));
  EXPECT_EQ(job.Out(), "up\n");
  EXPECT_EQ(job.End(), 0);
}

TEST_F(SupervisorTest, AnOutputThatTakesNoMoreIsAnError) {
  Child job = Supervise(kStarted + "echo row; echo another", {},
                        Descriptor(open("/dev/full", O_WRONLY | O_CLOEXEC)));
  EXPECT_EQ(job.End(), 1);
  EXPECT_EQ(job.Err(), "bench: cannot write to standard output: No space left on device\n");
}

TEST_F(SupervisorTest, AReaderThatHasGoneEndsItQuietly) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  Descriptor writing(ends[1]);
  close(ends[0]);
  Child job =
      Supervise("trap 'echo told >&2; exit 1' USR2; echo row; " + kForEver, {}, std::move(writing));
  EXPECT_EQ(job.End(), 128 + SIGPIPE);
  EXPECT_EQ(job.Err(), "told\n");
}

TEST_F(SupervisorTest, ACallerThatHasGoneEndsIt) {
  Job job;
  job.parent = getpid();
  EXPECT_EQ(Supervised("sleep 0.2", job).status, 0);
  job.parent = 1;
  const EndedJob told = Supervised("trap 'echo told; exit 1' ALRM; " + kForEver, job);
  EXPECT_EQ(told.status, 128 + SIGTERM);
  EXPECT_EQ(told.out, "told\n");
  EXPECT_EQ(told.err,
            "bench: ended by the end of its caller, which was killed, before the ranks had "
            "started\n");
}

struct SignalCase {
  int sent;
  const char* forwarded;
  const char* name;
};

// The ranks know what mpirun passes on. It loses signals that arrive before it has started the
// ranks, so it gets each again until it ends.
TEST_F(SupervisorTest, ASignalIsPassedOnAndNamedUnlessTheRanksDo) {
  struct Sent {
    Child job;
    int status;
    int times;
    std::string out;
    std::string err;
  };
  std::vector<Sent> all;
  const auto start = [&](int signal, const std::string& signs, int times, const std::string& seen,
                         const std::string& said) {
    std::string out = "up\n";
    for (int i = 0; i < times; ++i) out += seen + "\n";
    all.push_back({Supervise("seen() { echo $1; ((++n == " + std::to_string(times) +
                             ")) && exit 1; }; trap 'seen USR1' USR1; trap 'seen ALRM' ALRM; " +
                             signs + "echo up; " + kForEver),
                   128 + signal, times, out, said});
    EXPECT_TRUE(all.back().job.Writes("up"));
    kill(all.back().job.id(), signal);
  };
  for (const auto& [sent, forwarded, name] : std::to_array<SignalCase>({
           {SIGINT, "USR1", "Ctrl-C"},
           {SIGTERM, "ALRM", "SIGTERM"},
           {SIGHUP, "ALRM", "SIGHUP"},
           {SIGQUIT, "ALRM", "SIGQUIT"},
       })) {
    const std::string line = std::string("bench: ended by ") + name;
    start(sent, "", 1, forwarded, line + ", before the ranks had started\n");
    start(sent, kStarted, 1, forwarded, line + "\n");
    start(sent, kStarted + kSignalled, 3, forwarded, "");
  }
  for (auto& [job, status, times, out, err] : all) {
    EXPECT_EQ(job.End(), status);
    EXPECT_GE(job.seconds(), 0.2 * (times - 1)) << "in between";
    EXPECT_EQ(job.Out(), out);
    EXPECT_EQ(job.Err(), err);
  }
}

// How often a process has waited for something.
long Waits(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  const std::string name = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::stol(line.substr(name.size()));
  return -1;
}

// Each look takes time from the ranks. Otherwise it looks 20 times a second.
TEST_F(SupervisorTest, LooksRarelyWhileTheRanksMeasure) {
  struct Case {
    std::string script;
    bool is_calm;
    int signal = 0;
  };
  const std::string lasts = "trap '' ALRM; echo up; " + kForEver;
  std::vector<std::pair<Child, Case>> jobs;
  for (const Case& one :
       {Case{lasts, false}, Case{kStarted + lasts, true}, Case{kStarted + kEnded + lasts, false},
        Case{kStarted + lasts, false, SIGTERM}})
    jobs.emplace_back(Supervise(one.script), one);
  std::vector<long> before;
  for (const auto& [job, one] : jobs) {
    EXPECT_TRUE(job.Writes("up"));
    if (one.signal != 0) kill(job.id(), one.signal);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (const auto& [job, one] : jobs) before.push_back(Waits(job.id()));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& [job, one] = jobs[i];
    const long waits = Waits(job.id()) - before[i];
    EXPECT_GE(waits, 1) << one.script;
    EXPECT_EQ(waits <= 5, one.is_calm) << waits << ": " << one.script;
  }
}

TEST_F(SupervisorTest, TheFirstOfSeveralSignalsCounts) {
  Child job = Supervise("trap 'echo told; exit 1' USR1; echo up; " + kForEver);
  EXPECT_TRUE(job.Writes("up"));
  for (const int signal : {SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGWINCH, SIGINT, SIGTERM})
    kill(job.id(), signal);
  EXPECT_EQ(job.End(), 128 + SIGINT);
  EXPECT_EQ(job.Out(), "up\ntold\n");
}

TEST_F(SupervisorTest, AnIgnoredSignalStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  Child job = Supervise("echo up; sleep 0.5; exit 3");
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(job.Writes("up"));
  kill(job.id(), SIGHUP);
  EXPECT_EQ(job.End(), 3);
}

// What it writes just before its end is more than one read takes.
TEST_F(SupervisorTest, ReturnsOnlyAfterTheLastRank) {
  const EndedJob told =
      Supervised(kStarted + "(trap '' TERM; sleep 1; printf '%060000d' 1) & exit 3");
  EXPECT_EQ(told.status, 3);
  EXPECT_EQ(told.out.size(), 60000U);
}

// ssh leaves such a process behind, and it may hold the pipes open for ever.
TEST_F(SupervisorTest, DoesNotWaitForADaemon) {
  const EndedJob told = Supervised("setsid sleep 5 & echo row; exit 0");
  EXPECT_EQ(told.out, "row\n");
  EXPECT_GE(told.seconds, 0.5);
  EXPECT_LT(told.seconds, 4);
}

TEST_F(SupervisorTest, GivesUpAnMpirunThatDoesNotStartTheRanks) {
  Job job;
  job.start_limit = std::chrono::milliseconds(1000);
  const std::string line =
      "bench: mpirun hangs: it has not started the ranks within 1 s (is TMPDIR full? is a machine "
      "down or behind a firewall? --timeout_s changes the limit); it is killed\n";
  const EndedJob told = Supervised("trap 'exit 0' TERM; " + kForEver, job);
  EXPECT_EQ(told.status, 1);
  EXPECT_EQ(told.err, line);
  for (const char* trap : {"trap 'exit 0' TERM; ", "trap '' TERM; "})
    EXPECT_EQ(Supervised(kNoMachine + trap + kForEver, job).err, line) << "the end has its cause";
  EXPECT_EQ(Supervised(kStarted + "sleep 1.5", job).status, 0);
}

}  // namespace
}  // namespace overlapbench
