// Batch normalisation, ReLU and pooling, with the kernels of kernels/image_kernels.h.
#include <cmath>

#include "ripieno/fused/gradient_places.h"
#include "ripieno/fused/image_parts.h"
#include "ripieno/fused/memory_format.h"
#include "ripieno/fused/operations.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

NumberSpan span_of(const Tensor& tensor) {
  const DType type = tensor.scalar_type() == torch::kBFloat16 ? DType::bf16 : DType::fp32;
  return NumberSpan(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type);
}

/// A range of a tensor's elements; empty if it is undefined.
NumberSpan part_of(const Tensor& tensor, Range range) {
  return tensor.defined() ? span_of(tensor).slice(range.begin, range.end) : NumberSpan();
}

kernels::Images images_of(torch::IntArrayRef sizes) {
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(sizes[i]); };
  return {size(0), size(2), size(3), size(1)};
}

/// For each channel the mean of a few pixels from all over the batch, about which rounding of moments is small; 0 where
/// that is not finite.
std::vector<float> about_the_mean(NumberSpan in, std::size_t channels) {
  constexpr int looks = 16;
  constexpr double golden_ratio = 0.6180339887498949;  // its multiples keep apart, whatever the images' size
  const std::size_t pixels = in.count / channels;
  std::vector<double> sums(channels);
  std::vector<float> pixel(channels);
  for (int i = 0; i < looks; ++i) {
    const double place = (i + 1) * golden_ratio;
    const auto at = static_cast<std::size_t>((place - std::floor(place)) * static_cast<double>(pixels)) * channels;
    numeric::convert(NumberSpan(pixel), in.slice(at, at + channels));
    for (std::size_t c = 0; c < channels; ++c) sums[c] += pixel[c];
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const auto mean = static_cast<float>(sums[c] / looks);
    pixel[c] = std::isfinite(mean) ? mean : 0;
  }
  return pixel;
}

struct Moments {
  double mean, variance;
};

/// Of each channel, over all images and pixels; not finite where a number is not.
std::vector<Moments> moments_of(const Tensor& in, kernels::Images images) {
  const std::size_t channels = images.channels;
  const auto pixels = static_cast<double>(images.elements() / channels);
  const std::vector<float> about = about_the_mean(span_of(in), channels);
  const ChannelSums sums = sum_over_pixels(images, [&](Range some, double* sum, double* square) {
    kernels::moment_sums(part_of(in, some), channels, about.data(), sum, square);
  });
  std::vector<Moments> moments;
  for (std::size_t c = 0; c < channels; ++c) {
    const double distance = sums.first[c] / pixels, variance = sums.second[c] / pixels - distance * distance;
    moments.push_back({about[c] + distance, variance});
    // Seldom: the pixels looked at were outliers, or fp32 cannot hold squares. Slow, and exact.
    if (distance * distance <= 4 * variance && std::isfinite(variance)) continue;
    const Tensor numbers = in.select(1, static_cast<std::int64_t>(c)).to(torch::kFloat64), mean = numbers.mean();
    moments.back() = {mean.item<double>(), (numbers - mean).square_().mean().item<double>()};
  }
  return moments;
}

