#include "ripieno/c10d/tagged_messages.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <cstring>
#include <numeric>

#include "ripieno/c10d/host_tensor.h"
#include "ripieno/c10d/time_limit.h"

namespace ripieno::c10d {
namespace {

/// Channels: envelopes and the payloads that follow them, answers, granted payloads.
constexpr std::uint32_t envelopes = 0, grants = 1, payloads = 2;
constexpr std::uint64_t envelope_cost = 256;              // of the receiver's memory
constexpr transport::Scope scope = 0x736567'61737365'6d;  // no communicator of split() has it but by a rare chance

template <class T>
Bytes bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span<T>(&value, 1));
}

/// Awaits the act, which `expire` must end if it is called at the limit, and returns why. Returns the act's error, or
/// null.
Task<std::exception_ptr> within(collective::Communicator comm, Duration limit,
                                std::function<std::exception_ptr()> expire, Task<> act) {
  const TimeLimit watched(comm, limit, std::move(expire));
  Task<std::exception_ptr> ending = error_of(std::move(act));
  co_return co_await std::move(ending);
}

/// "3 fp32", "4 Bool"
std::string describe(std::uint64_t bytes, TypeCode code) {
  const auto type = static_cast<at::ScalarType>(code);
  if (code >= static_cast<TypeCode>(at::ScalarType::Undefined)) return text(bytes, " bytes of an unknown type");
  const std::optional<DType> number = number_type(type);
  return text(bytes / at::elementSize(type), " ", number ? name(*number) : at::toString(type));
}

}  // namespace

