#include "ripieno/strategy/federated_rounds.h"

#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/core/random.h"

namespace ripieno::strategy {

Round round_at(const Plan& plan, std::uint32_t end, int workers, std::uint32_t t) {
  const std::uint32_t length = plan.federated.local_epochs;
  return {std::max(t * length, plan.first_epoch), std::min((t + 1) * length, end), clients_of(plan, t, workers)};
}

std::vector<Round> rounds_between(const Plan& plan, std::uint32_t end, int workers) {
  const std::uint32_t length = plan.federated.local_epochs;
  require(length >= 1, "federated averaging with ", length, " local epochs: at least 1");
  std::vector<Round> rounds;
  for (std::uint32_t t = plan.first_epoch / length; t * length < end; ++t)
    rounds.push_back(round_at(plan, end, workers, t));
  return rounds;
}

std::vector<int> clients_of(const Plan& plan, std::uint32_t round, int workers) {
  const auto wanted =
      static_cast<int>(std::ceil(plan.federated.fraction * workers - 1e-9));  // 0.3 * 10 exceeds 3 in fp64
  const auto order = Random(plan.seed, round).permutation(static_cast<std::uint32_t>(workers));
  std::vector<int> clients(order.begin(), order.begin() + std::clamp(wanted, 1, workers));
  std::sort(clients.begin(), clients.end());
  return clients;
}

std::uint32_t federated_end(const Plan& plan, const std::vector<std::uint32_t>& steps) {
  const std::uint64_t most = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
  if (plan.max_steps == 0 || most == 0) return plan.epochs;
  const std::uint64_t enough = (plan.max_steps + most - 1) / most;
  // A run that is resumed past the limit still has a round.
  const std::uint64_t next = std::uint64_t{plan.first_epoch} + 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.epochs, std::max(enough, next)));
}

}  // namespace ripieno::strategy
