#include "ripieno/train/backward_watch.h"

#include <algorithm>

namespace ripieno::train {

bool BackwardWatch::Tally::completes(std::size_t tensor, std::size_t piece, std::size_t bucket) {
  if (seen[tensor][piece]) return false;
  seen[tensor][piece] = true;
  return --left[bucket] == 0;
}

BackwardWatch::BackwardWatch(const FlatModel& model, HostCopy& host) : model_(model), host_(host) {
  start();
  for (std::size_t i = 0; i < model_.trained().size(); ++i) {
    hooks_.emplace_back(model_.trained()[i], [this, i] { accumulated(i); });
  }
}

void BackwardWatch::zero_gradients() {
  model_.blocks().gradients.zero_();
  for (std::size_t i = 0; i < model_.trained().size(); ++i) {
    model_.trained()[i].mutable_grad() = model_.gradient_places()[i];
  }
  renewing_ = false;
  start();
}

void BackwardWatch::renew_gradients(const torch::Tensor& loss) {
  const auto& trained = model_.trained();
  for (const torch::Tensor& tensor : trained) tensor.mutable_grad() = torch::Tensor();
  renewing_ = true;
  taken_.assign(trained.size(), false);
  early_.assign(trained.size(), false);
  uses_ = uses_of(hooks_, loss);
  start();
}

/// Marks nothing as ready. Tensors that get no gradient are not waited for.
void BackwardWatch::start() {
  const Buckets& buckets = model_.buckets();
  Tally tally{buckets.pieces, {}};
  for (std::size_t i = 0; i < model_.trained().size(); ++i) {
    tally.seen.emplace_back(buckets.of_tensor[i].size());
    if (model_.trained()[i].requires_grad()) continue;
    for (const std::size_t bucket : buckets.of_tensor[i]) --tally.left[bucket];
  }
  gradients_ = uses_left_ = std::move(tally);
  on_host_.assign(buckets.ranges.size(), false);
}

/// Autograd is done with the tensor's gradient, so the operation that computed it no longer reads the tensor.
void BackwardWatch::accumulated(std::size_t i) {
  if (renewing_ && early_[i]) {
    early_[i] = false;
    // Drop what autograd made of it: the exchange may have changed the numbers by now.
    model_.trained()[i].mutable_grad() = model_.gradient_places()[i];
  } else if (renewing_) {
    collect_gradient(i);
  }
  count(i);
  const auto& buckets = model_.buckets().of_tensor[i];
  for (std::size_t piece = buckets.size(); piece-- > 0;) {
    if (on_released && uses_left_.completes(i, piece, buckets[piece])) on_released(buckets[piece]);
  }
}

void BackwardWatch::count(std::size_t tensor) {
  for (std::size_t piece = model_.buckets().of_tensor[tensor].size(); piece-- > 0;) count(tensor, piece);
}

void BackwardWatch::count(std::size_t tensor, std::size_t piece) {
  const std::size_t bucket = model_.buckets().of_tensor[tensor][piece];
  if (!on_ready) return;
  if (!gradients_.completes(tensor, piece, bucket)) return;
  collect_gradients(bucket);
  on_ready(bucket);
}

torch::Tensor BackwardWatch::take(const torch::Tensor& parameter) {
  const auto i = renewing_ ? model_.index_of(parameter) : std::nullopt;
  if (!i || taken_[*i] || model_.trained()[*i].grad().defined()) return {};
  taken_[*i] = true;
  return model_.gradient_places()[*i].detach();
}

std::optional<std::size_t> BackwardWatch::written_early(const torch::Tensor& parameter) {
  const auto i = renewing_ && on_ready ? model_.index_of(parameter) : std::nullopt;
  if (!i || !taken_[*i] || uses_[*i] != 1) return std::nullopt;
  early_[*i] = true;
  return i;
}

void BackwardWatch::written(const torch::Tensor& parameter) {
  if (const auto i = written_early(parameter)) count(*i);
}

std::vector<torch::Tensor> BackwardWatch::parts(const torch::Tensor& parameter) const {
  return model_.parts_of(parameter);
}

void BackwardWatch::part_written(const torch::Tensor& parameter, std::size_t part) {
  if (const auto i = written_early(parameter)) count(*i, part);
}

void BackwardWatch::collect_gradients() {
  early_.clear();
  for (std::size_t i = 0; i < model_.trained().size(); ++i) collect_gradient(i);
  for (std::size_t bucket = 0; bucket < on_host_.size(); ++bucket) bring_to_host(bucket);
  renewing_ = false;
}

void BackwardWatch::collect_gradients(std::size_t bucket) {
  const auto& buckets_of = model_.buckets().of_tensor;
  for (std::size_t i = 0; i < buckets_of.size(); ++i) {
    if (std::find(buckets_of[i].begin(), buckets_of[i].end(), bucket) != buckets_of[i].end()) collect_gradient(i);
  }
  bring_to_host(bucket);
}

void BackwardWatch::collect_gradient(std::size_t i) {
  if (early_.empty() || !early_[i]) model_.collect_gradient(i);
}

/// Only once: the exchange may have changed the host's numbers since on_ready.
void BackwardWatch::bring_to_host(std::size_t bucket) {
  if (on_host_[bucket]) return;
  host_.gradients_to_host(bucket);
  on_host_[bucket] = true;
}

}  // namespace ripieno::train
