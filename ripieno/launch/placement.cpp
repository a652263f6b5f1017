#include "ripieno/launch/placement.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "ripieno/core/error.h"

namespace ripieno::launch {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  return value;
}

int number(const char* name, const std::string& value, int least) {
  int parsed = 0;
  const char* last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, parsed);
  if (error != std::errc() || end != last || parsed < least) {
    fail(ErrorKind::usage, name, " is '", value, "', but must be a whole number of at least ", least);
  }
  return parsed;
}

std::string needed(const char* name) {
  const auto value = variable(name);
  if (!value || value->empty()) fail(ErrorKind::usage, "RIPIENO_RANK is set, but ", name, " is not: set both or none");
  return *value;
}

/// The variables by which another launcher numbers its processes.
struct ForeignLauncher {
  const char* name;
  const char* rank;
  const char* size;
};

/// srun's comes after those of launchers that it may start. A shell of sbatch or salloc has SLURM_PROCID too, but is
/// the only task of its step.
constexpr ForeignLauncher foreign_launchers[]{{"torchrun", "RANK", "WORLD_SIZE"},
                                              {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                              {"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                              {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
                                              {"flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
                                              {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                              {"mpiexec", "PMI_RANK", "PMI_SIZE"}};

/// RANK alone may belong to any program.
bool has_started_this(const ForeignLauncher& launcher) {
  if (!variable(launcher.rank)) return false;
  return std::string_view(launcher.name) != "torchrun" || variable("TORCHELASTIC_RUN_ID") || variable("MASTER_ADDR");
}

void find_foreign_launcher(Placement* place) {
  if (variable("TORCHELASTIC_RUN_ID")) place->launcher = "torchrun";
  for (const ForeignLauncher& launcher : foreign_launchers) {
    if (!has_started_this(launcher)) continue;
    if (place->launcher == "none") place->launcher = launcher.name;
    const std::string size = variable(launcher.size).value_or("");
    int processes = 0;
    std::from_chars(size.data(), size.data() + size.size(), processes);
    if (processes < 2 || !place->foreign_world.empty()) continue;
    place->foreign_world = text(launcher.name, " has started ", processes, " of this process (", launcher.rank, " is '",
                                *variable(launcher.rank), "', ", launcher.size, " is '", size, "')");
  }
}

bool switched(const char* name, bool otherwise) {
  const auto value = variable(name);
  if (!value) return otherwise;
  if (*value != "on" && *value != "off") fail(ErrorKind::usage, name, " is '", *value, "', but must be on or off");
  return *value == "on";
}

/// Variables that a worker inherits unchanged from its launcher's environment.
Placement ways_to_peers() {
  Placement place;
  place.shared_memory = switched("RIPIENO_SHARED_MEMORY", place.shared_memory);
  if (const auto address = variable("RIPIENO_LISTEN")) {
    if (address->empty()) fail(ErrorKind::usage, "RIPIENO_LISTEN is empty, but must be an address of this machine");
    place.listen = *address;
  }
  return place;
}

}  // namespace

Placement placement() {
  Placement place = ways_to_peers();
  const auto rank = variable("RIPIENO_RANK");
  if (!rank) {
    find_foreign_launcher(&place);
    return place;
  }
  place.launcher = "ripieno";
  place.rank = number("RIPIENO_RANK", *rank, 0);
  place.world_size = number("RIPIENO_WORLD_SIZE", needed("RIPIENO_WORLD_SIZE"), 1);
  if (place.rank >= place.world_size) {
    fail(ErrorKind::usage, "RIPIENO_RANK is ", place.rank, ", but must be below RIPIENO_WORLD_SIZE, which is ",
         place.world_size);
  }
  place.local_rank = place.rank;
  if (place.world_size > 1) {
    place.rendezvous = needed("RIPIENO_RENDEZVOUS");
    place.token = needed("RIPIENO_TOKEN");
  }
  if (const auto fd = variable("RIPIENO_CONTROL_FD")) place.control_fd = number("RIPIENO_CONTROL_FD", *fd, 0);
  return place;
}

int control_descriptor_of_environment() {
  const std::string value = variable("RIPIENO_RANK") ? variable("RIPIENO_CONTROL_FD").value_or("") : "";
  int fd = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), fd);
  return error == std::errc() && end == value.data() + value.size() && fd >= 0 ? fd : -1;
}

void refuse_foreign_world(const Placement& place) {
  if (place.foreign_world.empty()) return;
  fail(ErrorKind::usage, place.foreign_world,
       ", and each would be a job of its own: start it once, without that launcher, with ",
       "`ripieno train -n N` or `ripieno launch -n N -- PROGRAM`, which start the workers themselves");
}

void check_environment() {
  Placement place = ways_to_peers();
  if (!variable("RIPIENO_RANK")) find_foreign_launcher(&place);
  refuse_foreign_world(place);
}

}  // namespace ripieno::launch
