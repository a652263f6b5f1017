#include "ripieno/optim/by_group.h"

#include <algorithm>

#include "ripieno/core/error.h"

namespace ripieno::optim {
namespace {

/// "optimiser.momentum" of the group "vectors": "optimiser.vectors.momentum".
class Named final : public StateVisitor {
 public:
  Named(StateVisitor& to, const std::string& group) : to_(to), group_(group) {}
  void span(std::string_view name, NumberSpan values) override { to_.span(named(name), values); }
  void number(std::string_view name, std::int64_t& value) override { to_.number(named(name), value); }

 private:
  std::string named(std::string_view name) const {
    constexpr std::string_view before = "optimiser.";
    require(name.starts_with(before), "an optimiser's state called ", name);
    return text(before, group_, ".", name.substr(before.size()));
  }
  StateVisitor& to_;
  const std::string& group_;
};

}  // namespace

bool has_groups(const OptimiserOptions& o) {
  return o.name == "muon" || o.vector_factor != 1 || o.head_factor != 1 || o.first_layer_steps > 0;
}

ByGroup::ByGroup(const OptimiserOptions& options, std::size_t elements, DType type, Make make)
    : options_(options), elements_(elements) {
  const TensorShape* head = nullptr;
  std::size_t end = 0;
  for (const TensorShape& tensor : options_.tensors) {
    require(tensor.begin == end && tensor.end >= end, "optimiser: tensor [", tensor.begin, ", ", tensor.end,
            ") follows ", end);
    end = tensor.end;
    if (tensor.rows > 0) head = &tensor;
  }
  require(end == elements, "optimiser: tensors of ", end, " numbers where there are ", elements);
  for (const TensorShape& tensor : options_.tensors) {
    const std::size_t index = group_of(tensor, &tensor == head), n = tensor.end - tensor.begin;
    Group& group = groups_[index];
    parts_.push_back({tensor.begin, tensor.end, index, group.elements});
    group.options.tensors.push_back({group.elements, group.elements + n, tensor.rows});
    group.elements += n;
  }
  for (Group& group : groups_) group.optimiser = make(group.options, group.elements, type);
}

std::size_t ByGroup::group_of(const TensorShape& tensor, bool is_head) {
  Group group;
  group.name = tensor.rows == 0 ? "vectors" : is_head ? "head" : "matrices";
  group.factor = tensor.rows == 0 ? options_.vector_factor : is_head ? options_.head_factor : 1;
  group.first_layer = tensor.first_layer && options_.first_layer_steps > 0;
  if (group.first_layer) group.name = "first_" + group.name;
  const auto known =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& one) { return one.name == group.name; });
  if (known != groups_.end()) return static_cast<std::size_t>(known - groups_.begin());

  OptimiserOptions& own = group.options = options_;
  own.tensors.clear();
  own.weight_decay /= group.factor;
  if (own.name == "muon" && (tensor.rows == 0 || is_head)) {
    own.name = "sgd";
    own.momentum = options_.sgd_momentum;
    own.nesterov = options_.nesterov && own.momentum > 0;
  }
  groups_.push_back(std::move(group));
  return groups_.size() - 1;
}

/// The first layer's rate falls linearly to 0, whatever the schedule says.
double ByGroup::rate_of(const Group& group, double scheduled) const {
  if (!group.first_layer) return group.factor * scheduled;
  const double done = static_cast<double>(step_ - 1) / static_cast<double>(options_.first_layer_steps);
  return group.factor * options_.first_layer_rate * std::max(0.0, 1 - done);
}

void ByGroup::begin_step() {
  ++step_;
  for (Group& group : groups_) group.optimiser->begin_step();
}

void ByGroup::update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  require(weights.count == gradients.count && offset + weights.count <= elements_, "optimiser: the part at offset ",
          offset, " of ", weights.count, " elements (gradients: ", gradients.count, ") leaves the whole of ",
          elements_);
  const std::size_t end = offset + weights.count;
  for (const Part& part : parts_) {
    const std::size_t from = std::max(offset, part.begin), to = std::min(end, part.end);
    if (from >= to) continue;
    const Group& group = groups_[part.group];
    const double rate = rate_of(group, learning_rate);
    if (rate == 0 && group.first_layer) continue;  // it has stopped
    group.optimiser->update(part.at + from - part.begin, weights.slice(from - offset, to - offset),
                            gradients.slice(from - offset, to - offset), rate);
  }
}

void ByGroup::visit(StateVisitor& visitor) {
  visitor.number("optimiser.step", step_);
  for (Group& group : groups_) {
    Named named(visitor, group.name);
    group.optimiser->visit(named);
  }
}

}  // namespace ripieno::optim
