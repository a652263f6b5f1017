// The receiving part of SharedLink.
#include <algorithm>

#include "ripieno/transport/shared/link.h"

namespace ripieno::transport {

/// Reads a header; returns whether a message or an abort has begun.
bool SharedLink::read_header() {
  if (other_.ring.readable() < line_bytes) return false;
  FrameBytes bytes;
  std::memcpy(bytes.data(), other_.ring.piece(bytes.size()).data(), bytes.size());
  const bool placed = bytes[placed_mark] == std::byte{1};
  if (placed) bytes[placed_mark] = std::byte{0};
  const std::optional<Frame> frame = decode(bytes);
  const bool tells = frame && frame->kind == FrameKind::abort;
  if (!frame || (placed && (tells || other_.ring.readable() < 2 * line_bytes))) throw not_a_header(rank_, peer_, bytes);
  check_epoch(*frame);
  const bool room_wanted = other_.ring.advance(bytes.size());
  moved_in_ += bytes.size();
  const bool unwanted = tells || aborted(frame->channel.scope);
  incoming_.emplace(Incoming{*frame, unwanted ? nullptr : &admit(*frame)});
  if (placed) return read_place();
  if (room_wanted) other_.ring_bell();
  return true;
}

/// Reads the payload's place. False: the peer is gone, and its memory with it.
bool SharedLink::read_place() {
  Incoming& in = *incoming_;
  PlaceLine line;
  std::memcpy(&line, other_.ring.piece(sizeof line).data(), sizeof line);
  const bool room_wanted = other_.ring.advance(line_bytes);
  in.ticket = line.ticket;
  if (!in.lane) {
    in.frame.payload = 0;  // it stays in the peer's memory
    give_back(line.ticket);
    return true;
  }
  try {
    in.in_place = other_.regions.at({line.region, line.offset}, in.frame.payload);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::mismatch) throw;
    lose(error.what());
    return false;
  }
  if (room_wanted) other_.ring_bell();
  return true;
}

/// Decides where the message goes. False: it is unexpected and exceeds the credit.
bool SharedLink::decide() {
  Incoming& in = *incoming_;
  if (!in.lane || in.posted || in.arrived) return true;
  if (!in.lane->posted.empty()) {
    in.posted = in.lane->posted.front();
    if (auto wrong = mismatch(in.frame, in.posted->message, in.posted->sink.payload())) std::rethrow_exception(wrong);
    return true;
  }
  Arrived arrived{in.frame, nullptr, in.in_place, in.ticket};
  if (unasked_ + arrived.cost() > options_.unasked_bytes) return false;
  unasked_ += arrived.cost();
  if (!in.in_place) arrived.payload = scratch(in.frame.payload);
  in.arrived = std::move(arrived);
  return true;
}

/// Reads payload; returns whether it is complete.
bool SharedLink::read_payload() {
  Incoming& in = *incoming_;
  if (in.in_place) return true;
  while (in.offset < in.frame.payload) {
    const ConstBytes part = other_.ring.piece(in.frame.payload - in.offset);
    if (part.empty()) return false;
    if (in.posted) {
      in.posted->sink.take(in.offset, part);
    } else if (in.arrived) {
      std::memcpy(in.arrived->payload.get() + in.offset, part.data(), part.size());
    } else if (in.frame.kind == FrameKind::abort) {
      in.reason.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    in.offset += part.size();
    moved_in_ += part.size();
    if (other_.ring.advance(part.size())) other_.ring_bell();
  }
  return true;
}

void SharedLink::finish() {
  if (incoming_->arrived && !incoming_->lane->posted.empty()) {  // its receive was posted meanwhile
    const Posted& posted = *incoming_->lane->posted.front();
    if (auto wrong = mismatch(incoming_->frame, posted.message, posted.sink.payload())) std::rethrow_exception(wrong);
  }
  Incoming in = std::move(*incoming_);
  incoming_.reset();
  if (in.frame.kind == FrameKind::abort) {
    aborts_->hear(peer_, abort_in(in.frame, std::move(in.reason)));
  } else if (!in.lane) {
    return;
  } else if (in.posted) {
    if (in.in_place && !take_placed(in.in_place, in.frame.payload, in.ticket, in.posted->sink)) return withdrawn();
    serve(*in.lane);
  } else if (in.lane->posted.empty()) {
    if (in.in_place) ++placed_in_;
    in.lane->arrived.push_back(std::move(*in.arrived));
  } else {
    unasked_ -= in.arrived->cost();
    const std::shared_ptr<Posted> posted = in.lane->posted.front();
    if (in.in_place) ++placed_in_;
    give(*in.arrived, posted->sink);
    serve(*in.lane);
  }
}

bool SharedLink::read() {
  bool any = false;
  while (!ended()) {
    if (!incoming_ && !read_header()) return any;
    if (!decide()) return any;
    const std::uint64_t before = incoming_->offset;
    const bool whole = read_payload();
    any |= whole || incoming_->offset != before;
    if (!whole) return any;
    finish();
  }
  return any;
}

/// False: the sender has ended the connection meanwhile, and the bytes read are not valid.
bool SharedLink::take_placed(const std::byte* in_place, std::uint64_t bytes, std::uint64_t ticket, const Sink& sink) {
  sink.take(0, ConstBytes(in_place, bytes));
  if (other_.ring.withdrawn()) return false;
  give_back(ticket);
  return true;
}

void SharedLink::give(const Arrived& arrived, const Sink& sink) {
  if (!arrived.in_place) return PeerLink::give(arrived, sink);
  --placed_in_;
  if (take_placed(arrived.in_place, arrived.frame.payload, arrived.ticket, sink)) return;
  withdrawn();
  const Message message = arrived.frame.message();
  std::rethrow_exception(failure("waiting for", message));
}

bool SharedLink::take_in() {
  if (placed_in_ == 0 || error_) return false;
  bool any = false;
  for (auto& [channel, lane] : lanes_) {
    for (Arrived& arrived : lane.arrived) {
      const std::uint64_t bytes = arrived.frame.payload;
      if (!arrived.in_place || unasked_ + bytes > options_.unasked_bytes) continue;
      Scratch payload = scratch(bytes);
      const Sink sink{Bytes(payload.get(), bytes)};
      if (!take_placed(arrived.in_place, bytes, arrived.ticket, sink)) {
        withdrawn();
        return true;
      }
      unasked_ += bytes;
      --placed_in_;
      arrived.payload = std::move(payload);
      arrived.in_place = nullptr;
      any = true;
    }
  }
  return any;
}

}  // namespace ripieno::transport
