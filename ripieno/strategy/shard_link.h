// The protocol between a worker and a shard of the model: the worker pushes a gradient through the plan's codec, with
// error feedback, and pulls weights. A worker and a shard on the same rank exchange through memory, in full and without
// sending a byte.
//
//   worker -> shard   Push (control), gradient (codec), buffers (to the shard that keeps them, as they are in memory)
//   shard -> worker   ShardAnswer (control), weights (in the codec's type where it is a wire format, else as they are
//                     in memory)
//
// All workers that pull the same version get the same weights: those taken through memory are rounded as on the wire.
#pragma once

#include "ripieno/collective/encoded.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/key_shards.h"
#include "ripieno/strategy/server_shard.h"

namespace ripieno::strategy {

/// What both ends know.
struct ShardLinkOptions {
  codec::CodecOptions codec;
  std::uint64_t seed = 0;  ///< of the plan
  int worker = 0, shard = 0;
  std::size_t numbers = 0, buffers = 0;  ///< of the shard
  DType type = DType::fp32;              ///< in memory
  Memory memory = own_memory;            ///< of the numbers at both ends
  /// From the worker to the shard and back. Two ranks that each hold a shard and a worker have four such channels
  /// between them.
  transport::Channel up = {}, down = {};
};

/// The channels are to be added.
ShardLinkOptions link_options(const Plan& plan, const Layout& layout, const KeyShards& shards, int worker, int shard);

/// The type in which weights are pulled.
DType pull_type(const codec::CodecOptions& codec, DType type);

/// Payload bytes of a push; nullopt if they depend on the numbers.
std::optional<std::uint64_t> push_bytes(const ShardLinkOptions& options);
std::uint64_t pull_bytes(const ShardLinkOptions& options);

/// A worker's end.
class ShardLink {
 public:
  /// `server` is the shard's rank at the endpoint; `local` is the shard if it is on this rank, else null. Throws
  /// Error(usage) as EncodedStream.
  ShardLink(const ShardLinkOptions& options, transport::Endpoint* endpoint, int server, ServerShard* local);

  /// The shard's numbers: the gradient before exchange(), the weights after.
  NumberSpan numbers() { return numbers_.span(); }

  /// Pulls the weights that the worker starts from.
  Task<> pull_first();
  /// May be called again with the same push, until commit().
  Task<ShardAnswer> exchange(Push push, NumberSpan buffers);
  /// Tells the shard that no push follows: the user's loop has ended.
  Task<> end();
  /// The worker's step is committed.
  void commit() { stream_.commit(); }
  /// After an abort: channels of a fresh communicator.
  void set_channels(transport::Channel up, transport::Channel down) {
    options_.up = up;
    options_.down = down;
  }

  /// Shows the codec's residual: the part of the gradients that the shard has not got yet.
  void visit(StateVisitor& visitor);

 private:
  ShardLinkOptions options_;
  transport::Endpoint* endpoint_;
  int server_;
  ServerShard* local_;
  numeric::Numbers numbers_;
  collective::EncodedStream stream_;
};

/// The shard's end of the link with a worker on another rank, `peer` at the endpoint. Sends the weights to start from
/// unless the worker has them, then serves `pushes` pushes, or those up to ShardLink::end().
Task<> serve_worker(ShardLinkOptions options, transport::Endpoint* endpoint, int peer, ServerShard* shard,
                    bool has_weights, std::int64_t pushes);

}  // namespace ripieno::strategy
