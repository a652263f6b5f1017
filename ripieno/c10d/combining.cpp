#include "ripieno/c10d/combining.h"

#include <ATen/core/grad_mode.h>

#include <array>

#include "ripieno/c10d/host_tensor.h"

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
}

Combining combining_of(const ::c10d::ReduceOp& op, at::ScalarType type) {
  Combining combining;
  combining.label = labels[op];
  if (!number_type(type)) combining.on_the_way = std::nullopt;
  switch (static_cast<::c10d::ReduceOp::RedOpType>(op)) {
    case ::c10d::ReduceOp::SUM:
      return combining;
    case ::c10d::ReduceOp::AVG:
      combining.is_mean = true;
      // The sum of a mean that fits may not fit itself.
      if (at::isIntegralType(type, true) || type == at::kHalf) combining.on_the_way = std::nullopt;
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
  const Combining combining = combining_of(op, all[0].scalar_type());
  const at::NoGradGuard no_grad;
  const auto one = [&](const at::Tensor& tensor) {
    return combining.factor == 1 ? tensor : tensor.mul(combining.factor);
  };
  const at::ScalarType type = all[0].scalar_type();
  const bool is_integral = at::isIntegralType(type, true);
  if (combining.is_mean && (is_integral || type == at::kHalf)) {
    at::Tensor sum = all[0].to(is_integral ? at::kLong : at::kFloat);
    for (std::size_t i = 1; i < all.size(); ++i) sum = sum.add(all[i]);
    const auto size = static_cast<double>(all.size());
    return (is_integral ? sum.div(size, "trunc") : sum.div(size)).to(type);
  }
  at::Tensor result = one(all[0]);
  for (std::size_t i = 1; i < all.size(); ++i) result = two(result, one(all[i]), op);
  return combining.is_mean ? result.div(static_cast<double>(all.size())) : result;
}

}  // namespace ripieno::c10d
