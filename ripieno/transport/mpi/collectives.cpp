#include "ripieno/transport/mpi/collectives.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "ripieno/core/async.h"
#include "ripieno/core/range.h"
#include "ripieno/transport/inquiry.h"

namespace ripieno::transport {
namespace {

// So long calls that have failed wait for MPI to let go of their memory. That comes at once where all ranks take part.
constexpr Duration grace = std::chrono::seconds(1);
// The mark of comparisons.
constexpr std::uint64_t compares = 0x6572616d6f635052;
// A call waits so long by itself before it lets others have the thread, if each rank has a core: resuming it costs as
// much as a small collective.
constexpr auto spin_time = std::chrono::microseconds(20);
constexpr int looks_between_clocks = 16;

struct OwnType {
  DType type;
  ripieno_mpi_type own;
};
constexpr std::array own_types{OwnType{DType::fp32, ripieno_mpi_fp32}, OwnType{DType::fp64, ripieno_mpi_fp64},
                               OwnType{DType::int32, ripieno_mpi_int32}, OwnType{DType::int64, ripieno_mpi_int64},
                               OwnType{DType::uint8, ripieno_mpi_uint8}};
constexpr std::array own_kinds{Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                               Collective::broadcast,  Collective::reduce,         Collective::gather,
                               Collective::scatter,    Collective::all_to_all};

constexpr auto all_operations = [] {
  std::array<EngineOperation, own_kinds.size() * own_types.size()> rows{};
  std::size_t i = 0;
  for (const Collective kind : own_kinds) {
    for (const OwnType& type : own_types) rows[i++] = {kind, type.type, native_route, UINT32_MAX, true};
  }
  return rows;
}();

int own_type(DType type) {
  return std::find_if(own_types.begin(), own_types.end(), [&](const OwnType& row) { return row.type == type; })->own;
}

int own_kind(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return ripieno_mpi_all_reduce;
    case Collective::reduce_scatter:
      return ripieno_mpi_reduce_scatter;
    case Collective::all_gather:
      return ripieno_mpi_all_gather;
    case Collective::broadcast:
      return ripieno_mpi_broadcast;
    case Collective::reduce:
      return ripieno_mpi_reduce;
    case Collective::gather:
      return ripieno_mpi_gather;
    case Collective::scatter:
      return ripieno_mpi_scatter;
    case Collective::all_to_all:
      return ripieno_mpi_all_to_all;
  }
  return -1;
}

int own_reduction(numeric::Reduce how) {
  switch (how) {
    case numeric::Reduce::multiply:
      return ripieno_mpi_product;
    case numeric::Reduce::minimum:
      return ripieno_mpi_minimum;
    case numeric::Reduce::maximum:
      return ripieno_mpi_maximum;
    default:
      return ripieno_mpi_sum;
  }
}

/// Takes something for as long as it lives.
class Busy {
 public:
  explicit Busy(bool* flag) : flag_(flag) { *flag_ = true; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() { *flag_ = false; }

 private:
  bool* flag_;
};

bool same(const Message& a, const Message& b) {
  return a.operation == b.operation && a.type == b.type && a.count == b.count;
}

}  // namespace

std::span<const EngineOperation> MpiCollectives::operations() { return all_operations; }

const std::shared_ptr<MpiCollectives::Lane>& MpiCollectives::lane_of(Channel channel) {
  std::shared_ptr<Lane>& lane = lanes_[channel];
  if (!lane) {
    lane = std::make_shared<Lane>(runtime_, static_cast<int>(lanes_.size()) - 1, runtime_.now());
    ++hub_->part().lanes;
    opening_.push_back(lane);
    if (opening_.size() == 1) open_next();
  }
  return lane;
}

/// Others open the lane too, whatever has ended here.
void MpiCollectives::open_next() {
  if (opening_.empty() || hub_->has_given_up()) return;
  Mpi::Request request;
  try {
    request = hub_->mpi().open_lane(opening_.front()->number);
  } catch (const Error& failed) {
    end_all(error(ErrorKind::network, failed.what()));
    opening_.clear();
    return;
  }
  hub_->when_done(
      request,
      [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self || self->opening_.empty()) return;
        self->opening_.front()->opened.set();
        self->opening_.pop_front();
        self->open_next();
      },
      true);
}

