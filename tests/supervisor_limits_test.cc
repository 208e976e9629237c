// How long the launcher waits for an mpirun that hangs, or for ranks that do not end. The jobs run
// side by side, because the limits are many seconds.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "job_script.h"
#include "launcher/launcher.h"

namespace overlapbench {
namespace {

// Whether SIGKILL ends a process. One that a driver holds may take long.
bool& IsKillable() {
  static bool is_killable = true;
  return is_killable;
}

}  // namespace

// The linker puts it in the place of the C library's.
int WrappedKill(pid_t process, int signal) asm("__wrap_kill");
int WrappedKill(pid_t process, int signal) {
  if (!IsKillable() && signal == SIGKILL) return 0;
  return static_cast<int>(syscall(SYS_kill, process, signal));
}

namespace {

// Hanging ranks ignore SIGTERM, as these shells do.
const std::string kHangs = "trap '' TERM; sleep 60 & wait; wait; sleep 60";

struct HangCase {
  std::string script;
  int signal;  // that it is sent once it is up; 0: none
  int status;
  std::string said;
  double least_s;  // until its end, by the limits; in rising order, as they are awaited
  bool is_on_one_machine = false;
};

// A start with a timeout of 1 s, whose mpirun hangs.
class HangingStart {
 public:
  HangingStart() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "mpirun") << "#!/bin/bash\ntrap '' USR1 ALRM\n" << kHangs << "\n";
    std::filesystem::permissions(folder_ / "mpirun", std::filesystem::perms::owner_all);
  }
  ~HangingStart() { std::filesystem::remove_all(folder_); }
  HangingStart(const HangingStart&) = delete;
  HangingStart& operator=(const HangingStart&) = delete;

  [[nodiscard]] Child Start() const {
    return Child([this] {
      setenv("PATH", (folder_.string() + ":" + std::getenv("PATH")).c_str(), 1);
      Signals signals;
      return StartRanks("program", {}, ParseOptions({"--backend=host", "--timeout_s=1"}), signals);
    });
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hanging_start_" + std::to_string(getpid()));
};

TEST(Supervisor, EndsWhateverHangs) {
  const HangingStart hanging;
  Child started = hanging.Start();
  Child stubborn([] {
    IsKillable() = false;
    Job job;
    job.caller = "bench";
    job.command = {"bash", "-c", kStarted + "sleep 20 & echo $!; exit 0"};
    Signals signals;
    return Supervise(job, signals);
  });
  const std::string ranks_ended = "bench: mpirun hangs: the ranks ended 15 s ago";
  const std::string ranks_gone = "bench: mpirun hangs: its ranks have been gone for 5 s";
  const std::vector<HangCase> cases = {
      // Ends that were asked for.
      {"trap '' USR1; trap 'echo told; exit 1' TERM; echo up; " + kForEver, SIGINT, 130,
       "up\ntold\nbench: ended by Ctrl-C, before the ranks had started\n", 3},
      {"trap '' ALRM; trap 'echo told; exit 1' TERM; echo up; kill -STOP $$", SIGHUP, 129,
       "up\ntold\nbench: ended by SIGHUP, before the ranks had started\n", 3},
      {"trap '' ALRM; trap 'echo told' TERM; echo up; " + kForEver, SIGTERM, 143,
       "up\ntold\nbench: ended by SIGTERM, before the ranks had started\n", 3 + 1.3},
      // Its ranks, and their end. They were last seen up to a tenth of a second before that, or a
      // second once they have started.
      {kStarted + "(trap '' TERM; sleep 60; :) & exit 3", 0, 3,
       "bench: mpirun ended with status 3, and did not say why\n", 5},
      {"sleep 1 & wait; trap '' TERM; kill -STOP $$", 0, 1,
       ranks_gone + ", and had not started MPI (is TMPDIR full?); it is killed\n", 1 + 5 - 0.1,
       true},
      {kStarted + "sleep 3 & wait; trap '' TERM; kill -STOP $$", 0, 1,
       ranks_gone + "; it is killed\n", 3 + 5 - 1, true},
      {kStarted + "trap 'exit 3' TERM; exec sleep 8", 0, 0, "", 8, true},  // never had any
      // Those on other machines cannot be seen.
      {kStarted + "sleep 1 & wait; exec sleep 8", 0, 0, "", 1 + 8},
      // It is continued, and ends its ranks.
      {kStarted + "trap 'echo word >&2; exit 1' TERM; kill -STOP $$", 0, 1,
       "word\nbench: mpirun hangs: SIGSTOP came 15 s ago; it is killed\n", 15},
      {kStarted + kEnded + kHangs, 0, 1,
       ranks_ended + " (is a machine down or cut off?); it is killed\n", 15 + 1.3},
      {kStarted + kSignalled + kHangs, 0, 1, ranks_ended + "; it is killed\n", 15 + 1.3, true},
  };
  std::vector<Child> jobs;
  for (const HangCase& one : cases) {
    Job job;
    job.is_on_one_machine = one.is_on_one_machine;
    jobs.push_back(Supervise(one.script, job));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].signal == 0) continue;
    EXPECT_TRUE(jobs[i].Writes("up"));
    kill(jobs[i].id(), cases[i].signal);
  }
  const auto all_end = std::chrono::seconds(30);
  constexpr double kBusy_s = 8;  // at most so much later on a busy machine
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].script);
    EXPECT_EQ(jobs[i].End(all_end), cases[i].status);
    EXPECT_EQ(jobs[i].Out() + jobs[i].Err(), cases[i].said);
    EXPECT_GE(jobs[i].seconds(), cases[i].least_s);
    EXPECT_LT(jobs[i].seconds(), cases[i].least_s + kBusy_s);
  }
  // It is killed after 5 s, and waited for 10 s.
  EXPECT_EQ(stubborn.End(all_end), 1);
  EXPECT_EQ(
      stubborn.Err(),
      "bench: process " + stubborn.Out().substr(0, stubborn.Out().find('\n')) + " does not end\n");
  // What the ranks take to time out, 5 and 4 s more, and 10 s for mpirun itself.
  EXPECT_EQ(started.End(all_end), 1);
  EXPECT_NE(started.Err().find("it has not started the ranks within 20 s ("), std::string::npos)
      << started.Err();
}

}  // namespace
}  // namespace overlapbench
