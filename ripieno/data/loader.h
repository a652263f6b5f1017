// A worker's batches: chosen by the sampler, read from the data set and augmented, as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ripieno/data/augment.h"
#include "ripieno/data/dataset.h"
#include "ripieno/data/sampler.h"

namespace ripieno::data {

struct Batch {
  std::vector<float> pixels;         ///< size() x channels x height x width
  std::vector<std::int64_t> labels;  ///< 0 .. classes-1
  std::uint32_t global_count = 0;    ///< samples of all workers in this step (shards, load_range: of this one)
  std::size_t size() const { return labels.size(); }
};

class Loader {
 public:
  /// The sampler must not cover more samples than the data set has. `seed` is for augmentation; the sampler has its
  /// own.
  Loader(std::shared_ptr<Dataset> dataset, Sampler sampler, AugmentOptions augmentation, Normalisation normalisation,
         std::uint64_t seed);

  const Dataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return sampler_; }
  /// Steps per epoch.
  std::uint32_t steps() const { return sampler_.steps(); }
  /// This worker's part of a step's batch. A sample's augmentation depends on (seed, epoch, sample) only, so the pixels
  /// do not depend on the number of workers. `memory`: a used batch, whose memory is reused. Throws what Dataset::read
  /// throws.
  Batch load(std::uint32_t epoch, std::uint32_t step, Batch memory = {});
  /// Samples [begin, end) in the data set's order, without crop or flip: for evaluation, with share().
  Batch load_range(std::uint32_t begin, std::uint32_t end);

 private:
  Batch empty_batch(std::size_t samples, Batch memory = {}) const;

  std::shared_ptr<Dataset> dataset_;
  Sampler sampler_;
  AugmentOptions augmentation_;
  Normalisation normalisation_;
  std::uint64_t seed_;
  std::vector<std::uint8_t> image_;  // one sample as read
};

}  // namespace ripieno::data