Task<> MpiCollectives::run(std::shared_ptr<MpiCollectives> self, Collective collective, Message message,
                           NumberSpan numbers, EngineTerms terms) {
  if (self->error_) std::rethrow_exception(self->error_);
  if (self->ranks() == 1) co_return;
  require(numbers.data || numbers.count == 0, describe(message), ": MPI cannot move numbers that are not there");
  const std::shared_ptr<Lane> lane = self->lane_of(message.channel);
  if (self->error_) std::rethrow_exception(self->error_);
  require(!lane->in_use, describe(message), ": its channel runs another collective");
  const Busy busy(&lane->in_use);
  if (!lane->opened.is_set()) co_await lane->opened.wait();
  const Wanted wanted{compares, lane->begun, lane->number, terms.root, collective, terms.how, {}};
  if (!lane->last || !wanted.repeats(lane->last->first) || !same(lane->last->second, message)) {
    co_await compare(self.get(), wanted, message);
    lane->last.emplace(wanted, message);
  }
  if (self->error_) std::rethrow_exception(self->error_);
  Call began = self->make_call(wanted, message, numbers);
  ++lane->begun;
  Mpi::Request request;
  try {
    request = self->hub_->mpi().run(began.collective);
  } catch (const Error& failed) {
    self->end_all(self->error(ErrorKind::network, failed.what()));
    std::rethrow_exception(self->error_);
  }
  if (self->spin(&request)) {
    ++self->hub_->part().collectives;
    began.finish();
  } else {
    const auto call = std::make_shared<Call>(std::move(began));
    call->since = self->runtime_.now();
    self->under_way_.push_back(call);
    self->hub_->when_done(
        request,
        [weak = std::weak_ptr(self), call] {
          if (const auto alive = weak.lock()) alive->end(call);
        },
        true);
    co_await call->done.wait();
    if (self->error_) std::rethrow_exception(self->error_);
    call->finish();
  }
}

void MpiCollectives::end(const std::shared_ptr<Call>& call) {
  std::erase(under_way_, call);
  ++hub_->part().collectives;
  if (!error_) {
    if (const auto error = parted(*call)) end_all(error);
  }
  call->done.set();
}

void MpiCollectives::Call::finish() const {
  if (spare) std::memcpy(outcome.data, spare.get(), outcome.size_bytes());
}

/// With both neighbours, so that all ranks are compared.
Task<> MpiCollectives::compare(MpiCollectives* self, Wanted wanted, Message message) {
  const int next = (self->rank_ + 1) % self->ranks(), previous = self->previous();
  Wanted theirs{};
  const auto link = [&](int peer) { return self->links_[static_cast<std::size_t>(peer)]; };
  Task<> sending = link(next)->send(message, std::as_bytes(std::span(&wanted, 1)));
  Task<> receiving = link(previous)->receive(message, std::as_writable_bytes(std::span(&theirs, 1)));
  Task<> comparing = both(self->runtime_, std::move(sending), std::move(receiving),
                          [self, scope = message.channel.scope](auto error) { self->aborts_->end(scope, error); });
  co_await std::move(comparing);
  if (theirs != wanted) std::rethrow_exception(self->parted_from(wanted, message, previous, theirs, message));
}

std::exception_ptr MpiCollectives::parted_from(const Wanted& wanted, const Message& message, int peer,
                                               const Wanted& theirs, const Message& their_message) const {
  const auto words = [](const Wanted& one, const Message& as) {
    return text(name(one.collective), " (", describe(as), "), ", name(one.how), ", root ", one.root, ", as number ",
                one.before + 1, " of the channel that it has opened as number ", one.lane + 1);
  };
  return std::make_exception_ptr(
      Error(ErrorKind::mismatch, text("rank ", rank_, " asks MPI for ", words(wanted, message), ", but rank ", peer,
                                      " for ", words(theirs, their_message), ": the ranks do not do the same")));
}

/// What a rank sees that compares nothing: its neighbour compares where it repeats its last collective.
std::exception_ptr MpiCollectives::parted(const Call& call) const {
  const auto unasked = links_[static_cast<std::size_t>(previous())]->unasked(call.message.channel);
  Wanted theirs{};
  if (!unasked || unasked->payload.size() != sizeof theirs) return nullptr;
  std::memcpy(&theirs, unasked->payload.data(), sizeof theirs);
  const bool is_for_later = theirs.before > call.wanted.before;
  if (theirs.mark != compares || is_for_later) return nullptr;
  return parted_from(call.wanted, call.message, previous(), theirs, unasked->message);
}

std::exception_ptr MpiCollectives::parted() const {
  for (const auto& call : under_way_) {
    if (auto error = parted(*call)) return error;
  }
  return nullptr;
}

MpiCollectives::Call MpiCollectives::make_call(Wanted wanted, Message message, NumberSpan numbers) const {
  if (numbers.count > INT_MAX) {
    fail(ErrorKind::usage, describe(message), ": MPI takes at most ", INT_MAX,
         " numbers at once; cut them into smaller parts, as exchange.bucket_mb does");
  }
  Call call(runtime_, wanted, message);
  ripieno_mpi_collective& own = call.collective;
  own.kind = own_kind(wanted.collective);
  own.type = own_type(numbers.type);
  own.reduction = own_reduction(wanted.how);
  own.root = wanted.root;
  own.lane = wanted.lane;
  own.numbers = numbers.data;
  own.count = static_cast<int>(numbers.count);
  const bool in_blocks = wanted.collective == Collective::all_to_all;
  const auto part = [&](int i) { return chunk(numbers.count, ranks(), i); };
  if (in_blocks) own.count /= ranks();
  if (in_blocks || wanted.collective == Collective::reduce_scatter) {
    const Range outcome = in_blocks ? Range{0, static_cast<std::size_t>(own.count) * links_.size()} : part(rank_);
    call.outcome = numbers.slice(outcome.begin, outcome.end);
    call.spare = scratch(call.outcome.size_bytes());
    own.spare = call.spare.get();
  }
  if (wanted.collective == Collective::all_reduce) return call;  // it needs no parts, and is often small
  for (int i = 0; i < ranks(); ++i) {
    call.counts.push_back(static_cast<int>(part(i).size()));
    call.starts.push_back(static_cast<int>(part(i).begin));
  }
  own.counts = call.counts.data();
  own.starts = call.starts.data();
  return call;
}

