#include "ripieno/model/zoo.h"

#include <utility>

#include "ripieno/core/error.h"
#include "ripieno/model/families.h"

namespace ripieno {

Zoo zoo() {
  Zoo zoo;
  zoo.add({"mnist-cnn", "three convolutions and three linear layers, after LeCun et al., 1998", 1, 28, 28, 10, 690'590,
           [] { return make_mnist_cnn(); }});
  zoo.add({"mnist-3conv", "three strided convolutions and two linear layers, small and quick", 1, 28, 28, 10, 61'130,
           [] { return make_mnist_3conv(); }});
  zoo.add({"vgg11", "VGG-11 (A) with one linear classifier, Simonyan and Zisserman, 2015", 3, 32, 32, 10, 9'225'610,
           [] { return make_vgg11(VggNorm::none); }});
  zoo.add({"vgg11-bn", "VGG-11 with batch normalisation, Simonyan and Zisserman, 2015", 3, 32, 32, 10, 9'231'114,
           [] { return make_vgg11(VggNorm::batch); }});
  zoo.add({"resnet18", "ResNet-18 with a 3x3 first convolution, He et al., 2016", 3, 32, 32, 10, 11'173'962,
           [] { return make_resnet18(); }});
  zoo.add({"alexnet", "AlexNet for small images, Krizhevsky et al., 2012", 3, 32, 32, 10, 23'272'266,
           [] { return make_alexnet(); }});
  zoo.add({"airbench", "the small network of airbench94, with a whitened first layer, Jordan, 2024", 3, 32, 32, 10, 1'971'352,
           [] { return make_airbench(); }});
  return zoo;
}

void Zoo::add(ModelInfo model) {
  if (model.name.empty()) fail(ErrorKind::usage, "zoo: a model without a name (its title: \"", model.title, "\")");
  for (const ModelInfo& other : models_) {
    if (other.name == model.name) fail(ErrorKind::usage, "zoo: there is a model \"", model.name, "\" already");
  }
  if (model.channels < 1 || model.height < 1 || model.width < 1 || model.classes < 1 || model.parameters < 1) {
    fail(ErrorKind::usage, "zoo: model \"", model.name, "\" of ", model.channels, " x ", model.height, " x ",
         model.width, " images, ", model.classes, " classes and ", model.parameters,
         " parameters; each must be 1 or more");
  }
  if (!model.make) fail(ErrorKind::usage, "zoo: model \"", model.name, "\" has no function that makes it");
  models_.push_back(std::move(model));
}

const ModelInfo& Zoo::find(const std::string& name) const {
  std::string names;
  for (const ModelInfo& model : models_) {
    if (model.name == name) return model;
    names += text(names.empty() ? "" : ", ", model.name);
  }
  fail(ErrorKind::usage, "model \"", name, "\" is unknown; the known ones are ", names);
}

}  // namespace ripieno
