// Whole models from the snapshots of their shards: every shard takes one after the same epochs, those on other ranks
// send theirs to rank 0, and rank 0 puts them together. Training goes on meanwhile; what arrives is taken at once, or it
// would stand in the way of weights that a worker on rank 0 waits for.
//
// Bytes (evaluate): 4 a number in fp32, 8 in fp64, for each number that is not in shard 0; and 8 of control a snapshot.
#pragma once

#include "ripieno/collective/communicator.h"
#include "ripieno/strategy/key_shards.h"
#include "ripieno/strategy/server_shard.h"

namespace ripieno {

class ShardSnapshots {
 public:
  /// On a rank that has a shard. `channel` is taken from `comm`; `keys` and `shard` outlive it.
  ShardSnapshots(Communicator comm, std::uint32_t channel, const KeyShards& keys, std::size_t parameters, DType type, ServerShard& shard);

  /// What goes on beside training on this rank, to the shard's end: sends its snapshots, or receives the others'.
  std::vector<Task<>> tasks();

  /// Rank 0: the next whole model, from shard 0's next snapshot on; null weights at the end.
  Task<Snapshot> next();

  /// Rank 0: next() ends.
  void give_up();

 private:
  Task<> send_all();
  Task<> receive_all(int shard);
  Message announcement() const { return {comm_.channel(channel_, Purpose::control), "snapshot", DType::int64, 1}; }
  Message weights(int shard) const { return {comm_.channel(channel_, Purpose::evaluate), "snapshot", type_, keys_.size(shard)}; }

  Communicator comm_;
  const std::uint32_t channel_;
  const KeyShards& keys_;
  std::size_t parameters_;
  DType type_;
  ServerShard& shard_;
  std::vector<std::unique_ptr<Queue<std::shared_ptr<Numbers>>>> arrived_;  // rank 0: of each shard but the first
};

}  // namespace ripieno
