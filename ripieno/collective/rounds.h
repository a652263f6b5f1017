// A schedule round by round: who sends what to whom, and whose numbers each part of each rank's buffer then holds. For
// pictures of schedules; check.h proves them right.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// The other end of `rank`'s i-th transfer in one direction, found among its peer's transfers in the other direction
/// (`theirs`); null if there is none.
const Transfer* counterpart(int rank, const Transfers& own, std::size_t i, const Transfers& theirs);

/// The cuts of the buffer, ascending: 0, the ends of all transfers and of each rank's own part, and `elements`. Every
/// step treats all elements between two neighbouring cuts alike.
std::vector<std::size_t> schedule_cuts(const Route& route, World world, std::size_t elements);

/// One message of a round.
struct RoundTransfer {
  int from = 0, to = 0;
  Range range;                                 ///< of the sender's elements
  Range into;                                  ///< of the receiver's
  numeric::Reduce how = numeric::Reduce::add;  ///< what the receiver does with it
};

/// A set of ranks: bit r is rank r.
using RankSet = std::uint64_t;
inline constexpr int most_set_ranks = 64;

struct ScheduleRounds {
  std::vector<Range> cells;  ///< the buffer between its cuts, in order
  /// The steps in which anything is sent, each in the order of senders.
  std::vector<std::vector<RoundTransfer>> rounds;
  /// held[k][rank][cell]: whose contributions a cell holds after k rounds (none: undefined content); held[0] is the
  /// start. One entry more than rounds.
  std::vector<std::vector<std::vector<RankSet>>> held;
};

/// For up to most_set_ranks ranks (Error(internal) for more) and a schedule that check_schedule() accepts.
ScheduleRounds schedule_rounds_of(const Route& route, World world, std::size_t elements);

}  // namespace ripieno::collective
