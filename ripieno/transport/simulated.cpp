#include "ripieno/transport/simulated.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

/// A message from the call of send() until a receive has taken it.
struct Parcel {
  Message message;
  std::size_t bytes;
  ConstBytes payload;           // the sender's, until sending starts
  std::vector<std::byte> data;  // the copy that travels (empty when the payload has no data)
  bool started = false, delivered = false, unasked = false, dropped = false;
  Event sent;
};

/// A receive that waits for its parcel.
struct Posted {
  Message message;
  std::size_t bytes;
  std::function<void(const Parcel&)> take;
  Event done;
};

/// What is between one sender and one receiver on one channel, in order.
struct Stream {
  std::deque<std::shared_ptr<Parcel>> parcels;  // not yet taken
  std::deque<std::shared_ptr<Posted>> posted;   // not yet served
};

using StreamKey = std::tuple<int, int, Channel>;  // sender, receiver, channel

/// A message of which a card has sent a part.
struct Sending {
  StreamKey key;
  std::shared_ptr<Parcel> parcel;
  Duration left, turn;  // on the wire
};

/// What a card sends to each peer, one message after the other, in turns with its other peers.
struct Turns {
  std::map<int, std::deque<Sending>> to;
  std::deque<int> next;  // peers that wait for their turn
  bool busy = false;
};

std::exception_ptr peer_lost(int rank, int peer) {
  return std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank, ": lost rank ", peer)));
}

bool is_peer_error(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.kind() == ErrorKind::peer;
  } catch (...) {
    return false;
  }
}

}  // namespace

struct SimulatedNetwork::State : std::enable_shared_from_this<State> {
  State(Runtime& runtime, int ranks, SimulatedOptions options)
      : runtime(runtime), ranks(ranks), options(options), card_out(ranks), card_in(ranks), revoked(ranks),
        killed(ranks), epoch(ranks), turns(static_cast<std::size_t>(ranks)) {
    require(options.detection >= Duration(0), "a failure detector that takes ", options.detection.count(), " ps");
  }

  /// Starts what may start: in order, and only what was asked for or fits into the window.
  void advance(StreamKey key) {
    const auto [from, to, channel] = key;
    Stream& stream = streams[key];
    for (std::size_t i = 0; i < stream.parcels.size(); ++i) {
      Parcel& parcel = *stream.parcels[i];
      if (parcel.started) continue;
      const bool asked = i < stream.posted.size();
      std::size_t& unasked = unasked_bytes[{from, to}];
      if (!asked && unasked + parcel.bytes > options.window_bytes) return;
      if (!asked) {
        parcel.unasked = true;
        unasked += parcel.bytes;
      }
      start(key, stream.parcels[i]);
    }
  }

  void start(StreamKey key, std::shared_ptr<Parcel> parcel) {
    parcel->started = true;
    if (parcel->payload.data()) parcel->data.assign(parcel->payload.begin(), parcel->payload.end());
    const Duration wire = options.link.per_byte * static_cast<std::int64_t>(parcel->bytes + options.framing_bytes);
    if (options.turn_bytes > 0) {
      const Duration turn = options.link.per_byte * static_cast<std::int64_t>(options.turn_bytes);
      return take_turns({key, parcel, wire, std::max(turn, wire / 16)});
    }
    const Duration end = transmit(key, parcel, wire, true);
    runtime.call_at(end, [parcel] { parcel->sent.set(); });
  }

  /// The next part of a message goes out; returns when the card is done with it.
  Duration transmit(StreamKey key, std::shared_ptr<Parcel> parcel, Duration wire, bool is_last) {
    const int from = std::get<0>(key);
    const Duration begin = std::max(runtime.now(), card_out[from]), end = served(card_out[from], wire);
    const Duration here = end + options.link.latency;
    auto self = shared_from_this();
    runtime.call_at(begin + options.link.latency, [self, key, parcel, wire, here, is_last] {
      self->arrive(key, parcel, wire, here, is_last);
    });
    return end;
  }

  void take_turns(Sending message) {
    const auto [from, to, channel] = message.key;
    Turns& card = turns[from];
    if (card.to[to].empty()) card.next.push_back(to);
    card.to[to].push_back(std::move(message));
    if (!card.busy) serve_next(from);
  }

  void serve_next(int from) {
    Turns& card = turns[from];
    card.busy = !card.next.empty();
    if (!card.busy) return;
    const int to = card.next.front();
    card.next.pop_front();
    Sending& message = card.to[to].front();
    const Duration part = std::min(message.left, message.turn);
    message.left -= part;
    const Duration end = transmit(message.key, message.parcel, part, message.left == Duration(0));
    auto self = shared_from_this();
    runtime.call_at(end, [self, from, to] {
      Turns& its = self->turns[from];
      auto& waiting = its.to[to];
      if (waiting.front().left == Duration(0)) {
        waiting.front().parcel->sent.set();
        waiting.pop_front();
      }
      if (!waiting.empty()) its.next.push_back(to);
      self->serve_next(from);
    });
  }

