// The program from its arguments to its exit status, as one process and as two ranks: what it
// answers, refuses and measures, and what its hooks get.
#include "program/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "child.h"
#include "fixtures/build.h"
#include "json.h"
#include "ranks/ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

namespace fs = std::filesystem;

}  // namespace

// The linker puts it in the place of Ranks::AbortLinks: the host backend has no links.
void SayingAbort(Ranks* ranks) asm("__wrap__ZN12overlapbench5Ranks10AbortLinksEv");
void SayingAbort(Ranks* ranks) {
  std::cerr << ranks->Prefix() + "aborts the links\n" << std::flush;
}

namespace {

// Of GPUs of different models.
class DeviceWithPriorities : public ForwardingDevice {
 public:
  DeviceWithPriorities(std::unique_ptr<Device> device, int priorities)
      : ForwardingDevice(std::move(device)), info_(ForwardingDevice::info()) {
    info_.priorities = priorities;
  }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }

 private:
  DeviceInfo info_;
};

// Says what it gets.
class SayingHooks : public ProgramHooks {
 public:
  bool Take(const std::string& argument) override {
    for (const int standard : {STDIN_FILENO, STDERR_FILENO})
      if (fcntl(standard, F_GETFD) < 0) std::cout << "descriptor " << standard << " is free\n";
    throws_ = throws_ || argument == "--throw";
    terminates_ = terminates_ || argument == "--terminate";
    differs_ = differs_ || argument == "--differ";
    return argument == "--mine" || argument == "--throw" || argument == "--terminate" ||
           argument == "--differ";
  }
  void Begin(Progress& progress) override {
    std::cerr << "begins as rank " << progress.rank() << "\n";
  }
  std::unique_ptr<Device> Wrap(std::unique_ptr<Device> device,
                               const std::function<void()>& abort_links) override {
    abort_links();
    std::cerr << "wraps\n";
    if (std::getenv("OMPI_MCA_opal_signal") == nullptr) std::cerr << "MPI has no defaults\n";
    if (throws_) throw std::runtime_error("no such thing");
    if (terminates_) kill(getpid(), SIGTERM);
    while (terminates_) pause();
    if (!differs_) return device;
    return std::make_unique<DeviceWithPriorities>(std::move(device),
                                                  ByLauncher().rank == 0 ? 2 : 1);
  }

 private:
  bool throws_ = false;
  bool terminates_ = false;
  bool differs_ = false;
};

// It only ends what hangs: where other processes take the cores, a row may last a minute.
constexpr std::chrono::minutes kPatience(2);

struct EndedProgram {
  int status = 0;
  std::string out;
  std::string err;
  int aborts = 0;  // of links, of all ranks
};

// Runs the program with these arguments, after `first`.
EndedProgram Ended(
    std::vector<std::string> arguments, Descriptor out = {},
    const std::function<void()>& first = [] {}) {
  arguments.insert(arguments.begin(), "program");
  Child child(
      [&] {
        first();
        std::vector<char*> words;
        for (std::string& word : arguments) words.push_back(word.data());
        SayingHooks hooks;
        return RunProgram(static_cast<int>(words.size()), words.data(), hooks);
      },
      std::move(out));
  const int status = child.End(kPatience);
  return {status, child.Out(), child.Err(), 0};
}

// With variables of a launcher.
class RankOfTwo {
 public:
  explicit RankOfTwo(int rank) {
    setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  }
  ~RankOfTwo() {
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
  }
  RankOfTwo(const RankOfTwo&) = delete;
  RankOfTwo& operator=(const RankOfTwo&) = delete;
};

const std::string kBegins = "begins as rank 0\n";
const std::string kWraps = kBegins + "aborts the links\nwraps\n";

TEST(Program, RefusesBadUsageBeforeMpiStarts) {
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"--no-such-flag"},
           {"--budget_ms=x"},
           {"--benchmark_filter=("},
           {"--benchmark_filter=" + std::string(100000, '(') + std::string(100000, ')')},
           {"--axis=grid"},
           {"--inject_delay=Delay:x"},
           {"--backend=host", "--benchmark_out=/no/such/folder/x"}}) {
    const EndedProgram program = Ended(bad);
    EXPECT_EQ(program.status, 2) << bad.back();
    EXPECT_EQ(program.out, "");
    EXPECT_TRUE(program.err.starts_with("overlapbench: ")) << program.err;
    EXPECT_EQ(program.err.find('\n'), program.err.size() - 1) << program.err;
  }
}

