#include "ripieno/launch/placement.h"

#include <unistd.h>

#include <asio/ip/host_name.hpp>
#include <charconv>

#include "ripieno/core/error.h"
#include "ripieno/launch/environment.h"
#include "ripieno/launch/launchers.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/interfaces.h"

namespace ripieno::launch {
namespace {

std::string needed(const char* name) {
  const auto value = variable(name);
  if (!value || value->empty()) fail(ErrorKind::usage, "RIPIENO_RANK is set, but ", name, " is not: set both or none");
  return *value;
}

/// Variables that a worker inherits unchanged from its launcher's environment.
Placement inherited() {
  Placement place;
  place.mpi_plugin = variable("RIPIENO_MPI_PLUGIN").value_or("");
  place.shared_memory = switched("RIPIENO_SHARED_MEMORY", place.shared_memory);
  if (const auto address = variable("RIPIENO_LISTEN")) {
    if (address->empty()) fail(ErrorKind::usage, "RIPIENO_LISTEN is empty, but must be an address of this machine");
    place.listen =
        *address == everywhere ? rendezvous::all_addresses() : rendezvous::find_interface(*address).value_or(*address);
  }
  return place;
}

/// "" if there is none.
std::string token() {
  const auto given = variable("RIPIENO_TOKEN"), file = variable("RIPIENO_TOKEN_FILE");
  if (given && file) fail(ErrorKind::usage, "RIPIENO_TOKEN and RIPIENO_TOKEN_FILE are both set: set one of them");
  return file ? rendezvous::read_token(*file) : given.value_or("");
}

/// What to say of a launcher that is not in the table; "" if none is seen.
std::string unknown() {
  const std::string seen = unknown_launcher();
  if (seen.empty()) return "";
  return text("a launcher that Ripieno does not know seems to have started several of this process (", seen,
              "): set RIPIENO_RANK and RIPIENO_WORLD_SIZE, to 0 and 1 if this is a job of its own");
}

/// Where ranks on one host can meet by a file: the first that is this user's alone. In a folder that all can write to,
/// another user may have taken the name.
std::vector<std::filesystem::path> places_to_meet() {
  const std::string own = text("ripieno-", ::getuid());
  std::vector<std::filesystem::path> places{"/tmp/" + own, "/var/tmp/" + own, "/dev/shm/" + own};
  if (const auto runtime = variable("XDG_RUNTIME_DIR"); runtime && !runtime->empty())
    places.insert(places.begin(), std::filesystem::path(*runtime) / "ripieno");
  if (const auto home = variable("HOME"); home && !home->empty())
    places.push_back(std::filesystem::path(*home) / (".ripieno-" + asio::ip::host_name()));
  return places;
}

/// Where the others will come: along the loopback if that is how they are told to meet, else along any way.
void listen_for_others(bool is_loopback, Placement* place) {
  if (!is_loopback && !variable("RIPIENO_LISTEN")) place->listen = rendezvous::all_addresses();
}

bool is_on_loopback(const std::string& address) {
  return rendezvous::is_loopback(rendezvous::parse_address(address).host);
}

/// One of several processes without a launcher of ours: they meet at an address, or by rank 0's invitation.
void find_meeting(const Launched& found, Placement* place) {
  place->opens_rendezvous = place->rank == 0;
  listen_for_others(found.is_one_host, place);
  if (const auto folder = variable("RIPIENO_MEETING_FOLDER")) {
    place->invitation = std::make_shared<rendezvous::InvitationFile>(*folder + "/" + found.job);
    return;
  }
  place->rendezvous = variable("RIPIENO_RENDEZVOUS").value_or(found.address);
  place->token = token();
  if (!place->rendezvous.empty() && !place->token.empty())
    return listen_for_others(found.is_one_host && is_on_loopback(place->rendezvous), place);
  if (found.is_one_host && !variable("RIPIENO_RENDEZVOUS")) {
    place->rendezvous.clear();
    place->token.clear();
    const std::filesystem::path folder = rendezvous::private_folder(places_to_meet());
    place->invitation = std::make_shared<rendezvous::InvitationFile>(folder / found.job);
    return;
  }
  const bool knows_where = !place->rendezvous.empty();
  place->cannot_meet = text(
      "rank ", place->rank, " (", place->launcher, ": ", place->read, ") does not know ",
      knows_where ? "the job's secret" : "where to meet the others", ": ",
      knows_where && found.carries_variables
          ? text("export RIPIENO_TOKEN=$(openssl rand -hex 32) before ", found.launcher, ", or set ")
          : text("set "),
      "RIPIENO_MEETING_FOLDER to a folder that all hosts share, or RIPIENO_TOKEN_FILE to a copy of one secret on every "
      "host (openssl rand -hex 32)",
      knows_where ? "" : " and RIPIENO_RENDEZVOUS to rank 0's host:port");
}

/// The user, or a launcher of ours, numbers processes by RIPIENO_RANK.
void read_own(const std::string& rank, Placement* place) {
  place->launcher = "ripieno";
  place->rank = number("RIPIENO_RANK", rank, 0);
  place->world_size = number("RIPIENO_WORLD_SIZE", needed("RIPIENO_WORLD_SIZE"), 1);
  place->read = text("RIPIENO_RANK is ", place->rank, ", RIPIENO_WORLD_SIZE is ", place->world_size);
  if (place->rank >= place->world_size) {
    fail(ErrorKind::usage, "RIPIENO_RANK is ", place->rank, ", but must be below RIPIENO_WORLD_SIZE, which is ",
         place->world_size);
  }
  place->local_rank = place->rank;
  if (const auto local = variable("RIPIENO_LOCAL_RANK")) place->local_rank = number("RIPIENO_LOCAL_RANK", *local, 0);
  if (const auto fd = variable("RIPIENO_CONTROL_FD")) place->control_fd = number("RIPIENO_CONTROL_FD", *fd, 0);
  const bool is_ours = place->control_fd >= 0;
  place->counts = is_ours;
  if (const auto other = is_ours ? std::nullopt : launched();
      other && other->size > 1 && (other->rank != place->rank || other->size != place->world_size)) {
    fail(ErrorKind::usage, place->read, ", but ", other->launcher, " says otherwise (", other->read,
         "): leave the first two unset, or set them to the same");
  }
  if (place->world_size == 1) return;
  if (is_ours) {
    place->rendezvous = needed("RIPIENO_RENDEZVOUS");
    place->token = needed("RIPIENO_TOKEN");
    return;
  }
  if (variable("RIPIENO_MEETING_FOLDER")) return find_meeting({.is_one_host = false, .job = "ripieno"}, place);
  place->rendezvous = needed("RIPIENO_RENDEZVOUS");
  place->token = token();
  if (place->token.empty()) needed("RIPIENO_TOKEN");
  listen_for_others(is_on_loopback(place->rendezvous), place);
  place->opens_rendezvous = place->rank == 0;
}

}  // namespace

Placement ways_to_peers(bool one_host) {
  Placement place = inherited();
  if (!one_host && !variable("RIPIENO_LISTEN")) place.listen = rendezvous::all_addresses();
  return place;
}

Placement placement() {
  Placement place = inherited();
  if (const auto rank = variable("RIPIENO_RANK")) {
    read_own(*rank, &place);
    return place;
  }
  place.launcher = launcher_name();
  if (const auto found = launched()) {
    place.launcher = found->launcher;
    place.rank = found->rank;
    place.world_size = found->size;
    place.local_rank = found->local_rank;
    place.read = found->read;
    place.mpi = found->mpi;
    place.counts = true;
    if (place.world_size > 1) {
      find_meeting(*found, &place);
    } else {
      place.cannot_meet = unknown();
    }
  } else {
    place.cannot_meet = unknown();
  }
  return place;
}

int control_descriptor_of_environment() {
  const std::string value = variable("RIPIENO_RANK") ? variable("RIPIENO_CONTROL_FD").value_or("") : "";
  int fd = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), fd);
  return error == std::errc() && end == value.data() + value.size() && fd >= 0 ? fd : -1;
}

void check_environment() {
  inherited();
  if (const auto rank = variable("RIPIENO_RANK")) {
    const std::string size = variable("RIPIENO_WORLD_SIZE").value_or("1");
    if (number("RIPIENO_WORLD_SIZE", size, 1) == 1) return;
    fail(ErrorKind::usage, "this process is one of ", size, " (RIPIENO_RANK is ", *rank,
         "), and each would start a job of its own: start it once, without these variables");
  }
  if (const auto found = launched(); found && found->size > 1) {
    fail(ErrorKind::usage, found->launcher, " has started ", found->size, " of this process (", found->read,
         "), and each would start a job of its own: start it once, without that launcher, with ",
         "`ripieno train -n N` or `ripieno launch -n N -- PROGRAM`, which start the workers themselves; a program with "
         "a ",
         "loop of its own (docs/clusters.md) needs neither");
  }
  if (const std::string why = unknown(); !why.empty()) fail(ErrorKind::usage, why);
}

}  // namespace ripieno::launch
