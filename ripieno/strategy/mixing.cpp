#include "ripieno/strategy/mixing.h"

#include "ripieno/codec/wire.h"
#include "ripieno/strategy/apart.h"
#include "ripieno/strategy/steps.h"
#include "ripieno/strategy/together.h"

namespace ripieno {

DType wire_type(const Plan& plan, DType native) { return find_wire_format(plan.exchange.codec.name).type(native); }

Mixing::Mixing(const Plan& plan, Workplace workplace, int set)
    : plan_(plan),
      place_(std::move(workplace)),
      optimiser_(make_optimiser(plan.optimiser, place_.learner.layout().parameters, place_.learner.layout().type)),
      learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale),
      mean_(place_.learner.layout().parameters, place_.learner.layout().type),
      lost_(place_.learner.layout().parameters, place_.learner.layout().type),
      consensus_(place_.learner.layout()),
      channel_(place_.comm.channel(place_.comm.take_channels(), Purpose::exchange)) {
  const Layout& layout = place_.learner.layout();
  for (int i = 0; i < set; ++i) {
    set_.push_back(std::make_unique<Numbers>(layout.parameters, wire_type(plan, layout.type), place_.comm.memory()));
  }
}

Task<> Mixing::run() {
  co_await start_apart(place_.comm, &place_.learner, plan_.first_epoch > 0);  // 1
  started();
  convert(consensus_.parameters.span(), place_.learner.parameters());
  convert(consensus_.buffers.span(), place_.learner.buffers());
  place_.recorder.begin();
  for (Steps at(plan_, place_.learner.steps_per_epoch()); at.more(); at.next()) {
    const double rate = learning_rate_.at(at.epochs_done());
    const BatchId batch = at.batch();
    const PassResult result = co_await step(batch, rate);  // 2
    {
      const StageTimer timer(place_.recorder, place_.comm.runtime(), Stage::exchange, 0);
      if (place_.comm.size() > 1) co_await mix(at.step());  // 3
    }
    place_.recorder.step({at.epoch(), at.step(), result.loss, result.samples, rate, {}});
    if (at.ends_epoch()) {
      co_await end_epoch_apart(&place_, &plan_, at.epoch(), at.ends(), &consensus_);
      if (place_.checkpoint && !at.ends_early()) place_.checkpoint(at.epoch());
    }
  }
}

Task<PassResult> Mixing::step(BatchId batch, double rate) {
  const double workers = place_.comm.size();
  const Weighting weighting = [workers](BatchSize size) { return size.share() * workers; };
  return local_step(&place_, optimiser_.get(), batch, rate, weighting);
}

Task<> Mixing::pass_on(const char* operation, int to, NumberSpan numbers, int from, NumberSpan into) {
  if (numbers.count == 0) co_return;
  Endpoint* endpoint = &place_.comm.endpoint();
  const Message message{channel_, operation, numbers.type, numbers.count};
  const Outgoing out{place_.comm.member(to), message, numbers.bytes()};
  const Incoming in{place_.comm.member(from), message, Sink(into, message.type, Reduce::replace)};
  Task<> together = endpoint->exchange(out, in, place_.comm.ending());
  co_await std::move(together);
}

void Mixing::take_mean(const std::vector<NumberSpan>& set) {
  const NumberSpan parameters = place_.learner.parameters(), mean = mean_.span(), lost = lost_.span(), own = of_set(0);
  convert(mean, set[0]);
  for (std::size_t i = 1; i < set.size(); ++i) add(mean, set[i]);
  scale(mean, 1.0 / static_cast<double>(set.size()));
  if (own.type != parameters.type) {
    convert(lost, own);
    carry_over(parameters, lost, mean);
  } else {
    convert(parameters, mean);
  }
}

}  // namespace ripieno