TEST(Program, AnswersWithoutMpi) {
  const EndedProgram version = Ended({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("overlapbench ")) << version.out;
  EXPECT_EQ(version.err, "");
  const EndedProgram flags = Ended({"--query=flags", "--mine"});
  EXPECT_EQ(std::pair(flags.status, flags.out + flags.err), std::pair(0, std::string()));
  EXPECT_EQ(Ended({"--query=flags", "--inject_delay=Delay:x"}).status, 2);
  {
    const RankOfTwo other(1);
    const EndedProgram silent = Ended({"--version"});
    EXPECT_EQ(std::pair(silent.status, silent.out + silent.err), std::pair(0, std::string()));
  }
  const RankOfTwo root(0);
  EXPECT_EQ(Ended({"--version"}).out, version.out);
}

// None of them is started. A launcher's other ranks have nothing to say.
TEST(Program, PlansForRanksThatAreNotHere) {
  const std::vector<std::string> flags = {"--backend=host", "--plan_ranks=4",
                                          "--benchmark_filter=^Comm/AllReduce"};
  auto bad = flags;
  bad.emplace_back("--plan_nodes=5");
  const EndedProgram plan = Ended(flags);
  EXPECT_EQ(std::pair(plan.status, plan.err), std::pair(0, std::string()));
  const Json first = JsonReader::Read(plan.out).At("planned").items.at(0);
  EXPECT_EQ(first.At("schedules").At("ranks").number, 4);
  const EndedProgram one =
      Ended({"--backend=host", "--plan_ranks=1", "--benchmark_filter=^Compute/Delay"});
  EXPECT_TRUE(JsonReader::Read(one.out).Has("planned")) << one.err;
  const EndedProgram refused = Ended(bad);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err,
            "overlapbench: --plan_nodes: 5 nodes need as many ranks, and --plan_ranks is 4\n");
  {
    const RankOfTwo other(1);
    const EndedProgram silent = Ended(flags);
    EXPECT_EQ(std::pair(silent.status, silent.out + silent.err), std::pair(0, std::string()));
  }
  const RankOfTwo root(0);
  EXPECT_EQ(Ended(flags).out, plan.out);
}

// MPI would end them, or each would believe that it is alone.
TEST(Program, RefusesRanksWithoutMpi) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) unsetenv(name);
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("SLURM_NTASKS", "2", 1);
  for (const int rank : {0, 1}) {
    setenv("SLURM_PROCID", std::to_string(rank).c_str(), 1);
    const EndedProgram program = Ended({"--backend=host"});
    EXPECT_EQ(program.status, 1);
    const std::string line = "overlapbench: started as rank 0 of 2, but this launcher does not";
    EXPECT_EQ(program.err.substr(0, line.size()), rank == 0 ? line : "") << rank;
  }
  for (const char* name : {"SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_PROCID"}) unsetenv(name);
}

// As MPICH's launcher starts them: the library is another one, and each rank would be alone.
TEST(Program, RefusesRanksOfAnotherMpi) {
  const RankOfTwo other(1);
  const EndedProgram program = Ended({"--backend=host", "--benchmark_list_tests"});
  EXPECT_EQ(program.status, 1);
  EXPECT_EQ(program.out, "");
  EXPECT_EQ(
      program.err.find(kBegins.substr(0, 15) + "1\noverlapbench: started as rank 1 of 2, but "), 0U)
      << program.err;
}

TEST(Program, ListsWhatIsSelected) {
  const std::string first = "Compute/Delay/delay_us:100/cache:cold\n";
  const std::vector<std::string> flags = {"--mine", "--backend=host", "--axis=delay_us=100",
                                          "--benchmark_filter=^Compute/Delay"};
  const auto with = [&](const std::string& flag) {
    auto all = flags;
    all.push_back(flag);
    return Ended(all);
  };
  const EndedProgram tests = with("--benchmark_list_tests");
  EXPECT_EQ(tests.status, 0);
  EXPECT_EQ(tests.out, first);
  EXPECT_EQ(tests.err, kWraps);
  const EndedProgram dry = with("--dry_run");
  EXPECT_EQ(dry.status, 0);
  EXPECT_TRUE(dry.out.starts_with("Compute/Delay/delay_us:100/cache:cold")) << dry.out;
  EXPECT_NE(dry.out, first);
  const EndedProgram axes = with("--list_axes");
  EXPECT_EQ(axes.status, 0);
  EXPECT_NE(axes.out.find("\nDelay: "), std::string::npos);
}

