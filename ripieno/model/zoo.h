// The models that a recipe can name. A model of your own needs none of this: any torch::nn::Module trains.
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
  int channels = 0;             ///< of the images it takes
  int height = 0;               ///< pixels
  int width = 0;                ///< pixels
  int classes = 0;              ///< logits
  std::int64_t parameters = 0;  ///< numbers that are trained
  /// A new one, on the CPU in fp32. Its weights follow torch::manual_seed alone. From a Zoo: throws Error(usage) in
  /// place of null.
  std::function<std::shared_ptr<Classifier>()> make;
  std::int64_t untrained = 0;  ///< numbers that are kept beside them: batch normalisation's statistics, frozen weights
  int layers = 0;              ///< with weights, as names such as "VGG-16" count them; 0: not said
  std::int64_t multiply_adds = 0;  ///< of convolutions and linear layers, one image forward; 0: not said
  bool resizes = false;            ///< takes images of any size, of data sets with at most `classes` classes
};

class Zoo {
 public:
  /// Throws Error(usage) on a name that is empty or taken, on sizes below 1, and without `make`.
  void add(ModelInfo model);
  /// Throws Error(usage), which lists the known names, on an unknown one.
  const ModelInfo& find(const std::string& name) const;
  /// In the order in which they were added.
  const std::vector<ModelInfo>& all() const { return models_; }

 private:
  std::vector<ModelInfo> models_;
};

/// The built-in models; add() your own to the copy.
Zoo zoo();

}  // namespace ripieno::model
