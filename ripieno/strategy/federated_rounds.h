// The rounds of federated averaging: which epochs each covers, and which clients take part. Pure functions of the plan:
// every rank computes them by itself.
#pragma once

#include <algorithm>
#include <vector>

#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

struct Round {
  std::uint32_t first_epoch, end_epoch;
  std::vector<int> clients;
  bool has(int rank) const { return std::binary_search(clients.begin(), clients.end(), rank); }
};

/// Round number t, counted from the start of training, of a job that ends before epoch `end`. Rounds begin at multiples
/// of local_epochs; a resumed run may begin within one.
Round round_at(const Plan& plan, std::uint32_t end, int workers, std::uint32_t t);

/// The rounds from the plan's first epoch up to `end`.
std::vector<Round> rounds_between(const Plan& plan, std::uint32_t end, int workers);

/// The clients of round `round`, ascending.
std::vector<int> clients_of(const Plan& plan, std::uint32_t round, int workers);

/// The epoch before which training ends: the plan's epochs, or fewer if max_steps ends it. `steps` holds each worker's
/// steps in an epoch.
std::uint32_t federated_end(const Plan& plan, const std::vector<std::uint32_t>& steps);

}  // namespace ripieno::strategy
