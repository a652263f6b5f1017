#include "ripieno/strategy/shard_link.h"

#include "ripieno/codec/wire.h"
#include "ripieno/collective/execute.h"

namespace ripieno {
namespace {

Channel with(Channel channel, Purpose purpose) {
  channel.purpose = purpose;
  return channel;
}

template <class Record>
Message control(std::string_view operation, Channel way) {
  return {with(way, Purpose::control), operation, DType::uint8, sizeof(Record)};
}

Message weights_message(const ShardLinkOptions& options, Purpose purpose) {
  return {with(options.down, purpose), "pull", pull_type(options.codec, options.type), options.numbers};
}

Message buffers_message(const ShardLinkOptions& options) {
  return {with(options.up, Purpose::exchange), "push buffers", options.type, options.buffers};
}

Channel gradients(const ShardLinkOptions& options) { return with(options.up, Purpose::exchange); }

/// Distinct for every worker and shard.
EncodedStream stream_of(const ShardLinkOptions& options) {
  const auto sender = static_cast<std::uint64_t>(options.worker) << 32 | static_cast<std::uint64_t>(options.shard);
  return EncodedStream(options.codec, options.numbers, options.type, Random(options.seed, sender).next());
}

}  // namespace

DType pull_type(const CodecOptions& codec, DType type) {
  return find_codec(codec.name).kind == CodecKind::wire ? find_wire_format(codec.name).type(type) : type;
}

std::optional<std::uint64_t> push_bytes(const ShardLinkOptions& options) {
  const auto gradient = stream_of(options).bytes();
  if (!gradient) return std::nullopt;
  return *gradient + options.buffers * size_of(options.type);
}

std::uint64_t pull_bytes(const ShardLinkOptions& options) {
  return options.numbers * size_of(pull_type(options.codec, options.type));
}

ShardLink::ShardLink(const ShardLinkOptions& options, Endpoint* endpoint, int server, ServerShard* local)
    : options_(options),
      endpoint_(endpoint),
      server_(server),
      local_(local),
      numbers_(options.numbers, options.type),
      stream_(stream_of(options)) {}

Task<> ShardLink::pull_first() {
  if (local_) {
    convert(numbers(), local_->weights());
    round_through(numbers(), pull_type(options_.codec, options_.type));
    co_return;
  }
  co_await endpoint_->receive(server_, weights_message(options_, Purpose::setup), numbers(), Reduce::replace);
}

Task<ShardAnswer> ShardLink::exchange(Push push, NumberSpan buffers) {
  const NumberSpan kept = buffers.slice(0, options_.buffers);
  if (local_) {
    const ShardAnswer answer = co_await local_->exchange(options_.worker, push, numbers(), kept, numbers());
    round_through(numbers(), pull_type(options_.codec, options_.type));
    co_return answer;
  }
  const ConstBytes header = std::as_bytes(std::span(&push, 1));
  co_await endpoint_->send(server_, control<Push>("push", options_.up), header);
  co_await stream_.send(endpoint_, server_, gradients(options_), "push", numbers());
  if (options_.buffers > 0) co_await send_numbers(endpoint_, server_, buffers_message(options_), kept);

  ShardAnswer answer;
  const Bytes reply = std::as_writable_bytes(std::span(&answer, 1));
  co_await endpoint_->receive(server_, control<ShardAnswer>("pull", options_.down), reply);
  co_await endpoint_->receive(server_, weights_message(options_, Purpose::exchange), numbers(), Reduce::replace);
  co_return answer;
}

void ShardLink::visit(StateVisitor& visitor) {
  if (!local_) stream_.visit(visitor, text("ps.push.", options_.shard));
}

Task<> serve_worker(ShardLinkOptions options, Endpoint* endpoint, int peer, ServerShard* shard, bool has_weights,
                    std::int64_t pushes) {
  Numbers numbers(options.numbers, options.type), buffers(options.buffers, options.type);
  EncodedStream stream = stream_of(options);
  if (!has_weights) {
    convert(numbers.span(), shard->weights());  // a copy: others' updates go on while it is sent
    co_await send_numbers(endpoint, peer, weights_message(options, Purpose::setup), numbers.span());
  }
  for (std::int64_t i = 0; i < pushes; ++i) {
    Push push;
    const Bytes header = std::as_writable_bytes(std::span(&push, 1));
    co_await endpoint->receive(peer, control<Push>("push", options.up), header);
    co_await stream.receive(endpoint, peer, gradients(options), "push", numbers.span());
    if (options.buffers > 0) {
      co_await endpoint->receive(peer, buffers_message(options), buffers.span(), Reduce::replace);
    }
    const NumberSpan all = numbers.span();
    const ShardAnswer answer = co_await shard->exchange(options.worker, push, all, buffers.span(), all);
    const ConstBytes reply = std::as_bytes(std::span(&answer, 1));
    co_await endpoint->send(peer, control<ShardAnswer>("pull", options.down), reply);
    co_await send_numbers(endpoint, peer, weights_message(options, Purpose::exchange), numbers.span());
  }
}

}  // namespace ripieno
