#include "ripieno/core/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace ripieno {

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t failed = std::numeric_limits<std::size_t>::max();
  const auto take = [&] {
    for (std::size_t i; (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (i > failed) continue;
        failed = i;
        error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    while (others.size() + 1 < std::min(cores, count)) others.emplace_back(take);
    take();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace ripieno
