// Where a model's gradients are exchanged: in buckets, one block of memory each, of one type and device, in memory that
// peers on the host read in place. A gradient's place in its bucket has the strides of its parameter.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "ripieno/c10d/backend.h"

namespace ripieno::loop {

struct NamedParameter {
  std::string name;
  torch::Tensor tensor;
};

class GradientBuckets {
 public:
  struct Bucket {
    torch::Tensor numbers;             ///< of one dimension
    std::vector<std::size_t> members;  ///< parameters, one after the other
    std::uint64_t code = 0;            ///< of their names
  };

  GradientBuckets() = default;
  /// `order`: the parameters that are trained, in the order in which their gradients are expected. A bucket takes them
  /// until it has at least `bytes`; the first one until it has 1 MiB, so that an exchange begins early.
  GradientBuckets(const std::vector<NamedParameter>& parameters, const std::vector<std::size_t>& order,
                  std::size_t bytes, c10d::Backend& group);

  /// In the order in which their last gradients are expected.
  const std::vector<Bucket>& all() const { return buckets_; }
  /// An alias, which an optimiser's zero_grad() may detach. Undefined for a parameter that is not trained.
  const torch::Tensor& place(std::size_t parameter) const { return places_[parameter]; }
  std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }
  /// The gradients of a bucket, as parts of its numbers.
  std::vector<torch::Tensor> gradients(std::size_t bucket) const;

 private:
  void fill(const std::vector<NamedParameter>& parameters, std::size_t bucket, c10d::Backend& group);

  std::vector<Bucket> buckets_;
  std::vector<torch::Tensor> places_;  // by parameter
  std::vector<std::size_t> bucket_of_;
};

}  // namespace ripieno::loop
