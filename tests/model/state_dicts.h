// The state dicts that the zoo's models must have, in torchvision's names and order; a test helper. One layer a line:
//   conv NAME IN OUT SIZE      weight OUT x IN x SIZE x SIZE, bias OUT
//   conv- NAME IN OUT SIZE     weight only
//   bn NAME CHANNELS           weight, bias; buffers running_mean, running_var, num_batches_tracked
//   linear NAME IN OUT         weight OUT x IN, bias OUT
//   linear- NAME IN OUT        weight only
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ripieno::model {

using NamedShapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

struct StateDict {
  NamedShapes parameters, buffers;
};

inline StateDict read_state_dict(const std::string& layers) {
  StateDict result;
  std::istringstream lines(layers);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string kind, name;
    std::int64_t in = 0, out = 0, size = 0;
    if (!(words >> kind >> name >> in)) continue;
    words >> out >> size;
    const auto parameter = [&](const char* what, std::vector<std::int64_t> shape) {
      result.parameters.emplace_back(name + what, std::move(shape));
    };
    if (kind == "bn") {
      parameter(".weight", {in});
      parameter(".bias", {in});
      result.buffers.emplace_back(name + ".running_mean", std::vector<std::int64_t>{in});
      result.buffers.emplace_back(name + ".running_var", std::vector<std::int64_t>{in});
      result.buffers.emplace_back(name + ".num_batches_tracked", std::vector<std::int64_t>{});
      continue;
    }
    parameter(".weight", kind.starts_with("linear") ? std::vector{out, in} : std::vector{out, in, size, size});
    if (!kind.ends_with('-')) parameter(".bias", {out});
  }
  return result;
}

/// A VGG's convolutions, a number of channels each, 0 for a pooling; a ReLU follows each.
inline std::string vgg_features(const std::vector<int>& channels) {
  std::ostringstream lines;
  int layer = 0, in = 3;
  for (const int out : channels) {
    if (out > 0) lines << "conv features." << layer << " " << std::exchange(in, out) << " " << out << " 3\n";
    layer += out > 0 ? 2 : 1;
  }
  return lines.str();
}
inline const std::vector<int> vgg16_channels = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                                0,  512, 512, 512, 0,   512, 512, 512, 0};
inline const std::vector<int> vgg19_channels = {64,  64,  0,   128, 128, 0,   256, 256, 256, 256, 0,
                                                512, 512, 512, 512, 0,   512, 512, 512, 512, 0};
inline const std::string published_vgg_end =
    "linear classifier.0 25088 4096\nlinear classifier.3 4096 4096\nlinear classifier.6 4096 1000";

/// A ResNet of bottlenecks; first: the size of its first convolution.
inline std::string bottlenecks(int first, const std::vector<int>& blocks, int classes) {
  std::ostringstream lines;
  lines << "conv- conv1 3 64 " << first << "\nbn bn1 64\n";
  int in = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const int width = 64 << stage, out = 4 * width;
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      lines << "conv- " << name << "conv1 " << in << " " << width << " 1\nbn " << name << "bn1 " << width << "\n";
      lines << "conv- " << name << "conv2 " << width << " " << width << " 3\nbn " << name << "bn2 " << width << "\n";
      lines << "conv- " << name << "conv3 " << width << " " << out << " 1\nbn " << name << "bn3 " << out << "\n";
      if (block == 0)
        lines << "conv- " << name << "downsample.0 " << in << " " << out << " 1\nbn " << name << "downsample.1 " << out
              << "\n";
      in = out;
    }
  }
  lines << "linear fc " << in << " " << classes;
  return lines.str();
}

