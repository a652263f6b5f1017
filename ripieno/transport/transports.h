// The table of all transports by name, for joining a job (launch/join.h) and for recipes (transport.kind). A transport
// is a folder with its own options and a line in transports.cpp. Transports of real time connect processes; those of
// virtual time make a network of all ranks in one process.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "ripieno/transport/joining.h"
#include "ripieno/transport/network.h"

namespace ripieno::transport {

struct SimulatedOptions;  // simulated/network.h

struct Transport {
  std::string_view name, title;  ///< their text must outlive the table
  /// Real time: joins the other ranks, each of which calls it, and returns this rank's endpoint. The transport's own
  /// options are bound to it. Null for a transport of virtual time.
  std::function<Task<std::shared_ptr<Endpoint>>(Joining joining)> join = nullptr;
  /// Virtual time: makes a network for `ranks` ranks on the runtime. Null for a transport of real time.
  std::function<std::unique_ptr<Network>(Runtime& runtime, int ranks, const SimulatedOptions&)> simulate = nullptr;

  /// Its processes are started by a launcher that comes with it, such as mpirun; they meet without the rendezvous.
  bool has_launcher = false;

  bool is_virtual() const { return simulate != nullptr; }
  /// Its processes meet at the rendezvous, whoever started them.
  bool meets() const { return !is_virtual() && !has_launcher; }
};

/// The built-in transports, then the added ones.
std::span<const Transport> transports();

/// Adds a transport to this process. Invalidates what transports() and find_transport() have returned: call it before
/// anything else asks for transports. Error(usage): the name is taken; Error(internal): not exactly one of join and
/// simulate is set.
void add_transport(Transport transport);

/// Throws Error(usage), which lists the known transports, for an unknown name.
const Transport& find_transport(std::string_view name);

}  // namespace ripieno::transport
