// Proofs and costs of schedules, without a network and without numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// Runs the schedule on sets of contributing ranks instead of numbers, and so proves that for this world and size
/// - every rank ends with what the collective promises (the table in schedule.h), with each rank's contribution exactly
/// once;
/// - both ends of every transfer agree, no undefined content is sent, and nothing is sent as final (Reduce::replace)
///   before it is;
/// - no step receives twice into the same place, except adds that all have the range that the step sends; adds to what
///   the step sends have one range.
/// Otherwise throws Error(internal), which names the step, the ranks and the elements.
void check_schedule(const Route& route, World world, std::size_t elements);

/// What one rank sends and receives, counted over its steps. Empty transfers cost nothing.
struct ScheduleCost {
  std::uint64_t elements_sent = 0, elements_received = 0;
  std::uint64_t messages_sent = 0, messages_received = 0;
  bool operator==(const ScheduleCost&) const = default;
};
ScheduleCost schedule_cost(const Route& route, int rank, World world, std::size_t elements);

/// The number of steps in which any rank sends anything.
int schedule_rounds(const Route& route, World world, std::size_t elements);

/// Whether an all-reduce's sums grow hop by hop; else (`direct`) a step receives into the range that it sends.
bool adds_on_the_way(const Route& route);

}  // namespace ripieno::collective
