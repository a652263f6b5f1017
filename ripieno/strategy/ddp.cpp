#include "ripieno/strategy/ddp.h"

#include <deque>

#include "ripieno/core/async.h"
#include "ripieno/strategy/alike.h"

namespace ripieno::strategy {
namespace {

/// The time during which at least one bucket was in flight.
class FlightTime {
 public:
  void start(Duration now) {
    if (in_flight_++ == 0) since_ = now;
  }
  void end(Duration now) {
    if (--in_flight_ == 0) total_ += now - since_;
  }
  /// The time since the last call.
  Duration take(Duration now) {
    if (in_flight_ > 0) total_ += now - std::exchange(since_, now);
    return std::exchange(total_, Duration{0});
  }

 private:
  int in_flight_ = 0;
  Duration since_{0}, total_{0};
};

class Ddp final : public Alike {
 public:
  Ddp(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : Alike(info, plan, std::move(workplace)), order_(layout_.buckets.size()), flights_(layout_.buckets.size()) {}

 private:
  Task<> attempt(TrainingStep step, StepResult* result) override {
    std::shared_ptr<Pass> pass;
    const std::exception_ptr error = co_await error_of(compute_and_exchange(step, &pass, result));
    if (!error) co_return;
    // Buckets in flight work on this object: they must end first.
    if (plan_.exchange.forward) place_.learner.gates().give_up();
    place_.comm.abort(error);
    for (auto& flight : flights_) {
      if (flight) co_await error_of(flight->landed());  // `error` is the cause
      flight.reset();
    }
    in_flight_.clear();
    flight_time_ = {};
    if (pass) co_await error_of(finish(pass, result));
    std::rethrow_exception(error);
  }

  void commit(TrainingStep step) override {
    if (!plan_.exchange.forward) return Alike::commit(step);
    place_.learner.commit();  // average_and_step() has stepped on each bucket
    learnt_order();
  }

  void settle() override {
    Alike::settle();
    learnt_order();
  }

  void learnt_order() {
    if (learning_ > 0) --learning_;
  }

  bool is_idle() const override { return in_flight_.empty(); }
  Task<> land() override { return await_all(); }

  /// Which buckets of a pass are ready, and which have been started.
  struct Progress {
    Progress(Runtime& runtime, std::size_t buckets) : ready(buckets), started(buckets), news(runtime) {}
    std::vector<bool> ready, started;
    std::vector<std::size_t> became_ready;  // in that order
    bool ended = false;                     // no more will become ready
    Queue<bool> news;
  };

  Task<> compute_and_exchange(TrainingStep step, std::shared_ptr<Pass>* pass, StepResult* result) {
    const Weighting by_share = &BatchSize::share;
    *pass = co_await place_.learner.begin(step.batch, by_share);
    const auto progress = std::make_shared<Progress>(place_.comm.runtime(), order_.size());
    Flight collecting(place_.comm.runtime(), collect(*pass, progress));  // 2
    co_await start_buckets(step, *pass, progress);                       // 3
    co_await finish(*pass, result);
    if (!plan_.exchange.forward || step.ends_epoch) co_await await_all();
    record_times(result->waited);
  }

  static Task<> finish(std::shared_ptr<Pass> pass, StepResult* result) {
    static_cast<PassResult&>(*result) = co_await pass->finish();
  }

  Task<> start_buckets(TrainingStep step, std::shared_ptr<Pass> pass, std::shared_ptr<Progress> progress) {
    for (std::size_t n = 0; n < order_.size(); ++n) {
      co_await wait_for_room();
      if (learning_ > 0) {
        const std::optional<std::size_t> chosen = co_await choose(progress);
        if (!chosen) break;  // rank 0's pass failed: its finish() says why, and that ends this step on all
        order_[n] = *chosen;
      }
      const std::size_t bucket = order_[n];
      while (!progress->ready[bucket] && !progress->ended) co_await progress->news.pop();
      if (!progress->ready[bucket]) break;  // the pass failed: finish() says why
      if (n == 0 && plan_.exchange.forward) {
        co_await await_all();  // all gates are open then: the last step is done
        optimiser_->begin_step();
      }
      progress->started[bucket] = true;
      if (plan_.exchange.forward) place_.learner.gates().close(bucket);
      flights_[bucket].emplace(place_.comm.runtime(), average_bucket(bucket, pass, step.rate));
      in_flight_.push_back(bucket);
    }
  }

  void step_on(Range range, double rate) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::optimise);
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

