// What ./bench asks the launcher for, what it gives mpirun, and which processes and files of a job
// it finds. mpirun is a script.
#include "launcher/launcher.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "device/error.h"
#include "fake_driver.h"
#include "launcher/processes.h"

namespace overlapbench {
namespace {

namespace fs = std::filesystem;

TEST(ReadStartRequest, IsOfBenchOnly) {
  EXPECT_FALSE(ReadStartRequest({}));
  EXPECT_FALSE(ReadStartRequest({"--backend=host", "--start=bench"}));
}

StartRequest Requested(const std::vector<std::string>& arguments) {
  return ReadStartRequest(arguments).value_or(StartRequest());
}

TEST(ReadStartRequest, SeparatesItsOwnFlagsFromThoseOfTheRanks) {
  const StartRequest request =
      Requested({"--start=bench", "--parent=7", "--ranks=3", "--hostfile=a=b", "--connections=8",
                 "--", "--ranks=4", "--", "x"});
  EXPECT_EQ(request.caller, "bench");
  EXPECT_EQ(request.parent, 7);
  EXPECT_EQ(request.done, -1);
  EXPECT_EQ(request.ranks, "3");
  EXPECT_EQ(request.hostfile, "a=b");
  EXPECT_EQ(request.connections, "8");
  EXPECT_EQ(request.flags, (std::vector<std::string>{"--ranks=4", "--", "x"}));
  const StartRequest bare = Requested({"--start=", "--parent=x", "--done", "--ranks"});
  EXPECT_EQ(bare.caller, "");
  EXPECT_EQ(bare.parent, 0);
  EXPECT_EQ(bare.done, -1);
  EXPECT_EQ(bare.ranks, "");
  EXPECT_TRUE(bare.flags.empty());
  try {
    ReadStartRequest({"--start=bench", "--ranks=3", "--speed=2"});
    FAIL() << "it has no such flag";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "--start is for ./bench; it has no '--speed=2'");
  }
}

// mpirun must not inherit the descriptor, or the caller would wait for its ranks.
TEST(TellDone, WritesALineToTheCallersDescriptor) {
  TellDone({});
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const StartRequest request =
      Requested({"--start=bench", "--done=" + std::to_string(writing.get())});
  EXPECT_EQ(fcntl(writing.get(), F_GETFD), FD_CLOEXEC);
  TellDone(request);
  writing = Descriptor();
  std::array<char, 16> text{};
  EXPECT_EQ(read(reading.get(), text.data(), text.size()), 5);
  EXPECT_STREQ(text.data(), "done\n");
}

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    for (const char* name :
         {"OMPI_MCA_btl", "OMPI_MCA_ras", "PBS_NODEFILE", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
      unsetenv(name);
    for (char** one = environ; *one != nullptr; ++one) {
      const std::string setting = *one;
      if (setting.starts_with("OMPI_")) settings_.insert(setting.substr(0, setting.find('=')));
    }
    for (const std::string& name : settings_) unsetenv(name.c_str());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  // A start whose mpirun is `script`.
  Child Start(const StartRequest& request, const std::string& script,
              const std::vector<std::string>& flags = {"--backend=host"}, Descriptor out = {}) {
    fs::permissions(Write("mpirun", "#!/bin/bash\n" + script), fs::perms::owner_all);
    return Child(
        [&] {
          setenv("PATH", (folder_.string() + ":" + std::getenv("PATH")).c_str(), 1);
          Signals signals;
          try {
            return StartRanks("/a/program", request, ParseOptions(flags), signals);
          } catch (const UsageError& error) {
            std::cerr << error.what();
            return 2;
          }
        },
        std::move(out));
  }
  // The first line of a start: what it starts, without "bench: starting ".
  std::string Starts(const StartRequest& request) {
    Child job = Start(request, "exit 0");
    job.End();
    const std::string said = job.Err();
    const std::string begin = "bench: starting ";
    return said.starts_with(begin) ? said.substr(begin.size(), said.size() - begin.size() - 1)
                                   : said;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("launcher_test_" + std::to_string(getpid()));

 private:
  std::set<std::string> settings_;
};

TEST_F(LaunchTest, GivesMpirunTheProgramAndItsFlags) {
  StartRequest request;
  request.ranks = "3";
  request.flags = {"--backend=host", "--x"};
  constexpr std::array kAlways = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                  "OVERLAPBENCH_SIGNS"};
  for (const char* name : kAlways) setenv(name, "0", 1);
  Child job = Start(request, R"(printf '%s\n' "$@"; for name in OMPI_MCA_ras OMPI_MCA_plm \
      OMPI_MCA_orte_default_hostfile OMPI_MCA_btl_vader_single_copy_mechanism \
      OMPI_MCA_oob_tcp_keepalive_{time,intvl,probes} OMPI_MCA_opal_signal OMPI_ALLOW_RUN_AS_ROOT \
      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OVERLAPBENCH_SIGNS; do echo $name ${!name}; done)");
  EXPECT_EQ(job.End(), 0);
  EXPECT_EQ(job.Out(),
            "-n\n3\n--oversubscribe\n--bind-to\nnone\n-x\nOVERLAPBENCH_SIGNS\n/a/program\n"
            "--backend=host\n--x\nOMPI_MCA_ras ^slurm,tm,lsf,gridengine,alps\n"
            "OMPI_MCA_plm ^slurm,tm,lsf,alps\nOMPI_MCA_orte_default_hostfile none\n"
            "OMPI_MCA_btl_vader_single_copy_mechanism none\nOMPI_MCA_oob_tcp_keepalive_time 3\n"
            "OMPI_MCA_oob_tcp_keepalive_intvl 1\nOMPI_MCA_oob_tcp_keepalive_probes 3\n"
            "OMPI_MCA_opal_signal\nOMPI_ALLOW_RUN_AS_ROOT 1\n"
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1\nOVERLAPBENCH_SIGNS 1\n");
  for (const char* name : kAlways) unsetenv(name);
}

TEST_F(LaunchTest, WithAHostFileMpirunMayUseTheScheduler) {
  StartRequest request;
  request.hostfile = Write("hosts", "a slots=2\nb slots=1\n");
  request.connections = "8";
  Child job = Start(request, R"(echo "$@" "ras=$OMPI_MCA_ras")");
  EXPECT_EQ(job.End(), 0);
  EXPECT_EQ(job.Out(), "--hostfile " + request.hostfile +
                           " --bind-to none -x OVERLAPBENCH_SIGNS -x CUDA_DEVICE_MAX_CONNECTIONS=8 "
                           "/a/program --axis=connections=8 ras=\n");
  EXPECT_EQ(job.Err(), "bench: starting 3 ranks on a (2), b (1), backend host, connections:8\n");
}

TEST_F(LaunchTest, ReadsTheHostFileIfMpirunStillCan) {
  StartRequest request;
  request.hostfile = folder_ / "pipe";
  ASSERT_EQ(mkfifo(request.hostfile.c_str(), 0600), 0);
  const std::string told = "a rank in each slot on the machines of " + request.hostfile;
  EXPECT_EQ(Starts(request), told + ", backend host");
  request.hostfile = Write("hosts", "# none\n");
  EXPECT_EQ(Starts(request), "--hostfile: " + request.hostfile +
                                 " has no machine; write lines such as 'node1 slots=8'");
}

TEST_F(LaunchTest, RefusesAFolderForAHostFile) {
  StartRequest request;
  request.hostfile = folder_;
  EXPECT_EQ(Starts(request), "--hostfile: cannot read " + request.hostfile);
}

TEST_F(LaunchTest, CountsTheMachinesOfTheAllocation) {
  StartRequest request;
  request.ranks = "2";
  const std::string one = Starts(request);
  EXPECT_TRUE(one.starts_with("2 ranks on ")) << one;
  EXPECT_TRUE(one.ends_with(", backend host")) << one;
  EXPECT_EQ(one.find(" alone"), std::string::npos) << one;
  setenv("PBS_NODEFILE", Write("nodes", "a\na\nb\nc\n").c_str(), 1);
  EXPECT_NE(Starts(request).find(" alone, not on all 3 nodes of"), std::string::npos);
  unsetenv("PBS_NODEFILE");
}

TEST_F(LaunchTest, StartsARankForEachGpu) {
  StartRequest request;
  request.flags = {"--backend=auto"};
  // A driver that fails for a moment.
  Driver() = {.gpus = 3, .takes = std::chrono::milliseconds(50), .faults = Faults("e")};
  Child job = Start(request, "echo $2 ${@: -2}", request.flags);
  EXPECT_EQ(job.End(), 0);
  EXPECT_EQ(job.Out(), "3 --backend=auto --backend=cuda\n");
  EXPECT_TRUE(job.Err().ends_with(", backend cuda\n")) << job.Err();
  Driver() = {};
  Child without = Start(request, "echo $2 ${@: -2}", request.flags);
  EXPECT_EQ(without.End(), 0);
  EXPECT_EQ(without.Out(), "2 --backend=auto --backend=host\n");
  EXPECT_TRUE(without.Err().ends_with(", backend host\n")) << without.Err();
}

// Nothing is started then.
TEST_F(LaunchTest, ASignalEndsItWhileTheDriverHangs) {
  Driver() = {.takes = std::chrono::seconds(60)};
  Child job = Start({}, "echo started", {});
  EXPECT_TRUE(job.Writes("counting"));
  kill(job.id(), SIGINT);
  EXPECT_EQ(job.End(), 128 + SIGINT);
  EXPECT_EQ(job.Out(), "");
  EXPECT_EQ(job.Err(), "counting\nbench: ended by Ctrl-C, before the ranks had started\n");
  Driver() = {};
}

// What it says where it can open nothing more. The limit comes after what it has open.
TEST_F(LaunchTest, SaysWhatItCannotOpen) {
  const auto starts = [](const StartRequest& request) {
    Child job([&] {
      Signals signals;
      const rlimit few = {3, 3};
      setrlimit(RLIMIT_NOFILE, &few);
      try {
        return StartRanks("/a/program", request, ParseOptions({}), signals);
      } catch (const Error& error) {
        std::cerr << error.what();
        return 1;
      }
    });
    EXPECT_EQ(job.End(), 1);
    return job.Err();
  };
  EXPECT_EQ(starts({}), "cannot make a pipe: Too many open files");
  StartRequest request;
  request.hostfile = Write("hosts", "a slots=2\n");
  EXPECT_EQ(starts(request), "--hostfile: cannot read " + request.hostfile);
}

TEST_F(LaunchTest, RefusesANumberOfRanksThatCannotBe) {
  StartRequest request;
  for (const char* bad : {"0", "1025", "-1", "two", "1.5"}) {
    request.ranks = bad;
    EXPECT_EQ(Starts(request),
              std::string("--ranks takes a whole number from 1 to 1024, got '") + bad + "'");
  }
  for (const char* good : {"1", "1024"}) {
    request.ranks = good;
    EXPECT_TRUE(Starts(request).starts_with(std::string(good) + " rank")) << good;
  }
}

// Those of the suite are no news.
TEST_F(LaunchTest, NamesTheUsersSettingsIfMpirunFails) {
  setenv("OMPI_MCA_btl", "tcp", 1);
  setenv("OMPI_MCA_opal_signal", "", 1);
  setenv("OMPI_MCA_ras", "own", 1);
  setenv("OMPI_OTHER", "x", 1);
  Child job = Start({}, "exit 7");
  EXPECT_EQ(job.End(), 7);
  EXPECT_TRUE(job.Err().ends_with("; set here: OMPI_MCA_btl=tcp, OMPI_MCA_ras=own\n")) << job.Err();
  Child own = Start({}, "echo $OMPI_MCA_ras");
  EXPECT_EQ(own.End(), 0);
  EXPECT_EQ(own.Out(), "own\n");
  for (const char* name : {"OMPI_MCA_btl", "OMPI_MCA_opal_signal", "OMPI_MCA_ras", "OMPI_OTHER"})
    unsetenv(name);
}

TEST_F(LaunchTest, TheJobHasItsCallerAndItsFile) {
  const std::string rows = folder_ / "r.json";
  StartRequest request;
  request.caller = "me";
  Child job = Start(request, "echo x >" + rows + "; " + R"(printf '\036started\n' >&2; exit 7)",
                    {"--backend=host", "--benchmark_out=" + rows});
  EXPECT_EQ(job.End(), 7);
  const std::string said = job.Err();
  EXPECT_EQ(
      said.substr(said.find('\n')),
      "\nme: mpirun ended with status 7, and did not say why; rows so far are in " + rows + "\n");
  EXPECT_TRUE(said.starts_with("me: starting 2 ranks on "));
  request.parent = 1;
  Child orphan = Start(request, "trap 'exit 1' ALRM; while :; do sleep 0.02; done");
  EXPECT_EQ(orphan.End(), 128 + SIGTERM);
}

// The ranks write to pipes.
TEST_F(LaunchTest, TellsTheRanksTheWidthOfTheTerminal) {
  for (const auto& [width, flag] : {std::pair{133, "--columns=133\n"}, {0, "--columns=80\n"}}) {
    int terminal = -1;
    int end = -1;
    const winsize size{50, static_cast<unsigned short>(width), 0, 0};
    ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, &size), 0);
    const Descriptor reading(terminal);
    StartRequest request;
    request.flags = {"--last"};
    Child job =
        Start(request, R"(printf '%s\n' "${@: -2}" >&2)", {"--backend=host"}, Descriptor(end));
    EXPECT_EQ(job.End(), 0);
    EXPECT_TRUE(job.Err().ends_with(flag + std::string("--last\n"))) << job.Err();
  }
}

// ---- Processes

// The program of sleep under a name of its own.
class ProcessesTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Sleep(const std::string& name) {
    fs::copy_file("/bin/sleep", folder_ / name, fs::copy_options::skip_existing);
    return "'" + (folder_ / name).string() + "' 30";
  }
  static Child Bash(const std::string& script) {
    return Child([&] { return execl("/bin/bash", "bash", "-c", script.c_str(), nullptr); });
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("processes_test_" + std::to_string(getpid()));
};

TEST_F(ProcessesTest, LivingDescendantsAreThoseOfTheJob) {
  Child job = Bash("(" + Sleep("a) T 1 1 (b") + " & echo $!; wait) & " +          // below a shell
                   "setsid " + Sleep("daemon") + " & setsid " + Sleep("orted") +  // sessions
                   " & echo $!; sleep 0.2; echo up; exec sleep 30");
  ASSERT_TRUE(job.Writes("up"));
  std::vector<pid_t> found = LivingDescendants(job.id());
  EXPECT_EQ(found.size(), 3U);
  std::istringstream told(job.Out());
  for (pid_t one = 0; told >> one;) EXPECT_EQ(std::ranges::count(found, one), 1) << one;
  const Child zombie([] { return 0; });
  siginfo_t info{};
  waitid(P_PID, zombie.id(), &info, WEXITED | WNOWAIT);
  const std::vector<pid_t> own = LivingDescendants(getpid());
  EXPECT_EQ(std::ranges::count(own, job.id()), 1);
  EXPECT_EQ(own.size(), 4U);
  for (const pid_t one : found) kill(one, SIGKILL);
}

TEST_F(ProcessesTest, AStoppedProcessIsSeen) {
  Child job = Bash("echo up; sleep 30");
  ASSERT_TRUE(job.Writes("up"));
  EXPECT_FALSE(IsStopped(job.id()));
  kill(job.id(), SIGSTOP);
  siginfo_t info{};
  waitid(P_PID, job.id(), &info, WSTOPPED | WNOWAIT);
  EXPECT_TRUE(IsStopped(job.id()));
  kill(job.id(), SIGKILL);
  waitid(P_PID, job.id(), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(IsStopped(job.id())) << "a zombie";
  EXPECT_FALSE(IsStopped(1 << 30)) << "there is none";
}

TEST_F(ProcessesTest, AnOrphanBecomesTheChildOfItsAdopter) {
  Child adopter([] {
    AdoptOrphans();
    if (fork() == 0) {
      if (fork() == 0) {
        sleep(1);
        _exit(0);
      }
      _exit(0);
    }
    wait(nullptr);
    return static_cast<int>(LivingDescendants(getpid()).size());
  });
  EXPECT_EQ(adopter.End(), 1);
}

TEST_F(ProcessesTest, OnlyTheLeftoversOfThatMpirunAreRemoved) {
  const std::string user = "." + std::to_string(getuid());
  const std::vector<std::string> stay = {
      "ompi.a.1" + user + "7/pid.123/contact.txt",  // another user's
      "ompi.b" + user + "/pid.1234/contact.txt",    // another mpirun's
      "ompi.c" + user + "/pid.1234/contact.txt",    // where this one has none
      "other.a" + user + "/pid.123/contact.txt",
      "memory/vader_segment.a" + user + ".39c0001.0",  // another job's
      "memory/vader_segment.a" + user + ".39b0002.0",
      "memory/vader_segment.a.1" + user + "7.39b0001.0",
      "memory/segment.a" + user + ".39b0001.0",
      "memory/vader_segment.a" + user + ".00001.0",
  };
  const std::vector<std::string> go = {
      "ompi.a" + user + "/pid.123/contact.txt",
      "ompi.a" + user + "/pid.123/0/x",
      "ompi.b" + user + "/pid.123/contact.txt",
      "memory/vader_segment.a" + user + ".39b0001.0",
      "memory/vader_segment.b" + user + ".39b0001.17",
  };
  for (const auto& names : {stay, go}) {
    for (const std::string& name : names) {
      fs::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << 0x39b0000 << ".0;tcp://10.0.0.1:1024\n";
    }
  }
  setenv("TMPDIR", folder_.c_str(), 1);
  setenv("OMPI_MCA_btl_vader_backing_directory", (folder_ / "memory").c_str(), 1);
  RemoveLeftovers(123);
  unsetenv("TMPDIR");
  unsetenv("OMPI_MCA_btl_vader_backing_directory");
  for (const std::string& name : stay) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  for (const std::string& name : go) EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  EXPECT_FALSE(fs::exists(folder_ / ("ompi.a" + user))) << "its folder is empty";
}

}  // namespace
}  // namespace overlapbench
