// The models that a recipe can name. Your own model needs none of this: any torch::nn::Module can be trained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ripieno::model {

class Classifier;  // classifier.h

struct ModelInfo {
  std::string name;             ///< as a recipe gives it: "vgg11"
  std::string title;            ///< one line, with the source
  int channels = 0;             ///< of its images
  int height = 0;               ///< pixels
  int width = 0;                ///< pixels
  int classes = 0;              ///< logits
  std::int64_t parameters = 0;  ///< trained numbers
  /// Makes a new model, on the CPU in fp32. Its weights depend on torch::manual_seed alone. In a Zoo it throws
  /// Error(usage) instead of returning null.
  std::function<std::shared_ptr<Classifier>()> make;
  std::int64_t untrained = 0;      ///< other numbers: batch normalisation's statistics, frozen weights
  int layers = 0;                  ///< layers with weights, as names such as "VGG-16" count them; 0: not stated
  std::int64_t multiply_adds = 0;  ///< of convolutions and linear layers for one image forward; 0: not stated
  bool resizes = false;            ///< accepts images of any size, and data sets with at most `classes` classes
};

class Zoo {
 public:
  /// Throws Error(usage) for a name that is empty or taken, for sizes below 1, and without `make`.
  void add(ModelInfo model);
  /// Throws Error(usage), which lists the known names, for an unknown one.
  const ModelInfo& find(const std::string& name) const;
  /// All models, in the order of add().
  const std::vector<ModelInfo>& all() const { return models_; }

 private:
  std::vector<ModelInfo> models_;
};

/// The built-in models; add() your own to the copy.
Zoo zoo();

}  // namespace ripieno::model
