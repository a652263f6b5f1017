#include "ripieno/loop/loop_learner.h"

#include <cmath>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/pass_progress.h"

namespace ripieno::loop {

LoopLearner::LoopLearner(collective::Communicator comm, const strategy::Layout& layout, LoopNumbers numbers,
                         LoopLearnerOptions options)
    : comm_(std::move(comm)),
      layout_(layout),
      numbers_(numbers),
      options_(std::move(options)),
      gates_(comm_.runtime(), layout.buckets.size()),
      turns_(comm_.runtime()),
      news_(std::make_shared<Event>(comm_.runtime())),
      rate_(options_.first_rate) {}

void LoopLearner::tell() { std::exchange(news_, std::make_shared<Event>(comm_.runtime()))->set(); }

Task<> LoopLearner::turn(Turn turn) {
  if (!ended_) {
    asked_ = false;
    turns_.push(std::move(turn));
  }
  co_await asked();
}

Task<> LoopLearner::asked() {
  while (!asked_ && !ended_) {
    const std::shared_ptr<Event> news = news_;
    co_await news->wait();
  }
  if (error_) std::rethrow_exception(error_);
}

void LoopLearner::break_off(std::exception_ptr error) {
  if (ended_) return;
  asked_ = false;
  turns_.push({.trouble = std::move(error)});
}

void LoopLearner::ended(std::exception_ptr error) {
  ended_ = true;
  error_ = std::move(error);
  tell();
}

Task<bool> LoopLearner::has_next() {
  asked_ = true;
  tell();
  const Turn turn = co_await turns_.pop();
  if (turn.trouble) std::rethrow_exception(turn.trouble);
  if (!turn.goes_on) co_return false;  // as a server this rank goes on at the last rate
  samples_ = turn.samples;
  learnt_ += samples_;
  rate_ = turn.rate;
  co_return true;
}

Task<std::unique_ptr<strategy::Pass>> LoopLearner::begin(data::BatchId, strategy::Weighting weighting) {
  const auto progress = std::make_shared<strategy::PassProgress>(comm_.runtime(), layout_.buckets.size());
  strategy::PassResult& result = progress->result;
  result.loss = NAN;  // the loop's own
  result.samples = options_.uneven_batches ? samples_ : 1;
  result.global_samples = static_cast<std::uint32_t>(comm_.size());
  if (options_.uneven_batches) {
    const std::int64_t own = samples_, all = co_await comm_.all_reduce(own);
    if (all <= 0) fail(ErrorKind::usage, "all workers' batches together have ", all, " samples");
    result.global_samples = static_cast<std::uint32_t>(all);
  }
  const double weight = weighting(result);
  if (weight != 1) numeric::scale(numbers_.gradients, weight);
  for (std::size_t bucket = 0; bucket < layout_.buckets.size(); ++bucket) progress->ready.push(bucket);
  progress->end(nullptr);
  co_return std::make_unique<strategy::ProgressPass>(progress);
}

Task<strategy::Evaluation> LoopLearner::evaluate(int, int) { co_return strategy::Evaluation{0, 0, 1}; }

}  // namespace ripieno::loop
