#include "ripieno/launch/placement.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "ripieno/core/error.h"

namespace ripieno {
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

std::string foreign_launcher() {
  if (variable("OMPI_COMM_WORLD_RANK")) return "mpirun";
  if (variable("TORCHELASTIC_RUN_ID") || (variable("RANK") && variable("MASTER_ADDR"))) return "torchrun";
  if (variable("SLURM_PROCID")) return "srun";
  return "none";
}

bool switched(const char* name, bool otherwise) {
  const auto value = variable(name);
  if (!value) return otherwise;
  if (*value != "on" && *value != "off") fail(ErrorKind::usage, name, " is '", *value, "', but must be on or off");
  return *value == "on";
}

}  // namespace

Placement placement() {
  Placement place;
  place.shared_memory = switched("RIPIENO_SHARED_MEMORY", place.shared_memory);
  if (const auto address = variable("RIPIENO_LISTEN")) {
    if (address->empty()) fail(ErrorKind::usage, "RIPIENO_LISTEN is empty, but must be an address of this machine");
    place.listen = *address;
  }
  const auto rank = variable("RIPIENO_RANK");
  if (!rank) {
    place.launcher = foreign_launcher();
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
  place.rendezvous = needed("RIPIENO_RENDEZVOUS");
  place.token = needed("RIPIENO_TOKEN");
  if (const auto fd = variable("RIPIENO_CONTROL_FD")) place.control_fd = number("RIPIENO_CONTROL_FD", *fd, 0);
  return place;
}

}  // namespace ripieno
