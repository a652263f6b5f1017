#include "ripieno/optim/lookahead.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ripieno::optim {

Lookahead::Lookahead(std::unique_ptr<Optimiser> inner, const OptimiserOptions& options, std::size_t elements,
                     DType type)
    : inner_(std::move(inner)),
      every_(options.lookahead_every),
      total_(options.total_steps),
      decay_(options.lookahead_decay),
      power_(options.lookahead_power),
      state_(elements, type, {"lookahead.slow"}, "lookahead.step") {}

void Lookahead::begin_step() {
  state_.begin_step();
  inner_->begin_step();
}

template <class T>
void Lookahead::average(std::size_t offset, NumberSpan weights, double decay) {
  T* const slow = state_.part<T>(0, offset, weights.count);
  const auto w = weights.as<T>();
  const T by = static_cast<T>(1 - decay);
  for (std::size_t i = 0; i < w.size(); ++i) {
    slow[i] += by * (w[i] - slow[i]);
    w[i] = slow[i];
  }
}

void Lookahead::update(std::size_t offset, NumberSpan weights, NumberSpan gradients, double learning_rate) {
  const bool has_data = state_.accepts(offset, weights, gradients);
  const auto average = [&](double decay) {
    if (weights.type == DType::fp32) return this->average<float>(offset, weights, decay);
    this->average<double>(offset, weights, decay);
  };
  if (has_data && state_.step() == 1) average(0);  // slow begins as the first weights
  inner_->update(offset, weights, gradients, learning_rate);
  if (!has_data) return;
  if (state_.step() % every_ == 0) {
    const double done = std::min(1.0, static_cast<double>(state_.step()) / static_cast<double>(total_));
    average(decay_ * std::pow(done, power_));
  } else if (state_.step() == total_ && total_ > every_) {
    average(1);
  }
}

void Lookahead::visit(StateVisitor& visitor) {
  inner_->visit(visitor);
  state_.visit(visitor);
}

}  // namespace ripieno::optim
