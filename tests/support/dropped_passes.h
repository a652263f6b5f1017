// Passes of any learner that are dropped and taken again, to be held against those of one that takes each once.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <vector>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/learner.h"
#include "ripieno/testing/saved_state.h"

namespace ripieno::testing {

using PassState = testing::SavedState;

/// Shows what passes change besides what the learner shows; may be empty.
using ShowMore = std::function<void(StateVisitor&)>;

/// What passes change beside the gradients.
inline PassState kept_by_passes(strategy::Learner& learner, const ShowMore& show_more) {
  PassState state;
  state.begin(false);
  state.span("buffers", learner.buffers());
  learner.visit(state);
  if (show_more) show_more(state);
  return state;
}

/// Adds what the pass leaves behind, all of it.
inline Task<> take_pass(strategy::Learner* learner, data::BatchId id, ShowMore show_more,
                        std::vector<PassState>* left) {
  strategy::Weighting weighting = &strategy::BatchSize::share;
  const auto pass = co_await learner->begin(id, std::move(weighting));
  while (co_await pass->next_bucket()) {
  }
  const strategy::PassResult result = co_await pass->finish();
  std::int64_t samples = result.samples, global_samples = result.global_samples;
  std::int64_t loss = std::bit_cast<std::int64_t>(result.loss);
  PassState state = kept_by_passes(*learner, show_more);
  state.span("gradients", learner->gradients());
  state.number("loss", loss);
  state.number("samples", samples);
  state.number("global samples", global_samples);
  left->push_back(std::move(state));
}

/// Gradient descent, told to the loss scale; the third step is told as one that overflowed.
inline void apply_gradients(strategy::Learner& learner, std::uint32_t step) {
  optim::LossScale* const scale = learner.loss_scale();
  const double rate = -0.05 / (scale ? scale->value() : 1);
  const bool finite = numeric::all_finite(learner.gradients()) && step != 2;
  if (finite) {
    numeric::scale(learner.gradients(), rate);
    numeric::add(learner.parameters(), learner.gradients());
  }
  if (scale) scale->update(finite);
}

/// Takes the steps of two epochs and adds what each left behind. With `drops`, of three steps one is taken at once, one
/// after an attempt that is dropped, and one after two: the second has passes over later batches too.
inline Task<> take_steps(strategy::Learner* learner, bool drops, ShowMore show_more, std::vector<PassState>* left) {
  const std::uint32_t steps = learner->steps_per_epoch();
  for (std::uint32_t number = 0; number < 2 * steps; ++number) {
    const data::BatchId id{number / steps, number % steps};
    const data::BatchId next{id.epoch, (id.step + 1) % steps}, later{id.epoch + 1, 0};
    std::vector<std::vector<data::BatchId>> attempts;
    if (drops && number % 3 >= 1) attempts.push_back({id});
    if (drops && number % 3 == 2) attempts.push_back({id, next, id, later});
    const PassState before = kept_by_passes(*learner, show_more);
    for (const std::vector<data::BatchId>& attempt : attempts) {
      std::vector<PassState> dropped;
      for (const data::BatchId batch : attempt) co_await take_pass(learner, batch, show_more, &dropped);
      const PassState moved = kept_by_passes(*learner, show_more);
      EXPECT_NE(moved.difference(before), "") << "passes change nothing, so that nothing is tried";
      learner->drop();
      const PassState again = kept_by_passes(*learner, show_more);
      EXPECT_EQ(again.difference(before), "") << "is not what it was before step " << number;
    }
    co_await take_pass(learner, id, show_more, left);
    learner->commit();
    if (drops) learner->drop();  // there is nothing to take back
    apply_gradients(*learner, number);
  }
}

/// Takes a pass over each batch, drops each, and adds what it left behind.
inline Task<> try_batches(strategy::Learner* learner, std::vector<data::BatchId> batches, ShowMore show_more,
                          std::vector<PassState>* left) {
  for (const data::BatchId batch : batches) {
    co_await take_pass(learner, batch, show_more, left);
    learner->drop();
  }
}

inline void run(Runtime& runtime, Task<> task) {
  runtime.spawn("passes", std::move(task));
  runtime.run();
}

/// That two learners which begin alike leave the same bits behind each step, though `dropping` drops attempts.
inline void expect_drops_leave_nothing(Runtime& runtime, strategy::Learner& plain, const ShowMore& plain_more,
                                       strategy::Learner& dropping, const ShowMore& dropping_more) {
  std::vector<PassState> expected, found;
  run(runtime, take_steps(&plain, false, plain_more, &expected));
  run(runtime, take_steps(&dropping, true, dropping_more, &found));
  ASSERT_EQ(expected.size(), 2 * plain.steps_per_epoch());
  ASSERT_GE(expected.size(), 6u) << "too few steps for every kind of attempt";
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t step = 0; step < found.size(); ++step) {
    EXPECT_EQ(found[step].difference(expected[step]), "") << "is not the same after step " << step;
  }
}

/// That what a pass leaves behind does not depend on the dropped passes before it: batches in order, then backwards.
inline void expect_batches_in_any_order(Runtime& runtime, strategy::Learner& learner, const ShowMore& show_more) {
  std::vector<data::BatchId> batches;
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint32_t step = 0; step < learner.steps_per_epoch(); ++step) batches.push_back({epoch, step});
  }
  std::vector<PassState> forwards, backwards;
  run(runtime, try_batches(&learner, batches, show_more, &forwards));
  run(runtime, try_batches(&learner, {batches.rbegin(), batches.rend()}, show_more, &backwards));
  ASSERT_EQ(backwards.size(), forwards.size());
  for (std::size_t i = 0; i < forwards.size(); ++i) {
    EXPECT_EQ(backwards[forwards.size() - 1 - i].difference(forwards[i]), "") << "depends on the order, batch " << i;
    if (i == 0) continue;
    EXPECT_NE(forwards[i].difference(forwards[i - 1]), "") << "batches " << i - 1 << " and " << i << " are the same";
  }
}

}  // namespace ripieno::testing
