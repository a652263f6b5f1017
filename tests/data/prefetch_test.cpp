#include "ripieno/data/prefetch.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"
namespace ripieno::data {
namespace {

Loader loader(std::uint32_t samples = 100) {
  DataOptions options;
  options.train_samples = samples;
  std::shared_ptr<Dataset> data = open_dataset("digits", Split::train, options);
  SamplerOptions sampling;
  sampling.batch = 32;
  return Loader(data, Sampler(data->size(), sampling), {.crop_padding = 2, .flip = true}, {}, 7);
}

TEST(Prefetch, GivesTheLoadersBatches) {
  Loader ahead = loader(), plain = loader();
  Prefetch prefetch(ahead);
  // In order, on to the next epoch, again, back, and with batches left out.
  for (const BatchId id :
       std::vector<BatchId>{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 0}, {1, 1}, {0, 2}, {2, 3}, {2, 0}}) {
    Batch found = prefetch.take(id);
    const Batch expected = plain.load(id.epoch, id.step);
    EXPECT_EQ(found.pixels, expected.pixels) << id.epoch << " " << id.step;
    EXPECT_EQ(found.labels, expected.labels) << id.epoch << " " << id.step;
    EXPECT_EQ(found.global_count, expected.global_count);
    prefetch.give_back(std::move(found));
  }
}

/// Ends early.
struct Broken : Dataset {
  ImageShape shape() const override { return {1, 2, 2}; }
  int classes() const override { return 2; }
  std::uint32_t size() const override { return 8; }
  int read(std::uint32_t index, std::span<std::uint8_t>) override {
    if (index >= 4) fail(ErrorKind::data, "sample ", index, " is missing");
    bytes += 4;
    return 0;
  }
  std::uint64_t bytes_read() const override { return bytes; }
  std::uint64_t bytes = 100;
};

TEST(Prefetch, ThrowsWhatTheLoaderThrowsAndCountsWhatWasTaken) {
  SamplerOptions sampling;
  sampling.batch = 2;
  sampling.shuffle = false;
  Loader broken(std::make_shared<Broken>(), Sampler(8, sampling), {}, {}, 0);
  Prefetch prefetch(broken);
  EXPECT_EQ(prefetch.bytes_read(), 100u);
  prefetch.take({0, 0});
  EXPECT_EQ(prefetch.bytes_read(), 108u) << "the batch that was begun on is not counted";
  prefetch.take({0, 1});
  EXPECT_THROW(prefetch.take({0, 2}), Error);
  EXPECT_EQ(prefetch.take({0, 0}).size(), 2u) << "it goes on after an error";
}

}  // namespace
}  // namespace ripieno::data
