#include "ripieno/launch/placement.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/launch/launchers.h"
#include "ripieno/rendezvous/interfaces.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::launch {
namespace {

/// Everything that a launcher may have left in this process's own environment.
void forget_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry)
    names.push_back(std::string(*entry).substr(0, std::string(*entry).find('=')));
  for (const std::string& name : names) {
    if (name != "PATH" && name != "HOME" && name != "TMPDIR") unsetenv(name.c_str());
  }
}

using Environment = std::map<std::string, std::string>;

Placement placement_in(const Environment& environment) {
  forget_environment();
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  return placement();
}

const Environment good{{"RIPIENO_RANK", "2"},
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

TEST(Placement, ByHandRank0OpensTheRendezvous) {
  auto by_hand = good;
  by_hand.erase("RIPIENO_CONTROL_FD");
  EXPECT_FALSE(placement_in(by_hand).opens_rendezvous);
  by_hand["RIPIENO_RANK"] = "0";
  EXPECT_TRUE(placement_in(by_hand).opens_rendezvous);
  EXPECT_THROW(check_environment(), Error) << "a command that starts workers would do so several times";
  EXPECT_FALSE(placement_in(good).opens_rendezvous);
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
    const Placement place = placement_in(environment);
    EXPECT_EQ(place.world_size, 1);
    EXPECT_EQ(place.cannot_meet, "");
    EXPECT_NO_THROW(check_environment());
  }
}

TEST(Placement, OneProcessOfALauncherIsANumber) {
  const std::vector<Environment> counted{
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "x"}},
      {{"RIPIENO_RANK", "0"}, {"RIPIENO_WORLD_SIZE", "1"}, {"RIPIENO_CONTROL_FD", "3"}}};
  for (const Environment& environment : counted) EXPECT_TRUE(placement_in(environment).counts);
  const std::vector<Environment> uncounted{
      {},
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},        // a shell of sbatch or salloc
      {{"RIPIENO_RANK", "0"}, {"RIPIENO_WORLD_SIZE", "1"}},  // a job of its own
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}}};                 // anybody's
  for (const Environment& environment : uncounted) EXPECT_FALSE(placement_in(environment).counts);
  // Of a job step of one task, in which mpirun starts two.
  EXPECT_EQ(placement_in({{"SLURM_PROCID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "1"},
                          {"RANK", "1"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "localhost"}})
                .world_size,
            2);
}

