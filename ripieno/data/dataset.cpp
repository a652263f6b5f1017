#include "ripieno/data/dataset.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ripieno/core/edit_distance.h"
#include "ripieno/core/error.h"
#include "ripieno/data/cifar10.h"
#include "ripieno/data/digits.h"
#include "ripieno/data/mnist.h"
#include "ripieno/data/shapes.h"

namespace ripieno::data {
namespace {

// clang-format off
constexpr DatasetInfo table[] = {
    {"mnist", "MNIST, handwritten digits", mnist_shape, 10, 60000, 10000, false,
     {{0.1307f}, {0.3081f}}, open_mnist},
    {"cifar10", "CIFAR-10, tiny photographs", cifar10_shape, 10, 50000, 10000, false,
     {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}}, open_cifar10},
    {"digits", "generated digits, drawn as strokes", digits_shape, 10, digits_train, digits_test, true,
     {{0.205f}, {0.213f}}, open_digits},
    {"shapes", "generated coloured shapes", shapes_shape, 10, shapes_train, shapes_test, true,
     {{0.405f, 0.405f, 0.405f}, {0.255f, 0.255f, 0.255f}}, open_shapes},
};
// clang-format on

}  // namespace

const char* name(Split split) { return split == Split::train ? "train" : "test"; }

int Dataset::label(std::uint32_t index) {
  std::vector<std::uint8_t> pixels(shape().pixels());
  return read(index, pixels);
}

void Dataset::require_sample(std::uint32_t index, std::span<const std::uint8_t> pixels) const {
  require(index < size(), "sample ", index, " of a data set of ", size());
  require(pixels.size() == shape().pixels(), "a buffer of ", pixels.size(), " bytes for an image of ",
          shape().pixels());
}

std::span<const DatasetInfo> datasets() { return table; }

const DatasetInfo& find_dataset(std::string_view name) { return find_named(table, name, "data set"); }

std::unique_ptr<Dataset> open_dataset(std::string_view name, Split split, const DataOptions& options) {
  return find_dataset(name).open(split, options);
}

std::uint32_t limit_samples(const char* dataset, Split split, const DataOptions& options, std::uint32_t available) {
  const std::uint32_t wanted = options.samples(split);
  if (wanted > available) {
    fail(ErrorKind::usage, dataset, ": ", name(split), "_samples asks for ", wanted, " samples, and there are ",
         available, "; ask for fewer, or for 0 (all)");
  }
  return wanted == 0 ? available : wanted;
}

}  // namespace ripieno::data
