// A schedule is an algorithm as data: a pure function (rank, world, elements, k) -> the k-th step of that rank. One
// executor (execute.h) runs any schedule; check.h proves that every rank ends with what the collective promises, and
// counts bytes and rounds; `ripieno explain` prints the schedule. Steps are functions of an index, not lists: a ring's
// lists for 4,096 ranks would take 1.9 GB.
//
// All collectives work in place, on a buffer of the same size on every rank; chunk r (core/range.h) belongs to rank r:
//
//   collective      a rank begins with      and ends with
//   all-reduce      its numbers             the sum of all ranks' numbers
//   reduce-scatter  its numbers             chunk r of that sum
//   all-gather      its chunk r             all ranks' chunks
//   broadcast       the root its numbers    the root's numbers
//   reduce          its numbers             the root: the sum
//   gather          its chunk r             the root: all ranks' chunks
//   scatter         the root its numbers    chunk r of the root's numbers
//   all-to-all      its numbers             as block i, rank i's block r
//
// All other content is undefined. A block has elements / P numbers, rounded down; the rest at the end of the buffer is
// left alone. "Sum" stands for any Reduction.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/range.h"
#include "ripieno/transport/endpoint.h"
#include "ripieno/transport/link_model.h"

namespace ripieno::collective {

/// One end of a message. Both ends name equally many elements (the same ones, except in an all-to-all) and what the
/// receiver does with them: Reduce::add, or Reduce::replace for final values.
struct Transfer {
  int peer = 0;
  Range range;
  numeric::Reduce how = numeric::Reduce::add;
};

/// The transfers of a step in one direction: in most steps one or none. Transfers with the same peer are in the same
/// order at both ends.
class Transfers {
 public:
  Transfers() = default;
  Transfers(const Transfer& one) : first_(one), size_(1) {}  // NOLINT: implicit from one

  void push_back(const Transfer& one) {
    if (size_ == 0) {
      first_ = one;
    } else {
      if (size_ == 1) more_ = {first_};
      more_.push_back(one);
    }
    ++size_;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Transfer* begin() const { return size_ > 1 ? more_.data() : &first_; }
  const Transfer* end() const { return begin() + size_; }
  Transfer* begin() { return size_ > 1 ? more_.data() : &first_; }
  Transfer* end() { return begin() + size_; }
  const Transfer& operator[](std::size_t i) const { return begin()[i]; }
  Transfer& operator[](std::size_t i) { return begin()[i]; }

  /// Removes the transfers for which `leave_out` returns true.
  template <class Test>
  void erase_if(Test leave_out) {
    Transfers kept;
    for (const Transfer& one : *this) {
      if (!leave_out(one)) kept.push_back(one);
    }
    if (kept.size() != size_) *this = std::move(kept);
  }

 private:
  Transfer first_;
  std::size_t size_ = 0;
  std::vector<Transfer> more_;  ///< all of them, if more than one
};

/// What one rank does at once. A transfer has the same k at both ends. Sends carry what the buffer held before the
/// step, even if the step receives into the same range: all ranks then add the same range, in rank order.
struct Step {
  Transfers sends, receives;
};

/// How all-reduce, reduce-scatter and reduce combine the members' numbers. The mean of integers is rounded towards
/// zero.
enum class Reduction : std::uint8_t { sum, mean, product, minimum, maximum };
/// "sum", ...
const char* name(Reduction reduction);

/// Whether a transfer shares elements with one of the others.
inline bool overlaps(const Transfer& one, const Transfers& others) {
  for (const Transfer& other : others) {
    if (one.range.begin < other.range.end && other.range.begin < one.range.end) return true;
  }
  return false;
}

/// The ranks, their nodes, and the root of collectives that have one. Ranks 0 .. per_node-1 are on the first node, and
/// so on; the last node may have fewer. A number converts to a world with one rank a node.
struct World {
  int ranks = 1;
  int per_node = 1;
  int root = 0;

  World(int ranks, int per_node = 1, int root = 0)
      : ranks(ranks), per_node(per_node), root(root) {}  // NOLINT: implicit from a number
  int nodes() const { return (ranks + per_node - 1) / per_node; }
  bool operator==(const World&) const = default;
};

/// Whether the collective has a root.
constexpr bool has_root(transport::Collective collective) {
  return collective == transport::Collective::broadcast || collective == transport::Collective::reduce ||
         collective == transport::Collective::gather || collective == transport::Collective::scatter;
}

/// Whether the collective combines numbers of several ranks.
constexpr bool reduces(transport::Collective collective) {
  return collective == transport::Collective::all_reduce || collective == transport::Collective::reduce_scatter ||
         collective == transport::Collective::reduce;
}

/// Block `i` of an all-to-all.
inline Range block_of(std::size_t elements, int ranks, int i) {
  const std::size_t size = elements / static_cast<std::size_t>(ranks);
  return {static_cast<std::size_t>(i) * size, static_cast<std::size_t>(i + 1) * size};
}

/// Transfers with `peer` of the chunks of `count` ranks from `first` on. Past the last rank they go on at rank 0; this
/// makes two transfers.
inline Transfers chunk_transfers(int peer, int ranks, std::size_t elements, int first, int count, numeric::Reduce how) {
  const int end = first + count, cut = end < ranks ? end : ranks;
  const auto part = [&](int from, int to) {
    return Transfer{peer, {chunk(elements, ranks, from).begin, chunk(elements, ranks, to - 1).end}, how};
  };
  Transfers all = part(first, cut);
  if (end > ranks) all.push_back(part(0, end - ranks));
  return all;
}

/// A named algorithm of a collective.
struct Route {
  std::string_view name;
  std::string_view title;
  std::string_view rounds;  ///< closed form, as closed_form.h reads it; right for every world
  std::string_view
      bytes;  ///< closed form of what the busiest rank sends, for n bytes that divide evenly into the route's chunks
  std::string_view source;
  /// The number of steps, the same for all ranks (some may be empty).
  int (*steps)(World world);
  Step (*step)(int rank, World world, std::size_t elements, int k);
  /// Closed form of the time for `bytes` bytes on equal links in the alpha-beta model, with at most one message in
  /// flight before its receive is posted. Exact if `ranks` divides the elements (and, for the trees, is a power of two;
  /// for hierarchical, if `per_node` is one too and divides `ranks`).
  Duration (*time)(World world, std::uint64_t bytes, transport::LinkModel link);
  transport::Collective collective = transport::Collective::all_reduce;
  bool looks_at_nodes = false;  ///< whether World::per_node changes its steps
};

/// All routes of a collective.
std::span<const Route> routes(transport::Collective collective = transport::Collective::all_reduce);

inline constexpr std::array collectives{transport::Collective::all_reduce, transport::Collective::reduce_scatter,
                                        transport::Collective::all_gather, transport::Collective::broadcast,
                                        transport::Collective::reduce,     transport::Collective::gather,
                                        transport::Collective::scatter,    transport::Collective::all_to_all};

/// "hierarchical": the names of the routes that look at nodes.
std::vector<std::string> routes_that_look_at_nodes();

/// The route used when none is named: one of few rounds or bytes, whatever the size.
const Route& default_route(transport::Collective collective);

/// Also finds the route native (native.h). Throws Error(usage), which lists the known routes, for an unknown name.
const Route& find_route(std::string_view name, transport::Collective collective = transport::Collective::all_reduce);

}  // namespace ripieno::collective
