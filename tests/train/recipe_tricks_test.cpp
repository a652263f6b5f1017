// The settings of recipes for time to accuracy, with any number of workers.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/small_net.h"

namespace ripieno::train {
namespace {

using testing::copy;
using testing::norm;
using testing::TorchJob;

TorchOptions smoothed_fp64() {
  TorchOptions options;
  options.precision = Precision::fp64;
  options.flat.bucket_bytes = 2000;
  options.label_smoothing = 0.2;
  return options;
}

/// All of them at once: muon, rates of their own, a first layer that is frozen on the way, lookahead.
strategy::Plan plan_of(const TorchLearner& learner) {
  strategy::Plan plan;
  plan.epochs = 3;
  plan.learning_rate = {.schedule = "triangular", .base = 0.05, .peak_at = 0};
  optim::OptimiserOptions& o = plan.optimiser;
  o = {
      .name = "muon", .momentum = 0.6, .weight_decay = 0.01, .nesterov = true, .newton_schulz = 3, .sgd_momentum = 0.8};
  o.vector_factor = 4;
  o.head_factor = 2;
  for (const strategy::Layout::Tensor& tensor : learner.layout().tensors) {
    const std::size_t rows = tensor.shape.size() < 2 ? 0 : static_cast<std::size_t>(tensor.shape[0]);
    o.tensors.push_back({tensor.range.begin, tensor.range.end, rows, o.tensors.size() < learner.first_layer()});
  }
  o.first_layer_steps = learner.steps_per_epoch();
  o.first_layer_rate = plan.learning_rate.base;
  o.lookahead_every = 4;
  o.total_steps = 3 * learner.steps_per_epoch();
  return plan;
}

struct Ran {
  std::vector<double> start, end;
};

Ran run(std::string_view strategy, int workers, std::uint32_t batch, bool forward = false) {
  TorchOptions options = smoothed_fp64();
  options.first_layer_epochs = 1;
  const TorchJob shape("single", 1, {}, options, batch, 120);
  strategy::Plan plan = plan_of(*shape.learners[0]);
  plan.exchange.forward = forward;
  TorchJob job(strategy, workers, plan, options, batch, 120);
  Ran ran{copy(job.learners[0]->parameters()), {}};
  job.run();
  ran.end = copy(job.weights());
  return ran;
}

TEST(RecipeTricks, PWorkersTakeTheStepsOfOne) {
  const Ran one = run("single", 1, 24);
  for (const int workers : {2, 3}) {
    for (const char* strategy : {"ring", "ddp"}) {
      for (const bool forward : {false, true}) {
        if (forward && strategy != std::string_view("ddp")) continue;
        const Ran many = run(strategy, workers, 24, forward);
        EXPECT_LE(norm(many.end, one.end) / norm(one.end, one.start), 1e-9)
            << strategy << " P=" << workers << " forward " << forward;
      }
    }
  }
}

TEST(RecipeTricks, AFrozenFirstLayerStaysAndItsBucketsAreAnnounced) {
  TorchOptions options = smoothed_fp64();
  options.first_layer_epochs = 1;
  const TorchJob shape("single", 1, {}, options, 24, 120);
  TorchJob job("ddp", 2, plan_of(*shape.learners[0]), options, 24, 120);
  ASSERT_EQ(shape.learners[0]->first_layer(), 2u);
  const Range first = shape.learners[0]->layout().tensors[1].range;
  std::vector<std::vector<double>> layers;
  job.on_step = [&](int rank, const observe::StepRecord&) {
    if (rank == 0) layers.push_back(copy(job.learners[0]->parameters().slice(0, first.end)));
  };
  job.run();
  ASSERT_EQ(layers.size(), 15u);
  EXPECT_NE(layers[0], layers[4]);
  for (std::size_t step = 8; step < layers.size(); ++step) {
    // Lookahead's mean of the first epoch's ends comes in at steps 8 and 12, and at the end.
    if (step % 4 != 3 && step + 1 != layers.size()) {
      EXPECT_EQ(layers[step], layers[step - 1]) << step;
    }
  }
}

TEST(TestViews, AreAveragedAsPublished) {
  torch::manual_seed(1);
  const torch::Tensor images = torch::randn({2, 3, 6, 5}), weight = torch::randn({3 * 6 * 5, 4});
  const auto logits = [&](const torch::Tensor& view) { return torch::mm(view.flatten(1), weight); };
  const auto of = [&](TestViews views) { return logits_of_views(views, images, logits); };
  EXPECT_TRUE(torch::equal(of(TestViews::one), logits(images)));
  EXPECT_TRUE(torch::allclose(of(TestViews::flipped), (logits(images) + logits(images.flip({3}))) / 2));

  // Pixel by pixel: moved down and right by one, up and left by one, with what lies beyond the edge reflected.
  const auto moved = [&](std::int64_t by) {
    torch::Tensor out = torch::empty_like(images);
    const auto fold = [](std::int64_t i, std::int64_t n) { return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i; };
    for (std::int64_t y = 0; y < 6; ++y) {
      for (std::int64_t x = 0; x < 5; ++x) {
        out.select(3, x).select(2, y).copy_(images.select(3, fold(x + by, 5)).select(2, fold(y + by, 6)));
      }
    }
    return out;
  };
  torch::Tensor due = torch::zeros({2, 4});
  for (const auto& [view, weight_of_it] : {std::pair{images, 0.25}, {moved(-1), 0.125}, {moved(1), 0.125}}) {
    due += weight_of_it * (logits(view) + logits(view.flip({3})));
  }
  EXPECT_TRUE(torch::allclose(of(TestViews::flipped_shifted), due, 1e-5, 1e-5));
  EXPECT_THROW(find_test_views("crop"), Error);
  EXPECT_EQ(find_test_views("flip-shift"), TestViews::flipped_shifted);
}

}  // namespace
}  // namespace ripieno::train
