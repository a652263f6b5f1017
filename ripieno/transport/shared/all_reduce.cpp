#include "ripieno/transport/shared/all_reduce.h"

#include <algorithm>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::transport {
namespace {

constexpr std::size_t piece_bytes = 64 << 10;  // stays in the cache while P-1 peers' numbers are added to it
constexpr int pieces_in_a_row = 16;            // then other coroutines have their turn
constexpr std::size_t kept_bytes = 4 << 20;    // the largest copy of unregistered numbers that is kept
constexpr auto spin_time = std::chrono::microseconds(20);
constexpr int looks_between_clocks = 32;

/// With the numbers' type in memory, where that is not the one on the wire.
std::string describe(const Message& message, DType in_memory) {
  return transport::describe(message) + (in_memory == message.type ? "" : text(", ", name(in_memory), " in memory"));
}

/// Copies all numbers but those of one chunk.
void copy_but(Range chunk, NumberSpan into, NumberSpan from) {
  for (const Range part : {Range{0, chunk.begin}, Range{chunk.end, from.count}}) {
    const NumberSpan source = from.slice(part.begin, part.end);
    if (source.count > 0) std::memcpy(into.slice(part.begin, part.end).data, source.data, source.size_bytes());
  }
}

std::size_t slot_of(Channel channel) {
  return static_cast<std::size_t>(channel.purpose) * all_reduce_channels + channel.id;
}

}  // namespace

SharedAllReduce::SharedAllReduce(Runtime& runtime, int rank, const std::vector<std::shared_ptr<SharedLink>>& links,
                                 LinkOptions options, std::shared_ptr<const SharedOwn> own, bool may_spin)
    : runtime_(runtime),
      rank_(rank),
      ranks_(static_cast<int>(links.size())),
      options_(options),
      own_(std::move(own)),
      slots_(reinterpret_cast<AllReduceSlot*>(own_->all_reduces)),
      may_spin_(may_spin) {
  for (int k = 1; k < ranks_; ++k) {
    const int peer = (rank + ranks_ - k) % ranks_;
    const std::byte* slots = links[peer]->other().regions.at(all_reduce_place, all_reduce_bytes);
    const auto* its = reinterpret_cast<const AllReduceSlot*>(slots);
    peers_.push_back({peer, links[peer], its, reinterpret_cast<const AllReduceStop*>(its + all_reduce_slots)});
  }
}

Task<> SharedAllReduce::run(std::shared_ptr<SharedAllReduce> self, Message message, NumberSpan numbers) {
  if (self->error_) std::rethrow_exception(self->error_);
  if (numbers.count == 0 || self->peers_.empty()) co_return;
  const std::size_t slot = slot_of(message.channel);
  const std::uint64_t before = self->slots_[slot].progress.load(std::memory_order_relaxed);
  if (before % 2 == 1) fail(ErrorKind::internal, describe(message), " while another is under way on its channel");

  // 1. Post the place of this rank's numbers; once all have posted, find the others'.
  const Range mine = chunk(numbers.count, self->ranks_, self->rank_);
  const Readable readable = self->registered(numbers, mine, slot);
  const NumberSpan own = readable.numbers;
  self->post(message, readable, slot, before + 1);
  if (!self->spin(slot, before + 1)) co_await wait(self.get(), message, slot, before + 1);
  std::vector<NumberSpan> peers = self->numbers_of_peers(message, own, slot);

  // 2. Add up this rank's chunk, where the caller has it, and write it to all ranks.
  const std::size_t piece = piece_bytes / size_of(own.type);
  int in_a_row = 0;
  bool stopped = self->has_stopped();
  for (std::size_t begin = mine.begin; begin < mine.end && !stopped; begin += piece) {
    self->reduce(numbers, peers, {begin, std::min(mine.end, begin + piece)}, message.type);
    if (++in_a_row % pieces_in_a_row == 0) co_await self->runtime_.yield();
    stopped = self->has_stopped();
  }
  if (stopped) {
    co_await wait(self.get(), message, slot, before + 2);
    std::rethrow_exception(self->error_);
  }

  // 3. Wait until all chunks have been written here.
  self->announce(slot, before + 2);
  if (!self->spin(slot, before + 2)) co_await wait(self.get(), message, slot, before + 2);
  if (readable.copy) copy_but(mine, numbers, own);
}

