#include "ripieno/collective/encoded.h"

#include <array>

namespace ripieno {
namespace {

/// Before a message whose size depends on the numbers: its size.
constexpr std::size_t size_bytes = 8;

std::unique_ptr<Codec> sendable(const CodecOptions& options, DType type) {
  if (find_codec(options.name).kind == CodecKind::low_rank) {
    fail(ErrorKind::usage, "codec ", options.name, " averages factors among all workers; it cannot be sent to one: take another codec");
  }
  return make_codec(options, type);
}

bool keeps_residual(const CodecOptions& options) {
  return options.error_feedback && find_codec(options.name).kind != CodecKind::wire;
}

}  // namespace

EncodedStream::EncodedStream(const CodecOptions& options, std::size_t elements, DType type, std::uint64_t seed)
    : elements_(elements), type_(type), seed_(seed), codec_(sendable(options, type)),
      feedback_(elements, type, keeps_residual(options)) {}

Task<> EncodedStream::send(Endpoint* endpoint, int peer, Channel channel, std::string_view operation, FloatSpan numbers) {
  Random random(seed_, static_cast<std::uint64_t>(draws_++));
  std::vector<std::byte> encoded;
  feedback_.encode(*codec_, 0, numbers, random, encoded);
  const std::size_t size = codec_->bytes(numbers.count).value_or(encoded.size());
  if (!codec_->bytes(numbers.count)) {
    const std::array<std::uint64_t, 1> prefix{size};
    const Message message{channel, operation, DType::fp32, size_bytes};
    co_await endpoint->send(peer, message, std::as_bytes(std::span(prefix)));
  }
  const Message message{channel, operation, DType::fp32, size};
  const ConstBytes payload(numbers.data ? encoded.data() : nullptr, size);
  co_await endpoint->send(peer, message, payload);
}

Task<> EncodedStream::receive(Endpoint* endpoint, int peer, Channel channel, std::string_view operation, FloatSpan numbers) {
  std::array<std::uint64_t, 1> size{codec_->bytes(numbers.count).value_or(0)};
  if (!codec_->bytes(numbers.count)) {
    const Message message{channel, operation, DType::fp32, size_bytes};
    co_await endpoint->receive(peer, message, std::as_writable_bytes(std::span(size)));
    const std::size_t most = numbers.count * (size_of(type_) + 4) + size_bytes;
    if (size[0] > most) {
      fail(ErrorKind::mismatch, operation, " from rank ", peer, " announces ", size[0], " bytes; ", numbers.count, " numbers take ", most, " at most");
    }
  }
  std::vector<std::byte> encoded(size[0]);
  const Message message{channel, operation, DType::fp32, size[0]};
  co_await endpoint->receive(peer, message, Bytes(encoded));
  if (numbers.data) codec_->decode(encoded, numbers);
}

std::optional<std::uint64_t> EncodedStream::bytes() const { return codec_->bytes(elements_); }

void EncodedStream::visit(StateVisitor& visitor, const std::string& name) {
  feedback_.visit(visitor, name + ".residual");
  visitor.number(name + ".draws", draws_);
}

}  // namespace ripieno
