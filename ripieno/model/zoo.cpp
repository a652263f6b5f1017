#include "ripieno/model/zoo.h"

#include <utility>

#include "ripieno/core/edit_distance.h"
#include "ripieno/core/error.h"
#include "ripieno/model/families.h"

namespace ripieno::model {

namespace {

/// The fields in which the form published for ImageNet differs from that for CIFAR-10.
struct PublishedForm {
  std::int64_t parameters = 0;
  int layers = 0;
  std::int64_t multiply_adds = 0;
  std::shared_ptr<Classifier> (*make)() = nullptr;
};

void add_both(Zoo& zoo, ModelInfo small, const PublishedForm& form) {
  ModelInfo published = small;
  published.name += "-imagenet";
  published.title += "; as published, images resized";
  published.height = published.width = 224;
  published.classes = 1000;
  published.parameters = form.parameters;
  published.make = form.make;
  published.layers = form.layers;
  published.multiply_adds = form.multiply_adds;
  published.resizes = true;
  zoo.add(std::move(small));
  zoo.add(std::move(published));
}

}  // namespace

Zoo zoo() {
  Zoo zoo;
  zoo.add({"mnist-cnn", "three convolutions and three linear layers, after LeCun et al., 1998", 1, 28, 28, 10, 690'590,
           [] { return make_mnist_cnn(); }, 0, 6, 7'666'440});
  zoo.add({"mnist-3conv", "three strided convolutions and two linear layers, small and quick", 1, 28, 28, 10, 61'130,
           [] { return make_mnist_3conv(); }, 0, 5, 376'192});
  zoo.add({"vgg11", "VGG-11 (A) with one linear classifier, Simonyan and Zisserman, 2015", 3, 32, 32, 10, 9'225'610,
           [] { return make_vgg(11); }, 0, 9, 152'769'536});
  zoo.add({"vgg11-bn", "VGG-11 with batch normalisation, Simonyan and Zisserman, 2015", 3, 32, 32, 10, 9'231'114,
           [] { return make_vgg(11, VggNorm::batch); }, 5'504, 9, 152'769'536});
  add_both(zoo,
           {"vgg16", "VGG-16 (D), Simonyan and Zisserman, 2015", 3, 32, 32, 10, 14'719'818, [] { return make_vgg(16); },
            0, 14, 313'201'664},
           {138'357'544, 16, 15'470'264'320, [] { return make_vgg(16, VggNorm::none, InputSize::published); }});
  add_both(zoo,
           {"vgg19", "VGG-19 (E), Simonyan and Zisserman, 2015", 3, 32, 32, 10, 20'029'514, [] { return make_vgg(19); },
            0, 17, 398'136'320},
           {143'667'240, 19, 19'632'062'464, [] { return make_vgg(19, VggNorm::none, InputSize::published); }});
  zoo.add({"resnet18", "ResNet-18 with a 3x3 first convolution, He et al., 2016", 3, 32, 32, 10, 11'173'962,
           [] { return make_resnet(18); }, 9'600, 18, 555'422'720});
  add_both(zoo,
           {"resnet50", "ResNet-50, He et al., 2016", 3, 32, 32, 10, 23'520'842, [] { return make_resnet(50); }, 53'120,
            50, 1'222'332'416},
           {25'557'032, 50, 3'857'973'248, [] { return make_resnet(50, InputSize::published); }});
  add_both(zoo,
           {"resnet152", "ResNet-152, He et al., 2016", 3, 32, 32, 10, 58'156'618, [] { return make_resnet(152); },
            151'424, 152, 3'646'640'128},
           {60'192'808, 152, 11'282'415'616, [] { return make_resnet(152, InputSize::published); }});
  add_both(zoo,
           {"alexnet", "AlexNet, Krizhevsky et al., 2012", 3, 32, 32, 10, 23'272'266, [] { return make_alexnet(); }, 0,
            8, 62'742'528},
           {61'100'840, 8, 714'188'480, [] { return make_alexnet(InputSize::published); }});
  zoo.add({"airbench", "the small network of airbench94, with a whitened first layer, Jordan, 2024", 3, 32, 32, 10,
           1'971'352, [] { return make_airbench(); }, 3'744, 8, 118'147'360});
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
  model.make = [name = model.name, make = std::move(model.make)] {
    std::shared_ptr<Classifier> made = make();
    if (!made) fail(ErrorKind::usage, "zoo: the function that makes model \"", name, "\" returned null");
    return made;
  };
  models_.push_back(std::move(model));
}

const ModelInfo& Zoo::find(const std::string& name) const {
  std::string names;
  std::vector<std::string_view> known;
  for (const ModelInfo& model : models_) {
    if (model.name == name) return model;
    names += text(names.empty() ? "" : ", ", model.name);
    known.push_back(model.name);
  }
  const std::string_view nearest = likely_name(known, name);
  fail(ErrorKind::usage, "model \"", name, "\" is unknown",
       nearest.empty() ? "" : text(" (did you mean \"", nearest, "\"?)"), "; the known ones are ", names);
}

}  // namespace ripieno::model
