#include "ripieno/train/precision.h"

#include <array>

#include "ripieno/core/edit_distance.h"
#include "ripieno/core/processor.h"

namespace ripieno::train {
namespace {

/// The type that autocast casts to, if any.
std::optional<torch::ScalarType> cast_type(Precision precision) {
  if (precision == Precision::bf16) return torch::kBFloat16;
  if (precision == Precision::fp16) return torch::kHalf;
  return std::nullopt;
}

}  // namespace

Precision find_precision(const std::string& name) {
  struct Row {
    const char* name;
    Precision precision;
  };
  constexpr std::array known{Row{"fp32", Precision::fp32}, Row{"fp64", Precision::fp64}, Row{"bf16", Precision::bf16},
                             Row{"fp16", Precision::fp16}};
  return find_named(known, name, "precision").precision;
}

bool has_instructions(Precision precision) {
  if (precision != Precision::bf16 && precision != Precision::fp16) return true;
  const auto may_have = [](Instructions which) { return processor_has(which).value_or(true); };
  return precision == Precision::bf16 ? may_have(Instructions::avx512_bf16) || may_have(Instructions::amx_bf16)
                                      : may_have(Instructions::avx512_fp16);
}

Autocast::Autocast(Precision precision, torch::DeviceType device) : autocast_(device, cast_type(precision)) {}

void compute_in(torch::nn::Module& model, torch::ScalarType type) {
  for (torch::Tensor& tensor : model.parameters()) tensor.set_data(tensor.to(type));
  for (torch::Tensor& tensor : model.buffers()) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(type));
  }
}

}  // namespace ripieno::train
