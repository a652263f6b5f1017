#include "ripieno/train/gradient_watch.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

namespace ripieno {
namespace {

// The callback is a plain function: this is how it finds the watch of its thread.
thread_local GradientWatch* gradient_watch_of_thread = nullptr;

}  // namespace

struct GradientWatchCallback {
  static void look_at(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return;
    gradient_watch_of_thread->look_at(static_cast<const std::byte*>(tensor.const_data_ptr()));
  }
  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& operation) {
    if (!gradient_watch_of_thread) return nullptr;
    for (const c10::IValue& input : operation.inputs()) {
      if (input.isTensor()) look_at(input.toTensor());
      if (input.isTensorList()) {
        for (const at::Tensor& tensor : input.toTensorList()) look_at(tensor);
      }
    }
    return nullptr;
  }
};

GradientWatch::GradientWatch(NumberSpan gradients, const std::vector<Range>& buckets)
    : gradients_(gradients), buckets_(buckets), announced_(buckets.size()) {
  require(!gradient_watch_of_thread, "two gradient watches on one thread");
  gradient_watch_of_thread = this;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(GradientWatchCallback::before).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

GradientWatch::~GradientWatch() {
  at::removeCallback(callback_);
  gradient_watch_of_thread = nullptr;
}

void GradientWatch::look_at(const std::byte* address) {
  const auto* begin = static_cast<const std::byte*>(gradients_.data);
  if (address < begin || address >= begin + gradients_.size_bytes()) return;
  const auto element = static_cast<std::size_t>(address - begin) / size_of(gradients_.type);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].begin <= element && element < buckets_[i].end && announced_[i].load(std::memory_order_relaxed)) used_ = true;
  }
}

}  // namespace ripieno
