// The families of the zoo, one file each. Names in their state dicts are torchvision's, so that weights can be
// exchanged.
//
// Layers are appended one statement at a time: as arguments of one call they would draw their weights in an order that
// C++ leaves to the compiler.
#pragma once

#include <memory>

#include "ripieno/model/classifier.h"
#include "ripieno/model/zoo.h"

namespace ripieno {

/// 1 x 28 x 28 -> 10 logits, 690,590 parameters. `dropout`: the rate before the first linear layer, 0 <= rate < 1.
std::shared_ptr<Classifier> make_mnist_cnn(double dropout = 0.5);

/// 1 x 28 x 28 -> 10 logits, 61,130 parameters.
std::shared_ptr<Classifier> make_mnist_3conv();

enum class VggNorm { none, batch };
/// 3 x 32 x 32 -> 10 logits; 9,225,610 parameters, with batch normalisation 9,231,114.
std::shared_ptr<Classifier> make_vgg11(VggNorm norm);

/// 3 x 32 x 32 -> 10 logits, 11,173,962 parameters.
std::shared_ptr<Classifier> make_resnet18();

/// 3 x 32 x 32 -> 10 logits, 23,272,266 parameters.
std::shared_ptr<Classifier> make_alexnet();

/// 3 x 32 x 32 -> 10 logits, 1,971,352 trained parameters; prepare() sets the 288 frozen ones of its first layer.
std::shared_ptr<Classifier> make_airbench();

}  // namespace ripieno
