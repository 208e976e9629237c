// What a process knows from its launcher before MPI starts, and how ranks are named.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>

#include "ranks/ranks.h"

namespace overlapbench {
namespace {

constexpr std::array kVariables = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",   "PMI_RANK", "PMI_SIZE",
    "SLURM_STEP_ID",        "SLURM_NTASKS",         "SLURM_PROCID"};

struct LaunchCase {
  const char* launcher;
  std::map<std::string, const char*> variables;
  RankPlace place;
};

TEST(ByLauncher, ReadsTheVariablesOfEachLauncher) {
  const LaunchCase cases[] = {
      {"none", {}, {0, 1, false}},
      {"mpirun", {{"OMPI_COMM_WORLD_RANK", "13"}, {"OMPI_COMM_WORLD_SIZE", "18"}}, {13, 18, false}},
      {"mpirun in an allocation's shell",
       {{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"PMIX_RANK", "1"},
        {"SLURM_PROCID", "3"},
        {"SLURM_NTASKS", "4"}},
       {0, 2, false}},
      {"another MPI's", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {1, 2, false}},
      {"srun with PMIx",
       {{"PMIX_RANK", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}},
       {2, 4, false}},
      {"srun without PMIx",
       {{"SLURM_STEP_ID", "7"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}},
       {2, 4, true}},
      {"srun without PMIx, the last number of a step",
       {{"SLURM_STEP_ID", "4294967289"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
       {1, 2, true}},
      {"srun of one task without PMIx",
       {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
       {0, 1, false}},
      {"an allocation's shell", {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}}, {0, 1, false}},
      {"an allocation's shell that is a step",
       {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}},
       {0, 1, false}},
      {"a variable that is empty",
       {{"SLURM_STEP_ID", ""}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}},
       {0, 1, false}},
  };
  for (const auto& [launcher, variables, place] : cases) {
    SCOPED_TRACE(launcher);
    for (const char* variable : kVariables) unsetenv(variable);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value, 1);
    const RankPlace found = ByLauncher();
    EXPECT_EQ(found.rank, place.rank);
    EXPECT_EQ(found.size, place.size);
    EXPECT_EQ(found.lacks_mpi, place.lacks_mpi);
  }
}

TEST(RequireMpiFrom, RefusesRanksWithoutMpi) {
  EXPECT_NO_THROW(RequireMpiFrom({.rank = 2, .size = 4}));
  try {
    RequireMpiFrom({.rank = 2, .size = 4, .lacks_mpi = true});
    FAIL() << "ranks that cannot meet";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("started as rank 2 of 4, but"));
  }
}

// The launcher has started several, but MPI has found one.
TEST(RequireStartedBy, RefusesALauncherThatMpiDoesNotKnow) {
  Progress progress(0, 1);
  const Ranks one({.rank = 0, .size = 1}, progress);
  const Ranks two({.rank = 0, .size = 2}, progress);
  EXPECT_NO_THROW(RequireStartedBy({.rank = 0, .size = 1}, one));
  EXPECT_NO_THROW(RequireStartedBy({.rank = 0, .size = 2}, two));
  EXPECT_THROW(RequireStartedBy({.rank = 0, .size = 2}, one), Error);
}

TEST(NameRanks, ShortensThreeOrMoreInARow) {
  EXPECT_EQ(NameRanks({3}), "rank 3");
  EXPECT_EQ(NameRanks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(NameRanks({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(NameRanks({1, 2, 4, 5}), "ranks 1, 2, 4, 5");
  EXPECT_EQ(NameRanks({0, 2, 3, 4, 5, 9}), "ranks 0, 2-5, 9");
}

}  // namespace
}  // namespace overlapbench
