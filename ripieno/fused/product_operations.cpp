// Convolution and linear layer, the products with a weight. A weight that arrives in parts is used part by part, and
// its gradient is written likewise.
#include <ATen/autocast_mode.h>

#include "ripieno/fused/convolution.h"
#include "ripieno/fused/gradient_places.h"
#include "ripieno/fused/operations.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradient by the input of a ReLU with result `y`; in place if it is not shared.
Tensor before_relu(Tensor gradient, const Tensor& y) {
  if (is_shared(gradient)) return at::threshold_backward(gradient, y, 0);
  return at::threshold_backward_out(gradient, gradient, y, 0);
}

/// Converts a parameter to `type`, one part after the other: use(part) may read only parts converted so far.
template <class Use>
Tensor by_parts(const Tensor& parameter, const std::vector<Tensor>& parts, torch::ScalarType type, const Use& use) {
  const bool as_it_is = parameter.scalar_type() == type;
  const auto options = torch::TensorOptions(type).memory_format(parameter.suggest_memory_format());
  Tensor whole = as_it_is ? parameter : at::empty(parameter.sizes(), options);
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

struct ConvolutionOperation : torch::autograd::Function<ConvolutionOperation> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const MaybeTensor& bias,
                        ConvolutionForm form) {
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
      read = weight_for(convolution, weight);
      y = convolve(convolution, {input, read}, bias ? bias->to(type) : Tensor());
    }
    const auto sizes = y.sizes().vec();
    if (form.pool) {
      Pooled found = pooled(y, form.relu);
      y = std::move(found.y);
      chosen = std::move(found.chosen);
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
    const Tensor input_gradient =
        fused::backward(convolution, {input, read}, gradient, places, context->needs_input_grad(0));
    return {input_gradient, places.weight, places.bias, Tensor()};
  }
};

struct LinearOperation : torch::autograd::Function<LinearOperation> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        bool relu) {
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
      place.scalar_type() == some.scalar_type() ? at::mm_out(place, some.t(), input)
                                                : place.copy_(at::mm(some.t(), input));
    };
    bias_place.scalar_type() == gradient.scalar_type() ? at::sum_out(bias_place, gradient, 0)
                                                       : bias_place.copy_(at::sum(gradient, 0));
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

}  // namespace

torch::ScalarType compute_type() {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU) : torch::kFloat32;
}

Tensor convolution_operation(const Tensor& x, const Tensor& weight, const MaybeTensor& bias, ConvolutionForm form) {
  return ConvolutionOperation::apply(x, weight, bias, form);
}

Tensor linear_operation(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  return LinearOperation::apply(x, weight, bias, relu);
}

}  // namespace ripieno::fused
