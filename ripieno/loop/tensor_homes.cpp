#include "ripieno/loop/tensor_homes.h"

#include <algorithm>

#include "ripieno/train/flat_tensor.h"

namespace ripieno::loop {
namespace {

bool lies_at(const torch::Tensor& tensor, const torch::Tensor& place) {
  return tensor.const_data_ptr() == place.const_data_ptr() && tensor.numel() == place.numel() &&
         tensor.scalar_type() == place.scalar_type();
}

}  // namespace

TensorHomes::TensorHomes(const train::FlatModel& model) : model_(model) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.module().named_parameters()) add(item.value());
  const torch::ScalarType type = model.blocks().parameters.scalar_type();
  for (const auto& item : model.module().named_buffers()) {
    if (item.value().scalar_type() == type) add(item.value());
  }
}

void TensorHomes::add(const torch::Tensor& tensor) {
  if (tensor.numel() > 0) homes_.push_back({tensor, train::alias_of(tensor)});
}

bool TensorHomes::is_in_place() const {
  return std::all_of(homes_.begin(), homes_.end(), [](const Home& home) { return lies_at(home.tensor, home.place); });
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

}  // namespace ripieno::loop
