#include "ripieno/model/fused.h"

#include <ATen/autocast_mode.h>

#include <cmath>

#include "ripieno/core/kernels.h"
#include "ripieno/model/convolution.h"
#include "ripieno/model/gradient_places.h"
#include "ripieno/model/image_parts.h"

namespace ripieno {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;  // autograd takes no undefined tensor as an operation's input

constexpr auto channels_last = torch::MemoryFormat::ChannelsLast;

/// What this thread computes in: autocast's type while it is on.
torch::ScalarType compute_type() {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU) : torch::kFloat32;
}

/// Within an operation types are as it chose them.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKeySet(c10::DispatchKey::AutocastCPU)};
};

FloatSpan span_of(const Tensor& tensor) {
  const DType type = tensor.scalar_type() == torch::kBFloat16 ? DType::bf16 : DType::fp32;
  return FloatSpan(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type);
}

/// Elements of a range, or nothing of an undefined tensor.
FloatSpan part_of(const Tensor& tensor, Range range) { return tensor.defined() ? span_of(tensor).slice(range.begin, range.end) : FloatSpan(); }

Images images_of(torch::IntArrayRef sizes) {
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(sizes[i]); };
  return {size(0), size(2), size(3), size(1)};
}

bool is_shared(const Tensor& tensor) { return tensor.use_count() > 1 || tensor.storage().use_count() > 1; }

/// The gradient before a ReLU whose result is `y`; in place where nobody else sees it.
Tensor before_relu(Tensor gradient, const Tensor& y) {
  if (is_shared(gradient)) return at::threshold_backward(gradient, y, 0);
  return at::threshold_backward_out(gradient, gradient, y, 0);
}

/// A parameter as numbers of `type`, its parts brought there one after the other: use(part) may read what is there, and no other.
template <class Use>
Tensor by_parts(const Tensor& parameter, const std::vector<Tensor>& parts, torch::ScalarType type, const Use& use) {
  const bool as_it_is = parameter.scalar_type() == type;
  const auto options = torch::TensorOptions(type).memory_format(parameter.suggest_memory_format());
  const Tensor whole = as_it_is ? parameter : at::empty(parameter.sizes(), options);
  std::int64_t row = 0;
  for (const Tensor& part : parts) {
    use(as_it_is ? part : whole.narrow(0, row, part.size(0)).copy_(part));
    row += part.size(0);
  }
  return whole;
}

std::vector<std::int64_t> rows_of(const std::vector<Tensor>& parts) {
  std::vector<std::int64_t> rows;
  for (const Tensor& part : parts) rows.push_back(part.size(0));
  return rows;
}

struct Pooled {
  Tensor y, chosen;
};

Pooled relu_and_pool(const Tensor& x) {
  const Tensor in = x.contiguous(channels_last);
  const std::vector<std::int64_t> halved{in.size(0), in.size(1), in.size(2) / 2, in.size(3) / 2};
  Pooled made{at::empty(halved, in.options().memory_format(channels_last)),
              at::empty(halved, in.options().dtype(torch::kUInt8).memory_format(channels_last))};
  over_images(images_of(in.sizes()), [&](const ImagePart& some) {
    std::uint8_t* const chosen = made.chosen.data_ptr<std::uint8_t>() + some.pooled().begin;
    relu_max_pool(part_of(made.y, some.pooled()), chosen, part_of(in, some.elements()), some.images);
  });
  return made;
}

/// The gradient before them; `sizes`: of what was pooled.
Tensor before_pooling(const Tensor& gradient, const Tensor& chosen, torch::IntArrayRef sizes) {
  const Tensor out = gradient.contiguous(channels_last);
  Tensor in = at::empty(sizes, out.options().memory_format(channels_last));
  over_images(images_of(sizes), [&](const ImagePart& some) {
    const std::uint8_t* const which = chosen.data_ptr<std::uint8_t>() + some.pooled().begin;
    relu_max_pool_gradient(part_of(in, some.elements()), part_of(out, some.pooled()), which, some.images);
  });
  return in;
}