SharedAllReduce::Readable SharedAllReduce::registered(NumberSpan numbers, Range mine, std::size_t slot) {
  if (const auto place = own_->arena->find(numbers.bytes())) return {numbers, *place, nullptr};
  std::shared_ptr<std::byte> copy;
  const std::size_t bytes = numbers.size_bytes();
  if (Spare& spare = spare_[slot]; spare.bytes >= bytes) {
    copy = spare.memory;
  } else {
    copy = own_->arena->take(bytes);
    if (!copy) fail(ErrorKind::network, "rank ", rank_, ": there are no ", bytes, " bytes of shared memory");
    if (bytes <= kept_bytes) spare = {copy, bytes};
  }
  const NumberSpan there(copy.get(), numbers.count, numbers.type);
  copy_but(mine, there, numbers);
  return {there, own_->arena->find(there.bytes()).value(), copy};
}

void SharedAllReduce::post(const Message& message, const Readable& readable, std::size_t slot, std::uint64_t progress) {
  AllReduceSlot& own = slots_[slot];
  own.count = message.count;
  own.place = readable.place;
  own.epoch = options_.epoch;
  own.type = readable.numbers.type;
  own.wire = message.type;
  own.operation.fill(0);
  message.operation.copy(own.operation.data(), own.operation.size() - 1);
  announce(slot, progress);
}

/// Wakes peers that sleep and wait for this rank. No wake-up is lost: see ring.h.
void SharedAllReduce::announce(std::size_t slot, std::uint64_t progress) {
  slots_[slot].progress.store(progress, std::memory_order_seq_cst);
  for (Peer& peer : peers_) peer.link->other().wake_if_waiting();
}

bool SharedAllReduce::all_reached(std::size_t slot, std::uint64_t target) const {
  for (const Peer& peer : peers_) {
    if (!reached(peer, slot, target)) return false;
  }
  return true;
}

std::vector<int> SharedAllReduce::awaited() const {
  std::vector<int> ranks;
  for (const Peer& peer : peers_) {
    const auto is_late = [&](const auto& waiting) { return !reached(peer, waiting->slot, waiting->target); };
    if (std::any_of(waiting_.begin(), waiting_.end(), is_late)) ranks.push_back(peer.rank);
  }
  return ranks;
}

bool SharedAllReduce::spin(std::size_t slot, std::uint64_t target) const {
  if (all_reached(slot, target)) return true;
  if (!may_spin_ || runtime_.is_computing()) return false;
  const Duration end = runtime_.now() + spin_time;
  do {
    for (int i = 0; i < looks_between_clocks; ++i) {
      runtime_.pause_spinning();
      if (all_reached(slot, target)) return true;
    }
  } while (runtime_.now() < end);
  return false;
}

Task<> SharedAllReduce::wait(SharedAllReduce* self, Message message, std::size_t slot, std::uint64_t target) {
  if (self->revoked_) std::rethrow_exception(self->error_);
  const auto waiting = std::make_shared<Waiting>(self->runtime_, message, slot, target);
  self->waiting_.push_back(waiting);
  self->watch();
  co_await waiting->done.wait();
}

std::vector<NumberSpan> SharedAllReduce::numbers_of_peers(const Message& message, NumberSpan own, std::size_t slot) {
  std::vector<NumberSpan> numbers;
  for (const Peer& peer : peers_) {
    const AllReduceSlot& its = peer.slots[slot];
    const Message other = its.message(message.channel);
    if (its.epoch != options_.epoch || other.operation != message.operation || its.wire != message.type ||
        its.count != message.count || its.type != own.type) {
      const auto wrong = std::make_exception_ptr(
          Error(ErrorKind::mismatch,
                text("rank ", rank_, " takes part in ", describe(message, own.type), ", but rank ", peer.rank, " in ",
                     describe(other, its.type),
                     its.epoch == options_.epoch ? "" : text(", in epoch ", its.epoch, " and not ", options_.epoch),
                     ": the ranks do not do the same")));
      give_up(wrong);
      std::rethrow_exception(wrong);
    }
    try {
      std::byte* data = peer.link->other().regions.at(its.place, own.size_bytes());
      numbers.emplace_back(data, own.count, own.type);
    } catch (const Error& error) {
      const auto kind = error.kind() == ErrorKind::mismatch ? ErrorKind::mismatch : ErrorKind::peer;
      const std::string why =
          text("rank ", rank_, ": lost rank ", peer.rank, " (", error.what(), ") in ", describe(message));
      const auto wrong = std::make_exception_ptr(Error(kind, why, Loss{peer.rank, Lost::ended}));
      give_up(wrong);
      std::rethrow_exception(wrong);
    }
  }
  return numbers;
}

