// Every transport by name: one table, by which jobs join (launch/join.h) and recipes choose (transport.kind). A
// transport is a folder with options of its own and a line in transports.cpp. Of real time are those through which
// processes join each other; of virtual time those that make a network of all ranks in one process.
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
  std::string_view name, title;  ///< what they view outlives the table
  /// Of real time: joins the other ranks, each of which calls it, and returns this one's endpoint. Options of the
  /// transport's own are bound to it. Null: it is of virtual time.
  std::function<Task<std::shared_ptr<Endpoint>>(Joining joining)> join = nullptr;
  /// Of virtual time: a network for `ranks` ranks on the runtime. Null: it is of real time.
  std::function<std::unique_ptr<Network>(Runtime& runtime, int ranks, const SimulatedOptions&)> simulate = nullptr;

  bool is_virtual() const { return simulate != nullptr; }
};

/// Ripieno's, then those that were added.
std::span<const Transport> transports();

/// Adds one of your own, for this process. Call it before anything else asks for transports: what they were given does
/// not outlive it. Error(usage): the name is taken; Error(internal): it has none or both of join and simulate.
void add_transport(Transport transport);

/// Error(usage) that lists the known transports.
const Transport& find_transport(std::string_view name);

}  // namespace ripieno::transport
