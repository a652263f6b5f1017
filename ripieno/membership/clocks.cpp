#include "ripieno/membership/clocks.h"

namespace ripieno::membership {
namespace {

transport::Message question_on(transport::Channel channel) { return {channel, "what time is it", DType::int64, 1}; }
transport::Message answer_on(transport::Channel channel) { return {channel, "it is", DType::int64, 1}; }

Task<> serve(std::shared_ptr<transport::Endpoint> endpoint, transport::Channel channel, int peer, int tries) {
  const transport::Message question = question_on(channel), answer = answer_on(channel);
  std::int64_t time = 0;
  const Bytes place(reinterpret_cast<std::byte*>(&time), sizeof time);
  for (int i = 0; i < tries; ++i) {
    co_await endpoint->receive(peer, question, place);
    time = endpoint->runtime().now().count();
    co_await endpoint->send(peer, answer, place);
  }
}

}  // namespace

Task<ClockOffset> clock_offset(std::shared_ptr<transport::Endpoint> endpoint, transport::Channel channel, int tries) {
  const transport::Message question = question_on(channel), answer = answer_on(channel);
  Runtime& runtime = endpoint->runtime();
  if (endpoint->rank() == 0) {
    for (int peer = 1; peer < endpoint->size(); ++peer) co_await serve(endpoint, channel, peer, tries);
    co_return ClockOffset{};
  }
  std::int64_t time = 0;
  const Bytes place(reinterpret_cast<std::byte*>(&time), sizeof time);
  Duration quickest = Duration::max();
  ClockOffset offset;
  for (int i = 0; i < tries; ++i) {
    const Duration asked = runtime.now();
    co_await endpoint->send(0, question, place);
    co_await endpoint->receive(0, answer, place);
    const Duration answered = runtime.now();
    if (answered - asked >= quickest) continue;
    quickest = answered - asked;
    offset = {Duration(time) - (asked + quickest / 2), (quickest + Duration(1)) / 2};
  }
  co_return offset;
}

}  // namespace ripieno::membership