  /// The bucket that rank 0 starts next: among those ready there, the one that became ready first; with `forward`, the
  /// one that the next forward pass needs first. On rank 0 nothing if its pass ends without one; the others then wait
  /// for the error that ends the step.
  Task<std::optional<std::size_t>> choose(std::shared_ptr<Progress> progress) {
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
      if (!best) co_return std::nullopt;
      choice = static_cast<std::uint32_t>(*best);
    }
    choice = co_await place_.comm.broadcast(choice);
    co_return choice;
  }

  /// Takes one ready bucket until it is averaged (and, with `forward`, stepped on).
  Task<> average_bucket(std::size_t bucket, std::shared_ptr<Pass> pass, double rate) {
    const Duration start = place_.comm.runtime().now();
    flight_time_.start(start);
    if (!plan_.exchange.forward) {
      co_await average(bucket, 1 / loss_scale());
      was_averaged(bucket, start);
      co_return;
    }
    const std::exception_ptr error = co_await error_of(average_and_step(bucket, pass, rate));
    if (!error) co_return;
    place_.learner.gates().give_up();  // else the next forward pass would wait for this bucket forever
    std::rethrow_exception(error);
  }

  void was_averaged(std::size_t bucket, Duration start) {
    const Duration end = place_.comm.runtime().now();
    flight_time_.end(end);
    place_.recorder.span({"exchange", bucket, start, end});
  }

  /// 4'
  Task<> average_and_step(std::size_t bucket, std::shared_ptr<Pass> pass, double rate) {
    const Range range = layout_.buckets[bucket];
    const Duration start = place_.comm.runtime().now();
    // Averaged but not stepped on yet: backward still reads the parameters, for the gradient of a layer's input.
    std::vector<Range> averaged;
    if (optimiser_->by_matrices()) {
      co_await average(bucket, 1);
      averaged = {range};
    } else {
      const std::function<void(Range)> take_part = [&](Range part) {
        averaged.push_back({range.begin + part.begin, range.begin + part.end});
        if (pass->reads(bucket)) return;
        for (const Range& each : std::exchange(averaged, {})) step_on(each, rate);
      };
      const NumberSpan gradient = place_.learner.gradients().slice(range.begin, range.end);
      co_await averager_->average_by_parts(place_.comm, bucket, gradient, 1, take_part);
    }
    averager_->commit(bucket);
    was_averaged(bucket, start);
    co_await pass->released(bucket);
    for (const Range& each : averaged) step_on(each, rate);
    place_.learner.gates().open(bucket);
  }

  /// Waits, for the bucket started first, while as many buckets are in flight as may be.
  Task<> wait_for_room() {
    if (plan_.exchange.in_flight == 0) co_return;
    while (in_flight_.size() >= static_cast<std::size_t>(plan_.exchange.in_flight)) {
      const std::size_t first = in_flight_.front();
      in_flight_.pop_front();
      co_await flights_[first]->landed();
    }
  }

  Task<> await_all() {
    const Duration start = place_.comm.runtime().now();
    while (!in_flight_.empty()) {
      const std::size_t first = in_flight_.front();
      in_flight_.pop_front();
      co_await flights_[first]->landed();
    }
    was_waited_for(start);
  }

  void was_waited_for(Duration start) {
    const Duration end = place_.comm.runtime().now();
    waited_ += end - start;
    place_.recorder.exposed(start, end);
  }

  /// Records the exchange time that compute waited for (at the end of the step or at gates) and the time that it hid.
  void record_times(Duration at_gates) {
    const Duration exposed = std::exchange(waited_, Duration{0}) + at_gates;
    const Duration in_flight = flight_time_.take(place_.comm.runtime().now());
    place_.recorder.add(observe::Stage::exchange, exposed);
    place_.recorder.add(observe::Stage::hidden, std::max(Duration{0}, in_flight - exposed));
  }

  std::vector<std::size_t> order_;  // in which buckets are started; fixed after the steps of `learning_`
  int learning_ = 3;  // steps left in which rank 0 announces every bucket; the network is slower in the first
  std::vector<std::optional<Flight>> flights_;
  std::deque<std::size_t> in_flight_;  // in the order of starting; some may have ended
  FlightTime flight_time_;
  Duration waited_{0};
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Ddp>(info, plan, std::move(workplace));
}

}  // namespace ripieno::strategy