bool MpiCollectives::spin(Mpi::Request* request) const {
  Mpi& mpi = hub_->mpi();
  try {
    if (mpi.test(*request)) return true;
    if (!hub_->may_spin() || runtime_.is_computing()) return false;
    const Duration end = runtime_.now() + spin_time;
    do {
      for (int i = 0; i < looks_between_clocks; ++i) {
        if (mpi.test(*request)) return true;
        runtime_.pause_spinning();
      }
    } while (runtime_.now() < end);
    return false;
  } catch (const Error& failed) {
    hub_->give_up(failed.what());  // MPI may have the memory
    std::rethrow_exception(error_);
  }
}

void MpiCollectives::stop(std::exception_ptr error) {
  if (error_) return;
  error_ = error;
  last_look_ = runtime_.now() + grace;
  for (const auto& lane : opening_) lane->opened.fail(error);
}

bool MpiCollectives::lacks_a_rank() const {
  MpiHub::Part part = hub_->part();
  part.collectives += under_way_.size();
  return std::any_of(links_.begin(), links_.end(), [&part](const auto& link) { return link && !link->takes(part); });
}

void MpiCollectives::look() {
  if (!waits()) return;
  const Duration now = runtime_.now(), since = under_way_.empty() ? opening_.front()->since : under_way_.front()->since;
  alone_ = lacks_a_rank() ? alone_.value_or(now) : std::optional<Duration>();
  if (error_) {
    if (now > last_look_) hub_->give_up(gave_up_on("a rank no longer takes part in it"));
  } else if (const auto parted = this->parted()) {
    end_all(parted);
  } else if (alone_ && now - *alone_ > grace) {
    end_all(error(ErrorKind::peer, "a rank no longer takes part in it", Loss{}));
    last_look_ = now + MpiHub::telling;
  } else if (now - since > options_.timeout && !is_asking_) {
    find_hang(since);
  }
}

/// Ends what has waited since then, with the ranks that keep it from its end, if it still waits.
void MpiCollectives::find_hang(Duration since) {
  is_asking_ = true;
  const auto found = [weak = weak_from_this(), since](const Hang& hang) {
    const auto self = weak.lock();
    if (!self) return;
    self->is_asking_ = false;
    const bool still_waits = self->under_way_.empty()
                                 ? !self->opening_.empty() && self->opening_.front()->since == since
                                 : self->under_way_.front()->since == since;
    if (self->error_ || !still_waits) return;
    const std::string why = text("it has not ended within ", seconds(self->options_.timeout), " s");
    self->end_all(self->error(ErrorKind::peer, hang.known.empty() ? why : why + ": " + hang.known, loss_by(hang)));
  };
  const auto inquiry = aborts_->inquiry();
  inquiry ? inquiry->ask(options_.timeout, found) : found({});
}

/// On all ranks. Engines work in scope 0, of which all ranks are members.
void MpiCollectives::end_all(std::exception_ptr error) {
  stop(error);
  aborts_->end(0, error);
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (links_[peer] && aborts_->must_tell(0, static_cast<int>(peer))) links_[peer]->tell(*aborts_->find(0));
  }
}

void MpiCollectives::break_off(const std::string& why) {
  if (!error_) {
    const auto parted = this->parted();  // which MPI may have noticed, too
    const auto broken = parted ? parted : error(ErrorKind::network, why);
    lanes_.empty() ? stop(broken) : end_all(broken);
  }
  for (const auto& call : std::exchange(under_way_, {})) call->done.fail(error_);
  opening_.clear();
}

std::string MpiCollectives::gave_up_on(const std::string& why) const {
  if (!under_way_.empty()) {
    const Call& first = *under_way_.front();
    return text("gave up on MPI's own ", name(first.wanted.collective), " (", describe(first.message), "): ", why);
  }
  if (opening_.empty()) return "MPI has failed: " + why;
  return text("gave up on MPI's communicator ", opening_.front()->number + 1,
              " of those that each bucket has (exchange.bucket_mb): ", why);
}

std::exception_ptr MpiCollectives::error(ErrorKind kind, const std::string& why, std::optional<Loss> loss) const {
  return std::make_exception_ptr(Error(kind, text("rank ", rank_, ": ", gave_up_on(why)), loss));
}

}  // namespace ripieno::transport
