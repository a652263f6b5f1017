#include "ripieno/strategy/together.h"

#include <array>

#include "ripieno/collective/execute.h"
#include "ripieno/core/kernels.h"

namespace ripieno {

Task<> start_alike(Group group, Learner& learner) {
  const std::array all{learner.parameters(), learner.frozen(), learner.buffers()};
  for (const FloatSpan state : all) {
    const ExecuteOptions options{state.type, Purpose::setup};
    co_await broadcast(group, state, options);
  }
}

Task<> average_buffers(Group group, Learner& learner) {
  const FloatSpan buffers = learner.buffers();
  if (group.size() == 1 || buffers.count == 0) co_return;
  scale(buffers, 1.0 / group.size());
  const ExecuteOptions options{buffers.type, Purpose::evaluate};
  co_await all_reduce(find_route("reduce-broadcast"), group, buffers, options);
}

Task<Score> evaluate_together(Group group, Learner& learner) {
  const Evaluation mine = co_await learner.evaluate(group.rank(), group.size());
  std::array<double, 3> sums{mine.correct, mine.loss, mine.samples};
  const ExecuteOptions options{DType::fp64, Purpose::evaluate};
  co_await all_reduce(find_route("reduce-broadcast"), group, FloatSpan(std::span<double>(sums)), options);
  co_return Score{sums[0] / sums[2], sums[1] / sums[2]};
}

}  // namespace ripieno
