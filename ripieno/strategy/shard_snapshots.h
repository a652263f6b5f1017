// Whole models from the snapshots of their shards: every shard takes one after the same epochs, those on other ranks
// send theirs to rank 0, and rank 0 puts them together. Training goes on meanwhile; what arrives is taken at once, or
// it would stand in the way of weights that a worker on rank 0 waits for.
//
// Where an abort may break one off, rank 0 answers each (`acknowledged`), and a shard keeps one until it knows that it
// arrived: what rank 0 lacks after an abort is sent again.
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
  /// On a rank that has a shard. `channel` is taken from `comm`; `keys` and `shard` outlive it.
  ShardSnapshots(collective::Communicator comm, std::uint32_t channel, const KeyShards& keys, std::size_t parameters,
                 DType type, ServerShard& shard, bool acknowledged);

  /// After an abort, a fresh communicator and a channel of it; `received`: as rank 0 has it.
  void regroup(collective::Communicator comm, std::uint32_t channel, std::int64_t aborts);
  void recover(const std::vector<std::int64_t>& received);
  /// Rank 0: of each shard, snapshots that have arrived, with the one that says that none follow.
  const std::vector<std::int64_t>& received() const { return received_; }

  /// What goes on beside training on this rank, to the shard's end: sends its snapshots, or receives the others'. Each
  /// is to be begun again when ranks have recovered from `renewed_after` aborts.
  std::vector<std::function<Task<>(std::int64_t* renewed_after)>> services();

  /// Rank 0: the next whole model, from shard 0's next snapshot on; null weights at the end.
  Task<Snapshot> next();

  /// Rank 0: next() ends.
  void give_up();

 private:
  Task<> send_all(std::int64_t* renewed_after);
  void confirm_pending();
  Task<> receive_all(int shard, std::int64_t* renewed_after);
  /// On which snapshots travel, until an abort.
  struct Ways {
    collective::Communicator comm;
    std::uint32_t channel;
    std::int64_t aborts = 0;  ///< before it
    transport::Message announcement() const {
      return {comm.channel(channel, observe::Purpose::control), "snapshot", DType::int64, 1};
    }
    transport::Message acknowledgement() const {
      return {comm.channel(channel, observe::Purpose::control), "arrived", DType::uint8, 1};
    }
  };
  transport::Message weights(const Ways& ways, int shard) const {
    return {ways.comm.channel(ways.channel, observe::Purpose::evaluate), "snapshot", type_, keys_.size(shard)};
  }
  int shard_index() const { return ways_.comm.rank(); }

  Ways ways_;
  const KeyShards& keys_;
  std::size_t parameters_;
  DType type_;
  ServerShard& shard_;
  const bool acknowledged_;
  std::optional<Snapshot> pending_;  // that is not known to have arrived
  std::int64_t sent_ = 0;            // that are
  bool ended_ = false;               // the last one is
  std::vector<std::int64_t> received_;
  std::vector<bool> all_received_;  // rank 0: of each shard
  std::vector<std::unique_ptr<Queue<std::shared_ptr<numeric::Numbers>>>>
      arrived_;  // rank 0: of each shard but the first
};

}  // namespace ripieno::strategy
