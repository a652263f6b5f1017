// An MPI of the test's own: ranks are threads of one process. As the real ones, it takes small messages at once, and
// large ones once they are received: until then the sender's memory is read, and the receiver's written, by the other
// thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/transport/mpi/mpi.h"

namespace ripieno::testing {

/// What all ranks share.
class OwnMpiWorld {
 public:
  explicit OwnMpiWorld(int ranks) : ranks(ranks) {}

  struct Send {
    int from, to, tag;
    ConstBytes data;
    std::vector<std::byte> own;  ///< of a small message
    std::uint64_t number;
  };
  struct Receive {
    int from, to, tag;
    Bytes into;
    std::uint64_t number;
  };

  const int ranks;
  std::mutex mutex;
  std::deque<Send> sends;  ///< not yet received
  std::deque<Receive> receives;
  std::map<std::uint64_t, bool> done;
  /// Collectives of each lane, in order: the ranks that have begun it, with what they asked for.
  struct Begun {
    std::map<int, std::pair<ripieno_mpi_collective, std::uint64_t>> of;
  };
  std::map<int, std::vector<Begun>> lanes;
  std::map<std::pair<int, int>, std::size_t> begun;  ///< by lane and rank
  std::map<int, int> opened;                         ///< lanes, by rank
  std::uint64_t next = 1;
  int stopped = 0;
  bool broken = false;       ///< every call fails from now on
  int slow = -1;             ///< this rank does not yet see that its collectives have ended
  int starts_none = -1;      ///< this rank's collectives fail when they begin
  std::map<int, int> calls;  ///< so far, by rank
};

class OwnMpi final : public transport::Mpi {
 public:
  static constexpr std::size_t eager_bytes = 4096;

  OwnMpi(std::shared_ptr<OwnMpiWorld> world, int rank) : world_(std::move(world)), rank_(rank) {}

  Place place() const override { return {rank_, world_->ranks, world_->ranks, 1}; }

  Request send(int peer, int tag, ConstBytes data) override {
    const std::lock_guard lock(world_->mutex);
    check();
    OwnMpiWorld::Send send{rank_, peer, tag, data, {}, world_->next++};
    const bool eager = data.size() <= eager_bytes;
    world_->done[send.number] = eager;
    const std::uint64_t number = send.number;
    if (eager) send.own.assign(data.begin(), data.end());
    world_->sends.push_back(std::move(send));
    match();
    return {number};
  }
  Request receive(int peer, int tag, Bytes into) override {
    const std::lock_guard lock(world_->mutex);
    check();
    const std::uint64_t number = world_->next++;
    world_->done[number] = false;
    world_->receives.push_back({peer, rank_, tag, into, number});
    match();
    return {number};
  }
  bool test(Request& request) override {
    const std::lock_guard lock(world_->mutex);
    check();
    if (request.room == 0) return true;
    const auto at = world_->done.find(request.room);
    require(at != world_->done.end(), "a request that is not there");
    if (!at->second || (world_->slow == rank_ && collectives_.contains(request.room))) return false;
    world_->done.erase(at);
    request.room = 0;
    return true;
  }
  std::optional<Taken> take(int source, int tag, Bytes into) override {
    const std::lock_guard lock(world_->mutex);
    check();
    for (auto at = world_->sends.begin(); at != world_->sends.end(); ++at) {
      if (at->to != rank_ || at->tag != tag || (source >= 0 && at->from != source)) continue;
      require(at->data.size() <= into.size(), "a message that is too long");
      std::copy(at->own.begin(), at->own.end(), into.begin());
      const Taken taken{at->from, at->own.size()};
      world_->sends.erase(at);
      return taken;
    }
    return std::nullopt;
  }
  Request open_lane(int lane) override {
    const std::lock_guard lock(world_->mutex);
    check();
    require(world_->opened[rank_]++ == lane, "lanes are opened out of order");
    return wait_for(-1, {});
  }
  Request run(const ripieno_mpi_collective& collective) override {
    const std::lock_guard lock(world_->mutex);
    check();
    require(collective.lane < world_->opened[rank_], "a lane that is not open");
    if (world_->starts_none == rank_) fail(ErrorKind::network, "MPI is out of memory");
    return wait_for(collective.lane, collective);
  }
  void stop() override {
    const std::lock_guard lock(world_->mutex);
    ++world_->stopped;
  }

