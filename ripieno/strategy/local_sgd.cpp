#include "ripieno/strategy/local_sgd.h"

#include <cmath>
#include <deque>

#include "ripieno/core/async.h"
#include "ripieno/strategy/apart.h"
#include "ripieno/strategy/outer.h"
#include "ripieno/strategy/share_state.h"
#include "ripieno/strategy/slots.h"

namespace ripieno::strategy {
namespace {

class LocalSgd final : public Apart {
 public:
  LocalSgd(const StrategyInfo& info, const Plan& plan, Workplace workplace, std::vector<Range> fragments)
      : Apart(plan, std::move(workplace)),
        fragments_(std::move(fragments)),
        averager_(averager_of(info, plan, slots_of(layout(), fragments_), layout().type)),
        outer_(make_outer(info.name, plan.outer, layout().parameters, layout().type)),
        outer_rate_(outer_rate(info.name, plan.outer)),
        agreed_(layout().parameters, layout().type),
        fragment_samples_(fragments_.size()) {
    for (const Range& fragment : fragments_) {
      changes_.emplace_back(fragment.size(), layout().type, place_.comm.memory());
      at_start_.emplace_back(plan.local.delay > 0 ? fragment.size() : 0, layout().type);
    }
  }

  void visit(StateVisitor& visitor) override {
    Apart::visit(visitor);
    visit_outer(*outer_, visitor);
    averager_->visit(visitor);
    visitor.span("local.agreed", agreed_.span());
    for (std::size_t f = 0; f < fragment_samples_.size(); ++f) {
      visitor.number(text("local.samples.", f), fragment_samples_[f].samples);
      visitor.number(text("local.global_samples.", f), fragment_samples_[f].global_samples);
    }
  }

 private:
  /// Samples since a fragment's last exchange.
  struct FragmentSamples {
    std::int64_t samples = 0, global_samples = 0;
    /// This worker's part of them. Without any, all have the fragment from the same exchange.
    double part(int workers) const {
      return global_samples > 0 ? static_cast<double>(samples) / static_cast<double>(global_samples) : 1.0 / workers;
    }
  };

  /// A fragment's exchange in flight.
  struct Exchange {
    std::size_t fragment;
    std::uint64_t due;  // the step after which its mean is applied
    double weight;
    Duration begin{0}, end{0};
    std::optional<Flight> flight = {};
    bool is_agreed = false;  // v comes from ranks that have committed the exchange
  };

  Task<> start() override {
    co_await Apart::start();  // 1
    if (!plan_.is_resumed()) numeric::convert(agreed_.span(), place_.learner.parameters());
  }

  Task<> attempt(TrainingStep step, StepResult* result) override {
    return with_all_landed(learn_and_exchange(step, result));
  }

  /// Waits for exchanges in flight, and applies them.
  Task<> end_loop() override {
    Task<> landing = with_all_landed(apply_due(UINT64_MAX));
    co_await std::move(landing);
    co_await Apart::end_loop();
  }

  Task<> with_all_landed(Task<> act) {
    const std::exception_ptr error = co_await error_of(std::move(act));
    if (!error) co_return;
    place_.comm.abort(error);  // exchanges in flight work on this object: they must end first
    for (const auto& exchange : in_flight_) {
      if (exchange->flight) co_await error_of(exchange->flight->landed());
      exchange->flight.reset();
    }
    std::rethrow_exception(error);
  }

  Task<> learn_and_exchange(TrainingStep step, StepResult* result) {
    for (const auto& exchange : in_flight_) {
      if (!exchange->flight && !exchange->is_agreed) launch(exchange);  // an abort broke it off
    }
    if (co_await own_steps_.take(step, unweighted, result)) {  // 2
      for (FragmentSamples& fragment : fragment_samples_) {
        fragment.samples += result->samples;
        fragment.global_samples += result->global_samples;
      }
    }
    co_await apply_due(step.number);  // 4, of earlier exchanges
    for (std::size_t f = 0; f < fragments_.size() && begun_before_ <= step.number; ++f) {
      if (exchanges_after(plan_.local, static_cast<std::uint32_t>(f), step.number))
        begin_exchange(f, step.number);  // 3
    }
    begun_before_ = step.number + 1;
    co_await apply_due(step.ends_epoch ? UINT64_MAX : step.number);  // 4
  }

  /// The step's own part and each exchange are committed when they are over.
  void commit(TrainingStep) override {}
  bool is_idle() const override { return in_flight_.empty(); }

