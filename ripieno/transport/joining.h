// What a transport gets in order to join a process to its job (transports.h).
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/transport/link_options.h"

namespace ripieno::transport {

/// A rank's connections: [r] leads to rank r and uses the runtime's context; its own entry is empty.
using PeerSockets = std::vector<std::optional<asio::ip::tcp::socket>>;

/// The MPI whose launcher started the processes.
struct MpiChoice {
  std::string kind;      ///< "Open MPI", "MPICH"; "" if none has
  std::string unknown;   ///< then: what is known instead, and what to do
  std::string launcher;  ///< what told this process its rank, and how
  std::string plugin;    ///< the file of the plug-in, if the user names one
};

struct Joining {
  Runtime& runtime;  ///< of real time
  int rank = 0;
  int size = 1;
  /// Meets the others at the rendezvous, which compares recipes (of a transport that never calls this, each rank
  /// compares its recipe with its predecessor's by a message), and returns an authenticated TCP connection to each.
  /// For transports that start from TCP connections. Called at most once. Errors: those of meet() (rendezvous/meet.h).
  std::function<Task<PeerSockets>()> connect;
  LinkOptions link;
  Duration agreement = std::chrono::minutes(30);  ///< the time that peers have to answer before the first message
  bool shares_memory = true;  ///< workers of one host may share memory; the same on all ranks (RIPIENO_SHARED_MEMORY)
  MpiChoice mpi = {};
};

}  // namespace ripieno::transport
