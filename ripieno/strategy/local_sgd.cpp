#include "ripieno/strategy/local_sgd.h"

#include <cmath>
#include <deque>

#include "ripieno/core/async.h"
#include "ripieno/core/numbers.h"
#include "ripieno/strategy/apart.h"
#include "ripieno/strategy/outer.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

class LocalSgd final : public Strategy {
 public:
  LocalSgd(const StrategyInfo& info, const Plan& plan, Workplace workplace, std::vector<Range> fragments)
      : plan_(plan),
        place_(std::move(workplace)),
        fragments_(std::move(fragments)),
        averager_(averager_of(info, plan, slots_of(layout(), fragments_), layout().type)),
        optimiser_(make_optimiser(plan.optimiser, layout().parameters, layout().type)),
        outer_(make_outer(info.name, plan.outer, layout().parameters, layout().type)),
        outer_rate_(outer_rate(info.name, plan.outer)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale),
        agreed_(layout().parameters, layout().type),
        consensus_(layout()),
        learnt_(fragments_.size()) {
    for (const Range& fragment : fragments_) {
      changes_.emplace_back(fragment.size(), layout().type, place_.comm.memory());
      thens_.emplace_back(plan.local.delay > 0 ? fragment.size() : 0, layout().type);
    }
  }

  Task<> run() override {
    std::exception_ptr error;
    try {
      co_await train();
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) co_return;
    place_.comm.abort(error);
    for (const auto& exchange : under_way_) co_await end(exchange);
    std::rethrow_exception(error);
  }

  NumberSpan consensus() override { return consensus_.parameters.span(); }
  NumberSpan consensus_buffers() override { return consensus_.buffers.span(); }

  void visit(StateVisitor& visitor) override {
    optimiser_->visit(visitor);
    visit_outer(*outer_, visitor);
    averager_->visit(visitor);
    visitor.span("local.agreed", agreed_.span());
    for (std::size_t f = 0; f < learnt_.size(); ++f) {
      visitor.number(text("local.samples.", f), learnt_[f].samples);
      visitor.number(text("local.global_samples.", f), learnt_[f].global_samples);
    }
  }

 private:
  /// Samples since a fragment's last exchange.
  struct Learnt {
    std::int64_t samples = 0, global_samples = 0;
  };

  /// A fragment's change under way.
  struct Exchange {
    std::size_t fragment;
    std::uint64_t due;  // the step after which its mean is applied
    double weight;
    Duration begin, end{0};
    std::optional<Flight> flight = {};
  };

  Task<> train() {
    Learner& learner = place_.learner;
    co_await start_apart(place_.comm, &learner, plan_.first_epoch > 0);  // 1
    if (plan_.first_epoch == 0) convert(agreed_.span(), learner.parameters());
    convert(consensus_.parameters.span(), learner.parameters());
    convert(consensus_.buffers.span(), learner.buffers());
    place_.recorder.begin();
    for (Steps at(plan_, learner.steps_per_epoch()); at.more(); at.next()) {
      const double rate = learning_rate_.at(at.epochs_done());
      const BatchId batch = at.batch();
      const PassResult result = co_await local_step(&place_, optimiser_.get(), batch, rate, unweighted);  // 2
      for (Learnt& learnt : learnt_) {
        learnt.samples += result.samples;
        learnt.global_samples += result.global_samples;
      }
      co_await apply_due(at.step());  // 4, of what set out before
      for (std::size_t f = 0; f < fragments_.size(); ++f) {
        if (exchanges_after(plan_.local, static_cast<std::uint32_t>(f), at.step())) set_out(f, at.step());  // 3
      }
      co_await apply_due(at.ends_epoch() ? UINT64_MAX : at.step());  // 4
      place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
      if (at.ends_epoch()) {
        co_await end_epoch_apart(&place_, &plan_, at.epoch(), at.ends(), &consensus_);
        if (place_.checkpoint && !at.ends_early()) place_.checkpoint(at.epoch());
      }
    }
  }

  void set_out(std::size_t fragment, std::uint64_t step) {
    const NumberSpan own = part(place_.learner.parameters(), fragment);
    auto exchange = std::make_shared<Exchange>();
    exchange->fragment = fragment;
    exchange->due = step + plan_.local.delay;
    subtract(changes_[fragment].span(), part(agreed_.span(), fragment), own);
    if (plan_.local.delay > 0) convert(thens_[fragment].span(), own);
    const auto [samples, global_samples] = std::exchange(learnt_[fragment], {});
    exchange->weight = static_cast<double>(samples) / static_cast<double>(global_samples);
    exchange->begin = place_.comm.runtime().now();
    exchange->flight.emplace(place_.comm.runtime(),
                             average(averager_.get(), place_.comm, changes_[fragment].span(), exchange));
    under_way_.push_back(exchange);
  }

  static Task<> average(Averager* averager, Communicator comm, NumberSpan change, std::shared_ptr<Exchange> exchange) {
    co_await averager->average(comm, exchange->fragment, change, exchange->weight);
    exchange->end = comm.runtime().now();
  }

