// Numbers sent from one rank to another through a codec. An encoding is one message of Codec::bytes(n) bytes; if its
// size depends on the numbers, a message of 8 bytes (the size, little-endian) precedes it. An empty encoding is not
// sent.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/codec/error_feedback.h"
#include "ripieno/core/state.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno::collective {

/// Encoded numbers. In a simulation without data they have only a size.
struct Encoding {
  ByteVector data;
  std::size_t size = 0;

  Bytes bytes() { return {data.empty() ? nullptr : data.data(), size}; }
};

/// Encodes `numbers` with error feedback and replaces them by what receivers decode. Throws Error(usage), with the
/// codec's name, in a simulation without data if the codec's bytes depend on the numbers.
Encoding encode(std::string_view name, const codec::Codec& codec, codec::ErrorFeedback& feedback, NumberSpan numbers,
                Random& random);

/// `message` gives channel and operation; of `numbers` only the count matters, and whether they have data. Receiving
/// throws Error(mismatch) if more bytes are announced than so many numbers can take.
Task<> send_encoding(transport::Endpoint* endpoint, int peer, transport::Message message, const codec::Codec* codec,
                     NumberSpan numbers, Encoding* encoding);
Task<> receive_encoding(transport::Endpoint* endpoint, int peer, transport::Message message, const codec::Codec* codec,
                        NumberSpan numbers, Encoding* encoding);

/// One rank's end of a stream of encodings, for sending or for receiving, with error feedback at the sender. For
/// transfers that are not averages: a push to a parameter server, a client's upload.
class EncodedStream {
 public:
  /// A stream of messages of `elements` numbers of `type`. `seed` is for random rounding, distinct for each sender.
  /// Throws Error(usage) as make_codec(), and for PowerSGD, which can only average.
  EncodedStream(const codec::CodecOptions& options, std::size_t elements, DType type, std::uint64_t seed);

  /// Sends `numbers` and replaces them by what the receiver decodes. `operation` names the message (endpoint.h). The
  /// sender's residual and draws are staged until commit(): until then sending again gives the same bits.
  Task<> send(transport::Endpoint* endpoint, int peer, transport::Channel channel, std::string_view operation,
              NumberSpan numbers);
  void commit();
  /// Fills `numbers` from the peer's message.
  Task<> receive(transport::Endpoint* endpoint, int peer, transport::Channel channel, std::string_view operation,
                 NumberSpan numbers);

  /// Payload bytes of one message; nullopt if they depend on the numbers.
  std::optional<std::uint64_t> bytes() const;

  /// The sender's residual and draws, as NAME.residual and NAME.draws.
  void visit(StateVisitor& visitor, const std::string& name);

 private:
  /// In virtual time, waits for as long as coding takes.
  Task<> coded(transport::Endpoint* endpoint) const;

  std::string codec_name_;
  double number_s_;
  std::size_t elements_;
  std::uint64_t seed_;
  std::unique_ptr<codec::Codec> codec_;
  codec::ErrorFeedback feedback_;
  std::int64_t draws_ = 0;  // committed messages; each has its own random stream
};

}  // namespace ripieno::collective
