#include "ripieno/strategy/shard_link.h"

#include "ripieno/codec/wire.h"
#include "ripieno/collective/execute.h"

namespace ripieno::strategy {
namespace {

transport::Channel with(transport::Channel channel, observe::Purpose purpose) {
  channel.purpose = purpose;
  return channel;
}

template <class Record>
transport::Message control(std::string_view operation, transport::Channel way) {
  return {with(way, observe::Purpose::control), operation, DType::uint8, sizeof(Record)};
}

transport::Message weights_message(const ShardLinkOptions& options, observe::Purpose purpose) {
  return {with(options.down, purpose), "pull", pull_type(options.codec, options.type), options.numbers};
}

transport::Message buffers_message(const ShardLinkOptions& options) {
  return {with(options.up, observe::Purpose::exchange), "push buffers", options.type, options.buffers};
}

transport::Channel gradients(const ShardLinkOptions& options) { return with(options.up, observe::Purpose::exchange); }

/// The stream's seed is distinct for every worker and shard.
collective::EncodedStream stream_of(const ShardLinkOptions& options) {
  const auto sender = static_cast<std::uint64_t>(options.worker) << 32 | static_cast<std::uint64_t>(options.shard);
  return collective::EncodedStream(options.codec, options.numbers, options.type, Random(options.seed, sender).next());
}

}  // namespace

ShardLinkOptions link_options(const Plan& plan, const Layout& layout, const KeyShards& shards, int worker, int shard) {
  const std::size_t buffers = shard == 0 ? layout.buffers : 0;
  return {plan.exchange.codec, plan.seed, worker, shard, shards.size(shard), buffers, layout.type};
}

DType pull_type(const codec::CodecOptions& codec, DType type) {
  return codec::find_codec(codec.name).kind == codec::CodecKind::wire ? codec::find_wire_format(codec.name).type(type)
                                                                      : type;
}

std::optional<std::uint64_t> push_bytes(const ShardLinkOptions& options) {
  const auto gradient = stream_of(options).bytes();
  if (!gradient) return std::nullopt;
  return *gradient + options.buffers * size_of(options.type);
}

std::uint64_t pull_bytes(const ShardLinkOptions& options) {
  return options.numbers * size_of(pull_type(options.codec, options.type));
}

ShardLink::ShardLink(const ShardLinkOptions& options, transport::Endpoint* endpoint, int server, ServerShard* local)
    : options_(options),
      endpoint_(endpoint),
      server_(server),
      local_(local),
      numbers_(options.numbers, options.type, options.memory),
      stream_(stream_of(options)) {}

Task<> ShardLink::pull_first() {
  if (local_) {
    numeric::convert(numbers(), local_->weights());
    numeric::round_through(numbers(), pull_type(options_.codec, options_.type));
    co_return;
  }
  co_await endpoint_->receive(server_, weights_message(options_, observe::Purpose::setup), numbers(),
                              numeric::Reduce::replace);
}

Task<ShardAnswer> ShardLink::exchange(Push push, NumberSpan buffers) {
  const NumberSpan kept = buffers.slice(0, options_.buffers);
  if (local_) {
    const ShardAnswer answer = co_await local_->exchange(options_.worker, push, numbers(), kept, numbers());
    local_->answered(options_.worker);
    numeric::round_through(numbers(), pull_type(options_.codec, options_.type));
    co_return answer;
  }
  const ConstBytes header = std::as_bytes(std::span(&push, 1));
  co_await endpoint_->send(server_, control<Push>("push", options_.up), header);
  co_await stream_.send(endpoint_, server_, gradients(options_), "push", numbers());
  if (options_.buffers > 0) co_await collective::send_numbers(endpoint_, server_, buffers_message(options_), kept);

  ShardAnswer answer;
  const Bytes reply = std::as_writable_bytes(std::span(&answer, 1));
  co_await endpoint_->receive(server_, control<ShardAnswer>("pull", options_.down), reply);
  co_await endpoint_->receive(server_, weights_message(options_, observe::Purpose::exchange), numbers(),
                              numeric::Reduce::replace);
  co_return answer;
}

Task<> ShardLink::end() {
  if (local_) {
    local_->end_worker(options_.worker);
    co_return;
  }
  const Push last{.step = Push::no_more};
  const ConstBytes header = std::as_bytes(std::span(&last, 1));
  co_await endpoint_->send(server_, control<Push>("push", options_.up), header);
}

void ShardLink::visit(StateVisitor& visitor) {
  if (!local_) stream_.visit(visitor, text("ps.push.", options_.shard));
}

Task<> serve_worker(ShardLinkOptions options, transport::Endpoint* endpoint, int peer, ServerShard* shard,
                    bool has_weights, std::int64_t pushes) {
  numeric::Numbers numbers(options.numbers, options.type, options.memory),
      buffers(options.buffers, options.type, options.memory);
  collective::EncodedStream stream = stream_of(options);
  if (!has_weights) {
    numeric::convert(numbers.span(), shard->weights());  // a copy: other workers' updates go on while it is sent
    co_await collective::send_numbers(endpoint, peer, weights_message(options, observe::Purpose::setup),
                                      numbers.span());
  }
  for (std::int64_t i = 0; i < pushes; ++i) {
    Push push;
    const Bytes header = std::as_writable_bytes(std::span(&push, 1));
    co_await endpoint->receive(peer, control<Push>("push", options.up), header);
    if (push.step == Push::no_more) {
      shard->end_worker(options.worker);
      break;
    }
    co_await stream.receive(endpoint, peer, gradients(options), "push", numbers.span());
    if (options.buffers > 0) {
      co_await endpoint->receive(peer, buffers_message(options), buffers.span(), numeric::Reduce::replace);
    }
    const NumberSpan all = numbers.span();
    const ShardAnswer answer = co_await shard->exchange(options.worker, push, all, buffers.span(), all);
    const ConstBytes reply = std::as_bytes(std::span(&answer, 1));
    co_await endpoint->send(peer, control<ShardAnswer>("pull", options.down), reply);
    co_await collective::send_numbers(endpoint, peer, weights_message(options, observe::Purpose::exchange),
                                      numbers.span());
    shard->answered(options.worker);
  }
}

}  // namespace ripieno::strategy
