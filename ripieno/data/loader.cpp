#include "ripieno/data/loader.h"

#include <utility>

#include "ripieno/core/error.h"

namespace ripieno::data {
namespace {

constexpr std::uint64_t for_augmentation =
    0x6175676D656E74;  // "augment": separates these draws from the sampler's, which may have the same seed

}  // namespace

Loader::Loader(std::shared_ptr<Dataset> dataset, Sampler sampler, AugmentOptions augmentation,
               Normalisation normalisation, std::uint64_t seed)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      augmentation_(augmentation),
      normalisation_(normalisation),
      seed_(seed),
      image_(dataset_->shape().pixels()) {
  require(sampler_.total() <= dataset_->size(), "a sampler over ", sampler_.total(), " samples for a data set of ",
          dataset_->size());
}

Batch Loader::empty_batch(std::size_t samples, Batch memory) const {
  memory.pixels.resize(samples * image_.size());
  memory.labels.resize(samples);
  return memory;
}

Batch Loader::load(std::uint32_t epoch, std::uint32_t step, Batch memory) {
  const SampleBatch chosen = sampler_.batch(epoch, step);
  Batch batch = empty_batch(chosen.indices.size(), std::move(memory));
  batch.global_count = chosen.global_count;
  const ImageShape shape = dataset_->shape();
  const std::uint64_t key = Random(seed_ ^ for_augmentation, epoch).next();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch.labels[i] = dataset_->read(chosen.indices[i], image_);
    Random random(key, chosen.indices[i]);
    augment(image_, shape, augmentation_, normalisation_, random,
            std::span(batch.pixels).subspan(i * image_.size(), image_.size()),
            decided_flip(augmentation_, seed_, epoch, chosen.indices[i]));
  }
  return batch;
}

Batch Loader::load_range(std::uint32_t begin, std::uint32_t end) {
  require(begin <= end && end <= dataset_->size(), "samples [", begin, ", ", end, ") of a data set of ",
          dataset_->size());
  Batch batch = empty_batch(end - begin);
  batch.global_count = end - begin;
  const Normalisation used = normalisation_for(augmentation_.pixels, normalisation_);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch.labels[i] = dataset_->read(begin + static_cast<std::uint32_t>(i), image_);
    normalise(image_, dataset_->shape(), used, std::span(batch.pixels).subspan(i * image_.size(), image_.size()));
  }
  return batch;
}

}  // namespace ripieno::data
