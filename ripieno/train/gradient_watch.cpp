#include "ripieno/train/gradient_watch.h"

namespace ripieno::train {

GradientWatch::GradientWatch(NumberSpan gradients, const std::vector<Range>& buckets)
    : gradients_(gradients),
      buckets_(buckets),
      announced_(buckets.size()),
      operators_("gradient", [this](ConstBytes bytes) { look_at(bytes.data()); }) {}

void GradientWatch::look_at(const std::byte* address) {
  const auto* begin = static_cast<const std::byte*>(gradients_.data);
  if (address < begin || address >= begin + gradients_.size_bytes()) return;
  const auto element = static_cast<std::size_t>(address - begin) / size_of(gradients_.type);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const bool is_in_it = buckets_[i].begin <= element && element < buckets_[i].end;
    if (is_in_it && announced_[i].load(std::memory_order_relaxed)) used_ = true;
  }
}

}  // namespace ripieno::train