TEST(Placement, RanksListenWhereTheOthersCome) {
  const Environment one_host{{"RANK", "1"},         {"WORLD_SIZE", "2"},
                             {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_PORT", "80"}, {"RIPIENO_TOKEN", std::string(64, 'a')}};
  const Environment srun{{"SLURM_PROCID", "1"},      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"},
                         {"SLURM_JOB_ID", "12"},     {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NODELIST", "node1"},
                         {"RIPIENO_TOKEN", "secret"}};
  const Environment by_hand{{"RIPIENO_RANK", "1"}, {"RIPIENO_WORLD_SIZE", "2"}, {"RIPIENO_TOKEN", "secret"}};
  const auto listens = [](Environment job, const char* name, const char* address) {
    job[name] = address;
    return placement_in(job).listen;
  };
  const std::string all = rendezvous::all_addresses();
  for (const char* host : {"localhost", "127.0.0.1", "::1"})
    EXPECT_EQ(listens(one_host, "MASTER_ADDR", host), "127.0.0.1") << host;
  for (const char* host : {"10.77.0.2", "node1", "fd00::2"})
    EXPECT_EQ(listens(one_host, "MASTER_ADDR", host), all) << host;
  auto without_secret = one_host;
  without_secret.erase("RIPIENO_TOKEN");
  EXPECT_EQ(listens(without_secret, "MASTER_ADDR", "10.77.0.2"), "127.0.0.1") << "they meet by a file";
  EXPECT_EQ(placement_in(srun).listen, all);
  EXPECT_EQ(listens(by_hand, "RIPIENO_RENDEZVOUS", "127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(listens(by_hand, "RIPIENO_RENDEZVOUS", "10.77.0.2:80"), all);
  auto told = srun;
  told["RIPIENO_LISTEN"] = "10.0.0.7";
  EXPECT_EQ(placement_in(told).listen, "10.0.0.7");
}

TEST(Placement, ProcessesOfAnotherLauncherAreOneJob) {
  Environment of_two_hosts{{"RANK", "3"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_PORT", "29500"},
                           {"MASTER_ADDR", "node1"},
                           {"TORCHELASTIC_RUN_ID", "x"}};
  Placement place = placement_in(of_two_hosts);
  EXPECT_EQ(place.launcher, "torchrun");
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.read, "RANK is 3, WORLD_SIZE is 4");
  EXPECT_NE(place.cannot_meet.find("does not know the job's secret"), std::string::npos) << place.cannot_meet;
  of_two_hosts["RIPIENO_TOKEN"] = "secret";
  place = placement_in(of_two_hosts);
  EXPECT_EQ(place.cannot_meet, "");
  EXPECT_EQ(place.rendezvous, "node1:29501") << "torchrun itself listens on MASTER_PORT";
  EXPECT_EQ(place.listen, rendezvous::all_addresses());
  EXPECT_FALSE(place.opens_rendezvous);
  of_two_hosts.erase("TORCHELASTIC_RUN_ID");
  EXPECT_EQ(placement_in(of_two_hosts).rendezvous, "node1:29500");
  of_two_hosts["RIPIENO_MEETING_FOLDER"] = "/shared";
  place = placement_in(of_two_hosts);
  EXPECT_EQ(place.invitation->name(), "/shared/environment-node1-29500");
  EXPECT_EQ(place.rendezvous + place.token, "");
  EXPECT_THROW(check_environment(), Error);
}

TEST(Placement, WhereTheLauncherNamesNoJobASharedFolderIsTheSameOnAllHosts) {
  for (const Environment& job :
       {Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"RIPIENO_MEETING_FOLDER", "/shared"}},
        Environment{{"MV2_COMM_WORLD_RANK", "1"},
                    {"MV2_COMM_WORLD_SIZE", "4"},
                    {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
                    {"RIPIENO_MEETING_FOLDER", "/shared"}}}) {
    const std::string name = placement_in(job).invitation->name();
    EXPECT_EQ(name.find(std::to_string(getppid())), std::string::npos) << name << ": each host has a parent of its own";
  }
}

TEST(Placement, AStarListensOnAllAddresses) {
  EXPECT_EQ(placement_in({{"RIPIENO_LISTEN", "*"}}).listen, rendezvous::all_addresses());
}

TEST(Placement, SparksTasksAreNumberedByThePythonModule) {
  const Placement place = placement_in({{"RANK", "1"},
                                        {"WORLD_SIZE", "2"},
                                        {"LOCAL_RANK", "0"},
                                        {"LOCAL_WORLD_SIZE", "1"},
                                        {"MASTER_ADDR", "10.0.0.1"},
                                        {"MASTER_PORT", "4000"},
                                        {"RIPIENO_SPARK", "0.0"},
                                        {"RIPIENO_TOKEN", std::string(64, 'a')}});
  EXPECT_EQ(place.launcher, "spark");
  EXPECT_EQ(place.rendezvous, "10.0.0.1:4000");
  EXPECT_EQ(place.cannot_meet, "");
}

TEST(Placement, OnOneHostRank0InvitesByAFile) {
  const TemporaryFolder folder;
  const std::string runtime = folder.path().string();
  const std::vector<Environment> jobs{
      {{"OMPI_COMM_WORLD_RANK", "0"},
       {"OMPI_COMM_WORLD_SIZE", "2"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
       {"PMIX_NAMESPACE", "a/7"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}},
      {{"SLURM_PROCID", "0"},
       {"SLURM_STEP_NUM_TASKS", "2"},
       {"SLURM_STEP_NUM_NODES", "1"},
       {"SLURM_JOB_ID", "12"},
       {"SLURM_STEP_ID", "3"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "80"}}};
  const std::vector<std::string> names{"mpirun--Open-MPI--a-7", text("mpiexec--Hydra--", getppid()), "srun-12-3",
                                       "environment-localhost-80"};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Environment environment = jobs[i];
    environment["XDG_RUNTIME_DIR"] = runtime;
    const Placement place = placement_in(environment);
    EXPECT_EQ(place.cannot_meet, "");
    EXPECT_TRUE(place.opens_rendezvous);
    EXPECT_EQ(place.invitation->name(), runtime + "/ripieno/" + names[i]);
    EXPECT_EQ(place.listen, "127.0.0.1");
  }
}

TEST(Placement, OnSeveralHostsSlurmSaysWhereRank0Is) {
  const Environment step{{"SLURM_PROCID", "1"},         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_JOB_ID", "12"},
                         {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                         {"RIPIENO_TOKEN", "secret"}};
  const std::string where = placement_in(step).rendezvous;
  EXPECT_EQ(where.substr(0, 6), "gpu07:");
  auto next = step;
  next["SLURM_STEP_ID"] = "1";
  EXPECT_NE(placement_in(next).rendezvous, where);
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n[3,5-7]x,other[1-2]"), "n3x");
  EXPECT_EQ(first_host("n[3"), "");
  EXPECT_EQ(first_host(""), "");
}

TEST(Placement, SaysWhichMpiTheLauncherBelongsTo) {
  const Environment srun{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NODELIST", "a,b"}};
  Environment pmix = srun, pmi2 = srun;
  pmix["PMIX_NAMESPACE"] = "slurm.pmix.1.0";
  pmi2["PMI_FD"] = "9";
  EXPECT_EQ(placement_in({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).mpi, "Open MPI");
  EXPECT_EQ(placement_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).mpi, "MPICH");
  EXPECT_EQ(placement_in(pmix).mpi, "Open MPI");
  EXPECT_EQ(placement_in(pmi2).mpi, "MPICH");
  EXPECT_EQ(placement_in(srun).mpi, "");
  EXPECT_EQ(placement_in(good).mpi, "");
  EXPECT_EQ(placement_in({{"RIPIENO_MPI_PLUGIN", "/its/plugin.so"}}).mpi_plugin, "/its/plugin.so");
}

TEST(Placement, TheInnermostLauncherCounts) {
  const Environment nested{{"SLURM_PROCID", "1"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"OMPI_COMM_WORLD_RANK", "5"},
                           {"OMPI_COMM_WORLD_SIZE", "8"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  EXPECT_EQ(placement_in(nested).rank, 5);
  EXPECT_EQ(placement_in(nested).launcher, "mpirun (Open MPI)");
}

void expect_refused(const Environment& environment, const std::vector<std::string>& words) {
  try {
    placement_in(environment);
    ADD_FAILURE() << words.front() << " is not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Placement, ContradictionsAreRefusedWithBothValues) {
  auto script = good;  // a script under mpirun that sets what Ripieno needs
  script.erase("RIPIENO_CONTROL_FD");
  script["OMPI_COMM_WORLD_RANK"] = "2";
  script["OMPI_COMM_WORLD_SIZE"] = "4";
  EXPECT_NO_THROW(placement_in(script));
  script["RIPIENO_RANK"] = "0";
  expect_refused(script, {"RIPIENO_RANK is 0", "OMPI_COMM_WORLD_RANK is 2"});
  script["RIPIENO_WORLD_SIZE"] = "1";  // each of four would be rank 0 of one
  expect_refused(script, {"RIPIENO_WORLD_SIZE is 1", "OMPI_COMM_WORLD_SIZE is 4"});
  script["RIPIENO_CONTROL_FD"] = "3";  // a launcher of ours, started by one of the four
  EXPECT_NO_THROW(placement_in(script));
  // The same plain variables for all of a launcher's processes.
  for (const Environment& launcher : {Environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}},
                                      Environment{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
                                      Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}}) {
    auto plain = launcher;
    plain.insert({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "80"}});
    expect_refused(plain, {"RANK is 0, WORLD_SIZE is 2", launcher.begin()->first + " is 1"});
    plain["RANK"] = "1";
    EXPECT_NO_THROW(placement_in(plain));
    plain["RANK"] = "5", plain["WORLD_SIZE"] = "8";  // each of the two starts four
    EXPECT_NO_THROW(placement_in(plain));
  }
  expect_refused({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
                 {"OMPI_COMM_WORLD_RANK is 4", "OMPI_COMM_WORLD_SIZE is 4"});
  expect_refused({{"OMPI_COMM_WORLD_RANK", "two"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, {"OMPI_COMM_WORLD_RANK is 'two'"});
  expect_refused({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "node1"},
                  {"MASTER_PORT", "80"},
                  {"RIPIENO_TOKEN", "a"},
                  {"RIPIENO_TOKEN_FILE", "b"}},
                 {"RIPIENO_TOKEN and RIPIENO_TOKEN_FILE are both set"});
}

TEST(Placement, NoLauncherMakesSeveralRank0sOfOne) {
  const Environment unknown{{"GLORP_RANK", "1"}, {"GLORP_SIZE", "2"}};
  EXPECT_NE(placement_in(unknown).cannot_meet.find("GLORP_RANK is '1', GLORP_SIZE is '2'"), std::string::npos);
  EXPECT_THROW(check_environment(), Error);
  auto in_a_shell_of_a_step = unknown;
  in_a_shell_of_a_step.insert({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_NE(placement_in(in_a_shell_of_a_step).cannot_meet, "");
  auto known_to_be_alone = unknown;
  known_to_be_alone["RIPIENO_RANK"] = "0";
  known_to_be_alone["RIPIENO_WORLD_SIZE"] = "1";
  EXPECT_EQ(placement_in(known_to_be_alone).cannot_meet, "");
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
