// Whole models from the snapshots of their shards: every shard takes a snapshot after the same epochs, shards on other
// ranks send theirs to rank 0, and rank 0 puts them together. Training goes on meanwhile. Rank 0 receives a snapshot at
// once; otherwise it would block weights that a worker on rank 0 waits for.
//
// Where an abort may break off a transfer, rank 0 acknowledges each snapshot (`acknowledged`), and a shard keeps it
// until then: after an abort it sends again what rank 0 lacks.
//
// Bytes (evaluate): 4 a number in fp32, 8 in fp64, for each number that is not in shard 0; and 8 of control a snapshot.
#pragma once

#include <optional>

#include "ripieno/collective/communicator.h"
#include "ripieno/strategy/key_shards.h"
#include "ripieno/strategy/server_shard.h"

namespace ripieno::strategy {

class ShardSnapshots {
 public:
  /// Made on a rank that has a shard. `channel` is taken from `comm`; `keys` and `shard` outlive this object.
  ShardSnapshots(collective::Communicator comm, std::uint32_t channel, const KeyShards& keys, std::size_t parameters,
                 DType type, ServerShard& shard, bool acknowledged);

  /// After an abort: regroup() with a fresh communicator and its channel, then recover() with rank 0's received().
  void regroup(collective::Communicator comm, std::uint32_t channel, std::int64_t aborts);
  void recover(const std::vector<std::int64_t>& received);
  /// Rank 0: how many snapshots have arrived of each shard, counting the final one that has no weights.
  const std::vector<std::int64_t>& received() const { return received_; }

  /// The tasks that run beside training on this rank until the shard ends: sending its snapshots, or receiving the
  /// others'. Start each again once ranks have recovered from `renewed_after` aborts.
  std::vector<std::function<Task<>(std::int64_t* renewed_after)>> services();

  /// Rank 0: waits for the next whole model; null weights at the end.
  Task<Snapshot> next();

  /// Rank 0: makes next() return.
  void give_up();

 private:
  Task<> send_all(std::int64_t* renewed_after);
  void confirm_pending();
  Task<> receive_all(int shard, std::int64_t* renewed_after);
  /// The communicator and channel that snapshots use until an abort.
  struct Path {
    collective::Communicator comm;
    std::uint32_t channel;
    std::int64_t aborts = 0;  ///< before this communicator
    transport::Message announcement() const {
      return {comm.channel(channel, observe::Purpose::control), "snapshot", DType::int64, 1};
    }
    transport::Message acknowledgement() const {
      return {comm.channel(channel, observe::Purpose::control), "arrived", DType::uint8, 1};
    }
  };
  transport::Message weights(const Path& path, int shard) const {
    return {path.comm.channel(path.channel, observe::Purpose::evaluate), "snapshot", type_, keys_.size(shard)};
  }
  int shard_index() const { return path_.comm.rank(); }

  Path path_;
  const KeyShards& keys_;
  std::size_t parameters_;
  DType type_;
  ServerShard& shard_;
  const bool acknowledged_;
  std::optional<Snapshot> pending_;  // not known to have arrived
  std::int64_t sent_ = 0;            // known to have arrived
  bool ended_ = false;               // the last snapshot has arrived
  std::vector<std::int64_t> received_;
  std::vector<bool> all_received_;  // rank 0: of each shard
  std::vector<std::unique_ptr<Queue<std::shared_ptr<numeric::Numbers>>>>
      arrived_;  // rank 0: of each shard but the first
};

}  // namespace ripieno::strategy