  /// 4, of all that is due after that step, in the order in which it set out: the same on all ranks.
  Task<> apply_due(std::uint64_t step) {
    while (!under_way_.empty() && under_way_.front()->due <= step) {
      const std::shared_ptr<Exchange> exchange = under_way_.front();
      co_await arrival(exchange);
      under_way_.pop_front();
      apply(exchange->fragment);
    }
  }

  /// Waits, and puts down what of the exchange was waited for and what was hidden.
  Task<> arrival(std::shared_ptr<Exchange> exchange) {
    Runtime& runtime = place_.comm.runtime();
    const Duration asked = runtime.now();
    {
      const StageTimer timer(place_.recorder, runtime, Stage::exchange);
      co_await exchange->flight->landed();
    }
    const Duration hidden = std::min(asked, exchange->end) - exchange->begin;
    if (hidden > Duration(0)) place_.recorder.add(Stage::hidden, hidden);
    place_.recorder.span({"exchange", exchange->fragment, exchange->begin, exchange->end});
  }

  void apply(std::size_t fragment) {
    const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::optimise);
    const NumberSpan own = part(place_.learner.parameters(), fragment), agreed = part(agreed_.span(), fragment);
    outer_->begin_step();
    outer_->update(fragments_[fragment].begin, agreed, changes_[fragment].span(), outer_rate_);
    if (plan_.local.delay > 0) {
      carry_over(own, thens_[fragment].span(), agreed);  // what was learnt meanwhile
    } else {
      convert(own, agreed);
    }
  }

  /// After an error: until nothing works on the exchange any more.
  static Task<> end(std::shared_ptr<Exchange> exchange) {
    try {
      co_await exchange->flight->landed();
    } catch (...) {  // what followed from the error
    }
  }

  const Layout& layout() const { return place_.learner.layout(); }
  NumberSpan part(NumberSpan whole, std::size_t fragment) const {
    return whole.slice(fragments_[fragment].begin, fragments_[fragment].end);
  }

  Plan plan_;
  Workplace place_;
  std::vector<Range> fragments_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<Optimiser> optimiser_, outer_;
  double outer_rate_;
  LearningRate learning_rate_;
  Numbers agreed_;       // v
  Consensus consensus_;  // the mean of all w
  std::vector<Learnt> learnt_;
  std::vector<Numbers> changes_, thens_;  // of each fragment: d = v - w; w when that set out, with a delay
  std::deque<std::shared_ptr<Exchange>> under_way_;
};

}  // namespace

std::vector<Range> fragments_of(const Layout& layout, std::uint32_t count) {
  const std::size_t tensors = layout.tensors.size();
  if (count < 1 || count > tensors) {
    fail(ErrorKind::usage, "local.fragments = ", count, ": fragments are whole tensors, and the model has ", tensors,
         "; take 1 .. ", tensors);
  }
  std::vector<Range> fragments;
  std::size_t begin = 0, tensor = 0;  // the next fragment's first tensor
  for (std::uint32_t f = 1; f < count; ++f) {
    const double even = static_cast<double>(layout.parameters) * f / count;
    const auto off = [&](std::size_t last) {
      return std::abs(static_cast<double>(layout.tensors[last].range.end) - even);
    };
    const std::size_t last_one = tensors - 1 - (count - f);  // leaves a tensor for each fragment to come
    while (tensor < last_one && off(tensor + 1) <= off(tensor)) ++tensor;
    fragments.push_back({begin, layout.tensors[tensor].range.end});
    begin = fragments.back().end;
    ++tensor;
  }
  fragments.push_back({begin, layout.parameters});
  return fragments;
}

bool exchanges_after(const LocalOptions& options, std::uint32_t fragment, std::uint64_t step) {
  const std::uint64_t earlier = std::uint64_t{fragment} * options.steps / options.fragments;
  return step % options.steps == options.steps - 1 - earlier;
}

std::unique_ptr<Strategy> make_local_sgd(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  auto fragments = fragments_of(workplace.learner.layout(), plan.local.fragments);
  return std::make_unique<LocalSgd>(info, plan, std::move(workplace), std::move(fragments));
}

std::optional<std::uint64_t> local_sgd_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                                  const Workload& work, int rank) {
  const auto fragments = fragments_of(layout, plan.local.fragments);
  const auto averager = averager_of(info, plan, slots_of(layout, fragments), layout.type);
  const std::uint64_t steps = work.steps.at(0), first = plan.first_epoch * steps, last = first + work.epochs * steps;
  std::uint64_t sent = 0;
  for (std::uint32_t f = 0; f < fragments.size(); ++f) {
    const auto once = averager->bytes_sent(rank, work.world, f);
    if (!once) return std::nullopt;
    const std::uint64_t shift = std::uint64_t{f} * plan.local.steps / plan.local.fragments;  // as exchanges_after()
    const auto before = [&](std::uint64_t step) { return (step + shift) / plan.local.steps; };
    sent += *once * (before(last) - before(first));
  }
  return sent;
}

double local_sgd_rounds(const Plan& plan, double steps) { return steps / plan.local.steps * plan.local.fragments; }

}  // namespace ripieno
