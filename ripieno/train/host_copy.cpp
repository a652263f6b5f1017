#include "ripieno/train/host_copy.h"

#include "ripieno/train/flat_tensor.h"

namespace ripieno::train {
namespace {

FlatBlocks cut(const FlatBlocks& blocks, const Range& range) {
  const auto of = [&](const torch::Tensor& all) {
    return all.narrow(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end - range.begin));
  };
  return {of(blocks.parameters), of(blocks.gradients), {}, {}};
}

}  // namespace

HostCopy::HostCopy(const FlatModel& model, const Memory& memory)
    : type_(model.layout().type), device_(model.blocks()), host_(model.blocks()) {
  if (model.device().is_cpu()) return;
  const torch::NoGradGuard no_grad;
  for (const auto part : {&FlatBlocks::parameters, &FlatBlocks::gradients, &FlatBlocks::buffers, &FlatBlocks::frozen}) {
    const torch::Tensor& there = device_.*part;
    host_.*part = flat_tensor(there.numel(), there.options().device(torch::kCPU), memory);
    (host_.*part).copy_(there);
  }
  for (const Range& bucket : model.layout().buckets) {
    device_buckets_.push_back(cut(device_, bucket));
    host_buckets_.push_back(cut(host_, bucket));
  }
}

NumberSpan HostCopy::parameters() const { return span_of(host_.parameters, type_); }
NumberSpan HostCopy::gradients() const { return span_of(host_.gradients, type_); }
NumberSpan HostCopy::buffers() const { return span_of(host_.buffers, type_); }
NumberSpan HostCopy::frozen() const { return span_of(host_.frozen, type_); }

void HostCopy::cross(const torch::Tensor& to, const torch::Tensor& from) const {
  if (is_the_models()) return;
  const torch::NoGradGuard no_grad;
  to.copy_(from);
}

void HostCopy::parameters_to_device() { cross(device_.parameters, host_.parameters); }
void HostCopy::parameters_to_device(std::size_t bucket) {
  if (!is_the_models()) cross(device_buckets_[bucket].parameters, host_buckets_[bucket].parameters);
}
void HostCopy::buffers_to_device() {
  cross(device_.frozen, host_.frozen);
  cross(device_.buffers, host_.buffers);
}
void HostCopy::state_to_device() {
  parameters_to_device();
  buffers_to_device();
}
void HostCopy::gradients_to_device() { cross(device_.gradients, host_.gradients); }
void HostCopy::parameters_to_host() { cross(host_.parameters, device_.parameters); }
void HostCopy::buffers_to_host() { cross(host_.buffers, device_.buffers); }
void HostCopy::gradients_to_host(std::size_t bucket) {
  if (!is_the_models()) cross(host_buckets_[bucket].gradients, device_buckets_[bucket].gradients);
}

}  // namespace ripieno::train
