#include "ripieno/strategy/ring_groups.h"

#include <algorithm>

#include "ripieno/strategy/mixing.h"

namespace ripieno::strategy {
namespace {

/// The ranks that a rank averages with, itself among them: first .. first + size - 1.
struct RingGroup {
  int first, size;
};

RingGroup ring_group_of(int rank, int passes, int workers) {
  const int first = rank / (passes + 1) * (passes + 1);
  return {first, std::min(passes + 1, workers - first)};
}

class RingGroups final : public Mixing {
 public:
  RingGroups(const Plan& plan, Workplace workplace)
      : Mixing(plan, std::move(workplace), plan.passes + 1),
        group_(ring_group_of(place_.comm.rank(), plan.passes, place_.comm.size())) {}

 private:
  Task<std::vector<NumberSpan>> exchange(std::uint64_t) override {
    const int place = place_.comm.rank() - group_.first;
    const auto after = [&](int i) { return (place + i) % group_.size; };  // in the group
    if (group_.size == 1) co_return std::vector<NumberSpan>();
    numeric::convert(of_set(0), place_.learner.parameters());
    std::vector<NumberSpan> by_place(static_cast<std::size_t>(group_.size));
    by_place[static_cast<std::size_t>(place)] = of_set(0);
    for (int j = 1; j < group_.size; ++j) {
      const NumberSpan newest = of_set(static_cast<std::size_t>(j) - 1), into = of_set(static_cast<std::size_t>(j));
      co_await pass_on("ring-groups", group_.first + after(1), newest, group_.first + after(group_.size - 1), into);
      by_place[static_cast<std::size_t>(after(group_.size - j))] = into;
    }
    co_return by_place;
  }

  const RingGroup group_;
};

void check_group(const Plan& plan, int workers) {
  const int most = std::max(1, workers - 1);
  if (plan.passes >= 1 && plan.passes <= most) return;
  fail(ErrorKind::usage, "passes = ", plan.passes, " with ", workers, " workers: ring-groups takes 1 .. ", most,
       ", the other workers of a group");
}

}  // namespace

std::unique_ptr<Strategy> make_ring_groups(const StrategyInfo&, const Plan& plan, Workplace workplace) {
  check_group(plan, workplace.comm.size());
  wire_type(plan, workplace.learner.layout().type);  // refuses other codecs
  return std::make_unique<RingGroups>(plan, std::move(workplace));
}

std::optional<std::uint64_t> ring_groups_bytes_sent(const StrategyInfo&, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank) {
  check_group(plan, work.world.ranks);
  const std::uint64_t steps = std::uint64_t{work.steps.at(0)} * work.epochs;
  const auto others = static_cast<std::uint64_t>(ring_group_of(rank, plan.passes, work.world.ranks).size - 1);
  return steps * others * layout.parameters * size_of(wire_type(plan, layout.type));
}

}  // namespace ripieno::strategy
