#include "ripieno/strategy/ddp.h"

#include <deque>

#include "ripieno/collective/execute.h"
#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

/// How long at least one of several things was under way.
class AirTime {
 public:
  void start(Duration now) {
    if (under_way_++ == 0) since_ = now;
  }
  void end(Duration now) {
    if (--under_way_ == 0) total_ += now - since_;
  }
  /// Since the last call.
  Duration take(Duration now) {
    if (under_way_ > 0) total_ += now - std::exchange(since_, now);
    return std::exchange(total_, Duration{0});
  }

 private:
  int under_way_ = 0;
  Duration since_{0}, total_{0};
};

class Ddp final : public Strategy {
 public:
  Ddp(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : plan_(plan),
        place_(std::move(workplace)),
        layout_(place_.learner.layout()),
        averager_(averager_of(info, plan, slots_of(layout_, layout_.buckets), layout_.type)),
        optimiser_(make_optimiser(plan.optimiser, layout_.parameters, layout_.type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale),
        order_(layout_.buckets.size()),
        flights_(layout_.buckets.size()) {}

  Task<> run() override {
    std::exception_ptr error;
    try {
      co_await train();
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) co_return;
    // What is under way works on this object: it must end first.
    place_.learner.gates().give_up();
    place_.comm.abort(error);
    for (auto& flight : flights_) {
      if (!flight) continue;
      try {
        co_await flight->landed();
      } catch (...) {  // `error` is the cause
      }
    }
    std::rethrow_exception(error);
  }

  NumberSpan consensus() override { return place_.learner.parameters(); }
  void visit(StateVisitor& visitor) override {
    optimiser_->visit(visitor);
    averager_->visit(visitor);
  }

 private:
  Task<> train() {
    co_await start_alike(place_.comm, place_.learner);  // 1
    place_.recorder.begin();
    for (Steps at(plan_, place_.learner.steps_per_epoch()); at.more(); at.next()) {
      const double rate = learning_rate_.at(at.epochs_done());
      const PassResult result = co_await take_step(at.batch(), rate);
      if (at.ends_epoch()) co_await land_all();
      record_times(result.waited);
      place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
      if (!at.ends_epoch()) continue;
      co_await end_epoch_alike(&place_, &plan_, at.epoch(), at.ends());
      if (place_.checkpoint && !at.ends_early()) place_.checkpoint(at.epoch());
    }
  }

  /// Which buckets of a pass are ready, and which were started.
  struct Progress {
    Progress(Runtime& runtime, std::size_t buckets) : ready(buckets), started(buckets), news(runtime) {}
    std::vector<bool> ready, started;
    std::vector<std::size_t> became_ready;  // in that order
    bool ended = false;                     // no more will become ready
    Queue<bool> news;
  };

  Task<PassResult> take_step(BatchId batch, double rate) {
    Learner& learner = place_.learner;
    const Weighting by_share = &BatchSize::share;
    const std::shared_ptr<Pass> pass = co_await learner.begin(batch, by_share);
    const auto progress = std::make_shared<Progress>(place_.comm.runtime(), order_.size());
    Flight collecting(place_.comm.runtime(), collect(pass, progress));  // 2
    for (std::size_t n = 0; n < order_.size(); ++n) {                    // 3
      co_await room_for_one_more();
      if (learning_ > 0) order_[n] = co_await choose(progress);
      const std::size_t bucket = order_[n];
      while (!progress->ready[bucket] && !progress->ended) co_await progress->news.pop();
      if (!progress->ready[bucket]) break;  // the pass failed: finish() says why
      if (n == 0 && plan_.exchange.forward) {
        co_await land_all();  // they opened all gates: the last step is done
        optimiser_->begin_step();
      }
      progress->started[bucket] = true;
      if (plan_.exchange.forward) learner.gates().close(bucket);
      flights_[bucket].emplace(place_.comm.runtime(), fly(bucket, pass, rate));
      in_the_air_.push_back(bucket);
    }
    const PassResult result = co_await pass->finish();
    if (learning_ > 0) --learning_;
    if (!plan_.exchange.forward) co_await land_and_step(rate);  // 4
    co_return result;
  }

  /// Under a loss scale one bucket that overflowed calls the step off, so all must be there first.
  Task<> land_and_step(double rate) {
    if (place_.learner.loss_scale()) {
      co_await land_all();
      step_if_finite(place_, *optimiser_, rate);
      co_return;
    }
    optimiser_->begin_step();
    for (const std::size_t bucket : order_) {
      const Duration start = place_.comm.runtime().now();
      co_await flights_[bucket]->landed();
      was_waited_for(start);
      step_on(layout_.buckets[bucket], rate);
    }
    in_the_air_.clear();
  }

  void step_on(Range range, double rate) {
    const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::optimise);
    Learner& learner = place_.learner;
    optimiser_->update(range.begin, learner.parameters().slice(range.begin, range.end),
                       learner.gradients().slice(range.begin, range.end), rate);
  }

  static Task<> collect(std::shared_ptr<Pass> pass, std::shared_ptr<Progress> progress) {
    for (;;) {
      const auto bucket = co_await pass->next_bucket();
      if (bucket) {
        progress->ready[*bucket] = true;
        progress->became_ready.push_back(*bucket);
      }
      progress->ended = !bucket;
      progress->news.push(true);
      if (!bucket) co_return;
    }
  }

  /// The bucket that rank 0 would start next: of those that are ready there, the one that became so first; with `forward`, the
  /// one that the next forward pass needs first.
  Task<std::size_t> choose(std::shared_ptr<Progress> progress) {
    std::uint32_t choice = 0;
    if (place_.comm.rank() == 0) {
      std::optional<std::size_t> best;
      while (!best) {
        for (const std::size_t bucket : progress->became_ready) {
          if (!progress->started[bucket] && (!best || (plan_.exchange.forward && bucket > *best))) best = bucket;
        }
        if (best || progress->ended) break;
        co_await progress->news.pop();
      }
      choice = static_cast<std::uint32_t>(best.value_or(0));
    }
    choice = co_await place_.comm.broadcast(choice);
    co_return choice;
  }

  /// One bucket, from its readiness until it is averaged (and, with `forward`, stepped on).
  Task<> fly(std::size_t bucket, std::shared_ptr<Pass> pass, double rate) {
    std::exception_ptr error;
    try {
      co_await average_and_step(bucket, pass, rate);
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) co_return;
    place_.learner.gates().give_up();  // or the next forward pass would wait for this bucket for ever
    std::rethrow_exception(error);
  }

  Task<> average_and_step(std::size_t bucket, std::shared_ptr<Pass> pass, double rate) {
    Learner& learner = place_.learner;
    Runtime& runtime = place_.comm.runtime();
    const Range range = layout_.buckets[bucket];
    const NumberSpan gradient = learner.gradients().slice(range.begin, range.end);
    const Duration start = runtime.now();
    air_.start(start);
    const double weight = learner.loss_scale() ? 1 / learner.loss_scale()->value() : 1;
    const bool steps_on_parts = plan_.exchange.forward && !optimiser_->by_matrices();
    std::vector<Range> averaged;  // and not stepped on: backward still needs the parameters for the gradient by a layer's input
    const std::function<void(Range)> take_part = [&](Range part) {
      averaged.push_back({range.begin + part.begin, range.begin + part.end});
      if (pass->reads(bucket)) return;
      for (const Range& each : std::exchange(averaged, {})) step_on(each, rate);
    };
    if (steps_on_parts) {
      co_await averager_->average_by_parts(place_.comm, bucket, gradient, weight, take_part);  // 4'
    } else {
      co_await averager_->average(place_.comm, bucket, gradient, weight);
    }
    air_.end(runtime.now());
    place_.recorder.span({"exchange", bucket, start, runtime.now()});
    if (!plan_.exchange.forward) co_return;
    if (!steps_on_parts) averaged = {range};
    co_await pass->released(bucket);
    for (const Range& each : averaged) step_on(each, rate);
    learner.gates().open(bucket);
  }

  /// Waits while as many buckets as may be are in the air: for the one that was started first.
  Task<> room_for_one_more() {
    if (plan_.exchange.in_flight == 0) co_return;
    while (in_the_air_.size() >= static_cast<std::size_t>(plan_.exchange.in_flight)) {
      const std::size_t first = in_the_air_.front();
      in_the_air_.pop_front();
      co_await flights_[first]->landed();
    }
  }

  Task<> land_all() {
    const Duration start = place_.comm.runtime().now();
    while (!in_the_air_.empty()) {
      const std::size_t first = in_the_air_.front();
      in_the_air_.pop_front();
      co_await flights_[first]->landed();
    }
    was_waited_for(start);
  }

  void was_waited_for(Duration start) {
    const Duration end = place_.comm.runtime().now();
    waited_ += end - start;
    place_.recorder.exposed(start, end);
  }

  /// The exchange that compute waited for, at the step's end or at gates, and the rest, which it hid.
  void record_times(Duration at_gates) {
    const Duration exposed = std::exchange(waited_, Duration{0}) + at_gates;
    const Duration in_the_air = air_.take(place_.comm.runtime().now());
    place_.recorder.add(Stage::exchange, exposed);
    place_.recorder.add(Stage::hidden, std::max(Duration{0}, in_the_air - exposed));
  }

  Plan plan_;
  Workplace place_;
  const Layout& layout_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<Optimiser> optimiser_;
  LearningRate learning_rate_;
  std::vector<std::size_t> order_;  // in which buckets are started: rank 0's in the last step of learning
  int learning_ = 3;                // steps in which rank 0 announces every bucket; the network is slower in the first
  std::vector<std::optional<Flight>> flights_;
  std::deque<std::size_t> in_the_air_;  // in the order of starting; some may have landed
  AirTime air_;
  Duration waited_{0};
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Ddp>(info, plan, std::move(workplace));
}

}  // namespace ripieno