/// pool(relu(convolution(x) + bias)), the latter two where asked for; pool only after relu.
struct ConvolutionLayer : torch::autograd::Function<ConvolutionLayer> {
  struct Form {
    std::int64_t stride = 1, padding = 0;
    bool relu = false, pool = false;
  };

  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const MaybeTensor& bias, Form form) {
    const torch::ScalarType type = compute_type();
    const NoAutocast no_autocast;
    const Tensor input = x.to(type);
    const Convolution convolution{input.sizes().vec(), weight.sizes().vec(), form.stride, form.padding, type};
    Tensor read, y, chosen;
    if (const auto parts = convolution.divides() ? parts_of(weight) : std::vector<Tensor>(); !parts.empty()) {
      std::vector<Tensor> found;
      read = by_parts(weight, parts, type, [&](const Tensor& part) {
        Convolution some = convolution;
        some.weight[0] = part.size(0);
        found.push_back(convolve(some, {input, weight_for(some, part)}, Tensor()));
      });
      y = at::cat(found, 1);
      if (bias) y.add_(bias->to(type).view({1, -1, 1, 1}));
    } else {
      read = weight_for(convolution, weight.to(type));
      y = convolve(convolution, {input, read}, bias ? bias->to(type) : Tensor());
    }
    const auto sizes = y.sizes().vec();
    if (form.pool) {
      Pooled pooled = relu_and_pool(y);
      y = std::move(pooled.y);
      chosen = std::move(pooled.chosen);
    } else if (form.relu) {
      y = at::relu_(y);
    }
    context->save_for_backward({input, read, weight, form.relu && !form.pool ? y : Tensor(), chosen});
    context->saved_data["sizes"] = sizes;
    context->saved_data["form"] = std::vector<std::int64_t>{form.stride, form.padding, form.relu, bias.has_value()};
    if (bias) context->saved_data["bias"] = *bias;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &read = saved[1], &weight = saved[2], &y = saved[3], &chosen = saved[4];
    const auto form = context->saved_data["form"].toIntVector();
    Tensor gradient = std::move(gradients[0]);
    if (chosen.defined()) {
      gradient = before_pooling(gradient, chosen, context->saved_data["sizes"].toIntVector());
    } else if (form[2]) {
      gradient = before_relu(std::move(gradient), y);
    }
    const Tensor bias = form[3] ? context->saved_data["bias"].toTensor() : Tensor();
    ConvolutionGradients places{place_for_gradient(weight), form[3] ? place_for_gradient(bias) : Tensor(), [&] {
      gradient_written(weight);
      if (bias.defined()) gradient_written(bias);
    }};
    const Convolution convolution{input.sizes().vec(), weight.sizes().vec(), form[0], form[1], input.scalar_type()};
    if (convolution.divides()) {
      places.rows = rows_of(parts_of(weight));
      places.part_written = [&](std::size_t part) {
        if (part + 1 == places.rows.size() && bias.defined()) gradient_written(bias);
        gradient_part_written(weight, part);
      };
    }
    const Tensor input_gradient = ripieno::backward(convolution, {input, read}, gradient, places, context->needs_input_grad(0));
    return {input_gradient, places.weight, places.bias, Tensor()};
  }
};

/// pool(relu(x)).
struct ReluMaxPool : torch::autograd::Function<ReluMaxPool> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Pooled made = relu_and_pool(x);
    context->save_for_backward({made.chosen});
    context->saved_data["sizes"] = x.sizes().vec();
    return made.y;
  }
  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    return {before_pooling(gradients[0], context->get_saved_variables()[0], context->saved_data["sizes"].toIntVector())};
  }
};

struct NormForm {
  Tensor running_mean, running_variance;
  double momentum = 0.1, epsilon = 1e-5;
  bool relu = false;
};