void SharedAllReduce::reduce(NumberSpan own, const std::vector<NumberSpan>& peers, Range piece, DType wire) {
  const NumberSpan sum = own.slice(piece.begin, piece.end);
  std::size_t to_be_told = peers.size();
  for (const NumberSpan& peer : peers) {
    const NumberSpan other = peer.slice(piece.begin, piece.end);
    if (wire != own.type) {
      rounded_.resize(piece_bytes);
      const NumberSpan narrow(rounded_.data(), other.count, wire);
      numeric::convert(narrow, other);
      numeric::add(sum, narrow);
    } else if (&peer != &peers.back()) {
      numeric::add(sum, other);
    } else {
      numeric::add_to_both(sum, other);  // the last addition completes the sum
      --to_be_told;
    }
  }
  if (wire != own.type) numeric::round_through(sum, wire);
  for (std::size_t i = 0; i < to_be_told; ++i) {
    std::memcpy(peers[i].slice(piece.begin, piece.end).data, sum.data, sum.size_bytes());
  }
}

bool SharedAllReduce::poll() {
  if (waiting_.empty()) return false;
  const std::size_t before = waiting_.size();
  const auto let_go = [&](auto through, std::exception_ptr error) {
    std::erase_if(waiting_, [&](const std::shared_ptr<Waiting>& waiting) {
      if (!through(*waiting)) return false;
      error ? waiting->done.fail(error) : waiting->done.set();
      return true;
    });
  };
  if (!error_) {
    let_go([this](const Waiting& waiting) { return all_reached(waiting.slot, waiting.target); }, nullptr);
    if (!waiting_.empty() && !has_stopped()) find_losses();
  }
  if (error_) let_go([this](const Waiting& waiting) { return is_left_alone(waiting); }, error_);
  return waiting_.size() != before;
}

/// When a rank's end is visible, so is all that it did before.
void SharedAllReduce::find_losses() {
  for (const auto& waiting : waiting_) {
    for (const Peer& peer : peers_) {
      if (reached(peer, waiting->slot, waiting->target) || !peer.link->has_ended() ||
          reached(peer, waiting->slot, waiting->target)) {
        continue;
      }
      return stop(own_abort(0, peer.link->end_of(waiting->message), rank_));
    }
  }
}

bool SharedAllReduce::any_peer_stopped() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.stop->stopped.load(std::memory_order_seq_cst) != 0; });
}

bool SharedAllReduce::has_stopped() {
  if (error_) return true;
  for (const Peer& peer : peers_) {
    if (peer.stop->stopped.load(std::memory_order_seq_cst) == 0) continue;
    Abort heard = peer.stop->abort();
    heard.error = gave_up(rank_, heard);
    stop(heard);
    return true;
  }
  return false;
}

/// Whether the peer may still read this rank's numbers of the call, and write to them.
bool SharedAllReduce::may_use(const Peer& peer, const Waiting& waiting) const {
  const std::uint64_t posted = (waiting.target - 1) | 1;
  return peer.slots[waiting.slot].progress.load(std::memory_order_seq_cst) == posted &&
         peer.stop->stopped.load(std::memory_order_seq_cst) == 0 && !peer.link->has_ended();
}

bool SharedAllReduce::is_left_alone(const Waiting& waiting) const {
  return std::none_of(peers_.begin(), peers_.end(), [&](const Peer& peer) { return may_use(peer, waiting); });
}

void SharedAllReduce::cut_off(std::exception_ptr error) {
  if (!error_) return;
  for (const Peer& peer : peers_) {
    if (std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& waiting) { return may_use(peer, *waiting); }))
      peer.link->give_up(0, error);
  }
  poll();
}

bool SharedAllReduce::has_work() const {
  if (waiting_.empty()) return false;
  if (!error_ && any_peer_stopped()) return true;
  return std::any_of(waiting_.begin(), waiting_.end(), [this](const std::shared_ptr<Waiting>& waiting) {
    return error_ ? is_left_alone(*waiting) : all_reached(waiting->slot, waiting->target);
  });
}