inline const std::vector<std::pair<std::string, std::string>> expected_layers = {
    {"mnist-cnn", R"(
conv features.0 1 32 3
conv features.3 32 128 3
conv features.6 128 256 3
linear classifier.1 256 1000
linear classifier.3 1000 100
linear classifier.5 100 10)"},
    {"mnist-3conv", R"(
conv features.0 1 16 5
conv features.2 16 32 3
conv features.4 32 64 3
linear classifier.0 576 64
linear classifier.2 64 10)"},
    {"vgg11", R"(
conv features.0 3 64 3
conv features.3 64 128 3
conv features.6 128 256 3
conv features.8 256 256 3
conv features.11 256 512 3
conv features.13 512 512 3
conv features.16 512 512 3
conv features.18 512 512 3
linear classifier 512 10)"},
    {"vgg11-bn", R"(
conv features.0 3 64 3
bn features.1 64
conv features.4 64 128 3
bn features.5 128
conv features.8 128 256 3
bn features.9 256
conv features.11 256 256 3
bn features.12 256
conv features.15 256 512 3
bn features.16 512
conv features.18 512 512 3
bn features.19 512
conv features.22 512 512 3
bn features.23 512
conv features.25 512 512 3
bn features.26 512
linear classifier 512 10)"},
    {"vgg16", vgg_features(vgg16_channels) + "linear classifier 512 10"},
    {"vgg16-imagenet", vgg_features(vgg16_channels) + published_vgg_end},
    {"vgg19", vgg_features(vgg19_channels) + "linear classifier 512 10"},
    {"vgg19-imagenet", vgg_features(vgg19_channels) + published_vgg_end},
    {"resnet18", R"(
conv- conv1 3 64 3
bn bn1 64
conv- layer1.0.conv1 64 64 3
bn layer1.0.bn1 64
conv- layer1.0.conv2 64 64 3
bn layer1.0.bn2 64
conv- layer1.1.conv1 64 64 3
bn layer1.1.bn1 64
conv- layer1.1.conv2 64 64 3
bn layer1.1.bn2 64
conv- layer2.0.conv1 64 128 3
bn layer2.0.bn1 128
conv- layer2.0.conv2 128 128 3
bn layer2.0.bn2 128
conv- layer2.0.downsample.0 64 128 1
bn layer2.0.downsample.1 128
conv- layer2.1.conv1 128 128 3
bn layer2.1.bn1 128
conv- layer2.1.conv2 128 128 3
bn layer2.1.bn2 128
conv- layer3.0.conv1 128 256 3
bn layer3.0.bn1 256
conv- layer3.0.conv2 256 256 3
bn layer3.0.bn2 256
conv- layer3.0.downsample.0 128 256 1
bn layer3.0.downsample.1 256
conv- layer3.1.conv1 256 256 3
bn layer3.1.bn1 256
conv- layer3.1.conv2 256 256 3
bn layer3.1.bn2 256
conv- layer4.0.conv1 256 512 3
bn layer4.0.bn1 512
conv- layer4.0.conv2 512 512 3
bn layer4.0.bn2 512
conv- layer4.0.downsample.0 256 512 1
bn layer4.0.downsample.1 512
conv- layer4.1.conv1 512 512 3
bn layer4.1.bn1 512
conv- layer4.1.conv2 512 512 3
bn layer4.1.bn2 512
linear fc 512 10)"},
    {"resnet50", bottlenecks(3, {3, 4, 6, 3}, 10)},
    {"resnet50-imagenet", bottlenecks(7, {3, 4, 6, 3}, 1000)},
    {"resnet152", bottlenecks(3, {3, 8, 36, 3}, 10)},
    {"resnet152-imagenet", bottlenecks(7, {3, 8, 36, 3}, 1000)},
    {"alexnet", R"(
conv features.0 3 64 3
conv features.3 64 192 3
conv features.6 192 384 3
conv features.8 384 256 3
conv features.10 256 256 3
linear classifier.1 1024 4096
linear classifier.4 4096 4096
linear classifier.6 4096 10)"},
    {"alexnet-imagenet", R"(
conv features.0 3 64 11
conv features.3 64 192 5
conv features.6 192 384 3
conv features.8 384 256 3
conv features.10 256 256 3
linear classifier.1 9216 4096
linear classifier.4 4096 4096
linear classifier.6 4096 1000)"},
    {"airbench", R"(
conv whiten 3 24 2
conv- block1.conv1 24 64 3
bn block1.norm1 64
conv- block1.conv2 64 64 3
bn block1.norm2 64
conv- block2.conv1 64 256 3
bn block2.norm1 256
conv- block2.conv2 256 256 3
bn block2.norm2 256
conv- block3.conv1 256 256 3
bn block3.norm1 256
conv- block3.conv2 256 256 3
bn block3.norm2 256
linear- head 256 10)"}};

}  // namespace ripieno::model