/// relu(batch_norm(x) + more), the latter two where asked for, by the statistics of the batch (Ioffe and Szegedy, Batch
/// normalization, 2015).
struct BatchNorm : torch::autograd::Function<BatchNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias, const MaybeTensor& more,
                        const NormForm& form) {
    const NoAutocast no_autocast;
    const Tensor in = x.contiguous(channels_last), other = more ? more->to(in.scalar_type()).contiguous(channels_last) : Tensor();
    const Images images = images_of(in.sizes());
    const std::size_t channels = images.channels;
    const auto pixels = static_cast<double>(images.elements() / channels);
    const Tensor mean = at::empty_like(weight), spread = at::empty_like(weight);  // 1 / standard deviation
    std::vector<float> about(channels), scale(channels), offset(channels);
    convert(FloatSpan(about), span_of(in).slice(0, channels));
    // About the first pixel, so that little is lost where the mean is far from 0.
    const ChannelSums sums = sum_over_pixels(images, [&](Range some, double* sum, double* square) {
      moment_sums(part_of(in, some), channels, about.data(), sum, square);
    });
    // Parameters are taken by way of an operator, so that who watches operators (train/gate_watch.h) sees it.
    const Tensor factor = weight.detach(), summand = bias.detach();
    const float *w = factor.data_ptr<float>(), *b = summand.data_ptr<float>();
    float *m = mean.data_ptr<float>(), *s = spread.data_ptr<float>(), *running_mean = form.running_mean.data_ptr<float>(), *running_variance = form.running_variance.data_ptr<float>();
    const auto momentum = static_cast<float>(form.momentum), unbiased = static_cast<float>(pixels / std::max(1.0, pixels - 1));
    for (std::size_t c = 0; c < channels; ++c) {
      const double distance = sums.first[c] / pixels;
      const auto variance = static_cast<float>(std::max(0.0, sums.second[c] / pixels - distance * distance));
      m[c] = static_cast<float>(about[c] + distance);
      s[c] = static_cast<float>(1 / std::sqrt(variance + form.epsilon));
      scale[c] = w[c] * s[c];
      offset[c] = b[c] - m[c] * scale[c];
      running_mean[c] = (1 - momentum) * running_mean[c] + momentum * m[c];
      running_variance[c] = (1 - momentum) * running_variance[c] + momentum * variance * unbiased;
    }
    const Tensor y = at::empty_like(in);
    over_pixels(images, [&](Range some) {
      scale_channels(part_of(y, some), part_of(in, some), channels, scale.data(), offset.data(), part_of(other, some), form.relu);
    });
    context->save_for_backward({in, weight, mean, spread, form.relu ? y : Tensor()});
    context->saved_data["bias"] = bias;
    context->saved_data["more"] = more.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &in = saved[0], &weight = saved[1], &mean = saved[2], &spread = saved[3], &y = saved[4];
    const bool more = context->saved_data["more"].toBool();
    Tensor gradient = std::move(gradients[0]);
    gradient = gradient.contiguous(channels_last);
    bool shared = is_shared(gradient);
    if (y.defined() && std::exchange(shared, false)) gradient = gradient.clone(channels_last);
    const Images images = images_of(in.sizes());
    const std::size_t channels = images.channels;
    const auto pixels = static_cast<float>(images.elements() / channels);
    std::vector<float> a(channels), b(channels), c(channels);
    const float *m = mean.data_ptr<float>(), *s = spread.data_ptr<float>(), *w = weight.data_ptr<float>();
    const ChannelSums sums = sum_over_pixels(images, [&](Range some, double* sum, double* product) {
      gradient_sums(part_of(gradient, some), part_of(y, some), part_of(in, some), m, channels, sum, product);
    });
    const Tensor weight_place = place_for_gradient(weight), bias_place = place_for_gradient(context->saved_data["bias"].toTensor());
    for (std::size_t k = 0; k < channels; ++k) {
      const auto sum = static_cast<float>(sums.first[k]), product = static_cast<float>(sums.second[k]);
      weight_place.data_ptr<float>()[k] = product * s[k];
      bias_place.data_ptr<float>()[k] = sum;
      a[k] = w[k] * s[k];
      b[k] = -a[k] * s[k] * s[k] * product / pixels;
      c[k] = -a[k] * sum / pixels - b[k] * m[k];
    }
    const Tensor input_gradient = shared || more ? at::empty_like(gradient) : gradient;
    over_pixels(images, [&](Range some) {
      combine_channels(part_of(input_gradient, some), part_of(gradient, some), part_of(in, some), a.data(), b.data(), c.data(), channels);
    });
    return {input_gradient, weight_place, bias_place, more ? gradient : Tensor(), Tensor()};
  }
};