void SharedAllReduce::find_mismatches() {
  if (error_) return;
  std::exception_ptr wrong;
  const auto found = [&](const Peer& peer, const Message& own, const Message& other) {
    wrong = std::make_exception_ptr(
        Error(ErrorKind::mismatch, text("rank ", rank_, " waits for ", describe(own), ", but rank ", peer.rank,
                                        " takes part in ", describe(other), ": the ranks do not do the same")));
  };
  for (const Peer& peer : peers_) {
    // Messages where this rank is in an all-reduce. A peer that sent one after its part in the all-reduce has shown its
    // progress before.
    for (const auto& waiting : waiting_) {
      const auto other = peer.link->unasked(waiting->message.channel);
      if (other && !reached(peer, waiting->slot, waiting->target)) found(peer, waiting->message, other->message());
    }
    // An all-reduce where this rank waits for a message. A message sent before the all-reduce can be read by now.
    for (const Message& message : peer.link->posted()) {
      if (message.channel.id >= all_reduce_channels || message.channel.scope != 0) continue;
      const std::size_t slot = slot_of(message.channel);
      const auto own = slots_[slot].progress.load(std::memory_order_relaxed);
      if (reached(peer, slot, own + 1) && peer.link->has_read_all()) {
        found(peer, message, peer.slots[slot].message(message.channel));
      }
    }
  }
  if (wrong) give_up(wrong);
}

void SharedAllReduce::give_up(std::exception_ptr error) {
  stop(own_abort(0, error, rank_));
  revoke(error);
  for (Peer& peer : peers_) peer.link->give_up(0, error);
}

/// Ends the calls whose peers are all done. A peer that stops may have done its part right before: that is visible once
/// its stop is.
void SharedAllReduce::end_complete() {
  std::erase_if(waiting_, [this](const std::shared_ptr<Waiting>& waiting) {
    const bool is_last = waiting->target % 2 == 0;  // else it has yet to add
    const bool is_complete = is_last && all_reached(waiting->slot, waiting->target);
    if (is_complete) waiting->done.set();
    return is_complete;
  });
}

void AllReduceStop::set(const Abort& abort) {
  announced = encode(make_frame(abort, 0));
  abort.reason.copy(reason.data(), reason.size());
}

Abort AllReduceStop::abort() const {
  const Frame frame = decode(announced).value_or(Frame());
  return abort_in(frame, std::string(reason.data(), std::min<std::size_t>(frame.payload, reason.size())));
}

void SharedAllReduce::stop(const Abort& abort) {
  if (error_) return;
  end_complete();
  error_ = abort.error;
  auto* own = reinterpret_cast<AllReduceStop*>(slots_ + all_reduce_slots);
  own->set(abort);
  own->stopped.store(1, std::memory_order_seq_cst);
  for (Peer& peer : peers_) peer.link->other().wake_if_waiting();
}

void SharedAllReduce::revoke(std::exception_ptr error) {
  if (!error_) error_ = error;
  revoked_ = true;
  if (watchdog_) runtime_.cancel(*std::exchange(watchdog_, std::nullopt));
  for (auto& waiting : std::exchange(waiting_, {})) waiting->done.fail(error_);
}

/// One timer for all calls, set again while none is overdue.
void SharedAllReduce::watch() {
  if (watchdog_ || is_asking_ || waiting_.empty()) return;
  auto expired = [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->expire();
  };
  watchdog_ = runtime_.call_at(waiting_.front()->since + options_.timeout, expired);
}

void SharedAllReduce::expire() {
  watchdog_.reset();
  poll();
  if (waiting_.empty()) return;
  const Waiting& oldest = *waiting_.front();
  if (runtime_.now() < oldest.since + options_.timeout) return watch();
  if (error_) return give_up(error_);
  is_asking_ = true;
  const auto found = [weak = weak_from_this(), call = waiting_.front()](const Hang& hang) {
    if (const auto self = weak.lock()) self->give_up_on(call, hang);
  };
  const auto late = std::find_if(peers_.begin(), peers_.end(),
                                 [&](const Peer& peer) { return !reached(peer, oldest.slot, oldest.target); });
  if (late == peers_.end()) {  // it has come meanwhile
    is_asking_ = false;
    return watch();
  }
  late->link->find_hang(found);
}

void SharedAllReduce::give_up_on(const std::shared_ptr<Waiting>& call, const Hang& hang) {
  is_asking_ = false;
  if (error_ || std::find(waiting_.begin(), waiting_.end(), call) == waiting_.end()) return watch();
  give_up(std::make_exception_ptr(
      gave_up_because_of(hang, rank_, options_.timeout, "waiting for " + transport::describe(call->message))));
}

}  // namespace ripieno::transport
