#include "ripieno/core/spin_time.h"

#include <algorithm>

namespace ripieno {

void SpinTime::add(Duration wake_up) {
  if (wake_up < Duration(0) || wake_up > longest) return;
  last_[seen_++ % kept] = wake_up;
  std::array<Duration, kept> sorted = last_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(seen_, kept)),
             middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  time_ = std::clamp(2 * *middle, shortest, longest);
}

}  // namespace ripieno
