#include "ripieno/collective/encoded.h"

#include <array>
#include <bit>

namespace ripieno::collective {
namespace {

static_assert(std::endian::native == std::endian::little, "sizes are sent as they lie in memory");
using Size = std::array<std::uint64_t, 1>;

std::unique_ptr<codec::Codec> sendable(const codec::CodecOptions& options, DType type) {
  if (codec::find_codec(options.name).kind == codec::CodecKind::low_rank) {
    fail(ErrorKind::usage, "codec ", options.name,
         " averages factors among all workers; it cannot be sent to one: take another codec");
  }
  return codec::make_codec(options, type);
}

bool keeps_residual(const codec::CodecOptions& options) {
  return options.error_feedback && codec::find_codec(options.name).kind != codec::CodecKind::wire;
}

}  // namespace

Encoding encode(std::string_view name, const codec::Codec& codec, codec::ErrorFeedback& feedback, NumberSpan numbers,
                Random& random) {
  const std::optional<std::size_t> bytes = codec.bytes(numbers.count);
  const bool has_data = numbers.data || numbers.count == 0;
  if (!bytes && !has_data) {
    fail(ErrorKind::usage, "the bytes of codec ", name,
         " depend on the numbers, which a simulation without data has not: choose a codec of fixed bytes");
  }
  Encoding encoding;
  feedback.encode(codec, 0, numbers, random, encoding.data);
  encoding.size = has_data ? encoding.data.size() : *bytes;
  require(!bytes || encoding.size == *bytes, "codec ", name, " made ", encoding.size, " bytes of ", numbers.count,
          " numbers instead of ", bytes.value_or(0));
  return encoding;
}

Task<> send_encoding(transport::Endpoint* endpoint, int peer, transport::Message message, const codec::Codec* codec,
                     NumberSpan numbers, Encoding* encoding) {
  if (!codec->bytes(numbers.count)) {
    const Size size{encoding->size};
    const ConstBytes announced = std::as_bytes(std::span(size));
    message.count = announced.size();
    co_await endpoint->send(peer, message, announced);
  }
  if (encoding->size == 0) co_return;
  message.count = encoding->size;
  const ConstBytes payload = encoding->bytes();
  co_await endpoint->send(peer, message, payload);
}

Task<> receive_encoding(transport::Endpoint* endpoint, int peer, transport::Message message, const codec::Codec* codec,
                        NumberSpan numbers, Encoding* encoding) {
  const std::size_t most = codec->most_bytes(numbers.count);
  Size size{most};
  if (!codec->bytes(numbers.count)) {
    const Bytes announced = std::as_writable_bytes(std::span(size));
    message.count = announced.size();
    co_await endpoint->receive(peer, message, announced);
    if (size[0] > most) {
      fail(ErrorKind::mismatch, message.operation, " from rank ", peer, " announces ", size[0], " bytes; ",
           numbers.count, " numbers take ", most, " at most: do all ranks run the same recipe?");
    }
  }
  encoding->size = size[0];
  if (encoding->size == 0) co_return;
  if (numbers.data) encoding->data.resize(encoding->size);
  message.count = encoding->size;
  const Bytes room = encoding->bytes();
  co_await endpoint->receive(peer, message, room);
}

EncodedStream::EncodedStream(const codec::CodecOptions& options, std::size_t elements, DType type, std::uint64_t seed)
    : codec_name_(options.name),
      number_s_(options.number_s),
      elements_(elements),
      seed_(seed),
      codec_(sendable(options, type)),
      feedback_(elements, type, keeps_residual(options)) {}

Task<> EncodedStream::send(transport::Endpoint* endpoint, int peer, transport::Channel channel,
                           std::string_view operation, NumberSpan numbers) {
  Random random(seed_, static_cast<std::uint64_t>(draws_));
  feedback_.begin();
  Encoding encoding = encode(codec_name_, *codec_, feedback_, numbers, random);
  co_await coded(endpoint);
  const transport::Message message{channel, operation, DType::uint8};
  co_await send_encoding(endpoint, peer, message, codec_.get(), numbers, &encoding);
}

void EncodedStream::commit() {
  feedback_.commit();
  ++draws_;
}

Task<> EncodedStream::receive(transport::Endpoint* endpoint, int peer, transport::Channel channel,
                              std::string_view operation, NumberSpan numbers) {
  Encoding encoding;
  const transport::Message message{channel, operation, DType::uint8};
  co_await receive_encoding(endpoint, peer, message, codec_.get(), numbers, &encoding);
  if (numbers.data) codec_->decode(encoding.data, numbers);
  co_await coded(endpoint);
}

Task<> EncodedStream::coded(transport::Endpoint* endpoint) const {
  if (number_s_ == 0 || !endpoint->runtime().is_virtual()) co_return;
  co_await endpoint->runtime().sleep(from_seconds(number_s_ * static_cast<double>(elements_) / 2));
}

std::optional<std::uint64_t> EncodedStream::bytes() const { return codec_->bytes(elements_); }

void EncodedStream::visit(StateVisitor& visitor, const std::string& name) {
  feedback_.visit(visitor, name + ".residual");
  visitor.number(name + ".draws", draws_);
}

}  // namespace ripieno::collective
