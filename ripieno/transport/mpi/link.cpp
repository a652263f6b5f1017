#include "ripieno/transport/mpi/link.h"

#include <algorithm>
#include <cstring>

namespace ripieno::transport {
namespace {

// Operations of a link that has ended wait so long for MPI to let go of their memory. That comes at once unless the
// peer has stopped answering.
constexpr Duration settling_time = std::chrono::seconds(1);

int payload_tag(std::uint32_t number) {
  return MpiHub::first_payload_tag + static_cast<int>(number % MpiHub::payload_tags);
}

/// Of which send() says more.
std::exception_ptr link_end() { return std::make_exception_ptr(Error(Loss{}, "the link has ended")); }

/// A copy of the bytes; zeros where they have no data.
void copy(ConstBytes from, std::byte* into) {
  if (from.empty()) return;
  if (from.data()) {
    std::memcpy(into, from.data(), from.size());
  } else {
    std::memset(into, 0, from.size());
  }
}

}  // namespace

Task<> MpiLink::send(std::shared_ptr<MpiLink> link, Message message, ConstBytes payload) {
  link->throw_if_aborted(message.channel.scope);
  if (link->ended()) std::rethrow_exception(link->failure("sending", message));
  const std::uint32_t sequence = link->lanes_[message.channel].next_sent++;
  const Frame frame = make_frame(message, link->options_.epoch, sequence, payload.size());
  const auto outgoing = std::make_shared<Outgoing>(link->runtime_, message.channel.scope);
  try {
    if (payload.size() <= MpiHub::inline_bytes) {
      link->send_header(frame, payload, outgoing);
    } else {
      link->send_header(frame, {}, nullptr);
      link->send_payload(payload, outgoing);
    }
  } catch (const Error& error) {
    link->hub_->give_up(error.what());
    std::rethrow_exception(link->failure("sending", message));
  }
  if (outgoing->pieces == 0) co_return;
  std::erase_if(link->outgoing_, [](const auto& weak) { return weak.expired(); });
  link->outgoing_.push_back(outgoing);
  const Watched watched(link.get(), message);
  try {
    co_await outgoing->done.wait();
  } catch (...) {
    link->throw_if_aborted(message.channel.scope);
    std::rethrow_exception(link->failure("sending", message));
  }
}

/// `outgoing`, unless null, is done once the header and what travels with it have left their memory.
void MpiLink::send_header(const Frame& frame, ConstBytes with, const std::shared_ptr<Outgoing>& outgoing) {
  const std::size_t bytes = frame_bytes + with.size();
  Scratch header = scratch(bytes);
  const FrameBytes encoded = encode(frame);
  std::copy(encoded.begin(), encoded.end(), header.get());
  copy(with, header.get() + frame_bytes);
  Mpi::Request request = hub_->mpi().send(peer_, MpiHub::header_tag, ConstBytes(header.get(), bytes));
  if (hub_->mpi().test(request)) return;
  if (outgoing) ++outgoing->pieces;
  hub_->when_done(request, [outgoing, header = std::move(header)] {
    if (outgoing) end_piece(*outgoing);
  });
}

void MpiLink::send_payload(ConstBytes payload, const std::shared_ptr<Outgoing>& outgoing) {
  std::shared_ptr<std::byte> zeros;
  if (!payload.data()) {
    zeros = own_memory(payload.size());
    payload = ConstBytes(zeros.get(), payload.size());
  }
  const int tag = payload_tag(next_out_++);
  while (!payload.empty()) {
    const ConstBytes piece = payload.first(std::min(payload.size(), Mpi::most_bytes));
    Mpi::Request request = hub_->mpi().send(peer_, tag, piece);
    payload = payload.subspan(piece.size());
    if (hub_->mpi().test(request)) continue;
    ++outgoing->pieces;
    hub_->when_done(request, [outgoing, zeros] { end_piece(*outgoing); });
  }
}

void MpiLink::end_piece(Outgoing& outgoing) {
  if (--outgoing.pieces > 0) return;
  if (outgoing.error) {
    outgoing.done.fail(outgoing.error);
  } else {
    outgoing.done.set();
  }
}

/// A header that is no frame's.
template <class T>
void MpiLink::send_note(const T& note) {
  const auto kept = std::make_shared<T>(note);
  const ConstBytes header = std::as_bytes(std::span(kept.get(), 1));
  try {
    hub_->when_done(hub_->mpi().send(peer_, MpiHub::header_tag, header), [kept] {});
  } catch (const Error& error) {
    hub_->give_up(error.what());
  }
}

void MpiLink::say(MpiHub::Farewell farewell) { send_note(farewell); }

void MpiLink::tell(const Abort& abort) {
  if (ended()) return;
  try {
    send_header(make_frame(abort, options_.epoch), std::as_bytes(std::span(abort.reason)), nullptr);
  } catch (const Error& error) {
    hub_->give_up(error.what());
  }
}

void MpiLink::take(ConstBytes header) {
  if (header.size() == sizeof(MpiHub::Part)) {
    std::memcpy(&peer_closed_.emplace(), header.data(), header.size());
    advance_all();
    return end_if_closed();
  }
  if (header.size() == sizeof(MpiHub::Farewell)) {
    heard_ = static_cast<MpiHub::Farewell>(header[0]);
    return;
  }
  FrameBytes bytes{};
  std::copy_n(header.begin(), std::min(header.size(), frame_bytes), bytes.begin());
  const std::optional<Frame> frame = decode(bytes);
  const bool is_inline = frame && frame->payload <= MpiHub::inline_bytes;
  if (!frame || header.size() != frame_bytes + (is_inline ? frame->payload : 0))
    return give_up(0, std::make_exception_ptr(not_a_header(rank_, peer_, bytes)));
  const int tag = is_inline ? -1 : payload_tag(next_in_++);
  try {
    take(*frame, header.subspan(frame_bytes), tag);
  } catch (...) {
    give_up(frame->channel.scope, std::current_exception());
    drop_payload(*frame, tag);
  }
}

void MpiLink::take(const Frame& frame, ConstBytes with, int tag) {
  if (ended()) return drop_payload(frame, tag);
  check_epoch(frame);
  if (frame.kind == FrameKind::abort) {
    std::string reason(reinterpret_cast<const char*>(with.data()), with.size());
    return aborts_->hear(peer_, abort_in(frame, std::move(reason)));
  }
  if (aborted(frame.channel.scope)) return drop_payload(frame, tag);
  Lane& lane = admit(frame);
  if (tag < 0 && !incoming_.contains(frame.channel)) {
    if (const auto posted = first_unbegun(lane)) {
      if (auto wrong = mismatch(frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
      posted->sink.take(0, with);
      return serve(lane, posted);
    }
  }
  const auto incoming = std::make_shared<Incoming>(Incoming{frame, tag});
  if (tag < 0) {
    incoming->payload = scratch(with.size());
    copy(with, incoming->payload.get());
    incoming->fetched = true;
    incoming->cost = with.size() + sizeof(Arrived);
    unasked_ += incoming->cost;
  }
  incoming_[frame.channel].push_back(incoming);
  advance(frame.channel);
}

/// Gives the channel's messages to their receives, in order, and fetches what there is room for.
void MpiLink::advance(Channel channel) {
  const auto at = incoming_.find(channel);
  if (at == incoming_.end()) return;
  const Queue messages = at->second;
  for (const auto& incoming : messages) {
    if (incoming->posted) continue;
    Lane& lane = lanes_[channel];
    if (const auto posted = first_unbegun(lane)) {
      bind(incoming, lane, posted);
    } else if (!incoming->fetched && incoming->pieces == 0) {
      const std::uint64_t cost = incoming->frame.payload + sizeof(Arrived);
      if (!peer_closed_ && unasked_ + cost > options_.unasked_bytes) continue;
      incoming->cost = cost;
      unasked_ += cost;
      fetch_aside(incoming);
    }
    if (ended()) return;
  }
  keep(channel);
}

/// Removes the channel's messages that were received, and moves those that nobody has asked for to the lane.
void MpiLink::keep(Channel channel) {
  const auto at = incoming_.find(channel);
  if (at == incoming_.end()) return;
  Queue& queue = at->second;
  std::erase_if(queue, [](const auto& incoming) { return incoming->posted && incoming->posted->filled; });
  while (!queue.empty() && queue.front()->fetched && !queue.front()->posted) {
    lanes_[channel].arrived.push_back({queue.front()->frame, std::move(queue.front()->payload)});
    queue.pop_front();
  }
  if (queue.empty()) incoming_.erase(at);
}

void MpiLink::advance_all() {
  std::vector<Channel> channels;
  for (const auto& [channel, queue] : incoming_) channels.push_back(channel);
  for (const Channel& channel : channels) {
    if (ended()) return;
    advance(channel);
  }
}

/// The receive is the message's.
void MpiLink::bind(const std::shared_ptr<Incoming>& incoming, Lane& lane, const std::shared_ptr<Posted>& posted) {
  if (auto wrong = mismatch(incoming->frame, posted->message, posted->sink.payload()))
    return give_up(incoming->frame.channel.scope, wrong);
  unasked_ -= std::exchange(incoming->cost, 0);
  incoming->posted = posted;
  posted->begun = true;
  if (incoming->fetched) {
    posted->sink.take(0, ConstBytes(incoming->payload.get(), incoming->frame.payload));
    serve(lane, posted);
  } else if (incoming->pieces == 0) {
    if (const auto straight = posted->sink.straight()) {
      posted->in_use = true;
      fetch(incoming, *straight);
    } else {
      fetch_aside(incoming);
    }
  }
}

void MpiLink::fetch_aside(const std::shared_ptr<Incoming>& incoming) {
  incoming->payload = scratch(incoming->frame.payload);
  fetch(incoming, Bytes(incoming->payload.get(), incoming->frame.payload));
}

void MpiLink::fetch(const std::shared_ptr<Incoming>& incoming, Bytes into) {
  try {
    while (!into.empty()) {
      const Bytes piece = into.first(std::min(into.size(), Mpi::most_bytes));
      into = into.subspan(piece.size());
      ++incoming->pieces;
      hub_->when_done(hub_->mpi().receive(peer_, incoming->tag, piece), [weak = weak_from_this(), incoming] {
        if (--incoming->pieces > 0) return;
        if (const auto link = weak.lock()) static_cast<MpiLink&>(*link).has_fetched(incoming);
      });
    }
  } catch (const Error& error) {
    hub_->give_up(error.what());
  }
}

void MpiLink::has_fetched(const std::shared_ptr<Incoming>& incoming) {
  incoming->fetched = true;
  const auto& posted = incoming->posted;
  if (incoming->dropped) {
    if (posted && posted->in_use) posted->done.fail(incoming->error);
    std::erase(dropped_, incoming);
    return;
  }
  const Channel channel = incoming->frame.channel;
  if (posted) {
    if (!posted->in_use) posted->sink.take(0, ConstBytes(incoming->payload.get(), incoming->frame.payload));
    serve(lanes_[channel], posted);
  }
  advance(channel);
  end_if_closed();
}

/// All that a peer sent before it closed the link is fetched; then the link ends.
void MpiLink::end_if_closed() {
  if (peer_closed_ && incoming_.empty()) lose("connection closed");
}

void MpiLink::drop(const std::shared_ptr<Incoming>& incoming, std::exception_ptr error) {
  unasked_ -= std::exchange(incoming->cost, 0);
  incoming->dropped = true;
  incoming->error = std::move(error);
  if (incoming->pieces > 0) {
    dropped_.push_back(incoming);
  } else if (!incoming->fetched) {
    drop_payload(incoming->frame, incoming->tag);
  }
}

/// Fetches a payload that nobody wants, so that its sender can end.
void MpiLink::drop_payload(const Frame& frame, int tag) {
  if (tag < 0 || broken_) return;
  const auto unwanted = std::make_shared<Incoming>(Incoming{frame, tag});
  unwanted->dropped = true;
  fetch_aside(unwanted);
}

void MpiLink::asked() {
  if (!ended() && !incoming_.empty()) advance_all();
}

void MpiLink::drop(const Abort& abort) {
  for (const auto& weak : outgoing_) {
    const auto outgoing = weak.lock();
    if (outgoing && outgoing->scope == abort.scope && !outgoing->error) outgoing->error = abort.error;
  }
  for (auto at = incoming_.begin(); at != incoming_.end();) {
    if (at->first.scope != abort.scope) {
      ++at;
      continue;
    }
    const Queue messages = std::move(at->second);
    at = incoming_.erase(at);
    for (const auto& incoming : messages) drop(incoming, abort.error);
  }
  end_if_closed();
}

bool MpiLink::takes(const MpiHub::Part& part) const {
  if (!peer_closed_) return !has_failed();
  return peer_closed_->lanes >= part.lanes && peer_closed_->collectives >= part.collectives;
}

std::optional<MpiLink::Unasked> MpiLink::unasked(Channel channel) const {
  const auto lane = lanes_.find(channel);
  if (lane == lanes_.end() || lane->second.arrived.empty()) return std::nullopt;
  const Arrived& first = lane->second.arrived.front();
  return Unasked{first.frame.message(), ConstBytes(first.payload.get(), first.frame.payload)};
}

void MpiLink::hang_up() {
  if (!std::exchange(closed_, true) && !broken_) send_note(hub_->part());
  for (const auto& weak : outgoing_) {
    // A peer that has closed has received what is under way, or drops it.
    const auto outgoing = weak.lock();
    if (outgoing && !outgoing->error && !peer_closed_) outgoing->error = link_end();
  }
  for (const auto& [channel, queue] : std::exchange(incoming_, {})) {
    for (const auto& incoming : queue) {
      drop(incoming, incoming->posted ? failure("waiting for", incoming->posted->message) : nullptr);
    }
  }
  if (broken_) return fail_all();
  runtime_.call_at(runtime_.now() + settling_time, [weak = weak_from_this()] {
    if (const auto link = weak.lock()) static_cast<MpiLink&>(*link).fail_all();
  });
}

/// Fails what still waits for MPI.
void MpiLink::fail_all() {
  for (const auto& weak : outgoing_) {
    if (const auto outgoing = weak.lock()) outgoing->done.fail(outgoing->error ? outgoing->error : link_end());
  }
  for (const auto& incoming : dropped_) {
    if (incoming->posted && incoming->posted->in_use) incoming->posted->done.fail(incoming->error);
  }
}

void MpiLink::break_off(const std::string& why) {
  lose(why);
  broken_ = true;
  fail_all();
}

}  // namespace ripieno::transport
