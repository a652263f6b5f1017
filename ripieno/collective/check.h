// Proofs and costs of schedules, without a network and without numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// Proves, by running the schedule on whose contributions each element holds instead of numbers, that for this world
/// and size
/// - every rank ends with what the collective promises (the table in schedule.h), each rank's contribution exactly
/// once;
/// - both ends of every transfer agree, and nothing is sent that is of no stated content, or as final (Reduce::replace)
///   before it is;
/// - no step receives twice into the same place, but for adds, which then are all of the range that is sent.
/// Throws Error(internal) that names the step, the ranks and the elements.
void check_schedule(const Route& route, World world, std::size_t elements);

/// What one rank sends and receives, by walking its steps. Empty transfers cost nothing.
struct ScheduleCost {
  std::uint64_t elements_sent = 0, elements_received = 0;
  std::uint64_t messages_sent = 0, messages_received = 0;
  bool operator==(const ScheduleCost&) const = default;
};
ScheduleCost schedule_cost(const Route& route, int rank, World world, std::size_t elements);

/// Steps in which anything moves anywhere.
int schedule_rounds(const Route& route, World world, std::size_t elements);

/// Whether an all-reduce's sums grow on the way, hop by hop; else (`direct`) a step receives into what it sends.
bool adds_on_the_way(const Route& route);

}  // namespace ripieno::collective
