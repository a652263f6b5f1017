// A learner that computes with LibTorch: a classifier with its training and test data, in a given precision.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ripieno/data/loader.h"
#include "ripieno/model/classifier.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/strategy/compute_profile.h"
#include "ripieno/strategy/learner.h"
#include "ripieno/train/flat_model.h"
#include "ripieno/train/precision.h"

namespace ripieno::train {

/// The views of each test image whose logits are averaged (Jordan, arXiv:2404.00498, 2024).
enum class TestViews : std::uint8_t {
  one,
  flipped,          ///< the image and its mirror image
  flipped_shifted,  ///< both, with half of the weight; and both shifted by a pixel down and right, and up and left, a
                    ///< quarter each
};

/// "none", "flip", "flip-shift". Throws Error(usage) on another.
TestViews find_test_views(const std::string& name);

/// Sum of weight * logits(view) over the views of N x C x H x W images.
torch::Tensor logits_of_views(TestViews views, const torch::Tensor& images,
                              const std::function<torch::Tensor(const torch::Tensor&)>& logits);

struct TorchOptions {
  torch::Device device = torch::kCPU;  ///< where the model is computed
  Precision precision = Precision::fp32;
  FlatOptions flat;
  double label_smoothing = 0;
  std::uint32_t first_layer_epochs = 0;  ///< epochs after which the first layer's parameters get no gradient; 0: never
  TestViews test_views = TestViews::one;
  std::uint32_t accumulate = 1;  ///< parts of a batch, whose gradients are added up
  int threads = 1;               ///< compute threads
  std::uint64_t seed = 0;        ///< for dropout
  int worker = 0;                ///< dropout differs between workers
  std::uint32_t evaluation_batch = 250;
  /// Waits for these times instead of computing: gradients are 0, losses NaN, nothing is evaluated. Layout, gates and
  /// exchanges are real.
  std::optional<strategy::ComputeProfile> replay;
  /// Of a replay: false if nobody looks at its numbers. Parameters, gradients and buffers then have sizes without data
  /// (core/span.h), and exchanging them in virtual time costs next to nothing.
  bool numbers = true;
  double slow = 1;  ///< real time only: computing takes so many times as long (by waiting), at least 1
  Duration image_cost{
      0};  ///< virtual time only: the cost of each image of a pass, a third of it forward (and in evaluation)
};

class TorchLearner final : public strategy::Learner {
 public:
  TorchLearner(Runtime& runtime, observe::Recorder& recorder, std::shared_ptr<model::Classifier> model,
               data::Loader train, data::Loader test, TorchOptions options);
  ~TorchLearner() override;

  /// The model, with the current parameters and buffers.
  model::Classifier& model();

  const strategy::Layout& layout() const override;
  NumberSpan parameters() override;
  NumberSpan gradients() override;
  NumberSpan buffers() override;
  NumberSpan frozen() override;
  std::uint32_t steps_per_epoch() const override;
  std::uint32_t samples_per_epoch() const override;
  double own_samples() const override;
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting weighting) override;
  Gates& gates() override;
  optim::LossScale* loss_scale() override;
  Task<strategy::Evaluation> evaluate(int part, int parts) override;
  void commit() override;
  void drop() override;
  void visit(StateVisitor& visitor) override;

  /// How many of the layout's first tensors belong to the first layer.
  std::size_t first_layer() const;
  /// The sampler of the training set.
  const data::Sampler& sampler() const;
  /// Bytes read from the data's files so far.
  std::uint64_t bytes_read() const;

 private:
  struct State;
  class TorchPass;
  std::shared_ptr<State> state_;
};

}  // namespace ripieno::train
