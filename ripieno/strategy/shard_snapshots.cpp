#include "ripieno/strategy/shard_snapshots.h"

#include "ripieno/collective/execute.h"

namespace ripieno {

ShardSnapshots::ShardSnapshots(Communicator comm, std::uint32_t channel, const KeyShards& keys, std::size_t parameters, DType type,
                               ServerShard& shard)
    : comm_(std::move(comm)), channel_(channel), keys_(keys), parameters_(parameters), type_(type), shard_(shard) {
  for (int s = 1; s < keys.count(); ++s) {
    arrived_.push_back(std::make_unique<Queue<std::shared_ptr<Numbers>>>(comm_.runtime()));
  }
}

std::vector<Task<>> ShardSnapshots::tasks() {
  std::vector<Task<>> tasks;
  if (comm_.rank() != 0) {
    tasks.push_back(send_all());
    return tasks;
  }
  for (int s = 1; s < keys_.count(); ++s) tasks.push_back(receive_all(s));
  return tasks;
}

Task<> ShardSnapshots::send_all() {
  Endpoint* const endpoint = &comm_.endpoint();
  const int to = comm_.member(0);
  for (;;) {
    const Snapshot now = co_await shard_.snapshots().pop();
    const std::uint64_t follows = now.weights != nullptr;
    const ConstBytes announced = std::as_bytes(std::span(&follows, 1));
    co_await endpoint->send(to, announcement(), announced);
    if (!follows) co_return;
    co_await send_numbers(endpoint, to, weights(comm_.rank()), now.weights->span());
  }
}

Task<> ShardSnapshots::receive_all(int shard) {
  Endpoint* const endpoint = &comm_.endpoint();
  const int from = comm_.member(shard);
  for (;;) {
    std::uint64_t follows = 0;
    const Bytes announced = std::as_writable_bytes(std::span(&follows, 1));
    co_await endpoint->receive(from, announcement(), announced);
    if (!follows) co_return;
    const auto part = std::make_shared<Numbers>(keys_.size(shard), type_);
    co_await endpoint->receive(from, weights(shard), part->span(), Reduce::replace);
    arrived_[shard - 1]->push(part);
  }
}

Task<Snapshot> ShardSnapshots::next() {
  const Snapshot first = co_await shard_.snapshots().pop();
  if (!first.weights) co_return first;
  const Snapshot whole{first.epoch, std::make_shared<Numbers>(parameters_, type_), first.buffers};
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

}  // namespace ripieno
