// A schedule is an algorithm as data: a pure function (rank, world, elements, k) -> the k-th step of that rank. One
// executor (execute.h) runs any schedule, a checker (check.h) proves that every rank ends with the sum of all, and a
// walker (check.h) gives bytes and rounds; `ripieno explain` prints it. Steps are functions of an index and not lists:
// a ring's lists for 4,096 ranks would take 1.9 GB.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ripieno/core/range.h"
#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/link.h"

namespace ripieno {

/// Half of a message: both sides name the same range and what the receiver does with it. `replace` carries final
/// values.
struct Transfer {
  int peer = 0;
  Range range;
  Reduce how = Reduce::add;
};

/// What one rank does at once: it may send and receive at the same time. Both ends of a transfer have it at the same k.
struct Step {
  std::optional<Transfer> send, receive;
};

/// The ranks and how they lie on nodes: ranks 0 .. per_node-1 are on the first node, and so on; the last node may have
/// fewer. A number of ranks alone is a world of one rank a node.
struct World {
  int ranks = 1;
  int per_node = 1;

  World(int ranks, int per_node = 1) : ranks(ranks), per_node(per_node) {}  // NOLINT: implicit from a number of ranks
  int nodes() const { return (ranks + per_node - 1) / per_node; }
  bool operator==(const World&) const = default;
};

/// A named all-reduce algorithm.
struct Route {
  std::string_view name;
  std::string_view title;
  std::string_view rounds;  ///< closed form, as closed_form.h reads it; right for every world
  std::string_view bytes;   ///< the same of what the busiest rank sends, for n bytes that divide evenly into the route's chunks
  std::string_view source;
  /// Steps a rank goes through, the same number for all ranks (some may be empty).
  int (*steps)(World world);
  Step (*step)(int rank, World world, std::size_t elements, int k);
  /// Closed form of the time, in the alpha-beta model, of `bytes` bytes on equal links, with no more in flight unasked
  /// than one message; exact where `ranks` divides the elements (and, for the trees, is a power of two;
  /// for hierarchical, where `per_node` is one too and divides `ranks`).
  Duration (*time)(World world, std::uint64_t bytes, LinkModel link);
  /// All steps are one round: they are in flight together, every send carries what the buffer held before the first of
  /// them, and every receive adds.
  bool at_once = false;
};

/// Every route, in one table.
std::span<const Route> routes();

/// Throws Error(usage) that lists the known routes.
const Route& find_route(std::string_view name);

}  // namespace ripieno
