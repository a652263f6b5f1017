// A schedule as what happens in it, round by round: who sends what to whom, and whose numbers each part of each rank's
// buffer then holds. For pictures of schedules; the proof that a schedule is right is check.h's.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// The other end of the i-th of `rank`'s transfers one way, among its peer's the other way; null where there is none.
const Transfer* counterpart(int rank, const Transfers& own, std::size_t i, const Transfers& theirs);

/// Where the buffer is cut: 0, the ends of all transfers and of what is a rank's own, ascending, and `elements`. All
/// elements between two neighbouring cuts are treated alike by every step.
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
  /// The steps in which anything moves, in the order of their senders.
  std::vector<std::vector<RoundTransfer>> rounds;
  /// held[k][rank][cell]: whose contributions a cell holds after k rounds (none: of no stated content); held[0] is the
  /// start. One more than rounds.
  std::vector<std::vector<std::vector<RankSet>>> held;
};

/// Of up to most_set_ranks ranks and a schedule that check_schedule() accepts; Error(internal) for more ranks.
ScheduleRounds schedule_rounds_of(const Route& route, World world, std::size_t elements);

}  // namespace ripieno::collective
