#include "ripieno/transport/simulated/virtual_link.h"

#include <algorithm>

#include "ripieno/transport/simulated/virtual_world.h"

namespace ripieno::transport {

Task<> VirtualLink::send(std::shared_ptr<VirtualLink> link, Message message, ConstBytes payload) {
  link->throw_if_aborted(message.channel.scope);
  if (link->ended()) std::rethrow_exception(link->failure("sending", message));
  const std::uint32_t sequence = link->lanes_[message.channel].next_sent++;
  const Frame frame = make_frame(message, link->options_.epoch, sequence, payload.size());
  const auto queued = std::make_shared<Queued>(link->runtime_, message, frame, payload);
  link->queued_.push_back(queued);
  link->send_queued();
  const Watched watched(link.get(), message);
  co_await queued->done.wait();
}

/// In the order of asking. Each is done once its bytes have left.
void VirtualLink::send_queued() {
  while (!queued_.empty() && !ended() && world_->has_room(rank_, peer_)) {
    const std::shared_ptr<Queued> next = queued_.front();
    queued_.pop_front();
    const Duration left = world_->send(rank_, peer_, next->frame, next->payload);
    if (ended()) return next->done.fail(failure("sending", next->message));  // the rank was to end by it
    runtime_.call_at(left, [next] { next->done.set(); });
  }
}

void VirtualLink::tell(const Abort& abort) {
  if (ended()) return;
  const auto reason = std::as_bytes(std::span(abort.reason));
  world_->send(rank_, peer_, make_frame(abort, options_.epoch), reason);
}

void VirtualLink::arrive(const Frame& frame, std::vector<std::byte> payload) {
  if (ended()) return;
  try {
    check_epoch(frame);
    take(frame, std::move(payload));
  } catch (...) {
    give_up(frame.channel.scope, std::current_exception());
  }
}

void VirtualLink::take(const Frame& frame, std::vector<std::byte> payload) {
  if (frame.kind == FrameKind::abort) {
    const auto* reason = reinterpret_cast<const char*>(payload.data());
    return aborts_->hear(peer_, abort_in(frame, std::string(reason, payload.size())));
  }
  if (aborted(frame.channel.scope)) return;
  Lane& lane = admit(frame);
  if (lane.posted.empty()) {
    Arrived arrived{frame, scratch(payload.size())};
    std::copy(payload.begin(), payload.end(), arrived.payload.get());
    unasked_ += arrived.cost();
    lane.arrived.push_back(std::move(arrived));
    return;
  }
  const std::shared_ptr<Posted> posted = lane.posted.front();
  if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
  posted->sink.take(0, payload);
  serve(lane);
}

void VirtualLink::peer_ended() { lose("connection closed"); }

Duration VirtualLink::asleep_until() const { return world_->asleep_until(rank_); }

void VirtualLink::asked() {
  if (!ended()) world_->took(rank_, peer_);
}

void VirtualLink::hang_up() {
  world_->end(rank_, peer_);
  for (const auto& queued : std::exchange(queued_, {})) queued->done.fail(failure("sending", queued->message));
}

void VirtualLink::drop(const Abort& abort) {
  std::erase_if(queued_, [&](const std::shared_ptr<Queued>& queued) {
    const bool is_of_it = queued->message.channel.scope == abort.scope;
    if (is_of_it) queued->done.fail(abort.error);
    return is_of_it;
  });
  asked();
}

}  // namespace ripieno::transport
