#include "ripieno/data/dataset.h"

#include <cmath>

#include "files.h"

namespace ripieno::data {
namespace {

TEST(Datasets, NamesAreFoundAndTheNearestIsSuggested) {
  std::vector<std::string> names;
  for (const DatasetInfo& info : datasets()) {
    names.push_back(info.name);
    EXPECT_EQ(&find_dataset(info.name), &info);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"mnist", "cifar10", "digits", "shapes"}));
  expect_error(ErrorKind::usage, {"\"cifar-10\"", "did you mean \"cifar10\"?", "mnist, cifar10, digits, shapes"},
               [] { find_dataset("cifar-10"); });
  expect_error(ErrorKind::usage, {"did you mean \"digits\"?"}, [] { open_dataset("digit", Split::train, {}); });
  try {
    find_dataset("imagenet");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("did you mean"), std::string::npos) << error.what();
  }
}

std::uint64_t hash_of(const char* name, Split split, std::uint64_t seed) {
  const auto set = open_dataset(name, split, {.seed = seed});
  std::vector<std::uint8_t> pixels(set->shape().pixels());
  Hash hash;
  for (std::uint32_t i = 0; i < 200; ++i) {
    hash.add(static_cast<std::uint8_t>(set->read(i, pixels)));
    for (const std::uint8_t pixel : pixels) hash.add(pixel);
  }
  return hash.value();
}

// Another value means another data set under the same name: accuracies before and after do not compare.
TEST(Generated, AreTheSameOnEveryMachine) {
  EXPECT_EQ(hash_of("digits", Split::train, 0), 2766485221460532987u);
  EXPECT_EQ(hash_of("digits", Split::test, 7), 4182199532081307705u);
  EXPECT_EQ(hash_of("shapes", Split::train, 0), 4552543131994669394u);
  EXPECT_EQ(hash_of("shapes", Split::test, 7), 16513405742424959194u);
}

class EachGenerated : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Generated, EachGenerated, testing::Values("digits", "shapes"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EachGenerated, SplitsAndSeedsDiffer) {
  EXPECT_NE(hash_of(GetParam(), Split::train, 0), hash_of(GetParam(), Split::test, 0));
  EXPECT_NE(hash_of(GetParam(), Split::train, 0), hash_of(GetParam(), Split::train, 1));
}

TEST_P(EachGenerated, HasTheTablesSizeUnlessAnotherIsAskedFor) {
  const DatasetInfo& info = find_dataset(GetParam());
  EXPECT_EQ(open_dataset(info.name, Split::train, {})->size(), info.train);
  EXPECT_EQ(open_dataset(info.name, Split::test, {})->size(), info.test);
  const auto large = open_dataset(info.name, Split::train, {.train_samples = 10'000'000u, .test_samples = 3});
  EXPECT_EQ(large->size(), 10'000'000u);
  EXPECT_EQ(open_dataset(info.name, Split::test, {.test_samples = 3})->size(), 3u);
  EXPECT_THROW(open_dataset(info.name, Split::train, {.train_samples = 10'000'001u}), Error) << "absurd";
  EXPECT_EQ(large->shape(), info.shape);
  EXPECT_EQ(large->classes(), info.classes);
  // A sample does not depend on how many there are, nor on what was read before.
  std::vector<std::uint8_t> a(info.shape.pixels()), b(info.shape.pixels());
  const int label = large->read(9'999'999u, a);
  EXPECT_GE(label, 0);
  large->read(17, a);
  EXPECT_EQ(open_dataset(info.name, Split::train, {})->read(17, b), large->read(17, a));
  EXPECT_EQ(a, b);
  EXPECT_EQ(large->bytes_read(), 0u);
}

TEST_P(EachGenerated, ClassesAreBalancedAndTheTablesNormalisationFits) {
  const DatasetInfo& info = find_dataset(GetParam());
  const auto set = open_dataset(info.name, Split::train, {});
  std::vector<int> seen(10);
  std::vector<std::uint8_t> pixels(info.shape.pixels());
  const std::size_t plane = pixels.size() / static_cast<std::size_t>(info.shape.channels);
  double sum[3] = {}, squares[3] = {};
  const std::uint32_t samples = 4000;
  for (std::uint32_t i = 0; i < samples; ++i) {
    ++seen.at(static_cast<std::size_t>(set->read(i, pixels)));
    for (std::size_t j = 0; j < pixels.size(); ++j) {
      const double value = pixels[j] / 255.0;
      sum[j / plane] += value;
      squares[j / plane] += value * value;
    }
  }
  for (const int times : seen) EXPECT_NEAR(times, 400, 100);
  for (std::size_t c = 0; c < static_cast<std::size_t>(info.shape.channels); ++c) {
    const double n = static_cast<double>(samples) * static_cast<double>(plane), mean = sum[c] / n;
    EXPECT_NEAR(mean, info.normalisation.mean[c], 0.01);
    EXPECT_NEAR(std::sqrt(squares[c] / n - mean * mean), info.normalisation.std[c], 0.01);
  }
}

}  // namespace
}  // namespace ripieno::data
