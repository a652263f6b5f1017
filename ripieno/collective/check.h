// Proofs and costs of schedules, without a network and without numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno {

/// Proves, by running the schedule on sets of contributions instead of numbers, that for this P and size every rank ends
/// with each rank's contribution exactly once in every element; that both ends of every transfer agree; that no step
/// receives into what it sends (unless the route is at_once: it sends what was there before); and that what is sent as
/// final (Reduce::replace) is. Throws Error(internal) that names the step, the ranks and the elements.
void check_schedule(const Route& route, World world, std::size_t elements);

/// What one rank sends and receives, by walking its steps. Empty transfers cost nothing.
struct ScheduleCost {
  std::uint64_t elements_sent = 0, elements_received = 0;
  std::uint64_t messages_sent = 0, messages_received = 0;
  bool operator==(const ScheduleCost&) const = default;
};
ScheduleCost schedule_cost(const Route& route, int rank, World world, std::size_t elements);

/// Steps in which anything moves anywhere; of an at_once route, all its steps are one round.
int schedule_rounds(const Route& route, World world, std::size_t elements);

}  // namespace ripieno
