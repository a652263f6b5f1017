#include "ripieno/train/gate_watch.h"

#include <algorithm>
#include <chrono>

namespace ripieno::train {

GateWatch::GateWatch(NumberSpan parameters, const std::vector<Range>& buckets, Gates& gates)
    : parameters_(parameters),
      gates_(gates),
      passed_(gates.size()),
      operators_("gate", [this](ConstBytes bytes) { wait_for(bytes); }) {
  for (std::size_t i = 0; i < buckets.size(); ++i) starts_.emplace_back(buckets[i].begin, i);
  std::sort(starts_.begin(), starts_.end());
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

}  // namespace ripieno::train
