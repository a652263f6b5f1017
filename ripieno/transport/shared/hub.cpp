#include "ripieno/transport/shared/hub.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace ripieno::transport {

BellStroke BellStroke::now() { return {std::chrono::steady_clock::now().time_since_epoch(), ::sched_getcpu()}; }

namespace {

/// Null if the stroke's time cannot be: it is what another process wrote.
std::optional<WakeUp> woken_by(const BellStroke& stroke, int core) {
  const BellStroke now = BellStroke::now();
  const bool can_be = stroke.at <= now.at && stroke.at >= now.at - std::chrono::seconds(1);
  return can_be ? std::optional(WakeUp{now.at - stroke.at, stroke.core == core}) : std::nullopt;
}

}  // namespace

SharedHub::SharedHub(Runtime& runtime, int ranks, std::size_t ring_bytes, std::size_t placed_bytes, std::uint64_t word)
    : runtime_(runtime), own_(std::make_shared<SharedOwn>()), bell_(runtime.context()) {
  own_->control = std::make_shared<SharedControl>(ranks, ring_bytes, word);
  own_->arena = std::make_shared<SharedArena>(own_->control);
  own_->placed_bytes = placed_bytes;
  own_->all_reduces = own_->arena->keep(all_reduce_bytes);
  if (!own_->all_reduces) fail(ErrorKind::network, "there is no shared memory");
  const Place place = own_->arena->find({own_->all_reduces, all_reduce_bytes}).value();
  require(place.region == all_reduce_place.region && place.offset == all_reduce_place.offset, "slots elsewhere");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) fail(ErrorKind::network, "cannot make a pipe");
  bell_out_ = Descriptor(ends[1]);
  bell_.assign(ends[0]);
}

void SharedHub::start(std::vector<std::shared_ptr<SharedLink>> shared, std::vector<std::shared_ptr<PeerLink>> all,
                      std::shared_ptr<SharedAllReduce> all_reduce, bool may_spin) {
  shared_ = std::move(shared);
  all_reduce_ = std::move(all_reduce);
  all_ = std::move(all);
  may_spin_ = may_spin;
  if (shared_.empty()) return;  // nothing to poll for: the runtime blocks as it does over tcp alone
  for (const auto& link : shared_) link->start();
  listen();
  runtime_.add_poller(weak_from_this());
}

void SharedHub::close() {
  asio::error_code ignored;
  bell_.close(ignored);
  for (const auto& link : shared_) link->leave();
  shared_.clear();
  all_.clear();
  all_reduce_.reset();
}

/// Wakes the thread; poll() finds what the bell was rung for.
void SharedHub::listen() {
  auto rung = [weak = weak_from_this()](asio::error_code error, std::size_t bytes) {
    const auto hub = weak.lock();
    if (!hub || error) return;
    if (bytes >= sizeof(BellStroke)) hub->woke_ = woken_by(hub->rung_[0], hub->core_);
    hub->listen();
  };
  bell_.async_read_some(asio::buffer(rung_), rung);
}

std::optional<WakeUp> SharedHub::wake() {
  own_->control->head().sleeping.store(0, std::memory_order_seq_cst);
  return std::exchange(woke_, std::nullopt);
}

bool SharedHub::poll() {
  bool any = false;
  for (const auto& link : shared_) any |= link->progress();
  if (all_reduce_) any |= all_reduce_->poll();
  return any;
}

bool SharedHub::sleep() {
  // Before this rank waits, it copies unexpected payloads out of its peers' memory: a peer may wait for that before it
  // sends what this rank waits for.
  const bool waits = (all_reduce_ && all_reduce_->waits()) ||
                     std::any_of(all_.begin(), all_.end(), [](const auto& link) { return link && link->waits(); });
  if (waits) {
    bool any = false;
    for (const auto& link : shared_) any |= link->take_in();
    if (any) return false;
  }
  core_ = ::sched_getcpu();
  woke_.reset();
  own_->control->head().sleeping.store(ControlHead::asleep | (waits ? ControlHead::waiting : 0),
                                       std::memory_order_seq_cst);
  if (all_reduce_ && waits) all_reduce_->find_mismatches();
  return !(all_reduce_ && all_reduce_->has_work()) &&
         std::none_of(shared_.begin(), shared_.end(), [](const auto& link) { return link->has_work(); });
}

}  // namespace ripieno::transport
