#include "ripieno/transport/transports.h"

#include <vector>

#include "ripieno/core/edit_distance.h"
#include "ripieno/transport/mpi/endpoint.h"
#include "ripieno/transport/shared/endpoint.h"
#include "ripieno/transport/simulated/network.h"

namespace ripieno::transport {
namespace {

std::vector<Transport>& all_transports() {
  static std::vector<Transport> all{
      {"tcp",
       "workers are processes in real time, over shared memory on one host (unless RIPIENO_SHARED_MEMORY=off) and TCP "
       "between hosts",
       join_by_host},
      {"mpi", "workers are processes in real time that mpirun or srun started, over their MPI", join_by_mpi, nullptr,
       true},
      {"simulated", "virtual time, in one process", nullptr, simulated_network},
  };
  return all;
}

}  // namespace

std::span<const Transport> transports() { return all_transports(); }

void add_transport(Transport transport) {
  require((transport.join == nullptr) != (transport.simulate == nullptr), "transport ", transport.name,
          " is not of one time: give it either join or simulate");
  for (const Transport& other : all_transports()) {
    if (other.name != transport.name) continue;
    fail(ErrorKind::usage, "transport ", other.name, " exists already: choose another name");
  }
  all_transports().push_back(std::move(transport));
}

const Transport& find_transport(std::string_view name) { return find_named(all_transports(), name, "transport"); }

}  // namespace ripieno::transport
