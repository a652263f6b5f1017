#include "ripieno/fused/threads.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "LibTorch's threads are OpenMP's: without its flag everything would run in one of them"
#endif

namespace ripieno::fused {

void over_threads(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body) {
  at::parallel_for(0, count, grain, body);
}

}  // namespace ripieno::fused