/// relu(x * weight^T + bias), relu where asked for.
struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
    const torch::ScalarType type = compute_type();
    const NoAutocast no_autocast;
    const Tensor input = x.to(type);
    Tensor used, y;
    if (const auto parts = parts_of(weight); !parts.empty()) {
      std::vector<Tensor> found;
      used = by_parts(weight, parts, type, [&](const Tensor& part) { found.push_back(at::mm(input, part.t())); });
      y = at::cat(found, 1).add_(bias.to(type));
    } else {
      used = weight.to(type);
      y = at::linear(input, used, bias.to(type));
    }
    if (relu) y = at::relu_(y);
    context->save_for_backward({input, used, weight, relu ? y : Tensor()});
    context->saved_data["bias"] = bias;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &used = saved[1], &weight = saved[2], &y = saved[3];
    Tensor gradient = std::move(gradients[0]);
    if (y.defined()) gradient = before_relu(std::move(gradient), y);
    const Tensor bias = context->saved_data["bias"].toTensor();
    const Tensor weight_place = place_for_gradient(weight);
    Tensor bias_place = place_for_gradient(bias);
    const auto write_rows = [&](std::int64_t begin, std::int64_t count) {
      Tensor place = weight_place.narrow(0, begin, count);
      const Tensor some = gradient.narrow(1, begin, count);
      place.scalar_type() == some.scalar_type() ? at::mm_out(place, some.t(), input) : place.copy_(at::mm(some.t(), input));
    };
    bias_place.scalar_type() == gradient.scalar_type() ? at::sum_out(bias_place, gradient, 0) : bias_place.copy_(at::sum(gradient, 0));
    gradient_written(bias);
    const auto rows = rows_of(parts_of(weight));
    std::int64_t end = weight.size(0);
    for (std::size_t part = rows.size(); part-- > 0;) {
      write_rows(end -= rows[part], rows[part]);
      gradient_part_written(weight, part);
    }
    if (rows.empty()) {
      write_rows(0, end);
      gradient_written(weight);
    }
    const Tensor input_gradient = context->needs_input_grad(0) ? at::mm(gradient, used) : Tensor();
    return {input_gradient, weight_place, bias_place, Tensor()};
  }
};

template <class Kind>
Kind* as(const std::vector<std::shared_ptr<torch::nn::Module>>& layers, std::size_t i) {
  return i < layers.size() ? layers[i]->as<Kind>() : nullptr;
}

/// A convolution as ConvolutionLayer computes it.
bool is_known(const torch::nn::Conv2dImpl& layer) {
  const auto& o = layer.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&o.padding());
  const auto square = [](const torch::ExpandingArray<2>& pair) { return (*pair)[0] == (*pair)[1]; };
  return padding && square(*padding) && square(o.stride()) && (*o.dilation())[0] == 1 && (*o.dilation())[1] == 1 && o.groups() == 1 &&
         std::holds_alternative<torch::enumtype::kZeros>(o.padding_mode()) && layer.weight.scalar_type() == torch::kFloat32 &&
         layer.weight.suggest_memory_format() == channels_last;
}

/// 2 x 2, stride 2, rounding down.
bool is_known(const torch::nn::MaxPool2dImpl& layer) {
  const auto& o = layer.options;
  const auto all = [](const torch::ExpandingArray<2>& pair, std::int64_t value) { return (*pair)[0] == value && (*pair)[1] == value; };
  return all(o.kernel_size(), 2) && all(o.stride(), 2) && all(o.padding(), 0) && all(o.dilation(), 1) && !o.ceil_mode();
}

/// A batch normalisation as BatchNorm computes it.
bool is_known(const torch::nn::BatchNorm2dImpl& layer) {
  return layer.is_training() && layer.options.affine() && layer.options.track_running_stats() && layer.options.momentum().has_value() &&
         layer.weight.scalar_type() == torch::kFloat32;
}