// One line each, as text only: a program may read the rest.
TEST(Program, SaysWhatCannotRunHere) {
  const std::vector<std::string> flags = {"--backend=host", "--benchmark_list_tests",
                                          "--benchmark_filter=^Comm/(AllReduce|DeviceCopy)"};
  const EndedProgram text = Ended(flags);
  EXPECT_NE(text.err.find("not available: Comm/AllReduce"), std::string::npos) << text.err;
  auto json = flags;
  json.emplace_back("--benchmark_format=json");
  EXPECT_EQ(Ended(json).err, kWraps);
  const EndedProgram none = Ended({"--backend=host", "--benchmark_filter=^Nothing"});
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.out, "");
  EXPECT_TRUE(none.err.starts_with(kWraps + "overlapbench: ")) << none.err;
  EXPECT_EQ(Ended({"--backend=host", "--benchmark_filter=^Nothing", "--list_axes"}).status, 0);
}

// One core, however many there are: each takes part in each kernel, and may be busy elsewhere.
const std::vector<std::string> kDelay = {
    "--backend=host",       "--host_cores=1",          "--benchmark_filter=^Compute/Delay",
    "--axis=delay_us=1000", "--axis=cache=warm",       "--budget_ms=20",
    "--warmup_ms=1",        "--benchmark_format=json", "--no-self-test"};

TEST(Program, MeasuresItsRows) {
  const EndedProgram program = Ended(kDelay);
  EXPECT_EQ(program.status, 0) << program.err;
  const Json document = JsonReader::Read(program.out);
  ASSERT_EQ(document.At("benchmarks").items.size(), 1U);
  const Json& row = document.At("benchmarks").items[0];
  EXPECT_EQ(row.At("name").text, "Compute/Delay/delay_us:1000/cache:warm");
  const double plain_ms = row.At("real_time").number;
  EXPECT_GE(plain_ms, 1);
  EXPECT_EQ(document.At("context").At("self_test").text, "left out");
  EXPECT_FALSE(document.At("workloads").items.empty());
  EXPECT_FALSE(row.Has("schedules"));
  auto delayed = kDelay;
  delayed.insert(delayed.end(), {"--inject_delay=Delay:4000", "--predictable"});
  const EndedProgram later = Ended(delayed);
  EXPECT_EQ(later.status, 0) << later.err;
  const Json delayed_row = JsonReader::Read(later.out).At("benchmarks").items.at(0);
  EXPECT_GE(delayed_row.At("real_time").number, 5);
  EXPECT_TRUE(delayed_row.Has("schedules"));
}

// The gate's negative control: rows whose times are known are delayed, too.
TEST(Program, AFailedSelfTestIsAStatusOfItsOwn) {
  auto delayed = kDelay;
  std::erase(delayed, "--no-self-test");
  std::erase(delayed, "--host_cores=1");
  delayed.insert(delayed.end(), {"--inject_delay=Delay:20000", "--host_cores=2"});
  const EndedProgram program = Ended(delayed);
  EXPECT_EQ(program.status, 3) << program.err;
  const std::string told = JsonReader::Read(program.out).At("context").At("self_test").text;
  EXPECT_TRUE(told.starts_with("failed: slowdown ")) << told;
}

TEST(Program, AResultThatIsNotTakenIsAnError) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--version"}, {"--backend=host", "--benchmark_list_tests"}}) {
    const EndedProgram program = Ended(flags, Descriptor(open("/dev/full", O_WRONLY | O_CLOEXEC)));
    EXPECT_EQ(program.status, 1) << flags.back();
    EXPECT_TRUE(program.err.ends_with("overlapbench: cannot write to standard output\n"))
        << program.err;
  }
}

// There is no other rank to tell.
TEST(Program, AnErrorIsALine) {
  const EndedProgram program = Ended({"--backend=host", "--throw"});
  EXPECT_EQ(program.status, 1);
  EXPECT_EQ(program.err, kWraps + "overlapbench: no such thing\n");
}

// The launcher looks for them.
TEST(Program, GivesItsSigns) {
  setenv("OVERLAPBENCH_SIGNS", "1", 1);
  EXPECT_EQ(Ended({"--version"}).err,
            "\x1e"
            "ended\n");
  const std::string list =
      Ended({"--backend=host", "--benchmark_list_tests", "--benchmark_filter=^Compute/Delay"}).err;
  EXPECT_EQ(list, kBegins +
                      "\x1e"
                      "started\naborts the links\nwraps\n\x1e"
                      "ended\n");
  unsetenv("OVERLAPBENCH_SIGNS");
}

// ---- As two ranks

const std::string kSelf = fs::read_symlink("/proc/self/exe");