struct BatchNormOperation : torch::autograd::Function<BatchNormOperation> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const MaybeTensor& more, const BatchNormForm& form) {
    const NoAutocast no_autocast;
    const Tensor in = x.contiguous(channels_last),
                 other = more ? more->to(in.scalar_type()).contiguous(channels_last) : Tensor();
    const kernels::Images images = images_of(in.sizes());
    const std::size_t channels = images.channels;
    const std::size_t each = images.elements() / channels;
    const auto pixels = static_cast<double>(each);
    const Tensor mean = at::empty_like(weight), spread = at::empty_like(weight);  // 1 / standard deviation
    const std::vector<Moments> moments = moments_of(in, images);
    std::vector<float> scale(channels), offset(channels);
    // Parameters go through an operator, so that operator watches (train/gate_watch.h) see it.
    const Tensor factor = weight.detach(), summand = bias.detach();
    const float *w = factor.data_ptr<float>(), *b = summand.data_ptr<float>();
    float *m = mean.data_ptr<float>(), *s = spread.data_ptr<float>(),
          *running_mean = form.running_mean.data_ptr<float>(),
          *running_variance = form.running_variance.data_ptr<float>();
    const auto momentum = static_cast<float>(form.momentum);
    const double unbiased = pixels / (pixels - 1);
    for (std::size_t c = 0; c < channels; ++c) {
      m[c] = static_cast<float>(moments[c].mean);
      const auto variance = static_cast<float>(moments[c].variance);
      s[c] = static_cast<float>(1 / std::sqrt(variance + form.epsilon));
      scale[c] = w[c] * s[c];
      offset[c] = b[c] - m[c] * scale[c];
      running_mean[c] = (1 - momentum) * running_mean[c] + momentum * m[c];
      running_variance[c] = (1 - momentum) * running_variance[c] + momentum * static_cast<float>(variance * unbiased);
    }
    Tensor y = at::empty_like(in);
    over_pixels(images, [&](Range some) {
      kernels::scale_channels(part_of(y, some), part_of(in, some), channels, scale.data(), offset.data(),
                              part_of(other, some), form.relu);
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
    const kernels::Images images = images_of(in.sizes());
    const std::size_t channels = images.channels;
    const std::size_t each = images.elements() / channels;
    const auto pixels = static_cast<float>(each);
    std::vector<float> a(channels), b(channels), c(channels);
    const float *m = mean.data_ptr<float>(), *s = spread.data_ptr<float>(), *w = weight.data_ptr<float>();
    const ChannelSums sums = sum_over_pixels(images, [&](Range some, double* sum, double* product) {
      kernels::gradient_sums(part_of(gradient, some), part_of(y, some), part_of(in, some), m, channels, sum, product);
    });
    const Tensor weight_place = place_for_gradient(weight),
                 bias_place = place_for_gradient(context->saved_data["bias"].toTensor());
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
      kernels::combine_channels(part_of(input_gradient, some), part_of(gradient, some), part_of(in, some), a.data(),
                                b.data(), c.data(), channels);
    });
    return {input_gradient, weight_place, bias_place, more ? gradient : Tensor(), Tensor()};
  }
};

struct ReluMaxPoolOperation : torch::autograd::Function<ReluMaxPoolOperation> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Pooled made = pooled(x, true);
    context->save_for_backward({made.chosen});
    context->saved_data["sizes"] = x.sizes().vec();
    return made.y;
  }
  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    return {
        before_pooling(gradients[0], context->get_saved_variables()[0], context->saved_data["sizes"].toIntVector())};
  }
};

}  // namespace

bool is_shared(const Tensor& gradient) { return gradient.use_count() > 1 || gradient.storage().use_count() > 1; }

Pooled pooled(const Tensor& x, bool relu) {
  const Tensor in = x.contiguous(channels_last);
  const std::vector<std::int64_t> halved{in.size(0), in.size(1), in.size(2) / 2, in.size(3) / 2};
  Pooled made{at::empty(halved, in.options().memory_format(channels_last)),
              at::empty(halved, in.options().dtype(torch::kUInt8).memory_format(channels_last))};
  over_images(images_of(in.sizes()), [&](const ImagePart& some) {
    std::uint8_t* const chosen = made.chosen.data_ptr<std::uint8_t>() + some.pooled().begin;
    kernels::max_pool(part_of(made.y, some.pooled()), chosen, part_of(in, some.elements()), some.images, relu);
  });
  return made;
}

Tensor before_pooling(const Tensor& gradient, const Tensor& chosen, torch::IntArrayRef sizes) {
  const Tensor out = gradient.contiguous(channels_last);
  Tensor in = at::empty(sizes, out.options().memory_format(channels_last));
  over_images(images_of(sizes), [&](const ImagePart& some) {
    const std::uint8_t* const which = chosen.data_ptr<std::uint8_t>() + some.pooled().begin;
    kernels::max_pool_gradient(part_of(in, some.elements()), part_of(out, some.pooled()), which, some.images);
  });
  return in;
}

Tensor batch_norm_operation(const Tensor& x, const Tensor& weight, const Tensor& bias, const MaybeTensor& more,
                            const BatchNormForm& form) {
  return BatchNormOperation::apply(x, weight, bias, more, form);
}

Tensor relu_max_pool_operation(const Tensor& x) { return ReluMaxPoolOperation::apply(x); }

}  // namespace ripieno::fused
