#include "ripieno/strategy/together.h"

#include <array>
#include <cmath>
#include <numeric>

#include "ripieno/collective/execute.h"
#include "ripieno/core/kernels.h"
#include "ripieno/core/numbers.h"
#include "ripieno/strategy/registry.h"

namespace ripieno {
namespace {

Task<> sum_up(Communicator comm, NumberSpan numbers, Purpose purpose = Purpose::evaluate) {
  const ExecuteOptions options{numbers.type, purpose};
  co_await all_reduce(find_route("reduce-broadcast"), comm, numbers, options);
}

/// Of each of some numbers, whether all ranks hold the same bits, told by their hashes. The same answer on all ranks.
Task<std::vector<bool>> are_alike(Communicator comm, std::vector<NumberSpan> states, Purpose purpose) {
  std::vector<bool> alike(states.size(), true);
  if (comm.size() == 1) co_return alike;
  std::vector<std::int64_t> hashes, others;
  for (const NumberSpan state : states) hashes.push_back(static_cast<std::int64_t>(hash(state)));
  std::vector<std::int64_t> first = hashes;
  co_await broadcast(comm, NumberSpan(first), {DType::int64, purpose});
  for (std::size_t i = 0; i < hashes.size(); ++i) others.push_back(hashes[i] == first[i] ? 0 : 1);
  co_await sum_up(comm, NumberSpan(others), purpose);
  for (std::size_t i = 0; i < alike.size(); ++i) alike[i] = others[i] == 0;
  co_return alike;
}

}  // namespace

Task<> start_alike(Communicator comm, Learner& learner) {
  const std::vector<NumberSpan> all{learner.parameters(), learner.frozen(), learner.buffers()};
  const std::vector<bool> alike = co_await are_alike(comm, all, Purpose::setup);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (alike[i]) continue;
    const ExecuteOptions options{all[i].type, Purpose::setup};
    co_await broadcast(comm, all[i], options);
  }
}

void divide_by_loss_scale(Learner& learner) {
  if (learner.loss_scale()) scale(learner.gradients(), 1 / learner.loss_scale()->value());
}

void step_if_finite(Workplace& place, Optimiser& optimiser, double rate) {
  Learner& learner = place.learner;
  const StageTimer timer(place.recorder, place.comm.runtime(), Stage::optimise);
  LossScale* const loss_scale = learner.loss_scale();
  const bool finite = !loss_scale || all_finite(learner.gradients());
  if (loss_scale) loss_scale->update(finite);
  if (!finite) return;
  optimiser.begin_step();
  optimiser.update(0, learner.parameters(), learner.gradients(), rate);
}

Task<PassResult> local_step(Workplace* place, Optimiser* optimiser, BatchId batch, double rate, Weighting weighting) {
  Learner& learner = place->learner;
  const auto pass = co_await learner.begin(batch, std::move(weighting));
  const PassResult result = co_await pass->finish();
  divide_by_loss_scale(learner);
  step_if_finite(*place, *optimiser, rate);
  co_return result;
}

Task<> average_buffers(Communicator comm, Learner& learner) {
  const NumberSpan buffers = learner.buffers();
  if (comm.size() == 1 || buffers.count == 0) co_return;
  scale(buffers, 1.0 / comm.size());
  co_await sum_up(comm, buffers);
}

Task<Score> evaluate_together(Communicator comm, Learner& learner) {
  const Evaluation mine = co_await learner.evaluate(comm.rank(), comm.size());
  std::array<double, 3> sums{mine.correct, mine.loss, mine.samples};
  co_await sum_up(comm, NumberSpan(std::span<double>(sums)));
  co_return Score{sums[0] / sums[2], sums[1] / sums[2]};
}

bool evaluates_after(const Plan& plan, std::uint32_t epoch, bool last) {
  return last || (plan.evaluate_every > 0 && (epoch + 1) % plan.evaluate_every == 0);
}

Task<> end_epoch_alike(Workplace* place, const Plan* plan, std::uint32_t epoch, bool last) {
  EpochRecord record{epoch, NAN, NAN, 0, NAN};
  co_await average_buffers(place->comm, place->learner);
  if (evaluates_after(*plan, epoch, last)) {
    const StageTimer timer(place->recorder, place->comm.runtime(), Stage::evaluate);
    const Score score = co_await evaluate_together(place->comm, place->learner);
    record.accuracy = score.accuracy;
    record.loss = score.loss;
  }
  record.parameters_hash = hash(place->learner.parameters());
  place->recorder.epoch(record);
}

Task<> end_epoch_apart(Workplace* place, const Plan* plan, std::uint32_t epoch, bool last, Consensus* consensus) {
  Learner& learner = place->learner;
  EpochRecord record{epoch, NAN, NAN, hash(learner.parameters()), NAN};
  if (evaluates_after(*plan, epoch, last)) {
    const StageTimer timer(place->recorder, place->comm.runtime(), Stage::evaluate);
    const Evaluation lone = co_await learner.evaluate(0, 1);
    record.own_accuracy = lone.correct / lone.samples;
    const auto buffers = copy_of(learner.buffers());
    const auto parameters = copy_of(learner.parameters());
    co_await average_buffers(place->comm, learner);
    const std::vector<NumberSpan> own{learner.parameters()};
    const std::vector<bool> alike = co_await are_alike(place->comm, own, Purpose::evaluate);
    if (!alike[0]) {
      scale(learner.parameters(), 1.0 / place->comm.size());
      co_await sum_up(place->comm, learner.parameters());
    }
    convert(consensus->parameters.span(), learner.parameters());
    convert(consensus->buffers.span(), learner.buffers());
    const Score score = co_await evaluate_together(place->comm, learner);
    record.accuracy = score.accuracy;
    record.loss = score.loss;
    convert(learner.parameters(), parameters->span());
    convert(learner.buffers(), buffers->span());
  }
  place->recorder.epoch(record);
}

std::vector<Slot> slots_of(const Layout& layout, const std::vector<Range>& ranges) {
  std::vector<Slot> slots;
  for (const Range range : ranges) {
    Slot slot{range.size()};
    for (const Layout::Tensor& tensor : layout.tensors) {
      const bool inside = range.begin <= tensor.range.begin && tensor.range.end <= range.end;
      if (!inside || tensor.shape.size() < 2 || tensor.range.size() == 0) continue;
      const auto rows = static_cast<std::size_t>(tensor.shape[0]);
      slot.matrices.push_back({{tensor.range.begin - range.begin, tensor.range.end - range.begin}, rows, tensor.range.size() / rows});
    }
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::unique_ptr<Averager> averager_of(const StrategyInfo& info, const Plan& plan, std::vector<Slot> slots, DType type) {
  AveragerOptions options;
  options.route = info.route_of(plan);
  if (info.route == "any") {
    options.small_route = plan.exchange.small_route;
    options.small_bytes = plan.exchange.small_bytes;
  }
  options.codec = plan.exchange.codec;
  options.segment_bytes = plan.exchange.segment_bytes;
  options.last_first = plan.exchange.forward;
  options.seed = plan.seed;
  return make_averager(options, std::move(slots), type);
}

}  // namespace ripieno