// The lines of the suite when mpirun starts a rank with each of these flags.
EndedProgram EndedRanks(const std::vector<std::string>& first,
                        const std::vector<std::string>& second,
                        const std::string& second_program = kSelf) {
  std::vector<std::string> command = {"mpirun"};
  for (const auto& flags : {first, second}) {
    const std::string& program = command.size() == 1 ? kSelf : second_program;
    if (command.size() > 1) command.emplace_back(":");
    command.insert(command.end(), {"-n", "1", program, "--as-a-rank", "--backend=host"});
    command.insert(command.end(), flags.begin(), flags.end());
  }
  Child child([&] {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    return execvp(words[0], words.data());
  });
  EndedProgram program{child.End(kPatience), child.Out(), "", 0};
  std::istringstream lines(child.Err());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("overlapbench: ")) program.err += line.substr(14) + "\n";
    if (line.ends_with("aborts the links")) ++program.aborts;
  }
  return program;
}

TEST(ProgramOnTwoRanks, MeasuresAndIsSilentOnTheSecond) {
  const EndedProgram program = EndedRanks(kDelay, kDelay);
  EXPECT_EQ(program.status, 0);
  EXPECT_EQ(program.err, "");
  const Json document = JsonReader::Read(program.out);
  EXPECT_EQ(document.At("context").At("ranks").text, "2");
  EXPECT_EQ(document.At("benchmarks").items.size(), 1U);
}

TEST(ProgramOnTwoRanks, ComparesTheirFlags) {
  const std::string differ = "the ranks were not given the same flags: rank 0: '";
  const std::string ends = "; start all ranks with the same flags and environment\n";
  const std::string cpu = "--backend=host --budget_ms=";
  EndedProgram program = EndedRanks({"--budget_ms=1"}, {"--budget_ms=2", "--mine"});
  EXPECT_EQ(program.status, 1);
  EXPECT_EQ(program.err, differ + cpu + "1', rank 1: '" + cpu + "2'" + ends);
  program = EndedRanks({}, {"--no-such-flag"});
  EXPECT_EQ(program.status, 1);
  EXPECT_EQ(program.err, differ +
                             "--backend=host', rank 1: 'unknown flag '--no-such-flag'; "
                             "--help lists the flags'" +
                             ends);
  const std::string longest = "--benchmark_filter=" + std::string(500, 'x');
  program = EndedRanks({longest + "1"}, {longest + "2"});
  EXPECT_TRUE(program.err.ends_with("', which differ further on" + ends)) << program.err;
}

// A copy of this program with another build id.
TEST(ProgramOnTwoRanks, CompareTheirBuilds) {
  std::string id;
  for (std::size_t at = 0; at < BuildId().size(); at += 2)
    id += static_cast<char>(std::stoi(BuildId().substr(at, 2), nullptr, 16));
  std::ostringstream own;
  own << std::ifstream(kSelf, std::ios::binary).rdbuf();
  std::string code = own.str();
  const std::size_t place = id.empty() ? std::string::npos : code.find(id);
  if (place == std::string::npos) GTEST_SKIP() << "the linker writes no build id";
  code[place] = static_cast<char>(code[place] ^ 1);
  const fs::path other =
      fs::path(testing::TempDir()) / ("another_program_" + std::to_string(getpid()));
  std::ofstream(other, std::ios::binary) << code;
  fs::permissions(other, fs::perms::owner_all);
  const std::vector<std::string> lists = {"--benchmark_list_tests"};
  const EndedProgram program = EndedRanks(lists, lists, other);
  fs::remove(other);
  EXPECT_EQ(program.status, 2);
  EXPECT_EQ(program.out, "");
  EXPECT_TRUE(program.err.starts_with("the ranks run different builds: rank 0: ")) << program.err;
}

// One line, and the same status from all.
TEST(ProgramOnTwoRanks, RefuseTogether) {
  EndedProgram program = EndedRanks({"--no-such-flag"}, {"--no-such-flag"});
  EXPECT_EQ(program.status, 2);
  EXPECT_EQ(program.err, "unknown flag '--no-such-flag'; --help lists the flags\n");
  const std::vector<std::string> late = {"--inject_delay=Delay:x", "--benchmark_list_tests"};
  program = EndedRanks(late, late);
  EXPECT_EQ(program.status, 2);
  EXPECT_EQ(program.out, "");
  EXPECT_TRUE(program.err.starts_with("--inject_delay")) << program.err;
  EXPECT_EQ(std::ranges::count(program.err, '\n'), 1) << program.err;
  const std::string long_name(600, 'x');
  program = EndedRanks({"--axis=" + long_name + "=1"}, {"--axis=" + long_name + "=1"});
  EXPECT_TRUE(program.err.starts_with("there is no axis '" + long_name + "'")) << program.err;
  program = EndedRanks({"--benchmark_filter=^Nothing"}, {"--benchmark_filter=^Nothing"});
  EXPECT_EQ(program.status, 2);
  EXPECT_EQ(std::ranges::count(program.err, '\n'), 1) << program.err;
}

