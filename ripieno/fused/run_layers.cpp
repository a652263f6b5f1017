#include "ripieno/fused/run_layers.h"

#include "ripieno/fused/memory_format.h"
#include "ripieno/fused/operations.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;

template <class Kind>
Kind* as(const std::vector<std::shared_ptr<torch::nn::Module>>& layers, std::size_t i) {
  return i < layers.size() ? layers[i]->as<Kind>() : nullptr;
}

/// A convolution as convolution_operation computes it.
bool is_known(const torch::nn::Conv2dImpl& layer) {
  const auto& o = layer.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&o.padding());
  const auto square = [](const torch::ExpandingArray<2>& pair) { return (*pair)[0] == (*pair)[1]; };
  return padding && square(*padding) && square(o.stride()) && (*o.dilation())[0] == 1 && (*o.dilation())[1] == 1 &&
         o.groups() == 1 && std::holds_alternative<torch::enumtype::kZeros>(o.padding_mode()) &&
         layer.weight.scalar_type() == torch::kFloat32 && layer.weight.suggest_memory_format() == channels_last;
}

/// 2 x 2, stride 2, rounding down.
bool is_known(const torch::nn::MaxPool2dImpl& layer) {
  const auto& o = layer.options;
  const auto all = [](const torch::ExpandingArray<2>& pair, std::int64_t value) {
    return (*pair)[0] == value && (*pair)[1] == value;
  };
  return all(o.kernel_size(), 2) && all(o.stride(), 2) && all(o.padding(), 0) && all(o.dilation(), 1) && !o.ceil_mode();
}

/// A batch normalisation as batch_norm_operation computes it.
bool is_known(const torch::nn::BatchNorm2dImpl& layer) {
  return layer.is_training() && layer.options.affine() && layer.options.track_running_stats() &&
         layer.options.momentum().has_value() && layer.weight.scalar_type() == torch::kFloat32;
}

/// Whether a tensor is stored channels-last; one channel or one pixel leaves that open.
bool is_channels_last(const Tensor& x) { return x.dim() == 4 && x.suggest_memory_format() == channels_last; }

/// Whether x is part of a computation that the kernels here support.
bool is_known(const Tensor& x) {
  const auto type = compute_type();
  return x.is_cpu() && (type == torch::kFloat32 || type == torch::kBFloat16) &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16);
}

/// Whether the layer is computed here, and fits x; what does not fit, LibTorch's layer refuses with its own words.
bool is_known(const torch::nn::Conv2dImpl& layer, const Tensor& x) {
  return x.dim() == 4 && x.size(1) == layer.weight.size(1) && is_known(layer);
}
bool is_known(const torch::nn::BatchNorm2dImpl& layer, const Tensor& x) {
  const bool has_variance = is_channels_last(x) && x.numel() > x.size(1);
  return has_variance && x.size(1) == layer.weight.size(0) && is_known(layer);
}

/// Whether x is part of a computation in fp16 on a CPU, of which only convolutions are computed here.
bool is_in_fp16(const Tensor& x) { return x.is_cpu() && compute_type() == torch::kFloat16; }

Tensor convolve_fused(torch::nn::Conv2dImpl& layer, const Tensor& x, bool relu, bool pool) {
  const auto& o = layer.options;
  const std::int64_t padding = (*std::get<torch::ExpandingArray<2>>(o.padding()))[0];
  const MaybeTensor bias = layer.bias.defined() ? MaybeTensor(layer.bias) : std::nullopt;
  return convolution_operation(x, layer.weight, bias, {(*o.stride())[0], padding, relu, pool});
}

Tensor normalise(torch::nn::BatchNorm2dImpl& layer, const Tensor& x, const Tensor& more, bool relu) {
  if (layer.num_batches_tracked.scalar_type() == torch::kInt64) {
    *layer.num_batches_tracked.data_ptr<std::int64_t>() += 1;  // an operator would cost more than everything else here
  } else {                                                     // Module::to(dtype) converts it too
    layer.num_batches_tracked.add_(1);
  }
  const BatchNormForm form{layer.running_mean, layer.running_var, *layer.options.momentum(), layer.options.eps(), relu};
  return batch_norm_operation(x, layer.weight, layer.bias, more.defined() ? MaybeTensor(more) : std::nullopt, form);
}

Tensor run_in_fp16(torch::nn::Sequential& sequence, Tensor x) {
  for (torch::nn::AnyModule& layer : *sequence) {
    auto* convolution = layer.ptr()->as<torch::nn::Conv2dImpl>();
    const bool is_convolution = convolution && is_known(*convolution, x);
    x = is_convolution ? convolve_fused(*convolution, x, false, false) : layer.forward<Tensor>(x);
  }
  return x;
}

}  // namespace

Tensor run_layers(torch::nn::BatchNorm2d& layer, Tensor x, Tensor more) {
  if (is_known(x) && is_known(*layer, x)) return normalise(*layer, x, more, true);
  Tensor y = layer->forward(x);
  if (more.defined()) y += more;
  return y.relu_();
}

Tensor run_layers(torch::nn::Conv2d& layer, Tensor x, bool pool) {
  const bool is_convolution = is_known(*layer, x);
  if (is_known(x) && is_convolution) return convolve_fused(*layer, x, false, pool);
  const Tensor y = is_in_fp16(x) && is_convolution ? convolve_fused(*layer, x, false, false) : layer->forward(x);
  return pool ? torch::max_pool2d(y, 2) : y;
}

Tensor run_layers(torch::nn::Sequential& sequence, Tensor x) {
  if (is_in_fp16(x)) return run_in_fp16(sequence, x);
  if (!is_known(x)) return sequence->forward(x);
  const auto layers = sequence->children();
  std::size_t at = 0;
  for (auto layer = sequence->begin(); layer != sequence->end();) {
    std::size_t taken = 1;
    const bool relu = as<torch::nn::ReLUImpl>(layers, at + 1);
    if (auto* convolution = as<torch::nn::Conv2dImpl>(layers, at); convolution && is_known(*convolution, x)) {
      const auto* pooling = relu ? as<torch::nn::MaxPool2dImpl>(layers, at + 2) : nullptr;
      const bool pool = pooling && is_known(*pooling);
      x = convolve_fused(*convolution, x, relu, pool);
      taken += relu + pool;
    } else if (auto* norm = as<torch::nn::BatchNorm2dImpl>(layers, at); norm && is_known(*norm, x)) {
      const auto* pooling = relu ? as<torch::nn::MaxPool2dImpl>(layers, at + 2) : nullptr;
      const bool pool = pooling && is_known(*pooling);
      x = normalise(*norm, x, {}, relu && !pool);
      if (pool) x = relu_max_pool_operation(x);
      taken += relu + pool;
    } else if (auto* linear = as<torch::nn::LinearImpl>(layers, at);
               linear && x.dim() == 2 && linear->bias.defined() && linear->weight.scalar_type() == torch::kFloat32) {
      x = linear_operation(x, linear->weight, linear->bias, relu);
      taken += relu;
    } else {
      x = layer->forward<Tensor>(x);
    }
    at += taken;
    layer += static_cast<std::ptrdiff_t>(taken);
  }
  return x;
}

}  // namespace ripieno::fused
