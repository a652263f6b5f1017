// Checkpoints: dictionaries from names to tensors in files that Python's torch.load(path) opens, with weights_only too.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ripieno/core/state.h"

namespace ripieno::train {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Replaces the file atomically. Throws Error(io).
void save_tensors(const std::filesystem::path& path, const NamedTensors& tensors);

/// Returns the tensors in the file's order. Throws Error(data), which names the file, if it is missing, truncated or
/// holds something else.
NamedTensors load_tensors(const std::filesystem::path& path);

/// The file's first tensors, so many, one integer each, without reading the others. Throws as load_tensors().
std::vector<std::int64_t> load_first_numbers(const std::filesystem::path& path, std::size_t count);

/// Parameters and buffers under their names in the module, as in Python's state_dict().
NamedTensors state_dict(const torch::nn::Module& module);

/// Copies tensors into a module. Throws Error(data), which names the tensor, if one is missing, superfluous or of
/// another shape.
void load_state_dict(torch::nn::Module& module, const NamedTensors& tensors, const std::filesystem::path& file);

/// Walks state (core/state.h) into tensors, in the order of the walk.
class StateWriter final : public StateVisitor {
 public:
  StateWriter() = default;
  /// With residuals of zero, which are a rank's own: a state from which another rank can go on.
  static StateWriter without_residuals() { return StateWriter(false); }
  void span(std::string_view name, NumberSpan values) override;
  void number(std::string_view name, std::int64_t& value) override;
  /// What was walked so far, and a checksum of it, since LibTorch's reader checks none.
  NamedTensors sealed() const;

 private:
  explicit StateWriter(bool keeps_residuals) : keeps_residuals_(keeps_residuals) {}

  bool keeps_residuals_ = true;
  NamedTensors tensors_;
};

/// Walks state and overwrites it from tensors. Throws Error(data), which names what is missing or of another size.
class StateReader final : public StateVisitor {
 public:
  /// Of a file of sealed tensors. Throws Error(data) if they are not those of the checksum.
  StateReader(NamedTensors tensors, std::filesystem::path file);
  void span(std::string_view name, NumberSpan values) override;
  void number(std::string_view name, std::int64_t& value) override;

 private:
  const torch::Tensor& find(std::string_view name) const;
  NamedTensors tensors_;
  std::filesystem::path file_;
};

}  // namespace ripieno::train