  /// When a card is done with what takes it so long; it is then free no earlier than `card`, less what it may let through
  /// at once.
  Duration served(Duration& card, Duration wire) const {
    const Duration burst = options.link.per_byte * static_cast<std::int64_t>(options.burst_bytes);
    card = std::max(runtime.now() - burst, card) + wire;
    return std::max(runtime.now(), card);
  }

  /// The head of a part is here: the receiver's card takes it when it is free, and not before `here`, when all of it is.
  /// The message has arrived with its last part.
  void arrive(StreamKey key, std::shared_ptr<Parcel> parcel, Duration wire, Duration here, bool is_last) {
    if (parcel->dropped) return;
    const int to = std::get<1>(key);
    const Duration end = std::max(here, served(card_in[to], wire));
    if (!is_last) return;
    auto self = shared_from_this();
    runtime.call_at(end, [self, key, parcel] {
      if (parcel->dropped) return;
      parcel->delivered = true;
      self->match(key);
    });
  }

  void match(StreamKey key) {
    const auto [from, to, channel] = key;
    Stream& stream = streams[key];
    bool freed = false;
    while (!stream.parcels.empty() && !stream.posted.empty() && stream.parcels.front()->delivered) {
      auto parcel = stream.parcels.front();
      auto posted = stream.posted.front();
      stream.parcels.pop_front();
      stream.posted.pop_front();
      if (parcel->unasked) {
        unasked_bytes[{from, to}] -= parcel->bytes;
        freed = true;
      }
      const Message &sent = parcel->message, &expected = posted->message;
      if (sent.operation != expected.operation || sent.type != expected.type || sent.count != expected.count ||
          parcel->bytes != posted->bytes) {
        posted->done.fail(std::make_exception_ptr(
            Error(ErrorKind::mismatch, text("rank ", to, " expects ", describe(expected), " from rank ", from,
                                            ", which sends ", describe(sent)))));
        continue;
      }
      posted->take(*parcel);
      posted->done.set();
    }
    if (!freed) return;
    // Room in the window: what waits at this sender for this receiver may go.
    const auto first = streams.lower_bound({from, to, Channel{Purpose{0}, 0}});
    for (auto it = first; it != streams.end() && std::get<0>(it->first) == from && std::get<1>(it->first) == to; ++it) {
      advance(it->first);
    }
  }

  /// Throws what keeps `rank` from doing anything at all: its own end.
  void check_alive(int rank) const {
    if (killed[rank]) std::rethrow_exception(killed[rank]);
    if (revoked[rank]) std::rethrow_exception(revoked[rank]);
  }

  void check(int rank, int peer) const {
    require(peer >= 0 && peer < ranks && peer != rank, "rank ", rank, " of ", ranks, " has no peer ", peer);
    check_alive(rank);
    if (behind(rank)) std::rethrow_exception(peer_lost(rank, lost[epoch[rank]]));
    if (is_lost(peer)) std::rethrow_exception(peer_lost(rank, peer));
    if (revoked[peer]) std::rethrow_exception(peer_lost(rank, peer));
  }

  void revoke(int rank, std::exception_ptr error) {
    if (killed[rank] || revoked[rank] || (behind(rank) && is_peer_error(error))) return;
    revoked[rank] = error;
    for (auto& [key, stream] : streams) {
      const auto [from, to, channel] = key;
      if (from != rank && to != rank) continue;
      for (auto& parcel : stream.parcels) parcel->sent.fail(from == rank ? error : peer_lost(from, rank));
      for (auto& posted : stream.posted) posted->done.fail(to == rank ? error : peer_lost(to, rank));
      stream.parcels.clear();
      stream.posted.clear();
    }
  }

  bool is_lost(int rank) const { return std::find(lost.begin(), lost.end(), rank) != lost.end(); }
  /// Whether there is a loss that `rank` has not acknowledged.
  bool behind(int rank) const { return epoch[rank] < lost.size(); }