  void begin_exchange(std::size_t fragment, std::uint64_t step) {
    if (plan_.local.delay > 0)
      numeric::convert(at_start_[fragment].span(), part(place_.learner.parameters(), fragment));
    const double weight = std::exchange(fragment_samples_[fragment], {}).part(place_.comm.size());
    in_flight_.push_back(std::make_shared<Exchange>(Exchange{fragment, step + plan_.local.delay, weight}));
    launch(in_flight_.back());
  }

  void launch(const std::shared_ptr<Exchange>& exchange) {
    const std::size_t fragment = exchange->fragment;
    const NumberSpan own = part(place_.learner.parameters(), fragment), then = at_start_[fragment].span();
    numeric::subtract(changes_[fragment].span(), part(agreed_.span(), fragment), plan_.local.delay > 0 ? then : own);
    exchange->begin = place_.comm.runtime().now();
    exchange->flight.emplace(place_.comm.runtime(),
                             average(averager_.get(), place_.comm, changes_[fragment].span(), exchange));
  }

  static Task<> average(collective::Averager* averager, collective::Communicator comm, NumberSpan change,
                        std::shared_ptr<Exchange> exchange) {
    co_await averager->average(comm, exchange->fragment, change, exchange->weight);
    exchange->end = comm.runtime().now();
  }

  /// 4, for all exchanges due after that step, in the order in which they began: the same on all ranks.
  Task<> apply_due(std::uint64_t step) {
    while (!in_flight_.empty() && in_flight_.front()->due <= step) {
      const std::shared_ptr<Exchange> exchange = in_flight_.front();
      if (!exchange->is_agreed) co_await arrival(exchange);
      in_flight_.pop_front();
      apply(*exchange);
    }
  }

  /// Waits for the exchange, and records how much of it was waited for and how much was hidden.
  Task<> arrival(std::shared_ptr<Exchange> exchange) {
    Runtime& runtime = place_.comm.runtime();
    const Duration asked = runtime.now();
    {
      const observe::StageTimer timer(place_.recorder, runtime, observe::Stage::exchange);
      co_await exchange->flight->landed();
    }
    const Duration hidden = std::min(asked, exchange->end) - exchange->begin;
    if (hidden > Duration(0)) place_.recorder.add(observe::Stage::hidden, hidden);
    place_.recorder.span({"exchange", exchange->fragment, exchange->begin, exchange->end});
  }

  void apply(const Exchange& exchange) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::optimise);
    const std::size_t fragment = exchange.fragment;
    const NumberSpan own = part(place_.learner.parameters(), fragment), agreed = part(agreed_.span(), fragment);
    if (!exchange.is_agreed) {
      outer_->begin_step();
      outer_->update(fragments_[fragment].begin, agreed, changes_[fragment].span(), outer_rate_);
      averager_->commit(fragment);
      exchanged();
    }
    if (plan_.local.delay > 0) {
      numeric::carry_over(own, at_start_[fragment].span(), agreed);  // what was learnt meanwhile
    } else {
      numeric::convert(own, agreed);
    }
  }

  /// All ranks have the same v and outer optimiser; each keeps its residuals and what it learnt meanwhile.
  Task<bool> hand_over(int from, bool behind, BrokenOff) override {
    const std::function<void(StateVisitor&)> alike = [&](StateVisitor& visitor) {
      visitor.span("agreed", agreed_.span());
      outer_->visit(visitor);
      averager_->visit_shared(visitor);
    };
    co_await share_state(place_.comm, from, alike);
    if (!behind) co_return false;
    in_flight_.front()->is_agreed = true;
    averager_->commit(in_flight_.front()->fragment);
    exchanged();
    co_return false;
  }

  /// As an exchange would weight them now.
  void weigh(NumberSpan parameters) const override {
    for (std::size_t f = 0; f < fragments_.size(); ++f)
      numeric::scale(part(parameters, f), fragment_samples_[f].part(place_.comm.size()));
  }

  NumberSpan agreed() override { return agreed_.span(); }
  const Layout& layout() const { return place_.learner.layout(); }
  NumberSpan part(NumberSpan whole, std::size_t fragment) const {
    return whole.slice(fragments_[fragment].begin, fragments_[fragment].end);
  }

  std::vector<Range> fragments_;
  std::unique_ptr<collective::Averager> averager_;
  std::unique_ptr<optim::Optimiser> outer_;
  double outer_rate_;
  numeric::Numbers agreed_;  // v
  std::vector<FragmentSamples> fragment_samples_;
  std::vector<numeric::Numbers> changes_,
      at_start_;  // of each fragment: d = v - w; with a delay, w when the exchange began
  std::deque<std::shared_ptr<Exchange>> in_flight_;
  std::uint64_t begun_before_ = 0;  // all exchanges of earlier steps have begun
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

}  // namespace ripieno::strategy