 private:
  /// A collective of all ranks; lane -1: they open a lane. Under the lock.
  Request wait_for(int lane, const ripieno_mpi_collective& collective) {
    const std::size_t at = world_->begun[{lane, rank_}]++;
    auto& row = world_->lanes[lane];
    if (row.size() <= at) row.resize(at + 1);
    const std::uint64_t number = world_->next++;
    collectives_.insert(number);
    world_->done[number] = false;
    row[at].of[rank_] = {collective, number};
    if (static_cast<int>(row[at].of.size()) < world_->ranks) return {number};
    if (lane >= 0) end(row[at]);
    for (const auto& [rank, one] : row[at].of) world_->done[one.second] = true;
    return {number};
  }
  void end(OwnMpiWorld::Begun& all) {
    std::vector<ripieno_mpi_collective> of;
    for (const auto& [rank, one] : all.of) of.push_back(one.first);
    switch (of[0].type) {
      case ripieno_mpi_fp32:
        return end<float>(of);
      case ripieno_mpi_fp64:
        return end<double>(of);
      case ripieno_mpi_int32:
        return end<std::int32_t>(of);
      case ripieno_mpi_int64:
        return end<std::int64_t>(of);
      default:
        return end<std::uint8_t>(of);
    }
  }
  /// What each rank must have in the end; combined in the order of ranks.
  template <class T>
  static void end(const std::vector<ripieno_mpi_collective>& of) {
    const auto numbers = [&](std::size_t rank) { return static_cast<T*>(of[rank].numbers); };
    const ripieno_mpi_collective& first = of[0];
    const auto count = static_cast<std::size_t>(first.count), ranks = of.size();
    const bool in_blocks = first.kind == ripieno_mpi_all_to_all;
    std::vector<std::vector<T>> was(ranks);
    for (std::size_t r = 0; r < ranks; ++r) was[r].assign(numbers(r), numbers(r) + (in_blocks ? count * ranks : count));
    std::vector<T> combined = was[0];
    for (std::size_t r = 1; r < ranks; ++r) {
      for (std::size_t i = 0; i < combined.size(); ++i) {
        T& into = combined[i];
        const T other = was[r][i];
        into = first.reduction == ripieno_mpi_product   ? static_cast<T>(into * other)
               : first.reduction == ripieno_mpi_minimum ? std::min(into, other)
               : first.reduction == ripieno_mpi_maximum ? std::max(into, other)
                                                        : static_cast<T>(into + other);
      }
    }
    const auto root = static_cast<std::size_t>(first.root);
    const auto part = [&](const std::vector<T>& from, std::size_t of_rank, T* into) {
      std::copy_n(from.data() + first.starts[of_rank], first.counts[of_rank], into);
    };
    for (std::size_t r = 0; r < ranks; ++r) {
      switch (first.kind) {
        case ripieno_mpi_all_reduce:
          std::copy(combined.begin(), combined.end(), numbers(r));
          break;
        case ripieno_mpi_reduce_scatter:
          part(combined, r, static_cast<T*>(of[r].spare));
          break;
        case ripieno_mpi_all_gather:
          for (std::size_t other = 0; other < ranks; ++other) part(was[other], other, numbers(r) + first.starts[other]);
          break;
        case ripieno_mpi_broadcast:
          std::copy(was[root].begin(), was[root].end(), numbers(r));
          break;
        case ripieno_mpi_reduce:
          if (r == root) std::copy(combined.begin(), combined.end(), numbers(r));
          break;
        case ripieno_mpi_gather:
          for (std::size_t other = 0; other < ranks && r == root; ++other)
            part(was[other], other, numbers(r) + first.starts[other]);
          break;
        case ripieno_mpi_scatter:
          part(was[root], r, numbers(r) + first.starts[r]);
          break;
        case ripieno_mpi_all_to_all:
          for (std::size_t other = 0; other < ranks; ++other) {
            std::copy_n(was[other].data() + r * count, count, static_cast<T*>(of[r].spare) + other * count);
          }
          break;
      }
    }
  }

  void check() const {
    ++world_->calls[rank_];
    if (world_->broken) fail(ErrorKind::network, "MPI is on fire");
  }
  /// Completes receives whose message is there. Under the lock.
  void match() {
    for (auto receive = world_->receives.begin(); receive != world_->receives.end();) {
      const auto send = std::find_if(world_->sends.begin(), world_->sends.end(), [&](const auto& one) {
        return one.from == receive->from && one.to == receive->to && one.tag == receive->tag;
      });
      if (send == world_->sends.end()) {
        ++receive;
        continue;
      }
      const ConstBytes data = send->own.empty() ? send->data : ConstBytes(send->own);
      require(data.size() == receive->into.size(), "a message of another size");
      std::copy(data.begin(), data.end(), receive->into.begin());
      world_->done[receive->number] = true;
      if (send->own.empty()) world_->done[send->number] = true;
      world_->sends.erase(send);
      receive = world_->receives.erase(receive);
    }
  }

  const std::shared_ptr<OwnMpiWorld> world_;
  const int rank_;
  std::set<std::uint64_t> collectives_;  ///< requests of such
};

}  // namespace ripieno::testing
