#include "ripieno/strategy/ring_passes.h"

#include <map>

#include "ripieno/strategy/mixing.h"
#include "ripieno/strategy/share_state.h"
#include "ripieno/strategy/slots.h"

namespace ripieno::strategy {
namespace {

class RingPasses final : public Mixing {
 public:
  RingPasses(const Plan& plan, Workplace workplace) : Mixing(plan, std::move(workplace), plan.passes + 1) {}

 private:
  Task<std::vector<NumberSpan>> exchange(std::uint64_t) override {
    const int workers = place_.comm.size(), me = place_.comm.rank();
    const int next = (me + 1) % workers, previous = (me - 1 + workers) % workers;
    numeric::convert(of_set(0), place_.learner.parameters());
    std::map<int, NumberSpan> by_rank{{me, of_set(0)}};
    for (int j = 1; j <= plan_.passes; ++j) {
      const NumberSpan newest = of_set(j - 1), into = of_set(j);
      co_await pass_on("ring-passes", next, newest, previous, into);
      by_rank[(me - j + workers) % workers] = into;
    }
    std::vector<NumberSpan> set;
    for (const auto& [rank, numbers] : by_rank) set.push_back(numbers);
    co_return set;
  }
};

std::unique_ptr<collective::Averager> full_ring(const Plan& plan, const Layout& layout) {
  collective::AveragerOptions options;
  options.route = "leader-ring";
  options.codec = plan.exchange.codec;
  options.segment_bytes = plan.exchange.segment_bytes;
  return collective::make_averager(options, slots_of(layout, {{0, layout.parameters}}), layout.type);
}

/// The form for p = W.
class FullRing final : public Apart {
 public:
  FullRing(const Plan& plan, Workplace workplace)
      : Apart(plan, std::move(workplace)),
        averager_(full_ring(plan, place_.learner.layout())),
        before_(place_.learner.layout().parameters, place_.learner.layout().type),
        change_(place_.learner.layout().parameters, place_.learner.layout().type) {}

 private:
  Task<> start() override {
    co_await Apart::start();
    numeric::convert(before_.span(), place_.learner.parameters());
  }

  Task<> attempt(TrainingStep step, StepResult* result) override {
    co_await weighted_step(&own_steps_, step, place_.comm.size(), result);  // 2
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, 0);
    if (place_.comm.size() == 1) co_return;
    numeric::subtract(change_.span(), place_.learner.parameters(), before_.span());
    co_await averager_->average(place_.comm, 0, change_.span(), 1.0 / place_.comm.size());
  }

  void commit(TrainingStep) override {
    if (place_.comm.size() == 1) return;
    const NumberSpan parameters = place_.learner.parameters();
    numeric::convert(parameters, change_.span());
    numeric::add(parameters, before_.span());
    settle();
  }

  void settle() {
    numeric::convert(before_.span(), place_.learner.parameters());
    averager_->commit(0);
    exchanged();
  }

  NumberSpan agreed() override { return before_.span(); }

  /// All ranks hold the same v.
  Task<bool> hand_over(int from, bool behind, BrokenOff) override {
    const std::function<void(StateVisitor&)> alike = [&](StateVisitor& visitor) { visitor.span("v", before_.span()); };
    co_await share_state(place_.comm, from, alike);
    if (behind) {
      numeric::convert(place_.learner.parameters(), before_.span());
      settle();
    }
    co_return behind;
  }

  std::unique_ptr<collective::Averager> averager_;
  numeric::Numbers before_, change_;  // v; w - v, later its mean
};

void check(const Plan& plan, int workers) {
  if (plan.passes >= 1 && plan.passes <= workers) return;
  fail(ErrorKind::usage, "passes = ", plan.passes, " with ", workers, " workers: ring-passes takes 1 .. ", workers,
       ", the number of workers (which is the full leader ring)");
}

}  // namespace

std::unique_ptr<Strategy> make_ring_passes(const StrategyInfo&, const Plan& plan, Workplace workplace) {
  check(plan, workplace.comm.size());
  wire_type(plan, workplace.learner.layout().type);  // throws for other codecs
  if (plan.passes == workplace.comm.size()) return std::make_unique<FullRing>(plan, std::move(workplace));
  return std::make_unique<RingPasses>(plan, std::move(workplace));
}

std::optional<std::uint64_t> ring_passes_bytes_sent(const StrategyInfo&, const Plan& plan, const Layout& layout,
                                                    const Workload& work, int rank) {
  check(plan, work.world.ranks);
  const std::uint64_t steps = std::uint64_t{work.steps.at(0)} * work.epochs;
  if (plan.passes == work.world.ranks) return steps * full_ring(plan, layout)->bytes_sent(rank, work.world, 0).value();
  return steps * static_cast<unsigned>(plan.passes) * layout.parameters * size_of(wire_type(plan, layout.type));
}

}  // namespace ripieno::strategy
