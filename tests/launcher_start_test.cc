// How many ranks ./bench starts, where, and which mistakes in a host file it finds itself.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "device/error.h"
#include "launcher/host_file.h"
#include "launcher/start.h"
#include "thrown.h"

namespace overlapbench {
namespace {

using Choice = Options::BackendChoice;

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Start Plan(const Wish& wish, int gpus = 0, int nodes = 1) {
  return PlanStart(wish, {}, "node1", [gpus] { return gpus; }, nodes);
}

TEST(PlanStart, StartsARankForEachGpuAndTwoWithoutOne) {
  struct Case {
    Choice backend;
    long ranks;
    int gpus;
    const char* told;
    const char* flags = "";
  };
  for (const auto& [backend, ranks, gpus, told, flags] : std::to_array<Case>({
           {Choice::kAuto, 0, 0, "2 ranks on node1, backend host", "--backend=host"},
           {Choice::kAuto, 0, 4, "4 ranks on node1, backend cuda", "--backend=cuda"},
           {Choice::kAuto, 0, 1, "1 rank on node1, backend cuda", "--backend=cuda"},
           {Choice::kCuda, 0, 2, "2 ranks on node1, backend cuda"},
           {Choice::kCuda, 0, 0, "1 rank on node1, backend cuda"},
           {Choice::kHost, 0, 4, "2 ranks on node1, backend host"},
           {Choice::kHost, 3, 4, "3 ranks on node1, backend host"},
           {Choice::kAuto, 5, 4, "5 ranks on node1, backend auto"},
       })) {
    const Start start = Plan({backend, ranks, "", ""}, gpus);
    EXPECT_EQ(start.told, told);
    EXPECT_EQ(Joined(start.flags), flags);
    EXPECT_EQ(Joined(start.command), "mpirun -n " + start.told.substr(0, 1) +
                                         " --oversubscribe --bind-to none -x OVERLAPBENCH_SIGNS");
  }
}

TEST(PlanStart, StaysOnOneMachineOfAnAllocation) {
  EXPECT_EQ(Plan({Choice::kHost, 8, "", ""}, 0, 2).told,
            "8 ranks on node1 alone, not on all 2 nodes of the allocation (for those: srun "
            "--mpi=pmix -K ./bench), backend host");
}

TEST(PlanStart, FillsTheSlotsOfAHostFile) {
  const Wish wish{.backend = Choice::kHost, .hostfile = "hosts", .connections = "8"};
  const auto hosts = ReadHosts("node1 slots=2\nnode2 slots=3\n", "hosts");
  const auto none = [] { return 0; };
  const Start start = PlanStart(wish, hosts, "login", none, 2);
  EXPECT_EQ(start.told, "5 ranks on node1 (2), node2 (3), backend host, connections:8");
  EXPECT_EQ(Joined(start.command),
            "mpirun --hostfile hosts --bind-to none -x OVERLAPBENCH_SIGNS -x "
            "CUDA_DEVICE_MAX_CONNECTIONS=8");
  EXPECT_EQ(Joined(start.flags), "--axis=connections=8");
  EXPECT_EQ(PlanStart(wish, {}, "login", none, 1).told,
            "a rank in each slot on the machines of hosts, backend host, connections:8");
  const Start one = PlanStart({Choice::kCuda, 1, "hosts", "0"}, hosts, "login", none, 1);
  EXPECT_EQ(one.told, "1 rank on node1 (2), node2 (3), backend cuda, connections:0");
  EXPECT_EQ(Joined(one.command),
            "mpirun -n 1 --hostfile hosts --bind-to none -x OVERLAPBENCH_SIGNS")
      << "as many connections as the driver likes";
  const auto most = ReadHosts("a slots=1000\nb slots=24\n", "hosts");
  EXPECT_EQ(PlanStart({Choice::kAuto, 0, "hosts", ""}, most, "login", none, 1).told,
            "1024 ranks on a (1000), b (24), backend auto");
  const auto many = ReadHosts("a slots=1000\nb slots=1000\n", "hosts");
  EXPECT_EQ(Thrown<UsageError>([&] { PlanStart(wish, many, "login", none, 1); }),
            "--hostfile: hosts has 2000 slots; at most 1024 ranks can be started");
  EXPECT_EQ(PlanStart({Choice::kAuto, 3, "hosts", ""}, many, "login", none, 1).told,
            "3 ranks on a (1000), b (1000), backend auto");
}

TEST(AllocatedNodes, CountsTheMachinesOfEveryScheduler) {
  const auto count = [](const std::map<std::string, std::string>& environment) {
    return AllocatedNodes(
        [&](const std::string& name) {
          const auto found = environment.find(name);
          return found == environment.end() ? "" : found->second;
        },
        [](const std::string& file) -> std::vector<std::string> {
          if (file == "ge")
            return {"node1 8 all.q@node1 UNDEFINED", "node2 8 all.q@node2 UNDEFINED"};
          return {"node1", "node1", "node2", "node3", ""};
        });
  };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({{"SLURM_JOB_NUM_NODES", "1"}}), 1);
  EXPECT_EQ(count({{"SLURM_JOB_NUM_NODES", "4"}}), 4);
  EXPECT_EQ(count({{"SLURM_NNODES", "5"}}), 5);
  EXPECT_EQ(count({{"SLURM_NNODES", "5"}, {"SLURM_JOB_NUM_NODES", "4"}, {"PE_HOSTFILE", "ge"}}), 4);
  EXPECT_EQ(count({{"SLURM_NNODES", "many"}}), 1);
  EXPECT_EQ(count({{"PBS_NODEFILE", "pbs"}}), 3);
  EXPECT_EQ(count({{"LSB_DJOB_HOSTFILE", "lsf"}}), 3);
  EXPECT_EQ(count({{"PE_HOSTFILE", "ge"}}), 2);
}

std::string Refusal(const std::string& text) {
  return Thrown<UsageError>([&] { ReadHosts(text, "hosts"); });
}

TEST(ReadHosts, NamesTheMistakeAndItsLine) {
  EXPECT_EQ(Refusal("localhost slots=2\r\n"),
            "--hostfile: hosts, line 1: it ends as on Windows, which mpirun does not read; convert "
            "the file with: sed -i 's/\\r$//' hosts");
  EXPECT_EQ(Refusal("# none\n\n  \n"),
            "--hostfile: hosts has no machine; write lines such as 'node1 slots=8'");
  EXPECT_EQ(Refusal("a slots=2\nb slots=two\n"),
            "--hostfile: hosts, line 2: slots takes a whole number from 1 to 1024, got 'two'");
  for (const char* bad : {"0", "-1", "1025", "", "99999999999999999999"})
    EXPECT_EQ(Refusal(std::string("a slots=") + bad + "\n"),
              std::string("--hostfile: hosts, line 1: slots takes a whole number from 1 to 1024, "
                          "got '") +
                  bad + "'");
  for (const char* twice : {"a slots=2\na slots=2\n", "a slots=1\na\n", "a\na slots=1\n"})
    EXPECT_EQ(Refusal(twice),
              "--hostfile: hosts, line 2: a is there twice; write one line for each machine, with "
              "all its slots");
  for (const char* word : {"SLOTS=2", "Slot=2", "slots", "slot"})
    EXPECT_EQ(
        Refusal(std::string("a ") + word + "\n"),
        std::string("--hostfile: hosts, line 1: '") + word + "' is not understood; write slots=8");
  for (const char* name : {"a:2", "slots=2", "a,b"})
    EXPECT_EQ(Refusal(std::string(name) + "\n"), std::string("--hostfile: hosts, line 1: '") +
                                                     name +
                                                     "' is no host name; write 'node1 slots=8'");
  for (const std::string& binary : {std::string("\0ELF", 4), std::string("a \x1b[2J"),
                                    "a" + std::string(400'000, ' '), std::string(5000, 'a')})
    EXPECT_EQ(Refusal(binary + "\n"),
              "--hostfile: hosts, line 1: this is no line of text; write 'node1 slots=8'");
}

TEST(ReadHosts, AcceptsWhatMpirunDoes) {
  EXPECT_EQ(
      NameHosts(ReadHosts("# two\nuser@a slots=2 max_slots=4 # fast\nb slot = 1\n \t\nc", "hosts")),
      "user@a (2), b (1), c");
  EXPECT_EQ(CountSlots(ReadHosts("a slots=2\nb slots=1\n", "hosts")), 3);
  EXPECT_EQ(CountSlots(ReadHosts("a slots=2\nb\n", "hosts")), 0);
  EXPECT_EQ(CountSlots(ReadHosts("a slots=1024\nb slots=1", "hosts")), 1025);
  EXPECT_EQ(NameHosts(ReadHosts("a\na\nb\n", "hosts")), "a, a, b");
}

}  // namespace
}  // namespace overlapbench
