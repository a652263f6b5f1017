#include "ripieno/c10d/combining.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <bit>
#include <cmath>

#include "ripieno/c10d/host_tensor.h"
#include "ripieno/numeric/combine.h"

namespace ripieno::c10d {
namespace {

using collective::Reduction;

/// The factor of a PREMUL_SUM.
double factor_of(const ::c10d::ReduceOp& op) {
  const auto* const premultiplied = dynamic_cast<const ::c10d::PreMulSumSupplement*>(op.supplement_.get());
  if (!premultiplied)
    fail(ErrorKind::usage, "ReduceOp.PREMUL_SUM without a factor: make it with _make_nccl_premul_sum");
  return premultiplied->tensor_factor.defined() ? premultiplied->tensor_factor.item<double>()
                                                : premultiplied->double_factor;
}

// By ReduceOp.
constexpr std::array labels{"all_reduce sum", "all_reduce avg",  "all_reduce product",
                            "all_reduce min", "all_reduce max",  "all_reduce band",
                            "all_reduce bor", "all_reduce bxor", "all_reduce premul"};

at::Tensor two(const at::Tensor& a, const at::Tensor& b, const ::c10d::ReduceOp& op) {
  switch (static_cast<::c10d::ReduceOp::RedOpType>(op)) {
    case ::c10d::ReduceOp::PRODUCT:
      return a.mul(b);
    case ::c10d::ReduceOp::MIN:
      return at::minimum(a, b);
    case ::c10d::ReduceOp::MAX:
      return at::maximum(a, b);
    case ::c10d::ReduceOp::BAND:
      return a.bitwise_and(b);
    case ::c10d::ReduceOp::BOR:
      return a.bitwise_or(b);
    case ::c10d::ReduceOp::BXOR:
      return a.bitwise_xor(b);
    default:
      return a.add(b);
  }
}

/// Rounded towards zero. With x = q n + r and 0 <= r < n, the sum is n sum(q) + sum(r), whose parts do not overflow.
at::Tensor mean_of_integers(const std::vector<at::Tensor>& all) {
  const auto n = static_cast<std::int64_t>(all.size());
  at::Tensor quotients = at::zeros_like(all[0], at::kLong), rest = quotients.clone();
  for (const at::Tensor& tensor : all) {
    const at::Tensor numbers = tensor.to(at::kLong);
    quotients.add_(numbers.div(n, "floor"));
    rest.add_(numbers.remainder(n));
  }
  quotients.add_(rest.div(n, "floor"));  // the mean, rounded down
  const at::Tensor up = quotients.lt(0).logical_and_(rest.remainder(n).ne(0));
  return quotients.add_(up).to(all[0].scalar_type());
}

at::Tensor mean_of_floats(const std::vector<at::Tensor>& all, const Combining& combining) {
  const at::ScalarType type = all[0].scalar_type();
  at::Tensor sum = at::zeros_like(all[0], type == at::kHalf ? at::kFloat : at::kDouble);
  for (const at::Tensor& tensor : all) sum.add_(tensor.to(sum.scalar_type()).mul_(combining.factor));
  numeric::finish_mean(HostTensor(sum).numbers(), combining.divisor);
  return sum.to(type);
}

at::Tensor mean_of(const std::vector<at::Tensor>& all, const Combining& combining) {
  if (at::isIntegralType(all[0].scalar_type(), true)) return mean_of_integers(all);
  if (!all[0].is_complex()) return mean_of_floats(all, combining);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : all) parts.push_back(at::view_as_real(tensor));
  return at::view_as_complex(mean_of_floats(parts, combining));
}

}  // namespace

const char* name_of(const ::c10d::ReduceOp& op) { return labels.at(op) + std::string_view("all_reduce ").size(); }

void check_reduction(const char* operation, const ::c10d::ReduceOp& op, at::ScalarType type) {
  const bool bitwise = op == ::c10d::ReduceOp::BAND || op == ::c10d::ReduceOp::BOR || op == ::c10d::ReduceOp::BXOR;
  const bool ordered = op == ::c10d::ReduceOp::MIN || op == ::c10d::ReduceOp::MAX;
  const bool is_integral = at::isIntegralType(type, true);
  // PyTorch itself cannot add them.
  if (at::isFloat8Type(type) || type == at::kFloat4_e2m1fn_x2 || c10::isBarebonesUnsignedType(type) ||
      at::isQIntType(type) || at::isBitsType(type))
    fail(ErrorKind::usage, operation, " of ", type, ": there is no arithmetic for the type; convert it first");
  if ((bitwise && !is_integral) || (ordered && at::isComplexType(type)))
    fail(ErrorKind::usage, operation, " with ", name_of(op), " of ", type, ": there is no such operation for the type");
  if (op == ::c10d::ReduceOp::PREMUL_SUM && is_integral) {
    const double factor = factor_of(op);
    if (factor != std::trunc(factor) || !(std::abs(factor) < 0x1p63))
      fail(ErrorKind::usage, operation, " with premul by ", factor, " of ", type,
           ": integers take a whole factor; give one, or convert the tensor first");
  }
}

Combining combining_of(const ::c10d::ReduceOp& op, at::ScalarType type, int size) {
  Combining combining;
  combining.label = labels[op];
  if (!number_type(type)) combining.on_the_way = std::nullopt;
  switch (static_cast<::c10d::ReduceOp::RedOpType>(op)) {
    case ::c10d::ReduceOp::SUM:
      return combining;
    case ::c10d::ReduceOp::AVG:
      if (at::isIntegralType(type, true) || type == at::kHalf) combining.on_the_way = std::nullopt;
      if (size > 1) combining.factor = std::ldexp(1, -static_cast<int>(std::bit_width(static_cast<unsigned>(size))));
      combining.divisor = size * combining.factor;
      return combining;
    case ::c10d::ReduceOp::PREMUL_SUM:
      combining.factor = factor_of(op);
      if (type != at::kFloat && type != at::kDouble) combining.on_the_way = std::nullopt;
      return combining;
    case ::c10d::ReduceOp::PRODUCT:
      if (combining.on_the_way) combining.on_the_way = Reduction::product;
      return combining;
    case ::c10d::ReduceOp::MIN:
      if (combining.on_the_way) combining.on_the_way = Reduction::minimum;
      return combining;
    case ::c10d::ReduceOp::MAX:
      if (combining.on_the_way) combining.on_the_way = Reduction::maximum;
      return combining;
    default:
      combining.on_the_way = std::nullopt;
      return combining;
  }
}

at::Tensor combine(const std::vector<at::Tensor>& all, const ::c10d::ReduceOp& op) {
  const at::ScalarType type = all[0].scalar_type();
  const Combining combining = combining_of(op, type, static_cast<int>(all.size()));
  const at::NoGradGuard no_grad;
  if (op == ::c10d::ReduceOp::AVG) return mean_of(all, combining);
  const auto one = [&](const at::Tensor& tensor) {
    if (combining.factor == 1) return tensor;
    if (at::isIntegralType(type, true)) return tensor.mul(static_cast<std::int64_t>(combining.factor));
    return tensor.mul(combining.factor);
  };
  at::Tensor result = one(all[0]);
  for (std::size_t i = 1; i < all.size(); ++i) result = two(result, one(all[i]), op);
  return result;
}

}  // namespace ripieno::c10d
