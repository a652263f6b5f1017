// How a worker and a shard of the model talk: the worker pushes a gradient through the plan's codec, with error
// feedback, and pulls weights. With the shard on its own rank it exchanges by memory: in full, and without a byte.
//
//   worker -> shard   Push (control), gradient (codec), buffers (to the shard that keeps them, as they are in memory)
//   shard -> worker   ShardAnswer (control), weights (in the codec's type where it is a wire format, else as they are
//   in
//                     memory)
//
// Every worker's weights are alike after a pull of the same version: those taken by memory are rounded as on the wire.
#pragma once

#include "ripieno/collective/encoded.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/server_shard.h"

namespace ripieno::strategy {

/// What both ends know.
struct ShardLinkOptions {
  codec::CodecOptions codec;
  std::uint64_t seed = 0;  ///< of the plan
  int worker = 0, shard = 0;
  std::size_t numbers = 0, buffers = 0;  ///< of the shard
  DType type = DType::fp32;              ///< in memory
  /// From the worker to the shard and back: two ranks may each hold a shard and a worker, and the ways between them are
  /// four.
  transport::Channel up = {}, down = {};
};

/// The type in which weights are pulled.
DType pull_type(const codec::CodecOptions& codec, DType type);

/// Payload bytes of a push; nothing where that depends on the numbers.
std::optional<std::uint64_t> push_bytes(const ShardLinkOptions& options);
std::uint64_t pull_bytes(const ShardLinkOptions& options);

/// A worker's end.
class ShardLink {
 public:
  /// `server` is the endpoint's rank; `local` the shard where it is this very rank, else null. Throws Error(usage) as
  /// EncodedStream.
  ShardLink(const ShardLinkOptions& options, transport::Endpoint* endpoint, int server, ServerShard* local);

  /// The shard's numbers: the gradient before exchange(), the weights after.
  NumberSpan numbers() { return numbers_.span(); }

  /// The weights that the worker starts from.
  Task<> pull_first();
  /// May be called again with the same push, until commit().
  Task<ShardAnswer> exchange(Push push, NumberSpan buffers);
  /// The worker's step is committed.
  void commit() { stream_.commit(); }
  /// After an abort: the ways of a fresh communicator.
  void take_ways(transport::Channel up, transport::Channel down) {
    options_.up = up;
    options_.down = down;
  }

  /// What the codec still owes the shard.
  void visit(StateVisitor& visitor);

 private:
  ShardLinkOptions options_;
  transport::Endpoint* endpoint_;
  int server_;
  ServerShard* local_;
  numeric::Numbers numbers_;
  collective::EncodedStream stream_;
};

/// The shard's end, for `pushes` pushes of a worker on another rank, the endpoint's `peer`, after the weights that it
/// starts from if it has none yet.
Task<> serve_worker(ShardLinkOptions options, transport::Endpoint* endpoint, int peer, ServerShard* shard,
                    bool has_weights, std::int64_t pushes);

}  // namespace ripieno::strategy
