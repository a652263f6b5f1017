#include "ripieno/data/loader.h"

#include <numeric>

#include "files.h"

namespace ripieno::data {
namespace {

const Normalisation shapes_normalisation = find_dataset("shapes").normalisation;

Loader loader(std::uint32_t samples, std::uint32_t batch, int worker, int workers, AugmentOptions augmentation,
              std::uint64_t seed = 11) {
  std::shared_ptr<Dataset> set = open_dataset("shapes", Split::train, {.train_samples = samples});
  Sampler sampler(samples, {.seed = 4, .worker = worker, .workers = workers, .batch = batch});
  return {set, sampler, augmentation, shapes_normalisation, seed};
}

TEST(Loader, WorkersTogetherSeeThePixelsThatOneWouldSee) {
  const AugmentOptions augmentation = {.crop_padding = 4, .flip = true};
  for (const int workers : {1, 2, 3, 5}) {
    Loader one = loader(23, 10, 0, 1, augmentation);
    std::vector<Loader> all;
    for (int w = 0; w < workers; ++w) all.push_back(loader(23, 10, w, workers, augmentation));
    ASSERT_EQ(one.steps(), 3u);
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      for (std::uint32_t step = 0; step < one.steps(); ++step) {
        const Batch whole = one.load(epoch, step);
        EXPECT_EQ(whole.size(), step < 2 ? 10u : 3u);
        Batch joined;
        for (Loader& worker : all) {
          const Batch part = worker.load(epoch, step);
          EXPECT_EQ(part.global_count, whole.size());
          EXPECT_EQ(part.pixels.size(), part.size() * 3072);
          joined.pixels.insert(joined.pixels.end(), part.pixels.begin(), part.pixels.end());
          joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
        }
        EXPECT_TRUE(joined.pixels == whole.pixels) << workers << " workers, step " << step;
        EXPECT_EQ(joined.labels, whole.labels);
      }
    }
  }
}

TEST(Loader, AugmentsAnewEachEpochAndBySeed) {
  const AugmentOptions crop = {.crop_padding = 4};
  // The whole set is one batch in the data set's order, so that only augmentation differs.
  const auto batch = [&](std::uint64_t seed, std::uint32_t epoch) {
    std::shared_ptr<Dataset> set = open_dataset("shapes", Split::train, {.train_samples = 20});
    return Loader(set, Sampler(20, {.batch = 20, .shuffle = false}), crop, shapes_normalisation, seed)
        .load(epoch, 0)
        .pixels;
  };
  EXPECT_TRUE(batch(1, 0) == batch(1, 0));
  EXPECT_FALSE(batch(1, 0) == batch(1, 1));
  EXPECT_FALSE(batch(1, 0) == batch(2, 0));
}

TEST(Loader, RangesAreOnlyNormalised) {
  Loader augmenting = loader(20, 4, 0, 1, {.crop_padding = 4, .flip = true});
  const Batch batch = augmenting.load_range(5, 9);
  ASSERT_EQ(batch.size(), 4u);
  EXPECT_EQ(batch.global_count, 4u);
  const auto set = open_dataset("shapes", Split::train, {.train_samples = 20});
  std::vector<std::uint8_t> image(3072);
  std::vector<float> expected(3072);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch.labels[i], set->read(5 + i, image));
    normalise(image, set->shape(), shapes_normalisation, expected);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.pixels.begin() + 3072 * i));
  }
  EXPECT_EQ(augmenting.load_range(20, 20).size(), 0u);
  expect_error(ErrorKind::internal, {"[5, 21)", "20"}, [&] { augmenting.load_range(5, 21); });
}

TEST(Loader, AWorkerReadsOnlyItsOwnSamples) {
  TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) write(folder.path() / text("data_batch_", i, ".bin"), cifar_records(0, 5));
  std::uint64_t all = 0;
  for (int w = 0; w < 3; ++w) {
    std::shared_ptr<Dataset> set = open_dataset("cifar10", Split::train, {.folder = folder.path()});
    Loader worker(set, Sampler(25, {.worker = w, .workers = 3, .batch = 9}), {}, shapes_normalisation, 1);
    std::uint64_t samples = 0;
    for (std::uint32_t step = 0; step < worker.steps(); ++step) samples += worker.load(0, step).size();
    EXPECT_EQ(worker.dataset().bytes_read(), samples * 3073);
    all += samples;
  }
  EXPECT_EQ(all, 25u);
}

TEST(Loader, RefusesASamplerOverMoreSamplesThanThereAre) {
  std::shared_ptr<Dataset> set = open_dataset("shapes", Split::train, {.train_samples = 20});
  expect_error(ErrorKind::internal, {"21", "20"},
               [&] { Loader(set, Sampler(21, {.batch = 4}), {}, shapes_normalisation, 1); });
}

}  // namespace
}  // namespace ripieno::data
