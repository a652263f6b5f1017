// Loops in the threads that LibTorch computes with.
#pragma once

#include <cstdint>
#include <functional>

namespace ripieno::fused {

/// Calls body(begin, end) with ranges that make up [0, count), of at least `grain` each but for the last one: a range
/// for each of LibTorch's threads (torch::get_num_threads()), all at once. LibTorch's operations within take one
/// thread. Throws what body throws.
void over_threads(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace ripieno::fused
