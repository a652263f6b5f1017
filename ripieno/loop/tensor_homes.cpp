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
  for (const auto& item : model.module().named_parameters()) {
    add(item.value());
    parameters_.push_back({item.key(), item.value(), item.value().requires_grad()});
  }
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

void TensorHomes::check_parameters() const {
  for (const auto& [name, tensor, is_trained] : parameters_) {
    if (tensor.requires_grad() != is_trained) {
      fail(ErrorKind::usage, "parameter ", name, is_trained ? " was frozen" : " was unfrozen", " after agree() had ",
           is_trained ? "found it trained" : "left it out", ": do that before, or finish() and agree() anew");
    }
  }
  if (model_.module().parameters().size() == parameters_.size()) return;
  for (const auto& item : model_.module().named_parameters()) {
    const auto is_same = [&](const Parameter& known) { return known.tensor.is_same(item.value()); };
    if (std::none_of(parameters_.begin(), parameters_.end(), is_same)) {
      fail(ErrorKind::usage, "parameter ", item.key(),
           " was added after agree(): nobody would agree on it; finish() and agree() anew");
    }
  }
}

std::vector<std::string> TensorHomes::lines() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor, is_trained] : parameters_) {
    all.push_back(text("parameter ", name, " of shape ", tensor.sizes(), ", type ", tensor.scalar_type(),
                       is_trained ? ", trained" : ", frozen"));
  }
  return all;
}

bool TensorHomes::knows(const torch::Tensor& parameter) const {
  return std::any_of(homes_.begin(), homes_.end(), [&](const Home& home) { return home.tensor.is_same(parameter); });
}

}  // namespace ripieno::loop
