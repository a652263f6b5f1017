// Loops on LibTorch's compute threads.
#pragma once

#include <cstdint>
#include <functional>

namespace ripieno::fused {

/// Calls body(begin, end) at once on each of LibTorch's threads (torch::get_num_threads()), with ranges that partition
/// [0, count), each of at least `grain` except the last. LibTorch's operations inside body use one thread. Throws what
/// body throws.
void over_threads(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace ripieno::fused
