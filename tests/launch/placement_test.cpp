#include "ripieno/launch/placement.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::launch {
namespace {

const char* const variables[] = {"RIPIENO_RANK",
                                 "RIPIENO_WORLD_SIZE",
                                 "RIPIENO_RENDEZVOUS",
                                 "RIPIENO_TOKEN",
                                 "RIPIENO_CONTROL_FD",
                                 "RIPIENO_LISTEN",
                                 "RIPIENO_SHARED_MEMORY",
                                 "OMPI_COMM_WORLD_RANK",
                                 "SLURM_PROCID",
                                 "TORCHELASTIC_RUN_ID",
                                 "RANK",
                                 "MASTER_ADDR",
                                 "OMPI_COMM_WORLD_SIZE",
                                 "SLURM_STEP_NUM_TASKS",
                                 "WORLD_SIZE",
                                 "PMI_RANK",
                                 "PMI_SIZE"};

Placement placement_in(const std::map<std::string, std::string>& environment) {
  for (const char* name : variables) unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  return placement();
}

const std::map<std::string, std::string> good{{"RIPIENO_RANK", "2"},
                                              {"RIPIENO_WORLD_SIZE", "4"},
                                              {"RIPIENO_RENDEZVOUS", "127.0.0.1:8000"},
                                              {"RIPIENO_TOKEN", "secret"},
                                              {"RIPIENO_CONTROL_FD", "3"}};

TEST(Placement, IsRead) {
  const Placement place = placement_in(good);
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.local_rank, 2);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(place.rendezvous, "127.0.0.1:8000");
  EXPECT_EQ(place.token, "secret");
  EXPECT_EQ(place.control_fd, 3);
  EXPECT_EQ(place.launcher, "ripieno");
}

TEST(Placement, OfAProcessThatNobodyLaunched) {
  const Placement place = placement_in({});
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 1);
  EXPECT_EQ(place.control_fd, -1);
  EXPECT_EQ(place.launcher, "none");
}

TEST(Placement, SaysHowWorkersAreReached) {
  EXPECT_EQ(placement_in(good).listen, "127.0.0.1");
  EXPECT_TRUE(placement_in(good).shared_memory);
  auto told = good;
  told["RIPIENO_LISTEN"] = "10.0.0.7";
  told["RIPIENO_SHARED_MEMORY"] = "off";
  EXPECT_EQ(placement_in(told).listen, "10.0.0.7");
  EXPECT_FALSE(placement_in(told).shared_memory);
  told["RIPIENO_SHARED_MEMORY"] = "on";
  EXPECT_TRUE(placement_in(told).shared_memory);
}

TEST(Placement, OtherLaunchersAreRecognised) {
  EXPECT_EQ(placement_in({{"OMPI_COMM_WORLD_RANK", "1"}}).launcher, "mpirun");
  EXPECT_EQ(placement_in({{"SLURM_PROCID", "1"}}).launcher, "srun");
  EXPECT_EQ(placement_in({{"TORCHELASTIC_RUN_ID", "x"}}).launcher, "torchrun");
  EXPECT_EQ(placement_in({{"RANK", "1"}, {"MASTER_ADDR", "x"}}).launcher, "torchrun");
  EXPECT_EQ(placement_in({{"RANK", "1"}}).launcher, "none");
}

using Environment = std::map<std::string, std::string>;

TEST(Placement, OneOfSeveralProcessesOfAnotherLauncherIsRefused) {
  const std::vector<Environment> worlds{
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "x"}}};
  for (const Environment& world : worlds) {
    const Placement place = placement_in(world);
    EXPECT_EQ(place.world_size, 1);
    for (const auto& check :
         std::vector<std::function<void()>>{[&] { refuse_foreign_world(place); }, check_environment}) {
      try {
        check();
        ADD_FAILURE() << world.begin()->first << " is not noticed";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_NE(std::string(error.what()).find("ripieno launch"), std::string::npos) << error.what();
        const bool names_both =
            std::string(error.what()).find("is '" + world.rbegin()->second + "'") != std::string::npos ||
            world.count("MASTER_ADDR") || world.count("TORCHELASTIC_RUN_ID");
        EXPECT_TRUE(names_both) << error.what();
      }
    }
  }
}

TEST(Placement, OneProcessAloneIsAJobOfOneWhereverItIs) {
  const std::vector<Environment> alone{{},
                                       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},  // a shell of sbatch or salloc
                                       {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
                                       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
                                       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "x"}},
                                       {{"RANK", "0"}, {"WORLD_SIZE", "2"}},  // anybody's
                                       {{"PMI_RANK", "0"}, {"PMI_SIZE", "many"}}};
  for (const Environment& environment : alone) {
    EXPECT_EQ(placement_in(environment).foreign_world, "");
    EXPECT_NO_THROW(check_environment());
  }
  auto wrapped = good;  // a script under mpirun that has set what Ripieno needs
  wrapped["OMPI_COMM_WORLD_RANK"] = "2";
  wrapped["OMPI_COMM_WORLD_SIZE"] = "4";
  EXPECT_EQ(placement_in(wrapped).foreign_world, "");
  EXPECT_NO_THROW(check_environment());
}

TEST(Placement, WhatWorkersWouldNotTakeIsSaidBeforeAnyIsStarted) {
  for (const auto& [name, value] : Environment{{"RIPIENO_SHARED_MEMORY", "0"}, {"RIPIENO_LISTEN", ""}}) {
    EXPECT_THROW(placement_in({{name, value}}), Error);
    EXPECT_THROW(check_environment(), Error) << name;
  }
}

TEST(Placement, TheControlPipeIsKnownWhateverElseIsWrong) {
  auto broken = good;
  broken["RIPIENO_WORLD_SIZE"] = "none";
  EXPECT_THROW(placement_in(broken), Error);
  EXPECT_EQ(control_descriptor_of_environment(), 3);
  EXPECT_THROW(placement_in({{"RIPIENO_SHARED_MEMORY", "0"}, {"RIPIENO_CONTROL_FD", "3"}}), Error);
  EXPECT_EQ(control_descriptor_of_environment(), -1);  // nobody launched this
}

TEST(Placement, WhatIsMalformedIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"RIPIENO_RANK", "-1"},       {"RIPIENO_RANK", "two"},     {"RIPIENO_RANK", "4"},
      {"RIPIENO_RANK", ""},         {"RIPIENO_WORLD_SIZE", "0"}, {"RIPIENO_WORLD_SIZE", "4x"},
      {"RIPIENO_CONTROL_FD", "-3"}, {"RIPIENO_LISTEN", ""},      {"RIPIENO_SHARED_MEMORY", "no"},
      {"RIPIENO_SHARED_MEMORY", ""}};
  for (const auto& [name, value] : wrong) {
    auto environment = good;
    environment[name] = value;
    try {
      placement_in(environment);
      ADD_FAILURE() << name << "=" << value << " is accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(value), std::string::npos) << error.what();
    }
  }
  for (const char* missing : {"RIPIENO_WORLD_SIZE", "RIPIENO_RENDEZVOUS", "RIPIENO_TOKEN"}) {
    auto environment = good;
    environment.erase(missing);
    EXPECT_THROW(placement_in(environment), Error) << missing;
  }
}

}  // namespace
}  // namespace ripieno::launch
