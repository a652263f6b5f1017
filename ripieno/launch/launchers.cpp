#include "ripieno/launch/launchers.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string_view>

#include "ripieno/core/error.h"
#include "ripieno/core/hash.h"
#include "ripieno/launch/environment.h"
#include "ripieno/launch/starter.h"
#include "ripieno/rendezvous/address.h"

namespace ripieno::launch {
namespace {

struct Row {
  const char* name;
  const char *rank, *size;  ///< variables, as all below; "": there is none
  const char *local_rank, *local_size;
  const char* nodes;   ///< how many hosts, where local_size is not known
  const char* also;    ///< must be set too: rank and size may belong to anybody
  const char* job[3];  ///< their values together differ between jobs
  const char* mpi = "";
};

constexpr Row rows[]{
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "GROUP_WORLD_SIZE",
     "TORCHELASTIC_RUN_ID",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
    {"spark",  // as python/ripieno_spark has it
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "",
     "RIPIENO_SPARK",
     {"MASTER_ADDR", "MASTER_PORT", "RIPIENO_SPARK"}},
    {"environment",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "",
     "MASTER_ADDR",
     {"MASTER_ADDR", "MASTER_PORT", ""}},
    {"mpirun (Open MPI)",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "",
     "",
     {"PMIX_NAMESPACE", "", ""},
     "Open MPI"},
    {"mpirun (MVAPICH)",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     "",
     "",
     {"", "", ""},
     "MPICH"},
    {"jsrun",
     "JSM_NAMESPACE_RANK",
     "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE",
     "",
     "",
     {"LSB_JOBID", "JSM_NAMESPACE_ID", ""},
     "Open MPI"},
    {"flux",
     "FLUX_TASK_RANK",
     "FLUX_JOB_SIZE",
     "FLUX_TASK_LOCAL_ID",
     "",
     "FLUX_JOB_NNODES",
     "",
     {"FLUX_JOB_ID", "", ""}},
    // A shell of sbatch or salloc has SLURM_PROCID too, but is the only task of its step.
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "",
     "SLURM_STEP_NUM_NODES",
     "",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", ""}},
    {"mpiexec (Hydra)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", "", {"", "", ""}, "MPICH"}};

std::string value(const char* name) { return *name ? variable(name).value_or("") : ""; }

/// 0: it is not a number, or not set.
int count(const char* name) {
  const std::string digits = value(name);
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

/// Whether RANK and its like are of Ripieno's own launcher (local.cpp), which tells PyTorch by them what torchrun
/// would.
bool are_ours() { return variable("RIPIENO_RANK") && variable("RIPIENO_CONTROL_FD"); }

bool fits(const Row& row) {
  if (std::string_view(row.rank) == "RANK" && are_ours()) return false;
  return !value(row.rank).empty() && (!*row.also || variable(row.also));
}

/// Where hosts agree that rank 0 listens. torchrun keeps MASTER_PORT for itself, so its jobs take the port after it.
std::string address(const Row& row, const std::string& job) {
  const std::string_view name = row.name;
  if (name == "srun") {
    const std::string host = first_host(value("SLURM_STEP_NODELIST"));
    const auto port = 20000 + hash(job) % 10000;
    return host.empty() ? "" : text(host, ':', port);
  }
  const std::string host = variable("MASTER_ADDR").value_or("");
  const int port = count("MASTER_PORT");
  if ((name != "torchrun" && name != "environment" && name != "spark") || host.empty() || port <= 0) return "";
  return rendezvous::with_port(host, name == "torchrun" ? port + 1 : port);
}

bool is_one_host(const Row& row, int size) {
  if (const int local = count(row.local_size); local > 0) return local == size;
  if (const int nodes = count(row.nodes); nodes > 0) return nodes == 1;
  return std::string_view(row.name) == "environment" && rendezvous::is_loopback(value("MASTER_ADDR"));
}

/// srun starts what speaks PMIx (Open MPI) or PMI (MPICH), as its --mpi says.
std::string mpi_of(const Row& row) {
  if (std::string_view(row.name) != "srun") return row.mpi;
  return variable("PMIX_NAMESPACE") ? "Open MPI" : variable("PMI_FD") || variable("PMI_RANK") ? "MPICH" : "";
}

}  // namespace

namespace {

bool is_plain(const Row& row) { return std::string_view(row.name) == "environment"; }

/// What the row's variables say.
Launched read(const Row& row) {
  Launched found;
  found.launcher = row.name;
  found.rank = number(row.rank, value(row.rank), 0);
  found.size = number(row.size, value(row.size), 1);
  found.read = text(row.rank, " is ", found.rank, ", ", row.size, " is ", found.size);
  if (found.rank >= found.size) fail(ErrorKind::usage, row.name, ": ", found.read, ": a rank must be below the size");
  const std::string local = value(row.local_rank);
  found.local_rank = local.empty() ? found.rank : number(row.local_rank, local, 0);
  found.is_one_host = is_one_host(row, found.size);
  found.carries_variables = std::string_view(row.name) == "srun";
  found.mpi = mpi_of(row);
  found.job = row.name;
  bool is_named = false;
  for (const char* name : row.job) {
    if (!value(name).empty()) found.job += "-" + value(name), is_named = true;
  }
  // The launcher's own process on this host; each host has another.
  if (!is_named && found.is_one_host)
    found.job += text("-", starter({{row.rank, value(row.rank)}, {row.size, value(row.size)}}));
  std::replace_if(
      found.job.begin(), found.job.end(), [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '-');
  found.address = address(row, found.job);
  return found;
}

/// Plain variables are a user's, who may have given all of a launcher's processes the same. Where they number other
/// processes than the launcher has started, such as several in each of its, the sizes differ.
void refuse_contradiction(const Launched& plain) {
  for (const Row& row : rows) {
    if (std::string_view(row.rank) == "RANK" || !fits(row) || count(row.size) < 2) continue;
    const Launched other = read(row);
    if (other.size == plain.size && other.rank != plain.rank) {
      fail(ErrorKind::usage, plain.read, ", but ", other.launcher, " says otherwise (", other.read,
           "): leave the first two unset, or set them to the same");
    }
    return;  // launchers further out have started this one
  }
}

}  // namespace

std::optional<Launched> launched() {
  for (const int least : {2, 1}) {
    for (const Row& row : rows) {
      if (!fits(row) || count(row.size) < least) continue;
      const Launched found = read(row);
      if (is_plain(row)) refuse_contradiction(found);
      return found;
    }
  }
  return std::nullopt;
}

std::string launcher_name() {
  for (const Row& row : rows) {
    if (fits(row)) return row.name;
  }
  return variable("TORCHELASTIC_RUN_ID") && !are_ours() ? "torchrun" : "none";
}

std::string restarted() {
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    if (count(name) > 0) return text(name, " is ", count(name));
  }
  return "";
}

std::string unknown_launcher() {
  std::map<std::string, std::string> ranks, sizes;
  for (char** entry = environ; *entry; ++entry) {
    const std::string line = *entry, name = line.substr(0, line.find('=')), its = line.substr(name.size() + 1);
    for (const std::string_view end : {"_RANK", "_PROCID", "_TASK_ID"}) {
      if (name.ends_with(end) && !name.starts_with("RIPIENO_")) ranks[name.substr(0, name.size() - end.size())] = name;
    }
    for (const std::string_view end : {"_SIZE", "_NTASKS", "_NUM_TASKS", "_NPROCS"}) {
      if (name.ends_with(end) && count(name.c_str()) > 1) sizes[name.substr(0, name.size() - end.size())] = name;
    }
  }
  for (const auto& [prefix, rank] : ranks) {
    const auto size = sizes.find(prefix);
    if (size == sizes.end() || std::any_of(std::begin(rows), std::end(rows), [&](const Row& row) {
          return rank == row.rank || rank == row.local_rank || size->second == row.size;
        }))
      continue;
    return text(rank, " is '", value(rank.c_str()), "', ", size->second, " is '", value(size->second.c_str()), "'");
  }
  return "";
}

std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = list.find_first_of("-,]", i + 1), close = list.find(']', i);
    if (end == std::string::npos || close == std::string::npos) return "";
    host += list.substr(i + 1, end - i - 1);
    i = close;
  }
  return host;
}

}  // namespace ripieno::launch
