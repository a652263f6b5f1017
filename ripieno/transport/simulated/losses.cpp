#include <algorithm>

#include "ripieno/transport/aborts.h"
#include "ripieno/transport/simulated/state.h"

namespace ripieno::transport::simulation {
namespace {

constexpr Duration end_of_time = std::chrono::hours(100 * 24);  // picoseconds end at 106 days

std::exception_ptr peer_lost(int rank, int peer) {
  return std::make_exception_ptr(Error(Loss{peer, Lost::ended}, text("rank ", rank, ": lost rank ", peer)));
}

bool is_peer_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.kind() == ErrorKind::peer;
  } catch (...) {
    return false;
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown error";
  }
}

bool none(const Parcel&) { return false; }

}  // namespace

void State::check(int rank, const Operation& operation) const {
  if (operation.parcel) {
    check_peer(rank, operation.peer, operation.parcel->message.channel.scope);
    check_time(rank, operation);
  }
  if (operation.receives) check_peer(rank, operation.in.peer, operation.in.message.channel.scope);
}

void State::check_time(int rank, const Operation& operation) const {
  const auto bytes = static_cast<std::int64_t>(operation.parcel->payload.size() + options.framing_bytes);
  const Duration begin = std::max({runtime.now(), at(rank).card.out_free, at(operation.peer).card.in_free});
  if (begin <= end_of_time - options.link.per_byte * bytes) return;
  fail(ErrorKind::usage, "virtual time ends after ", seconds(end_of_time) / 86400,
       " days, and this network takes longer: give it faster links, or the job less to do");
}

void State::check_peer(int rank, int peer, Scope scope) const {
  require(peer >= 0 && peer < ranks && peer != rank, "rank ", rank, " of ", ranks, " has no peer ", peer);
  if (at(rank).is_unharmed) return;
  if (closed) std::rethrow_exception(closed);
  if (at(rank).killed) std::rethrow_exception(at(rank).killed);
  if (is_behind(rank)) std::rethrow_exception(peer_lost(rank, lost[at(rank).epoch]));
  if (!lost.empty() && is_lost(peer)) std::rethrow_exception(peer_lost(rank, peer));
  if (has_aborted(rank, scope)) std::rethrow_exception(at(rank).aborted.at(scope));
}

void State::abort(int rank, Scope scope, const std::vector<int>& members, std::exception_ptr error) {
  if (closed || at(rank).killed || (is_behind(rank) && is_peer_error(error)))
    return;  // the loss has been announced to all
  if (!add_abort(rank, scope, error)) return;
  end_scope(rank, scope, error);
  post_ready();
  const auto why = std::make_shared<const std::string>(text("rank ", rank, " gave up: ", message_of(error)));
  const Loss loss = passed_on(loss_of(error), rank);
  for (const int member : members) {
    if (member == rank) continue;
    const Lane& way = lane(rank, member);
    runtime.call_at(runtime.now() + link(way).latency, [self = shared_from_this(), member, scope, why, loss] {
      if (self->closed || self->at(member).killed) return;
      const auto told = std::make_exception_ptr(Error(loss, text("rank ", member, ": ", *why)));
      if (self->add_abort(member, scope, told)) self->end_scope(member, scope, told);
      self->post_ready();
    });
  }
}

bool State::add_abort(int rank, Scope scope, const std::exception_ptr& error) {
  at(rank).is_unharmed = false;
  if (!at(rank).aborted.emplace(scope, error).second) return false;
  for (const auto& watcher : at(rank).watchers) watcher(scope, error);
  return true;
}

void State::end_scope(int rank, Scope scope, const std::exception_ptr& error) {
  const std::vector<Stream*> streams_now = at(rank).streams;
  for (Stream* const stream : streams_now) {
    if (stream->channel.scope != scope) continue;
    if (stream->lane->from == rank) {  // what has arrived can still be received
      drop_parcels(*stream, error, [](const Parcel& parcel) { return parcel.delivered; });
    } else {  // the sender goes on until it hears of it
      fail_receives(*stream, error);
      drop_parcels(*stream, nullptr, [](const Parcel& parcel) { return !parcel.started; });
    }
  }
}

void State::fail_receives(Stream& stream, const std::exception_ptr& error) {
  while (!stream.posted.empty()) {
    --stream.asked;
    end(stream.posted.pop(), error);
  }
}

void State::drop_parcels(Stream& stream, const std::exception_ptr& error, bool (*keeps)(const Parcel&)) {
  auto all = std::exchange(stream.parcels, {});
  stream.not_started = nullptr;
  stream.started = 0;
  std::size_t freed = 0;
  while (!all.empty()) {
    Parcel* const parcel = all.pop();
    if (keeps(*parcel)) {
      stream.parcels.push(parcel);
      stream.started += parcel->started;
      if (!parcel->started && !stream.not_started) stream.not_started = parcel;
      continue;
    }
    parcel->dropped = true;
    if (parcel->unasked) freed += parcel->payload.size();
    if (error) end_sender(*parcel, error);
    ParcelReference::release(parcel);
  }
  if (freed > 0) free_window(*stream.lane, freed);
}

bool State::is_lost(int rank) const { return std::find(lost.begin(), lost.end(), rank) != lost.end(); }

void State::kill(int rank) {
  require(options.turn_bytes == 0, "rank ", rank, " dies on a network whose messages take turns");
  if (at(rank).killed) return;
  const auto killed = std::make_exception_ptr(Error(Loss{rank, Lost::ended}, text("rank ", rank, " was killed")));
  at(rank).killed = killed;
  at(rank).is_unharmed = false;
  for (Stream* const stream : at(rank).streams) {
    if (stream->lane->to == rank) {
      fail_receives(*stream, killed);
      continue;
    }
    for (Parcel* one = stream->parcels.first(); one; one = one->next) end_sender(*one, killed);
    drop_parcels(*stream, nullptr, [](const Parcel& parcel) { return parcel.delivered; });
  }
  post_ready();
  runtime.call_at(runtime.now() + options.detection, [self = shared_from_this(), rank] {
    if (!self->closed) self->lose(rank);
  });
}

void State::lose(int rank) {
  lost.push_back(rank);
  for (Stream* const stream : in_order()) {
    drop_parcels(*stream, peer_lost(stream->lane->from, rank), none);
    fail_receives(*stream, peer_lost(stream->lane->to, rank));
  }
  for (Rank& one : members) {
    one.is_unharmed = false;
    for (Card* const card : {&one.card, &one.inside}) card->in_free = card->out_free = runtime.now();
  }
  post_ready();
}

std::vector<int> State::survivors(int rank) {
  if (at(rank).killed) std::rethrow_exception(at(rank).killed);
  at(rank).epoch = lost.size();
  std::vector<int> alive;
  for (int other = 0; other < ranks; ++other) {
    if (!is_lost(other)) alive.push_back(other);
  }
  return alive;
}

void State::close() {
  // If a run ended early, coroutines that wait here own the endpoint, which owns this state. Failing their operations
  // hands them to the runtime, which destroys them without resuming them.
  closed = std::make_exception_ptr(Error(ErrorKind::internal, "the simulated network was destroyed"));
  for (Rank& one : members) one.is_unharmed = false;
  for (Stream* const stream : in_order()) {
    drop_parcels(*stream, closed, none);
    fail_receives(*stream, closed);
  }
  for (auto& [key, lane] : lanes) {
    while (!lane.waiting.empty()) ParcelReference::release(lane.waiting.pop());
  }
  post_ready();
}

}  // namespace ripieno::transport::simulation
