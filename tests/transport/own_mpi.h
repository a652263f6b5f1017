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
  std::uint64_t next = 1;
  int stopped = 0;
  bool broken = false;  ///< every call fails from now on
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
    if (!at->second) return false;
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
  void stop() override {
    const std::lock_guard lock(world_->mutex);
    ++world_->stopped;
  }

 private:
  void check() const {
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
};

}  // namespace ripieno::testing
