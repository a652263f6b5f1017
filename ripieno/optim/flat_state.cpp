#include "ripieno/optim/flat_state.h"

namespace ripieno::optim {

FlatState::FlatState(std::size_t elements, DType type, const std::vector<const char*>& names, const char* step_name)
    : elements_(elements), type_(type), step_name_(step_name) {
  for (const char* name : names) buffers_.push_back({name, {}});
}

bool FlatState::accepts(std::size_t offset, const NumberSpan& weights, const NumberSpan& gradients) const {
  require(step_ > 0, "optimiser: update() before the first begin_step()");
  require(weights.count == gradients.count, "optimiser: ", weights.count, " weights but ", gradients.count,
          " gradients at offset ", offset);
  require(weights.type == type_ && gradients.type == type_, "optimiser: made for ", name(type_), ", given weights of ",
          name(weights.type), " and gradients of ", name(gradients.type));
  require(offset <= elements_ && weights.count <= elements_ - offset, "optimiser: the part at offset ", offset, " of ",
          weights.count, " elements leaves the whole of ", elements_);
  return weights.data != nullptr && gradients.data != nullptr;
}

void FlatState::visit(StateVisitor& visitor) {
  visitor.number(step_name_, step_);
  for (std::size_t i = 0; i < buffers_.size(); ++i) visitor.span(buffers_[i].name, whole(i));
}

NumberSpan FlatState::whole(std::size_t buffer) {
  std::vector<std::byte>& bytes = buffers_[buffer].bytes;
  if (bytes.empty()) bytes.resize(elements_ * size_of(type_));
  return {bytes.data(), elements_, type_};
}

}  // namespace ripieno::optim
