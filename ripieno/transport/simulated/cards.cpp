#include <algorithm>

#include "ripieno/transport/simulated/state.h"

namespace ripieno::transport::simulation {

void State::send(Parcel& parcel) {
  Lane& lane = *parcel.stream->lane;
  const Duration per_byte = link(lane).per_byte;
  parcel.started = true;
  if (parcel.payload.data()) parcel.data.assign(parcel.payload.begin(), parcel.payload.end());
  const Duration wire = per_byte * static_cast<std::int64_t>(parcel.payload.size() + options.framing_bytes);
  if (options.turn_bytes == 0) {
    const Duration end = transmit(parcel, wire, true);
    runtime.call_at(end, [sent = ParcelReference(&parcel)] {
      sent->state->end_sender(*sent, nullptr);
      sent->state->post_ready();
    });
    return;
  }
  parcel.left = wire;
  parcel.turn = std::max(per_byte * static_cast<std::int64_t>(options.turn_bytes), wire / 16);
  Card& own = *lane.out;
  if (lane.waiting.empty()) own.turns.push(&lane);
  ParcelReference::hold(&parcel);
  lane.waiting.push(&parcel);
  if (!own.busy) serve_next(own);
}

Duration State::transmit(Parcel& parcel, Duration wire, bool is_last) {
  const Lane& lane = *parcel.stream->lane;
  Duration& free = lane.out->out_free;
  const Duration latency = link(lane).latency;
  const Duration begin = std::max(runtime.now(), free), end = served(free, wire, lane.is_inside);
  runtime.call_at(begin + latency, [part = ParcelReference(&parcel), wire, here = end + latency, is_last] {
    part->state->arrive(*part, wire, here, is_last);
  });
  return end;
}

void State::serve_next(Card& card) {
  card.busy = false;
  while (!card.turns.empty()) {
    Lane& lane = *card.turns.pop();
    while (!lane.waiting.empty() && lane.waiting.first()->dropped) end_sending(lane);
    if (lane.waiting.empty()) continue;
    card.busy = true;
    Parcel& parcel = *lane.waiting.first();
    const Duration part = std::min(parcel.left, parcel.turn);
    parcel.left -= part;
    const Duration end = transmit(parcel, part, parcel.left == Duration(0));
    runtime.call_at(end, [sent = ParcelReference(&parcel), &card, &lane] { sent->state->end_turn(card, lane); });
    return;
  }
}

void State::end_sending(Lane& lane) {
  Parcel* const parcel = lane.waiting.pop();
  end_sender(*parcel, nullptr);
  ParcelReference::release(parcel);
}

void State::end_turn(Card& card, Lane& lane) {
  if (closed) return;
  if (Parcel& parcel = *lane.waiting.first(); parcel.left == Duration(0) || parcel.dropped) {
    end_sending(lane);
  }
  if (!lane.waiting.empty()) card.turns.push(&lane);
  serve_next(card);
  post_ready();
}

Duration State::served(Duration& card, Duration wire, bool is_inside) const {
  const Duration burst =
      is_inside ? Duration(0) : options.link.per_byte * static_cast<std::int64_t>(options.burst_bytes);
  card = std::max(runtime.now() - burst, card) + wire;
  return std::max(runtime.now(), card);
}

void State::arrive(Parcel& parcel, Duration wire, Duration here, bool is_last) {
  if (parcel.dropped) return;
  const Lane& lane = *parcel.stream->lane;
  const Duration end = std::max(here, served(lane.in->in_free, wire, lane.is_inside));
  if (!is_last) return;
  runtime.call_at(end, [all = ParcelReference(&parcel)] { all->state->deliver(*all); });
}

void State::deliver(Parcel& parcel) {
  if (parcel.dropped) return;
  Stream& stream = *parcel.stream;
  parcel.delivered = true;
  if (has_aborted(stream.lane->to, stream.channel.scope)) {
    drop_parcels(stream, nullptr, [](const Parcel& other) { return !other.delivered; });
  } else {
    match(stream);
  }
  post_ready();
}

}  // namespace ripieno::transport::simulation
