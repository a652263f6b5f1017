#include "ripieno/loop/communication_hook.h"

#include <atomic>

namespace ripieno::loop {
namespace {

/// Rank, sizes, rank, sizes, ..
torch::Tensor tensor_of(const c10d::Shapes& shapes) {
  std::vector<std::int64_t> numbers;
  for (const std::vector<std::int64_t>& shape : shapes) {
    numbers.push_back(static_cast<std::int64_t>(shape.size()));
    numbers.insert(numbers.end(), shape.begin(), shape.end());
  }
  return torch::tensor(numbers, torch::kInt64);
}

c10d::Shapes shapes_of(const torch::Tensor& tensor) {
  c10d::Shapes shapes;
  const auto* at = tensor.const_data_ptr<std::int64_t>();
  const auto* const end = at + tensor.numel();
  while (at < end) {
    const std::int64_t sizes = *at++;
    if (sizes < 0 || sizes > end - at) fail(ErrorKind::usage, "a hook's saved state has shapes that are none");
    shapes.emplace_back(at, at + sizes);
    at += sizes;
  }
  return shapes;
}

torch::IValue value_of(torch::serialize::InputArchive& archive, const std::string& key) {
  torch::IValue value;
  archive.read(key, value);
  return value;
}

void save_bucket(torch::serialize::OutputArchive& archive, const c10d::KeptBucket& kept) {
  archive.write("bucket", torch::IValue(static_cast<std::int64_t>(kept.bucket)));
  archive.write("parameters", torch::IValue(static_cast<std::int64_t>(kept.parameters)));
  archive.write("shapes", tensor_of(kept.shapes), true);
  torch::serialize::OutputArchive tensors(archive.compilation_unit()), numbers(archive.compilation_unit());
  for (const auto& [name, tensor] : kept.state.tensors) tensors.write(name, tensor, true);
  for (const auto& [name, number] : kept.state.numbers) numbers.write(name, torch::IValue(number));
  archive.write("tensors", tensors);
  archive.write("numbers", numbers);
}

c10d::KeptBucket load_bucket(torch::serialize::InputArchive& archive) {
  c10d::KeptBucket kept;
  kept.bucket = static_cast<int>(value_of(archive, "bucket").toInt());
  kept.parameters = static_cast<std::uint64_t>(value_of(archive, "parameters").toInt());
  torch::Tensor shapes;
  archive.read("shapes", shapes, true);
  kept.shapes = shapes_of(shapes);
  torch::serialize::InputArchive tensors, numbers;
  archive.read("tensors", tensors);
  archive.read("numbers", numbers);
  for (const std::string& name : tensors.keys()) {
    torch::Tensor tensor;
    if (tensors.try_read(name, tensor, true)) kept.state.tensors[name] = tensor;
  }
  for (const std::string& name : numbers.keys()) {
    const torch::IValue value = value_of(numbers, name);
    if (value.isInt()) kept.state.numbers[name] = value.toInt();
  }
  return kept;
}

}  // namespace

struct CodecHook::State {
  std::shared_ptr<c10d::BucketAverages> averages;
  std::atomic<const void*> model{nullptr};
};

CodecHook::CodecHook(codec::CodecOptions options) : state_(std::make_shared<State>()) {
  state_->averages = std::make_shared<c10d::BucketAverages>(std::move(options));
}

c10::intrusive_ptr<::c10d::Work> CodecHook::operator()(const ProcessGroup& group, const GradientBucket& bucket) const {
  const auto& averages = state_->averages;
  const void* first = nullptr;
  if (!state_->model.compare_exchange_strong(first, bucket.model) && first != bucket.model) {
    fail(ErrorKind::usage, "a hook with codec ", averages->codec(),
         " in two models: what it keeps of one's gradients is not the other's, so make one for each");
  }
  c10d::BucketLayout layout{{}, bucket.generation, bucket.parameters};
  for (const torch::Tensor& gradient : bucket.gradients) layout.shapes.push_back(gradient.sizes().vec());
  return group->average(averages, bucket.index, bucket.numbers, std::move(layout));
}

const std::string& CodecHook::codec() const { return state_->averages->codec(); }

void CodecHook::save(torch::serialize::OutputArchive& archive) const {
  const std::vector<c10d::KeptBucket> kept = state_->averages->kept();
  archive.write("codec", torch::IValue(state_->averages->codec()));
  archive.write("buckets", torch::IValue(static_cast<std::int64_t>(kept.size())));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    torch::serialize::OutputArchive one(archive.compilation_unit());
    save_bucket(one, kept[i]);
    archive.write(text("bucket", i), one);
  }
}

void CodecHook::load(torch::serialize::InputArchive& archive) {
  const std::string codec = value_of(archive, "codec").toStringRef();
  if (codec != state_->averages->codec()) {
    fail(ErrorKind::usage, "what a hook with codec ", codec, " has saved is loaded into one with codec ",
         state_->averages->codec(), ": make the hook with that codec");
  }
  std::vector<c10d::KeptBucket> kept;
  const std::int64_t buckets = value_of(archive, "buckets").toInt();
  for (std::int64_t i = 0; i < buckets; ++i) {
    torch::serialize::InputArchive one;
    archive.read(text("bucket", i), one);
    kept.push_back(load_bucket(one));
  }
  state_->averages->keep(std::move(kept));
}

}  // namespace ripieno::loop