std::vector<int> everybody(const transport::Endpoint& endpoint) {
  std::vector<int> ranks(static_cast<std::size_t>(endpoint.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TaggedMessages::TaggedMessages(std::shared_ptr<transport::Endpoint> endpoint)
    : comm_(endpoint, everybody(*endpoint), scope) {
  for (int rank = 0; rank < comm_.size(); ++rank) peers_.push_back(std::make_unique<Peer>(comm_.runtime()));
}

transport::Message TaggedMessages::message(const char* operation, std::uint32_t channel, std::uint64_t bytes) const {
  return {{observe::Purpose::exchange, channel, comm_.scope()}, operation, DType::uint8, bytes};
}

Task<> TaggedMessages::counted(Self self, Task<> task) {
  co_await std::move(task);
  --self->running_;
}

void TaggedMessages::start(Task<> task) {
  ++running_;
  asio::co_spawn(comm_.runtime().context(), counted(shared_from_this(), std::move(task)), asio::detached);
}

Task<> TaggedMessages::send(Self self, int rank, Tag tag, Bytes bytes, TypeCode type, Duration limit) {
  Peer& to = self->peer(rank);
  if (to.lost) std::rethrow_exception(to.lost);
  Envelope envelope{tag, 0, bytes.size(), type, 0};
  const auto expire = [&] {  // half of it may be under way
    std::exception_ptr late = self->not_received(rank, envelope, limit);
    self->abort(late);
    return late;
  };
  Task<> announcing = announce(self, rank, &envelope, bytes);
  Task<std::exception_ptr> ending = within(self->comm_, limit, expire, std::move(announcing));
  if (const std::exception_ptr error = co_await std::move(ending)) std::rethrow_exception(error);
  if (envelope.is_eager) co_return;
  Task<> sending = send_granted(self, rank, envelope, bytes, limit);
  co_await std::move(sending);
}

/// Sends the envelope, and a payload that may follow it at once.
Task<> TaggedMessages::announce(Self self, int rank, Envelope* envelope, Bytes bytes) {
  Peer& to = self->peer(rank);
  transport::Endpoint& endpoint = self->comm_.endpoint();
  Task<Mutex::Lock> locking = to.sending.lock();
  const Mutex::Lock lock = co_await std::move(locking);
  if (to.lost) std::rethrow_exception(to.lost);
  const std::uint64_t cost = bytes.size() + envelope_cost;
  envelope->number = to.sent++;
  envelope->is_eager = bytes.size() <= eager_bytes && to.unread + cost <= unread_bytes;
  if (envelope->is_eager) {
    to.unread += cost;
  } else {
    to.announced[envelope->number] = std::make_shared<Announced>(self->comm_.runtime());
  }
  const transport::Message first = self->message("envelope", envelopes, sizeof(Envelope));
  Task<> announcing = endpoint.send(rank, first, bytes_of(*envelope));
  co_await std::move(announcing);
  if (envelope->is_eager && !bytes.empty()) {
    Task<> sending = endpoint.send(rank, self->message("send", envelopes, bytes.size()), bytes);
    co_await std::move(sending);
  }
}

std::exception_ptr TaggedMessages::not_received(int rank, const Envelope& envelope, Duration limit) const {
  return std::make_exception_ptr(
      Error(Loss{rank, Lost::silent},
            text(mine(), "rank ", rank, " has not received ", describe(envelope.bytes, envelope.type), " with tag ",
                 envelope.tag, " within ", seconds(limit), " s")));
}

Task<> TaggedMessages::send_granted(Self self, int rank, Envelope envelope, Bytes bytes, Duration limit) {
  Peer& to = self->peer(rank);
  const auto at = to.announced.find(envelope.number);
  if (at == to.announced.end()) std::rethrow_exception(to.lost);
  const std::shared_ptr<Announced> announced = at->second;
  if (!std::exchange(to.hears_grants, true)) self->start(hear_grants(self, rank));
  const auto expire = [&] {
    std::exception_ptr late = self->not_received(rank, envelope, limit);
    announced->answered.fail(late);
    return late;
  };
  Task<std::exception_ptr> waiting = within(self->comm_, limit, expire, announced->answered.wait());
  if (const std::exception_ptr error = co_await std::move(waiting)) {
    self->abort(error);  // the peer may grant it later, and would wait in vain
    std::rethrow_exception(error);
  }
  const Grant& grant = announced->grant;
  if (grant.kind == Grant::refused) {
    fail(ErrorKind::mismatch, self->mine(), "sends ", describe(envelope.bytes, envelope.type), " with tag ",
         envelope.tag, ", but rank ", rank, " receives ", describe(grant.bytes, grant.type));
  }
  const transport::Message payload = self->message("send", payloads, envelope.bytes);
  Task<> sending = self->comm_.endpoint().send(rank, payload, bytes);
  co_await std::move(sending);
}

Task<int> TaggedMessages::receive(Self self, int rank, Tag tag, Bytes bytes, TypeCode type, Duration limit) {
  const auto wanted = std::make_shared<Wanted>(self->comm_.runtime(), rank, tag, bytes, type);
  if (const int sender = self->first_kept(rank, tag); sender != any_rank) {
    self->give(sender, self->take_kept(sender, tag), wanted);
  } else {
    for (int other = 0; other < self->comm_.size(); ++other) {
      const bool may_come = rank == any_rank || other == rank;
      if (may_come && self->peer(other).lost) std::rethrow_exception(self->peer(other).lost);
    }
    self->wanted_.push_back(wanted);
    self->listen();
  }
  const auto expire = [&]() -> std::exception_ptr {
    if (wanted->done.is_set()) return nullptr;  // and about to be told
    const bool is_arriving = std::erase(self->wanted_, wanted) == 0;
    const int from = is_arriving ? wanted->sender : rank;
    auto error = std::make_exception_ptr(Error(Loss{from == any_rank ? -1 : from, Lost::silent},
                                               text(self->mine(), is_arriving ? "no more" : "nothing", " came from ",
                                                    from == any_rank ? std::string("any rank") : text("rank ", from),
                                                    " with tag ", tag, " within ", seconds(limit), " s")));
    if (is_arriving) self->abort(error);  // its memory is in use until then
    wanted->done.fail(error);
    return error;
  };
  Task<std::exception_ptr> waiting = within(self->comm_, limit, expire, wanted->done.wait());
  if (const std::exception_ptr error = co_await std::move(waiting)) std::rethrow_exception(error);
  co_return wanted->sender;
}

std::exception_ptr TaggedMessages::misfit(int rank, const Envelope& envelope, const Wanted& wanted) const {
  if (envelope.bytes == wanted.into.size() && envelope.type == wanted.type) return nullptr;
  return std::make_exception_ptr(Error(
      ErrorKind::mismatch, text(mine(), "receives ", describe(wanted.into.size(), wanted.type), " with tag ",
                                envelope.tag, ", but rank ", rank, " sent ", describe(envelope.bytes, envelope.type))));
}

/// Gives a message, or its envelope, to the receive that it is for.
void TaggedMessages::give(int rank, const Kept& kept, const std::shared_ptr<Wanted>& wanted) {
  wanted->sender = rank;
  if (!kept.envelope.is_eager) {
    start(fetch(shared_from_this(), rank, kept.envelope, wanted));
  } else if (const std::exception_ptr wrong = misfit(rank, kept.envelope, *wanted)) {
    wanted->done.fail(wrong);
  } else {
    if (kept.envelope.bytes > 0) std::memcpy(wanted->into.data(), kept.payload->get(), kept.envelope.bytes);
    wanted->done.set();
  }
}

/// Receives a payload that waits for a grant, or refuses it.
Task<> TaggedMessages::fetch(Self self, int rank, Envelope envelope, std::shared_ptr<Wanted> wanted) {
  std::exception_ptr error = self->misfit(rank, envelope, *wanted);
  try {
    Task<Mutex::Lock> locking = self->peer(rank).fetching.lock();
    const Mutex::Lock lock = co_await std::move(locking);
    transport::Endpoint& endpoint = self->comm_.endpoint();
    Grant grant{envelope.number, wanted->into.size(), wanted->type, error ? Grant::refused : Grant::granted};
    Task<> granting = endpoint.send(rank, self->message("grant", grants, sizeof(Grant)), bytes_of(grant));
    co_await std::move(granting);
    if (!error) {
      Task<> receiving = endpoint.receive(rank, self->message("send", payloads, envelope.bytes), wanted->into);
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

Task<> TaggedMessages::hear_envelopes(Self self, int rank) {
  std::exception_ptr error;
  try {
    while (self->is_wanted_from(rank)) {
      Task<> hearing = hear_envelope(self, rank);
      co_await std::move(hearing);
    }
  } catch (...) {
    error = std::current_exception();
  }
  self->peer(rank).hears_envelopes = false;
  if (error) self->lose(rank, error);
}

/// Reads an envelope and the payload that follows it, and gives or keeps them.
Task<> TaggedMessages::hear_envelope(Self self, int rank) {
  Peer& from = self->peer(rank);
  transport::Endpoint& endpoint = self->comm_.endpoint();
  Envelope envelope;
  Task<> hearing = endpoint.receive(rank, self->message("envelope", envelopes, sizeof(Envelope)), bytes_of(envelope));
  co_await std::move(hearing);
  Kept kept{self->arrivals_++, envelope, nullptr};
  if (envelope.is_eager && envelope.bytes > 0) {
    kept.payload = std::make_shared<Scratch>(scratch(envelope.bytes));
    const Bytes into(kept.payload->get(), envelope.bytes);
    Task<> receiving = endpoint.receive(rank, self->message("send", envelopes, envelope.bytes), into);
    co_await std::move(receiving);
  }
  if (const std::shared_ptr<Wanted> wanted = self->take_wanted(rank, envelope.tag)) {
    self->give(rank, kept, wanted);
  } else {
    from.kept[envelope.tag].push_back(std::move(kept));
  }
  if (!envelope.is_eager) co_return;
  from.read += envelope.bytes + envelope_cost;
  if (from.read < unread_bytes / 4) co_return;
  Grant told{0, std::exchange(from.read, 0), 0, Grant::read};
  Task<> telling = endpoint.send(rank, self->message("grant", grants, sizeof(Grant)), bytes_of(told));
  co_await std::move(telling);
}

Task<> TaggedMessages::hear_grants(Self self, int rank) {
  Peer& from = self->peer(rank);
  const transport::Message message = self->message("grant", grants, sizeof(Grant));
  std::exception_ptr error;
  try {
    while (!from.announced.empty()) {
      Grant grant;
      Task<> hearing = self->comm_.endpoint().receive(rank, message, bytes_of(grant));
      co_await std::move(hearing);
      if (grant.kind == Grant::read) {
        from.unread -= std::min(from.unread, grant.bytes);
        continue;
      }
      const auto at = from.announced.find(grant.number);
      if (at == from.announced.end()) {
        fail(ErrorKind::mismatch, self->mine(), "rank ", rank, " grants message ", grant.number,
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
  if (error) self->lose(rank, error);
}

int TaggedMessages::first_kept(int rank, Tag tag) const {
  int first = any_rank;
  std::uint64_t earliest = 0;
  for (int other = 0; other < comm_.size(); ++other) {
    if (rank != any_rank && other != rank) continue;
    const auto& kept = peers_[static_cast<std::size_t>(other)]->kept;
    const auto at = kept.find(tag);
    if (at == kept.end() || (first != any_rank && at->second.front().arrival > earliest)) continue;
    first = other;
    earliest = at->second.front().arrival;
  }
  return first;
}

TaggedMessages::Kept TaggedMessages::take_kept(int rank, Tag tag) {
  auto& kept = peer(rank).kept;
  const auto at = kept.find(tag);
  Kept first = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) kept.erase(at);
  return first;
}

std::shared_ptr<TaggedMessages::Wanted> TaggedMessages::take_wanted(int rank, Tag tag) {
  const auto fits = [&](const auto& wanted) {
    return wanted->tag == tag && (wanted->peer == rank || wanted->peer == any_rank);
  };
  const auto at = std::find_if(wanted_.begin(), wanted_.end(), fits);
  if (at == wanted_.end()) return nullptr;
  std::shared_ptr<Wanted> wanted = *at;
  wanted_.erase(at);
  return wanted;
}

bool TaggedMessages::is_wanted_from(int rank) const {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](const auto& wanted) { return wanted->peer == rank || wanted->peer == any_rank; });
}

void TaggedMessages::listen() {
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank() || peer(rank).hears_envelopes || !is_wanted_from(rank)) continue;
    peer(rank).hears_envelopes = true;
    start(hear_envelopes(shared_from_this(), rank));
  }
}

/// Whatever waits for the peer fails, and so does whatever waits for any rank: it might wait forever.
void TaggedMessages::lose(int rank, const std::exception_ptr& error) {
  Peer& lost = peer(rank);
  if (!lost.lost) lost.lost = error;
  for (auto& [number, announced] : std::exchange(lost.announced, {})) announced->answered.fail(error);
  std::erase_if(wanted_, [&](const std::shared_ptr<Wanted>& wanted) {
    const bool waits = wanted->peer == rank || wanted->peer == any_rank;
    if (waits) wanted->done.fail(error);
    return waits;
  });
}

void TaggedMessages::abort(const std::exception_ptr& error) {
  comm_.abort(error);
  for (int rank = 0; rank < comm_.size(); ++rank) lose(rank, error);
}

Task<> TaggedMessages::close(Self self) {
  const auto closed = std::make_exception_ptr(Error(ErrorKind::peer, self->mine() + "the group has ended"));
  self->comm_.endpoint().abort(scope, {self->comm_.rank()}, closed);
  while (self->running_ > 0) {
    Task<> yielding = self->comm_.runtime().yield();
    co_await std::move(yielding);
  }
}

}  // namespace ripieno::c10d
