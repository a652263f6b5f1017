#include "ripieno/strategy/evaluate.h"

#include <array>

#include "ripieno/collective/execute.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::strategy {

Task<> sum_up(collective::Communicator comm, NumberSpan numbers, observe::Purpose purpose) {
  const collective::ExecuteOptions options{numbers.type, purpose};
  co_await collective::all_reduce(collective::find_route("reduce-broadcast"), comm, numbers, options);
}

Task<std::vector<bool>> are_alike(collective::Communicator comm, std::vector<NumberSpan> states,
                                  observe::Purpose purpose) {
  std::vector<bool> alike(states.size(), true);
  if (comm.size() == 1) co_return alike;
  std::vector<std::int64_t> hashes, others;
  for (const NumberSpan state : states) hashes.push_back(static_cast<std::int64_t>(numeric::hash(state)));
  std::vector<std::int64_t> first = hashes;
  co_await collective::broadcast(comm, NumberSpan(first), {DType::int64, purpose});
  for (std::size_t i = 0; i < hashes.size(); ++i) others.push_back(hashes[i] == first[i] ? 0 : 1);
  co_await sum_up(comm, NumberSpan(others), purpose);
  for (std::size_t i = 0; i < alike.size(); ++i) alike[i] = others[i] == 0;
  co_return alike;
}

Task<> average_buffers(collective::Communicator comm, Learner& learner) {
  const NumberSpan buffers = learner.buffers();
  if (comm.size() == 1 || buffers.count == 0) co_return;
  numeric::scale(buffers, 1.0 / comm.size());
  co_await sum_up(comm, buffers);
}

Task<Score> evaluate_together(collective::Communicator comm, Learner& learner) {
  const Evaluation mine = co_await learner.evaluate(comm.rank(), comm.size());
  std::array<double, 3> sums{mine.correct, mine.loss, mine.samples};
  co_await sum_up(comm, NumberSpan(std::span<double>(sums)));
  co_return Score{sums[0] / sums[2], sums[1] / sums[2]};
}

}  // namespace ripieno::strategy
