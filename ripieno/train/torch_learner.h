// A learner that computes with LibTorch: a classifier, its training and test data, and the precision it computes in.
#pragma once

#include <memory>
#include <string>

#include "ripieno/data/loader.h"
#include "ripieno/model/zoo.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/strategy/learner.h"
#include "ripieno/train/flat_model.h"

namespace ripieno {

enum class Precision : std::uint8_t {
  fp32,
  fp64,  ///< for tests of exactness
  bf16,  ///< forward and backward under autocast; parameters, gradients and optimiser in fp32
  fp16,  ///< the same, with a loss scale
};

/// Throws Error(usage) on an unknown name.
Precision find_precision(const std::string& name);

struct TorchOptions {
  Precision precision = Precision::fp32;
  FlatOptions flat;
  double label_smoothing = 0;
  std::uint32_t accumulate = 1;  ///< parts that a batch is cut into, whose gradients are added up
  int threads = 1;               ///< compute threads
  std::uint64_t seed = 0;        ///< of dropout
  int worker = 0;                ///< dropout differs between workers
  std::uint32_t evaluation_batch = 250;
  Duration image_cost{0};        ///< virtual time only: charged for each image of a pass, a third of it forward (and in evaluation)
};

class TorchLearner final : public Learner {
 public:
  TorchLearner(Runtime& runtime, Recorder& recorder, std::shared_ptr<Classifier> model, Loader train, Loader test,
               TorchOptions options);
  ~TorchLearner() override;

  Classifier& model();

  const Layout& layout() const override;
  FloatSpan parameters() override;
  FloatSpan gradients() override;
  FloatSpan buffers() override;
  FloatSpan frozen() override;
  std::uint32_t steps_per_epoch() const override;
  std::uint32_t samples_per_epoch() const override;
  Task<std::unique_ptr<Pass>> begin(BatchId batch) override;
  Gates& gates() override;
  LossScale* loss_scale() override;
  Task<Evaluation> evaluate(int part, int parts) override;
  void visit(StateVisitor& visitor) override;

  /// Who takes which samples of the training set.
  const Sampler& sampler() const;
  /// Bytes read from the data's files so far.
  std::uint64_t bytes_read() const;

 private:
  struct State;
  class TorchPass;
  std::shared_ptr<State> state_;
};

}  // namespace ripieno
