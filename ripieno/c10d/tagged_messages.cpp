#include "ripieno/c10d/tagged_messages.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <numeric>

namespace ripieno::c10d {
namespace {

constexpr std::uint32_t envelopes = 0, grants = 1;  // ids of channels

constexpr transport::Scope scope = 0x736567'61737365'6d;  // no communicator of split() has it but by a rare chance

std::vector<int> everybody(const transport::Endpoint& endpoint) {
  std::vector<int> ranks(static_cast<std::size_t>(endpoint.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <class T>
Bytes bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span<T>(&value, 1));
}

std::string describe(std::uint64_t bytes, std::uint32_t type) {
  const auto known = static_cast<DType>(type);
  return type < dtypes ? text(bytes / size_of(known), " ", name(known)) : text(bytes, " bytes of an unknown type");
}

}  // namespace

TaggedMessages::TaggedMessages(std::shared_ptr<transport::Endpoint> endpoint)
    : comm_(endpoint, everybody(*endpoint), scope), peers_(static_cast<std::size_t>(comm_.size())) {}

transport::Message TaggedMessages::message(const char* operation, transport::Channel channel, DType type,
                                           std::uint64_t bytes) const {
  return {channel, operation, type, bytes / size_of(type)};
}

/// Payloads that come at once and those that are granted go on channels of their own, each in the order of their
/// envelopes.
transport::Channel TaggedMessages::payload_of(const Envelope& envelope) const {
  const auto purpose = envelope.tag < internal_tags ? observe::Purpose::exchange : observe::Purpose::control;
  const auto id = 2 + 2 * static_cast<std::uint32_t>(envelope.tag) + envelope.is_eager;
  return {purpose, id, comm_.scope()};
}

Task<> TaggedMessages::send(Self self, int peer, Tag tag, Bytes bytes, DType type, Duration limit) {
  Peer& to = self->peers_[static_cast<std::size_t>(peer)];
  if (to.lost) std::rethrow_exception(to.lost);
  transport::Endpoint& endpoint = self->comm_.endpoint();
  Runtime& runtime = self->comm_.runtime();
  Envelope envelope{tag, to.sent++, bytes.size(), static_cast<std::uint32_t>(type), bytes.size() <= eager_bytes};
  const transport::Message payload = self->message("send", self->payload_of(envelope), type, bytes.size());
  const transport::Message first = self->message("envelope", self->control(envelopes), DType::uint8, sizeof(Envelope));
  auto announced = std::make_shared<Announced>(runtime);
  if (!envelope.is_eager) to.announced[envelope.number] = announced;
  Task<> announcing = endpoint.send(peer, first, bytes_of(envelope));
  co_await std::move(announcing);
  if (!envelope.is_eager) {
    if (!std::exchange(to.hears_grants, true))
      asio::co_spawn(runtime.context(), hear_grants(self, peer), asio::detached);
    const auto expire = [&] {
      announced->answered.fail(
          std::make_exception_ptr(Error(ErrorKind::peer, text(self->mine(), "rank ", peer, " has not received ",
                                                              describe(envelope.bytes, envelope.type), " with tag ",
                                                              tag, " within ", seconds(limit), " s"))));
    };
    const Runtime::Timer timer = runtime.call_at(runtime.now() + limit, expire);
    std::exception_ptr error;
    try {
      co_await announced->answered.wait();
    } catch (...) {
      error = std::current_exception();
    }
    runtime.cancel(timer);
    if (error) {
      self->comm_.abort(error);  // the peer may grant it later, and would wait in vain
      std::rethrow_exception(error);
    }
    const Grant& grant = announced->grant;
    if (!grant.is_granted) {
      fail(ErrorKind::mismatch, self->mine(), "sends ", describe(envelope.bytes, envelope.type), " with tag ", tag,
           ", but rank ", peer, " receives ", describe(grant.expected_bytes, grant.expected_type));
    }
  }
  if (bytes.empty()) co_return;
  Task<> sending = endpoint.send(peer, payload, bytes);
  co_await std::move(sending);
}

Task<int> TaggedMessages::receive(Self self, int peer, Tag tag, Bytes bytes, DType type, Duration limit) {
  Runtime& runtime = self->comm_.runtime();
  const auto wanted = std::make_shared<Wanted>(runtime, peer, tag, bytes, type);
  if (const int sender = self->first_kept(peer, tag); sender != any_rank) {
    wanted->sender = sender;
    const Envelope envelope = self->take_kept(sender, tag);
    Task<> fetching = fetch(self, sender, envelope, wanted);
    co_await std::move(fetching);
  } else {
    for (std::size_t rank = 0; rank < self->peers_.size(); ++rank) {
      if (self->peers_[rank].lost && (peer == any_rank || static_cast<int>(rank) == peer))
        std::rethrow_exception(self->peers_[rank].lost);
    }
    self->wanted_.push_back(wanted);
    self->listen();
  }
  const auto expire = [&] {
    if (std::erase(self->wanted_, wanted) == 0) return;  // it is arriving
    wanted->done.fail(std::make_exception_ptr(
        Error(ErrorKind::peer,
              text(self->mine(), "nothing came from ", peer == any_rank ? std::string("any rank") : text("rank ", peer),
                   " with tag ", tag, " within ", seconds(limit), " s"))));
  };
  const Runtime::Timer timer = runtime.call_at(runtime.now() + limit, expire);
  std::exception_ptr error;
  try {
    co_await wanted->done.wait();
  } catch (...) {
    error = std::current_exception();
  }
  runtime.cancel(timer);
  if (error) std::rethrow_exception(error);
  co_return wanted->sender;
}

/// Receives the payload of an envelope that was given to this receive.
Task<> TaggedMessages::fetch(Self self, int peer, Envelope envelope, std::shared_ptr<Wanted> wanted) {
  transport::Endpoint& endpoint = self->comm_.endpoint();
  const bool fits = envelope.bytes == wanted->into.size() && envelope.type == static_cast<std::uint32_t>(wanted->type);
  std::exception_ptr error;
  try {
    if (!fits) {
      error = std::make_exception_ptr(Error(
          ErrorKind::mismatch,
          text(self->mine(), "receives ", describe(wanted->into.size(), static_cast<std::uint32_t>(wanted->type)),
               " with tag ", envelope.tag, ", but rank ", peer, " sent ", describe(envelope.bytes, envelope.type))));
    }
    if (!envelope.is_eager) {
      Grant grant{envelope.number, wanted->into.size(), static_cast<std::uint32_t>(wanted->type), fits};
      const transport::Message answer = self->message("grant", self->control(grants), DType::uint8, sizeof(Grant));
      Task<> granting = endpoint.send(peer, answer, bytes_of(grant));
      co_await std::move(granting);
    }
    if (envelope.bytes > 0 && (fits || envelope.is_eager)) {
      const Scratch unwanted = scratch(fits ? 0 : envelope.bytes);
      const Bytes into = fits ? wanted->into : Bytes(unwanted.get(), envelope.bytes);
      const transport::Message payload =
          self->message("send", self->payload_of(envelope), static_cast<DType>(envelope.type), envelope.bytes);
      Task<> receiving = endpoint.receive(peer, payload, into);
      co_await std::move(receiving);
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (error) {
    wanted->done.fail(error);
  } else {
    wanted->done.set();
  }
}

Task<> TaggedMessages::hear_envelopes(Self self, int peer) {
  Peer& from = self->peers_[static_cast<std::size_t>(peer)];
  const transport::Message message =
      self->message("envelope", self->control(envelopes), DType::uint8, sizeof(Envelope));
  std::exception_ptr error;
  try {
    while (self->is_wanted_from(peer)) {
      Envelope envelope;
      Task<> hearing = self->comm_.endpoint().receive(peer, message, bytes_of(envelope));
      co_await std::move(hearing);
      const std::shared_ptr<Wanted> wanted = self->take_wanted(peer, envelope.tag);
      if (wanted) {
        wanted->sender = peer;
        Task<> fetching = fetch(self, peer, envelope, wanted);
        co_await std::move(fetching);
      } else {
        from.kept[envelope.tag].emplace_back(self->arrivals_++, envelope);
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  from.hears_envelopes = false;
  if (error) self->lose(peer, error);
}

Task<> TaggedMessages::hear_grants(Self self, int peer) {
  Peer& from = self->peers_[static_cast<std::size_t>(peer)];
  const transport::Message message = self->message("grant", self->control(grants), DType::uint8, sizeof(Grant));
  std::exception_ptr error;
  try {
    while (!from.announced.empty()) {
      Grant grant;
      Task<> hearing = self->comm_.endpoint().receive(peer, message, bytes_of(grant));
      co_await std::move(hearing);
      const auto at = from.announced.find(grant.number);
      if (at == from.announced.end()) {
        fail(ErrorKind::mismatch, self->mine(), "rank ", peer, " grants message ", grant.number,
             ", which was not announced to it");
      }
      at->second->grant = grant;
      at->second->answered.set();
      from.announced.erase(at);
    }
  } catch (...) {
    error = std::current_exception();
  }
  from.hears_grants = false;
  if (error) self->lose(peer, error);
}

int TaggedMessages::first_kept(int peer, Tag tag) const {
  int first = any_rank;
  std::uint64_t earliest = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (peer != any_rank && rank != peer) continue;
    const auto& kept = peers_[static_cast<std::size_t>(rank)].kept;
    const auto at = kept.find(tag);
    if (at == kept.end() || (first != any_rank && at->second.front().first > earliest)) continue;
    first = rank;
    earliest = at->second.front().first;
  }
  return first;
}

TaggedMessages::Envelope TaggedMessages::take_kept(int peer, Tag tag) {
  auto& kept = peers_[static_cast<std::size_t>(peer)].kept;
  const auto at = kept.find(tag);
  const Envelope envelope = at->second.front().second;
  at->second.pop_front();
  if (at->second.empty()) kept.erase(at);
  return envelope;
}

std::shared_ptr<TaggedMessages::Wanted> TaggedMessages::take_wanted(int peer, Tag tag) {
  const auto fits = [&](const auto& wanted) {
    return wanted->tag == tag && (wanted->peer == peer || wanted->peer == any_rank);
  };
  const auto at = std::find_if(wanted_.begin(), wanted_.end(), fits);
  if (at == wanted_.end()) return nullptr;
  std::shared_ptr<Wanted> wanted = *at;
  wanted_.erase(at);
  return wanted;
}

bool TaggedMessages::is_wanted_from(int peer) const {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](const auto& wanted) { return wanted->peer == peer || wanted->peer == any_rank; });
}

void TaggedMessages::listen() {
  for (int rank = 0; rank < comm_.size(); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (rank == comm_.rank() || peer.hears_envelopes || !is_wanted_from(rank)) continue;
    peer.hears_envelopes = true;
    asio::co_spawn(comm_.runtime().context(), hear_envelopes(shared_from_this(), rank), asio::detached);
  }
}

/// Whatever waits for the peer fails, and so does whatever waits for any rank: it might wait forever.
void TaggedMessages::lose(int peer, std::exception_ptr error) {
  Peer& lost = peers_[static_cast<std::size_t>(peer)];
  lost.lost = error;
  for (auto& [number, announced] : std::exchange(lost.announced, {})) announced->answered.fail(error);
  std::erase_if(wanted_, [&](const std::shared_ptr<Wanted>& wanted) {
    const bool waits = wanted->peer == peer || wanted->peer == any_rank;
    if (waits) wanted->done.fail(error);
    return waits;
  });
}

}  // namespace ripieno::c10d
