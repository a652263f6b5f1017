#include "ripieno/strategy/mixing.h"

#include "ripieno/codec/wire.h"

namespace ripieno::strategy {

DType wire_type(const Plan& plan, DType native) {
  return codec::find_wire_format(plan.exchange.codec.name).type(native);
}

Task<> weighted_step(OwnSteps* steps, TrainingStep step, int workers, StepResult* result) {
  const Weighting weighting = [workers](BatchSize size) { return size.share() * workers; };
  co_await steps->take(step, weighting, result);
}

Mixing::Mixing(const Plan& plan, Workplace workplace, int set)
    : Apart(plan, std::move(workplace)),
      mean_(place_.learner.layout().parameters, place_.learner.layout().type),
      lost_(place_.learner.layout().parameters, place_.learner.layout().type) {
  const Layout& layout = place_.learner.layout();
  for (int i = 0; i < set; ++i) {
    set_.push_back(
        std::make_unique<numeric::Numbers>(layout.parameters, wire_type(plan, layout.type), place_.comm.memory()));
  }
  take_channel();
}

Task<> Mixing::attempt(TrainingStep step, StepResult* result) {
  co_await weighted_step(&own_steps_, step, place_.comm.size(), result);  // 2
  const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, 0);
  if (place_.comm.size() == 1) co_return;
  staged_ = co_await exchange(step.number);
  if (place_.regroup) co_await place_.comm.barrier();
}

void Mixing::commit(TrainingStep) {
  if (place_.comm.size() == 1) return;
  take_mean();
  exchanged();
}

Task<bool> Mixing::hand_over(int, bool behind, BrokenOff what) {
  if (behind) commit(*what.step);
  co_return behind;
}

Task<> Mixing::pass_on(const char* operation, int to, NumberSpan numbers, int from, NumberSpan into) {
  if (numbers.count == 0) co_return;
  transport::Endpoint* endpoint = &place_.comm.endpoint();
  const transport::Message message{channel_, operation, numbers.type, numbers.count};
  const transport::Outgoing out{place_.comm.member(to), message, numbers.bytes()};
  const transport::Incoming in{place_.comm.member(from), message,
                               transport::Sink(into, message.type, numeric::Reduce::replace)};
  Task<> together = endpoint->exchange(out, in, place_.comm.ending());
  co_await std::move(together);
}

void Mixing::take_mean() {
  if (staged_.empty()) return;
  const NumberSpan parameters = place_.learner.parameters(), mean = mean_.span(), lost = lost_.span(), own = of_set(0);
  numeric::convert(mean, staged_[0]);
  for (std::size_t i = 1; i < staged_.size(); ++i) numeric::add(mean, staged_[i]);
  numeric::scale(mean, 1.0 / static_cast<double>(staged_.size()));
  if (own.type != parameters.type) {
    numeric::convert(lost, own);
    numeric::carry_over(parameters, lost, mean);
  } else {
    numeric::convert(parameters, mean);
  }
}

}  // namespace ripieno::strategy