  void kill(int rank) {
    require(options.turn_bytes == 0, "rank ", rank, " dies on a network whose messages take turns");
    if (killed[rank]) return;
    killed[rank] = std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank, " was killed")));
    for (auto& [key, stream] : streams) {
      const auto [from, to, channel] = key;
      if (to == rank) {
        for (auto& posted : stream.posted) posted->done.fail(killed[rank]);
        stream.posted.clear();
      }
      if (from == rank) {
        for (auto& parcel : stream.parcels) {
          parcel->sent.fail(killed[rank]);
          parcel->dropped = !parcel->delivered;
        }
        std::erase_if(stream.parcels, [](const auto& parcel) { return parcel->dropped; });
      }
    }
    auto self = shared_from_this();
    runtime.call_at(runtime.now() + options.detection, [self, rank] { self->lose(rank); });
  }

  /// All who live learn of the death of `rank`; nothing of the epochs before goes on.
  void lose(int rank) {
    lost.push_back(rank);
    for (auto& [key, stream] : streams) {
      const auto [from, to, channel] = key;
      for (auto& parcel : stream.parcels) {
        parcel->sent.fail(peer_lost(from, rank));
        parcel->dropped = true;
      }
      for (auto& posted : stream.posted) posted->done.fail(peer_lost(to, rank));
    }
    streams.clear();
    unasked_bytes.clear();
    std::fill(card_out.begin(), card_out.end(), runtime.now());
    std::fill(card_in.begin(), card_in.end(), runtime.now());
  }

  std::vector<int> survivors(int rank) {
    check_alive(rank);
    epoch[rank] = lost.size();
    std::vector<int> alive;
    for (int other = 0; other < ranks; ++other) {
      if (!is_lost(other)) alive.push_back(other);
    }
    return alive;
  }

  std::string stalled() const {
    std::string all;
    for (const auto& [key, stream] : streams) {
      const auto [from, to, channel] = key;
      for (const auto& posted : stream.posted) {
        all += text(all.empty() ? "" : ", ", "rank ", to, " waits for ", describe(posted->message), " from rank ", from);
      }
      for (const auto& parcel : stream.parcels) {
        if (!parcel->started) {
          all += text(all.empty() ? "" : ", ", "rank ", from, " waits for rank ", to, " to take ",
                      describe(parcel->message));
        }
      }
    }
    return all;
  }

  Runtime& runtime;
  int ranks;
  SimulatedOptions options;
  std::vector<Duration> card_out, card_in;  // free from then on
  std::vector<std::exception_ptr> revoked;
  std::vector<std::exception_ptr> killed;  // set from its death on
  std::vector<int> lost;                   // the dead of whom all know, in the order of their losses
  std::vector<std::size_t> epoch;          // of each rank: how many of the lost it has acknowledged
  std::vector<Turns> turns;                // of each rank's card, where messages take turns
  std::map<StreamKey, Stream> streams;
  std::map<std::pair<int, int>, std::size_t> unasked_bytes;
};

class SimulatedNetwork::RankEndpoint final : public Endpoint {
 public:
  RankEndpoint(std::shared_ptr<State> state, int rank) : state_(std::move(state)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return state_->ranks; }
  Runtime& runtime() override { return state_->runtime; }
  std::size_t framing_bytes() const override { return state_->options.framing_bytes; }
  std::string way(int) const override { return "simulated network"; }
  void abort(Scope, const std::vector<int>&, std::exception_ptr error) override { state_->revoke(rank_, error); }
  std::vector<int> survivors() override { return state_->survivors(rank_); }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    state_->check(rank_, peer);
    auto parcel = std::make_shared<Parcel>(Parcel{message, payload.size(), payload, {}, false, false, false, false,
                                                  Event(state_->runtime)});
    const StreamKey key{rank_, peer, message.channel};
    state_->streams[key].parcels.push_back(parcel);
    state_->advance(key);
    co_await parcel->sent.wait();
  }

  using Endpoint::receive;
  Task<> receive(int peer, Message message, Sink into) override {
    auto take = [into](const Parcel& parcel) {
      if (!parcel.data.empty() && into.has_data()) into.take(0, parcel.data);
    };
    return take_next(peer, message, into.payload(), take);
  }

 private:
  Task<> take_next(int peer, Message message, std::size_t bytes, std::function<void(const Parcel&)> take) {
    state_->check(rank_, peer);
    auto posted = std::make_shared<Posted>(Posted{message, bytes, std::move(take), Event(state_->runtime)});
    const StreamKey key{peer, rank_, message.channel};
    state_->streams[key].posted.push_back(posted);
    state_->advance(key);
    state_->match(key);
    co_await posted->done.wait();
  }

  std::shared_ptr<State> state_;
  int rank_;
};

SimulatedNetwork::SimulatedNetwork(Runtime& runtime, int ranks, SimulatedOptions options)
    : state_(std::make_shared<State>(runtime, ranks, options)) {
  std::weak_ptr<State> weak = state_;
  runtime.explain_stall([weak] {
    auto state = weak.lock();
    return state ? state->stalled() : std::string();
  });
}

SimulatedNetwork::~SimulatedNetwork() {
  // Where a run ended early: whoever waits in here owns what it waits for and the endpoint, which owns this state.
  // Failing them hands them to the runtime, which destroys them unresumed.
  const auto closed = std::make_exception_ptr(Error(ErrorKind::internal, "the simulated network was destroyed"));
  for (auto& [key, stream] : std::exchange(state_->streams, {})) {
    for (auto& parcel : stream.parcels) parcel->sent.fail(closed);
    for (auto& posted : stream.posted) posted->done.fail(closed);
  }
}

std::shared_ptr<Endpoint> SimulatedNetwork::endpoint(int rank) { return std::make_shared<RankEndpoint>(state_, rank); }

void SimulatedNetwork::kill(int rank) {
  require(rank >= 0 && rank < state_->ranks, "kills rank ", rank, " of ", state_->ranks);
  state_->kill(rank);
}

bool SimulatedNetwork::dead(int rank) const { return state_->killed.at(rank) != nullptr; }

}  // namespace ripieno