// Rank 0 alone shows errors of usage.
TEST(ProgramOnTwoRanks, HearWhatOneRefuses) {
  const std::vector<std::string> flags = {"--differ", "--dry_run", "--benchmark_filter=Priority/"};
  const EndedProgram program = EndedRanks(flags, flags);
  EXPECT_EQ(program.status, 2);
  EXPECT_TRUE(
      program.err.starts_with("rank 1: no benchmark matches --benchmark_filter=Priority/; "
                              "not available: Priority/"))
      << program.err;
  EXPECT_EQ(program.out, "");
}

// The other rank waits for it.
TEST(ProgramOnTwoRanks, AnErrorOfOneEndsBoth) {
  const EndedProgram program = EndedRanks({}, {"--throw"});
  EXPECT_EQ(program.status, 1);
  EXPECT_TRUE(program.err.starts_with("no such thing [rank 1 of 2, ")) << program.err;
  EXPECT_EQ(std::ranges::count(program.err, '\n'), 1) << program.err;
  EXPECT_GE(program.aborts, 3) << "once by each hook, and at the end";
}

// As when a launcher has lost a rank.
TEST(ProgramOnTwoRanks, AfterSigtermTheRanksAreCalled) {
  const EndedProgram program = EndedRanks({"--terminate"}, {});
  const std::regex wanted(
      "ended by SIGTERM at rank 0 of 2, .*; (all ranks|rank 1 did not) answer.*\n");
  EXPECT_TRUE(std::regex_match(program.err, wanted)) << program.err;
}

// ---- As the launcher

class LauncherProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "mpirun") << "#!/bin/bash\nprintf '%s ' \"$@\"\nexit 7\n";
    fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    fs::remove_all(folder_);
  }

  const std::string path_ = std::getenv("PATH");
  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("program_test_" + std::to_string(getpid()));
};

TEST_F(LauncherProgramTest, StartsMpirunAndTellsItsCaller) {
  const Descriptor done(open("/tmp", O_TMPFILE | O_RDWR, 0600));
  const EndedProgram program = Ended(
      {"--start=me", "--done=" + std::to_string(done.get()), "--", "--mine", "--backend=host"});
  EXPECT_EQ(program.status, 7);
  EXPECT_TRUE(program.out.ends_with(" program --mine --backend=host ")) << program.out;
  EXPECT_TRUE(program.err.starts_with("me: starting 2 ranks on ")) << program.err;
  std::array<char, 16> text{};
  EXPECT_EQ(pread(done.get(), text.data(), text.size(), 0), 5);
}

// As by >&-. The next file that is opened would be standard output.
TEST_F(LauncherProgramTest, MayHaveNoStandardOutput) {
  const EndedProgram program =
      Ended({"--start=me", "--", "--backend=host"}, {}, [] { close(STDOUT_FILENO); });
  EXPECT_EQ(program.status, 7);
  EXPECT_NE(program.err.find("me: cannot write to standard output: Bad file descriptor\n"),
            std::string::npos)
      << program.err;
}

TEST(Program, LetsNoFileTakeThePlaceOfAStandardOne) {
  const EndedProgram program = Ended({"--no-such-flag"}, {}, [] {
    close(STDIN_FILENO);
    close(STDERR_FILENO);
  });
  EXPECT_EQ(std::pair(program.status, program.out), std::pair(2, std::string()));
}

TEST_F(LauncherProgramTest, RefusesBadUsageItself) {
  const EndedProgram flag = Ended({"--start=me", "--", "--no-such-flag"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_TRUE(flag.err.starts_with("overlapbench: ")) << flag.err;
  EXPECT_EQ(flag.out, "");
  const EndedProgram ranks = Ended({"--start=me", "--ranks=0", "--", "--backend=host"});
  EXPECT_EQ(ranks.status, 2);
  EXPECT_EQ(ranks.err, "me: --ranks takes a whole number from 1 to 1024, got '0'\n");
  const EndedProgram own = Ended({"--start=me", "--speed=1"});
  EXPECT_EQ(own.status, 1);
  EXPECT_EQ(own.err, "overlapbench: --start is for ./bench; it has no '--speed=1'\n");
}

}  // namespace
}  // namespace overlapbench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--as-a-rank") {
    overlapbench::SayingHooks hooks;
    return overlapbench::RunProgram(argc - 1, argv + 1, hooks);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
