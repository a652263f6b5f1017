// How the processes of a c10d group become ranks of a cluster: by the group's store, which torchrun or the user's own
// init_method gives each of them. No launcher of Ripieno's is needed.
//
// 1. Every rank leaves the name of its host in the store, and waits for the others'. On one host they listen on its
//    loopback, else on all addresses, or where RIPIENO_LISTEN says.
// 2. Rank 0 opens a rendezvous (rendezvous/rendezvous.h) and leaves its addresses and the job's token in the store.
//    The token is as secret as the store: a TCPStore does not encrypt what it carries.
// 3. All meet there and connect, as under any other launcher (launch/join.h).
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ripieno/transport/cluster.h"

namespace ripieno::c10d {

/// The longest that anything may take; more would not fit into a Duration.
inline constexpr std::chrono::milliseconds longest_limit = std::chrono::hours(24 * 30);

struct GroupPlace {
  int rank = 0, size = 1;
  std::string name = "the group";  ///< for errors
  /// If some ranks have not come by then, the first of the others says so in a line on standard error.
  std::chrono::milliseconds quiet = std::chrono::seconds(10);
};

/// All ranks of the group call it, with the same store or prefix of one; it uses keys that begin with "ripieno/".
/// Error(usage): no such rank, ranks think of groups of different sizes, or two processes come as one rank.
/// Error(peer), which names them: ranks have not come within `timeout`. Other errors: those of launch::join().
transport::Cluster meet_by_store(::c10d::Store& store, const GroupPlace& place, std::chrono::milliseconds timeout);

}  // namespace ripieno::c10d
