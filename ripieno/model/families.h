// The families of the zoo, one file each. Names in their state dicts are torchvision's, so that weights can be
// exchanged.
//
// Layers are appended one statement at a time. As arguments of one call they would draw their weights in an order that
// C++ leaves unspecified.
#pragma once

#include <memory>

#include "ripieno/model/classifier.h"
#include "ripieno/model/zoo.h"

namespace ripieno::model {

/// 1 x 28 x 28 -> 10 logits, 690,590 parameters. `dropout`: the rate before the first linear layer, 0 <= rate < 1.
std::shared_ptr<Classifier> make_mnist_cnn(double dropout = 0.5);

/// 1 x 28 x 28 -> 10 logits, 61,130 parameters.
std::shared_ptr<Classifier> make_mnist_3conv();

/// The input for which a network of large images is built: CIFAR's size or the published one.
enum class InputSize {
  small,     ///< 3 x 32 x 32 -> 10 logits
  published  ///< 3 x 224 x 224 -> 1000 logits, as published for ImageNet; images of other sizes are resized
};

enum class VggNorm { none, batch };
/// `depth`: 11, 16 or 19 layers with weights. The published form has no batch normalisation.
/// Parameters: 9,225,610 (11), 9,231,114 (11 with normalisation), 14,719,818 (16), 20,029,514 (19);
/// published 138,357,544 (16), 143,667,240 (19).
std::shared_ptr<Classifier> make_vgg(int depth, VggNorm norm = VggNorm::none, InputSize form = InputSize::small);

/// `depth`: 18, 50 or 152 layers with weights.
/// Parameters: 11,173,962 (18), 23,520,842 (50), 58,156,618 (152); published 25,557,032 (50), 60,192,808 (152).
std::shared_ptr<Classifier> make_resnet(int depth, InputSize form = InputSize::small);

/// Parameters: 23,272,266; published 61,100,840.
std::shared_ptr<Classifier> make_alexnet(InputSize form = InputSize::small);

/// 3 x 32 x 32 -> 10 logits, 1,971,352 trained parameters; prepare() sets the 288 frozen ones of its first layer.
std::shared_ptr<Classifier> make_airbench();

}  // namespace ripieno::model
