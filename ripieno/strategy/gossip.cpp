#include "ripieno/strategy/gossip.h"

#include <bit>

#include "ripieno/strategy/mixing.h"

namespace ripieno::strategy {
namespace {

constexpr std::uint64_t for_partners = 0x706172746E657273;  // "partners": keeps these draws apart from those for data

using PartnersOf = Partners (*)(int rank, int ranks, std::uint64_t seed, std::uint64_t step);

class Gossip final : public Mixing {
 public:
  Gossip(PartnersOf partners, const Plan& plan, Workplace workplace)
      : Mixing(plan, std::move(workplace), 2), partners_(partners) {}

 private:
  Task<std::vector<NumberSpan>> exchange(std::uint64_t step) override {
    const int rank = place_.comm.rank();
    const auto [to, from] = partners_(rank, place_.comm.size(), plan_.seed, step);
    if (to == rank) co_return std::vector<NumberSpan>();
    const NumberSpan own = of_set(0), partners = of_set(1);
    numeric::convert(own, place_.learner.parameters());
    co_await pass_on("gossip", to, own, from, partners);
    const std::vector<NumberSpan> pair{own, partners};
    co_return pair;
  }

  PartnersOf partners_;
};

PartnersOf partners_of(const StrategyInfo& info) {
  if (info.name == "gossip-pairs") return random_partners;
  require(info.name == "gossip-exponential", "gossip does not know ", info.name);
  return exponential_partners;
}

}  // namespace

Partners random_partners(int rank, int ranks, std::uint64_t seed, std::uint64_t step) {
  const auto order = Random(seed ^ for_partners, step).permutation(static_cast<std::uint32_t>(ranks));
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    const int a = static_cast<int>(order[i]), b = static_cast<int>(order[i + 1]);
    if (a == rank) return {b, b};
    if (b == rank) return {a, a};
  }
  return {rank, rank};
}

Partners exponential_partners(int rank, int ranks, std::uint64_t, std::uint64_t step) {
  if (ranks == 1) return {rank, rank};
  const auto hops = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));  // ceil(log2 P)
  const int hop = 1 << (step % hops);
  return {(rank + hop) % ranks, (rank - hop + ranks) % ranks};
}

std::unique_ptr<Strategy> make_gossip(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Gossip>(partners_of(info), plan, std::move(workplace));
}

std::optional<std::uint64_t> gossip_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                               const Workload& work, int rank) {
  const std::uint64_t a_step = layout.parameters * size_of(wire_type(plan, layout.type));
  const std::uint64_t steps = work.steps.at(0), first = plan.first_epoch * steps, last = first + work.epochs * steps;
  std::uint64_t exchanges = 0;
  for (std::uint64_t step = first; step < last; ++step) {
    exchanges += partners_of(info)(rank, work.world.ranks, plan.seed, step).to != rank;
  }
  return exchanges * a_step;
}

}  // namespace ripieno::strategy
