#include "ripieno/train/gate_watch.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>

namespace ripieno {
namespace {

// The callback is a plain function: this is how it finds the watch of its thread.
thread_local GateWatch* watch_of_thread = nullptr;

void look_at(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return;
  std::int64_t last = 0;  // element, from the first
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto bytes = (static_cast<std::size_t>(last) + 1) * tensor.element_size();
  watch_of_thread->wait_for({static_cast<const std::byte*>(tensor.const_data_ptr()), bytes});
}

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& operation) {
  if (!watch_of_thread) return nullptr;
  for (const c10::IValue& input : operation.inputs()) {
    if (input.isTensor()) look_at(input.toTensor());
    if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorList()) look_at(tensor);
    }
  }
  return nullptr;
}

}  // namespace

GateWatch::GateWatch(NumberSpan parameters, const std::vector<Range>& buckets, Gates& gates)
    : parameters_(parameters), gates_(gates), passed_(gates.size()) {
  for (std::size_t i = 0; i < buckets.size(); ++i) starts_.emplace_back(buckets[i].begin, i);
  std::sort(starts_.begin(), starts_.end());
  require(!watch_of_thread, "two gate watches on one thread");
  watch_of_thread = this;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(before_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

GateWatch::~GateWatch() {
  at::removeCallback(callback_);
  watch_of_thread = nullptr;
}

void GateWatch::wait_for(ConstBytes bytes) {
  const auto* begin = static_cast<const std::byte*>(parameters_.data);
  if (bytes.data() < begin || bytes.data() >= begin + parameters_.size_bytes()) return;
  const auto first = static_cast<std::size_t>(bytes.data() - begin) / size_of(parameters_.type);
  const std::size_t end = first + bytes.size() / size_of(parameters_.type);
  auto at = std::prev(std::upper_bound(starts_.begin(), starts_.end(), std::pair(first, gates_.size())));
  for (; at != starts_.end() && at->first < end; ++at) wait(at->second);
}

void GateWatch::wait_for_all() {
  for (std::size_t gate = 0; gate < gates_.size(); ++gate) wait(gate);
}

void GateWatch::wait(std::size_t gate) {
  if (passed_[gate]) return;
  const auto start = std::chrono::steady_clock::now();
  const bool was_closed = gates_.wait(gate);
  passed_[gate] = true;
  if (was_closed) {
    const auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start);
    waited_ += took;
    if (on_wait) on_wait(gate, took);
  }
  if (on_passed) on_passed(gate);
}

}  // namespace ripieno
