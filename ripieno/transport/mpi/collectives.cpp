#include "ripieno/transport/mpi/collectives.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "ripieno/core/async.h"
#include "ripieno/core/range.h"

namespace ripieno::transport {
namespace {

// So long calls that have failed wait for MPI to let go of their memory. That comes at once where all ranks take part.
constexpr Duration grace = std::chrono::seconds(1);
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
    opening_.push_back(lane);
    if (opening_.size() == 1) open_next();
  }
  return lane;
}

void MpiCollectives::open_next() {
  if (opening_.empty() || error_) return;
  hub_->when_done(
      hub_->mpi().open_lane(opening_.front()->number),
      [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self) return;
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
  require(!lane->in_use, describe(message), ": its channel runs another collective");
  const Busy busy(&lane->in_use);
  if (!lane->opened.is_set()) co_await lane->opened.wait();
  const Wanted wanted{collective, terms.how, terms.root, lane->number};
  if (!lane->compared || lane->compared->first != wanted || !same(lane->compared->second, message)) {
    co_await compare(self.get(), wanted, message);
    lane->compared.emplace(wanted, message);
  }
  if (self->error_) std::rethrow_exception(self->error_);
  Call began = self->make_call(wanted, message, numbers, lane->number);
  Mpi::Request request = self->hub_->mpi().run(began.collective);
  if (self->spin(&request)) {
    began.finish();
  } else {
    const auto call = std::make_shared<Call>(std::move(began));
    call->since = self->runtime_.now();
    self->under_way_.push_back(call);
    self->hub_->when_done(
        request,
        [weak = std::weak_ptr(self), call] {
          if (const auto alive = weak.lock()) std::erase(alive->under_way_, call);
          call->done.set();
        },
        true);
    co_await call->done.wait();
    if (self->error_) std::rethrow_exception(self->error_);
    call->finish();
  }
}

void MpiCollectives::Call::finish() const {
  if (spare) std::memcpy(outcome.data, spare.get(), outcome.size_bytes());
}

/// With both neighbours, so that all ranks are compared.
Task<> MpiCollectives::compare(MpiCollectives* self, Wanted wanted, Message message) {
  const int next = (self->rank_ + 1) % self->ranks(), previous = (self->rank_ + self->ranks() - 1) % self->ranks();
  Wanted theirs{};
  const auto link = [&](int peer) { return self->links_[static_cast<std::size_t>(peer)]; };
  Task<> sending = link(next)->send(message, std::as_bytes(std::span(&wanted, 1)));
  Task<> receiving = link(previous)->receive(message, std::as_writable_bytes(std::span(&theirs, 1)));
  Task<> comparing = both(self->runtime_, std::move(sending), std::move(receiving),
                          [self, scope = message.channel.scope](auto error) { self->aborts_->end(scope, error); });
  co_await std::move(comparing);
  if (theirs == wanted) co_return;
  const auto words = [](const Wanted& one) {
    return text(name(one.collective), ", ", name(one.how), ", root ", one.root, ", as channel ", one.lane,
                " that it has opened");
  };
  fail(ErrorKind::mismatch, "rank ", self->rank_, " asks MPI for ", words(wanted), ", but rank ", previous, " for ",
       words(theirs), ", both as ", describe(message));
}

MpiCollectives::Call MpiCollectives::make_call(Wanted wanted, Message message, NumberSpan numbers, int lane) const {
  if (numbers.count > INT_MAX)
    fail(ErrorKind::usage, describe(message), ": MPI counts to ", INT_MAX, "; cut it into smaller parts");
  Call call(runtime_, message);
  ripieno_mpi_collective& own = call.collective;
  own.kind = own_kind(wanted.collective);
  own.type = own_type(numbers.type);
  own.reduction = own_reduction(wanted.how);
  own.root = wanted.root;
  own.lane = lane;
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
  if (mpi.test(*request)) return true;
  if (!hub_->may_spin() || runtime_.is_computing()) return false;
  const Duration end = runtime_.now() + spin_time;
  do {
    for (int i = 0; i < looks_between_clocks; ++i) {
      if (mpi.test(*request)) return true;
    }
  } while (runtime_.now() < end);
  return false;
}

void MpiCollectives::stop(std::exception_ptr error) {
  if (error_) return;
  error_ = error;
  alone_ = runtime_.now();
  for (const auto& lane : opening_) lane->opened.fail(error);
  if (opening_.size() > 1) opening_.resize(1);  // the others were not begun
}

void MpiCollectives::look() {
  if (!waits()) return;
  const Duration now = runtime_.now(), since = under_way_.empty() ? opening_.front()->since : under_way_.front()->since;
  if (alone_) {
    if (now - *alone_ > grace) give_up("a rank no longer takes part in it");
  } else if (std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link && link->has_failed(); })) {
    alone_ = now;
  } else if (now - since > options_.timeout) {
    give_up(text("it has not ended within ", seconds(options_.timeout), " s"));
  }
}

void MpiCollectives::break_off(const std::string& why) {
  if (waits()) fail_all(ErrorKind::network, why);
}

void MpiCollectives::give_up(const std::string& why) {
  hub_->give_up();
  fail_all(ErrorKind::peer, why);
}

void MpiCollectives::fail_all(ErrorKind kind, const std::string& why) {
  const std::string what =
      under_way_.empty() ? "copying of a communicator" : text("own ", describe(under_way_.front()->message));
  stop(std::make_exception_ptr(Error(kind, text("rank ", rank_, ": gave up on MPI's ", what, ": ", why))));
  for (const auto& call : std::exchange(under_way_, {})) call->done.fail(error_);
  opening_.clear();
}

}  // namespace ripieno::transport
