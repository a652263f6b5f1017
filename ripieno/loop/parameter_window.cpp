#include "ripieno/loop/parameter_window.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ripieno/core/error.h"
#include "ripieno/core/hash.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::loop {
namespace {

constexpr std::int64_t most_windows = 256, least_numbers = 4096;

std::optional<DType> type_of(const torch::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) return std::nullopt;
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return DType::fp32;
    case torch::kFloat64:
      return DType::fp64;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kHalf:
      return DType::fp16;
    default:
      return std::nullopt;
  }
}

}  // namespace

double number_in(const torch::Tensor& tensor, std::int64_t element) {
  const std::optional<DType> type = type_of(tensor);
  if (!type) return 0;
  double number = 0;
  auto* const data = static_cast<std::byte*>(const_cast<void*>(tensor.const_data_ptr())) +
                     static_cast<std::size_t>(element) * size_of(*type);
  numeric::convert(NumberSpan(&number, 1, DType::fp64), NumberSpan(data, 1, *type));
  return number;
}

std::string place_in(const torch::Tensor& tensor, std::int64_t element) {
  return tensor.dim() == 0 ? "" : text("[", element, "]");
}

std::uint64_t processor_code() { return ripieno::hash(text(at::get_cpu_capability(), " ", at::get_num_threads())); }

ParameterWindow::ParameterWindow(const std::vector<NamedParameter>& parameters, std::uint64_t turn) {
  std::int64_t all = 0;
  for (const NamedParameter& one : parameters) all += type_of(one.tensor) ? one.tensor.numel() : 0;
  if (all == 0) return;
  const std::int64_t size = std::max(least_numbers, (all + most_windows - 1) / most_windows);
  const std::int64_t windows = (all + size - 1) / size;
  const std::int64_t begin = static_cast<std::int64_t>(turn % static_cast<std::uint64_t>(windows)) * size;
  std::int64_t before = 0;
  for (const NamedParameter& one : parameters) {
    if (!type_of(one.tensor)) continue;
    const std::int64_t from = std::max<std::int64_t>(begin - before, 0);
    const std::int64_t to = std::min(begin + size - before, one.tensor.numel());
    if (from < to) parts_.push_back({one, from, to});
    before += one.tensor.numel();
  }
}

NumberSpan ParameterWindow::Part::numbers() const {
  const DType type = type_of(parameter.tensor).value();
  auto* const data = static_cast<std::byte*>(const_cast<void*>(parameter.tensor.const_data_ptr()));
  return {data + static_cast<std::size_t>(begin) * size_of(type), static_cast<std::size_t>(end - begin), type};
}

std::uint64_t ParameterWindow::hash() const {
  std::uint64_t all = 0;
  for (const Part& part : parts_) all = all * 0x9E3779B97F4A7C15ull + numeric::hash(part.numbers());
  return all;
}

std::vector<double> ParameterWindow::numbers() const {
  std::vector<double> all;
  for (const Part& part : parts_) {
    const NumberSpan some = part.numbers();
    const std::size_t at = all.size();
    all.resize(at + some.count);
    numeric::convert(NumberSpan(all.data() + at, some.count, DType::fp64), some);
  }
  return all;
}

std::string ParameterWindow::name(std::size_t at) const {
  for (const Part& part : parts_) {
    const auto size = static_cast<std::size_t>(part.end - part.begin);
    if (at < size)
      return part.parameter.name + place_in(part.parameter.tensor, part.begin + static_cast<std::int64_t>(at));
    at -= size;
  }
  return "none";
}

std::string ParameterWindow::not_finite() const {
  for (const Part& part : parts_) {
    const NumberSpan some = part.numbers();
    const bool is_wide = some.type == DType::fp32 || some.type == DType::fp64;
    if (is_wide && numeric::all_finite(some)) continue;
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const double number = number_in(part.parameter.tensor, i);
      if (!std::isfinite(number)) return text(number, " in ", part.parameter.name, place_in(part.parameter.tensor, i));
    }
  }
  return "";
}

}  // namespace ripieno::loop
