#include "ripieno/strategy/shard_snapshots.h"

#include "ripieno/collective/execute.h"

namespace ripieno::strategy {

ShardSnapshots::ShardSnapshots(collective::Communicator comm, std::uint32_t channel, const KeyShards& keys,
                               std::size_t parameters, DType type, ServerShard& shard, bool acknowledged)
    : path_{std::move(comm), channel},
      keys_(keys),
      parameters_(parameters),
      type_(type),
      shard_(shard),
      acknowledged_(acknowledged),
      received_(static_cast<std::size_t>(keys.count())),
      all_received_(received_.size()) {
  for (int s = 1; s < keys.count(); ++s) {
    arrived_.push_back(std::make_unique<Queue<std::shared_ptr<numeric::Numbers>>>(path_.comm.runtime()));
  }
}

std::vector<std::function<Task<>(std::int64_t* renewed_after)>> ShardSnapshots::services() {
  if (shard_index() != 0) return {[this](std::int64_t* renewed_after) { return send_all(renewed_after); }};
  std::vector<std::function<Task<>(std::int64_t * renewed_after)>> services;
  for (int s = 1; s < keys_.count(); ++s)
    services.push_back([this, s](std::int64_t* renewed_after) { return receive_all(s, renewed_after); });
  return services;
}

Task<> ShardSnapshots::send_all(std::int64_t* renewed_after) {
  *renewed_after = path_.aborts + 1;
  while (!ended_) {
    if (!pending_) pending_ = co_await shard_.snapshots().pop();
    const Path path = path_;  // one communicator for the whole transfer
    *renewed_after = path.aborts + 1;
    transport::Endpoint* const endpoint = &path.comm.endpoint();
    const int to = path.comm.member(0);
    const std::uint64_t follows = pending_->weights != nullptr;
    const ConstBytes announced = std::as_bytes(std::span(&follows, 1));
    co_await endpoint->send(to, path.announcement(), announced);
    if (follows)
      co_await collective::send_numbers(endpoint, to, weights(path, shard_index()), pending_->weights->span());
    if (acknowledged_) {
      std::byte answer{};
      const Bytes room(&answer, 1);
      co_await endpoint->receive(to, path.acknowledgement(), room);
    }
    confirm_pending();
  }
}

void ShardSnapshots::confirm_pending() {
  ended_ = !pending_->weights;
  pending_.reset();
  ++sent_;
}

Task<> ShardSnapshots::receive_all(int shard, std::int64_t* renewed_after) {
  *renewed_after = path_.aborts + 1;
  const auto at = static_cast<std::size_t>(shard);
  while (!all_received_[at]) {
    const Path path = path_;
    *renewed_after = path.aborts + 1;
    transport::Endpoint* const endpoint = &path.comm.endpoint();
    const int from = path.comm.member(shard);
    std::uint64_t follows = 0;
    const Bytes announced = std::as_writable_bytes(std::span(&follows, 1));
    co_await endpoint->receive(from, path.announcement(), announced);
    if (follows) {
      const auto part =
          std::make_shared<numeric::Numbers>(keys_.size(shard), type_, numeric::memory_like(shard_.weights()));
      co_await endpoint->receive(from, weights(path, shard), part->span(), numeric::Reduce::replace);
      arrived_[at - 1]->push(part);
    }
    all_received_[at] = !follows;
    ++received_[at];
    if (!acknowledged_) continue;
    const std::byte answer{};
    const ConstBytes sent(&answer, 1);
    co_await endpoint->send(from, path.acknowledgement(), sent);
  }
}

void ShardSnapshots::regroup(collective::Communicator comm, std::uint32_t channel, std::int64_t aborts) {
  path_ = {std::move(comm), channel, aborts};
}

void ShardSnapshots::recover(const std::vector<std::int64_t>& received) {
  if (pending_ && received[static_cast<std::size_t>(shard_index())] > sent_) confirm_pending();
}

Task<Snapshot> ShardSnapshots::next() {
  const Snapshot first = co_await shard_.snapshots().pop();
  if (!first.weights) co_return first;
  const Snapshot whole{first.epoch,
                       std::make_shared<numeric::Numbers>(parameters_, type_, numeric::memory_like(shard_.weights())),
                       first.buffers};
  keys_.scatter(0, whole.weights->span(), first.weights->span());
  for (int s = 1; s < keys_.count(); ++s) {
    const auto part = co_await arrived_[s - 1]->pop();
    if (!part) co_return Snapshot();
    keys_.scatter(s, whole.weights->span(), part->span());
  }
  co_return whole;
}

void ShardSnapshots::give_up() {
  for (const auto& queue : arrived_) queue->push(nullptr);
}

}  // namespace ripieno::strategy
