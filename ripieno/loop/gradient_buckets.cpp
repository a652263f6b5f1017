#include "ripieno/loop/gradient_buckets.h"

#include <map>

#include "ripieno/core/hash.h"
#include "ripieno/train/flat_tensor.h"

namespace ripieno::loop {
namespace {

constexpr std::size_t first_bytes = 1 << 20;

/// Strides that leave no gaps: those of the parameter where it has none.
std::vector<std::int64_t> dense_strides(const torch::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() ? parameter.strides().vec()
                                                  : torch::empty_like(parameter).strides().vec();
}

}  // namespace

GradientBuckets::GradientBuckets(const std::vector<NamedParameter>& parameters, const std::vector<std::size_t>& order,
                                 std::size_t bytes, c10d::Backend& group)
    : places_(parameters.size()), bucket_of_(parameters.size()) {
  struct Open {
    Bucket bucket;
    std::size_t bytes = 0;
  };
  std::map<std::pair<torch::ScalarType, std::string>, Open> open;  // by type and device
  const auto close = [&](Open& one) {
    buckets_.push_back(std::move(one.bucket));
    one = {};
  };
  for (const std::size_t parameter : order) {
    const torch::Tensor& tensor = parameters[parameter].tensor;
    Open& one = open[{tensor.scalar_type(), tensor.device().str()}];
    one.bucket.members.push_back(parameter);
    one.bytes += tensor.nbytes();
    if (one.bytes >= (buckets_.empty() ? std::min(first_bytes, bytes) : bytes)) close(one);
  }
  for (auto& [kind, one] : open) {
    if (!one.bucket.members.empty()) close(one);
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) fill(parameters, bucket, group);
}

void GradientBuckets::fill(const std::vector<NamedParameter>& parameters, std::size_t bucket, c10d::Backend& group) {
  Bucket& one = buckets_[bucket];
  std::int64_t elements = 0;
  for (const std::size_t parameter : one.members) elements += parameters[parameter].tensor.numel();
  const torch::TensorOptions kind = parameters[one.members[0]].tensor.options().requires_grad(false);
  one.numbers = kind.device().is_cpu() ? group.allocateTensor(elements, kind) : torch::empty({elements}, kind);
  std::int64_t offset = 0;
  for (const std::size_t parameter : one.members) {
    const torch::Tensor& tensor = parameters[parameter].tensor;
    one.code = one.code * 0x9E3779B97F4A7C15ull + hash(parameters[parameter].name);
    const torch::Tensor part = one.numbers.as_strided(tensor.sizes(), dense_strides(tensor), offset);
    places_[parameter] = train::alias_of(part);
    bucket_of_[parameter] = bucket;
    offset += tensor.numel();
  }
}

std::vector<torch::Tensor> GradientBuckets::gradients(std::size_t bucket) const {
  std::vector<torch::Tensor> all;
  for (const std::size_t parameter : buckets_[bucket].members) all.push_back(places_[parameter]);
  return all;
}

}  // namespace ripieno::loop
