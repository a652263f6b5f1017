#include "ripieno/train/tensor_homes.h"

#include <algorithm>

#include "ripieno/train/flat_tensor.h"

namespace ripieno::train {
namespace {

constexpr std::size_t samples_of_a_tensor = 8;

std::string form_of(const torch::Tensor& tensor) {
  return text("shape ", tensor.sizes(), ", type ", tensor.scalar_type(), " and on ", tensor.device());
}

bool lies_at(const torch::Tensor& tensor, const torch::Tensor& place) {
  return tensor.const_data_ptr() == place.const_data_ptr() && tensor.numel() == place.numel() &&
         tensor.scalar_type() == place.scalar_type();
}

}  // namespace

TensorHomes::TensorHomes(const FlatModel& model) : model_(model) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.module().named_parameters()) add(item.key(), item.value());
  const torch::ScalarType type = model.blocks().parameters.scalar_type();
  for (const auto& item : model.module().named_buffers()) {
    if (item.value().scalar_type() == type) add(item.key(), item.value());
  }
  choose_sample();
}

void TensorHomes::add(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.numel() > 0) homes_.push_back({name, tensor, alias_of(tensor), !tensor.requires_grad()});
}

void TensorHomes::choose_sample() {
  for (const strategy::Layout::Tensor& tensor : model_.layout().tensors) {
    const std::size_t count = std::min(samples_of_a_tensor, tensor.range.size());
    for (std::size_t i = 0; i < count; ++i) sampled_.push_back(tensor.range.begin + tensor.range.size() * i / count);
  }
  if (model_.device().is_cpu()) return;
  const std::vector<std::int64_t> elements(sampled_.begin(), sampled_.end());
  sampled_there_ = torch::tensor(elements, torch::kInt64).to(model_.device());
}

std::vector<double> TensorHomes::sample() const {
  std::vector<double> numbers;
  if (!model_.device().is_cpu()) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor there = model_.blocks().parameters.index_select(0, sampled_there_);
    const torch::Tensor here = there.to(torch::kCPU, torch::kFloat64).contiguous();
    return {here.const_data_ptr<double>(), here.const_data_ptr<double>() + here.numel()};
  }
  const NumberSpan all = model_.parameters();
  numbers.reserve(sampled_.size());
  for (const std::size_t i : sampled_) {
    numbers.push_back(all.type == DType::fp64 ? static_cast<const double*>(all.data)[i]
                                              : static_cast<const float*>(all.data)[i]);
  }
  return numbers;
}

bool TensorHomes::is_in_place() const {
  return std::all_of(homes_.begin(), homes_.end(), [](const Home& home) { return lies_at(home.tensor, home.place); });
}

bool TensorHomes::bring_back() {
  const torch::NoGradGuard no_grad;
  bool any = false;
  for (Home& home : homes_) {
    if (home.frozen && home.tensor.requires_grad()) {
      fail(ErrorKind::usage, "parameter ", home.name,
           " was frozen at parallel() and requires a gradient now: make such changes before, ",
           "or call parallel() anew");
    }
    if (lies_at(home.tensor, home.place)) continue;
    if (home.tensor.sizes() != home.place.sizes() || home.tensor.scalar_type() != home.place.scalar_type() ||
        home.tensor.device() != home.place.device()) {
      fail(ErrorKind::usage, home.name, " is of ", form_of(home.tensor), " now, and was of ", form_of(home.place),
           " at parallel(): make such changes before, or call parallel() anew");
    }
    home.place.copy_(home.tensor.detach());
    home.tensor.set_data(home.place);
    any = true;
  }
  return any;
}

std::vector<std::string> TensorHomes::lines() const {
  std::vector<std::string> all;
  for (const auto& item : model_.module().named_parameters()) {
    all.push_back(text("parameter ", item.key(), " of shape ", item.value().sizes(), ", type ",
                       item.value().scalar_type(), item.value().requires_grad() ? ", trained" : ", frozen"));
  }
  return all;
}

bool TensorHomes::knows(const torch::Tensor& parameter) const {
  return std::any_of(homes_.begin(), homes_.end(), [&](const Home& home) { return home.tensor.is_same(parameter); });
}

}  // namespace ripieno::train