/// Stored so, beyond what one channel or one pixel leaves open.
bool is_channels_last(const Tensor& x) { return x.dim() == 4 && x.suggest_memory_format() == channels_last; }

/// Whether the computation that x is in the midst of is one that the kernels here are for.
bool is_known(const Tensor& x) {
  const auto type = compute_type();
  return x.is_cpu() && (type == torch::kFloat32 || type == torch::kBFloat16) && (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16);
}

Tensor convolve_fused(torch::nn::Conv2dImpl& layer, const Tensor& x, bool relu, bool pool) {
  const auto& o = layer.options;
  const std::int64_t padding = (*std::get<torch::ExpandingArray<2>>(o.padding()))[0];
  const MaybeTensor bias = layer.bias.defined() ? MaybeTensor(layer.bias) : std::nullopt;
  return ConvolutionLayer::apply(x, layer.weight, bias, ConvolutionLayer::Form{(*o.stride())[0], padding, relu, pool});
}

Tensor normalise(torch::nn::BatchNorm2dImpl& layer, const Tensor& x, const Tensor& more, bool relu) {
  if (layer.num_batches_tracked.scalar_type() == torch::kInt64) {
    *layer.num_batches_tracked.data_ptr<std::int64_t>() += 1;  // an operation would cost more than all else here
  } else {  // Module::to(dtype) converts it too
    layer.num_batches_tracked.add_(1);
  }
  const NormForm form{layer.running_mean, layer.running_var, *layer.options.momentum(), layer.options.eps(), relu};
  return BatchNorm::apply(x, layer.weight, layer.bias, more.defined() ? MaybeTensor(more) : std::nullopt, form);
}

}  // namespace

Tensor forward_fused(torch::nn::BatchNorm2d& layer, Tensor x, Tensor more) {
  if (is_known(x) && is_channels_last(x) && is_known(*layer)) return normalise(*layer, x, more, true);
  Tensor y = layer->forward(x);
  if (more.defined()) y += more;
  return y.relu_();
}

Tensor forward_fused(torch::nn::Conv2d& layer, Tensor x) {
  return is_known(x) && x.dim() == 4 && is_known(*layer) ? convolve_fused(*layer, x, false, false) : layer->forward(x);
}

Tensor forward_fused(torch::nn::Sequential& sequence, Tensor x) {
  if (!is_known(x)) return sequence->forward(x);
  const auto layers = sequence->children();
  std::size_t at = 0;
  for (auto layer = sequence->begin(); layer != sequence->end();) {
    std::size_t taken = 1;
    const bool relu = as<torch::nn::ReLUImpl>(layers, at + 1);
    if (auto* convolution = as<torch::nn::Conv2dImpl>(layers, at); convolution && x.dim() == 4 && is_known(*convolution)) {
      const auto* pooling = relu ? as<torch::nn::MaxPool2dImpl>(layers, at + 2) : nullptr;
      const bool pool = pooling && is_known(*pooling);
      x = convolve_fused(*convolution, x, relu, pool);
      taken += relu + pool;
    } else if (auto* norm = as<torch::nn::BatchNorm2dImpl>(layers, at); norm && is_channels_last(x) && is_known(*norm)) {
      const auto* pooling = relu ? as<torch::nn::MaxPool2dImpl>(layers, at + 2) : nullptr;
      const bool pool = pooling && is_known(*pooling);
      x = normalise(*norm, x, {}, relu && !pool);
      if (pool) x = ReluMaxPool::apply(x);
      taken += relu + pool;
    } else if (auto* linear = as<torch::nn::LinearImpl>(layers, at);
               linear && x.dim() == 2 && linear->bias.defined() && linear->weight.scalar_type() == torch::kFloat32) {
      x = Linear::apply(x, linear->weight, linear->bias, relu);
      taken += relu;
    } else {
      x = layer->forward<Tensor>(x);
    }
    at += taken;
    layer += static_cast<std::ptrdiff_t>(taken);
  }
  return x;
}

}  // namespace ripieno
