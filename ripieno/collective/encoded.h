// Numbers sent from one rank to another through a codec, with error feedback at the sender: what is not an average among
// equals goes this way (a push to a parameter server, a client's upload).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ripieno/codec/error_feedback.h"
#include "ripieno/core/state.h"
#include "ripieno/transport/endpoint.h"

namespace ripieno {

/// One rank's end of such a stream, for sending or for receiving.
class EncodedStream {
 public:
  /// Of messages of `elements` numbers of `type`. `seed` is of random rounding; distinct for each sender. Throws Error(usage)
  /// as make_codec(), and for PowerSGD, which averages and cannot be sent.
  EncodedStream(const CodecOptions& options, std::size_t elements, DType type, std::uint64_t seed);

  /// Sends `numbers` and replaces them by what the receiver decodes. The operation names the message (endpoint.h).
  Task<> send(Endpoint* endpoint, int peer, Channel channel, std::string_view operation, FloatSpan numbers);
  /// Fills `numbers` by what the peer sent.
  Task<> receive(Endpoint* endpoint, int peer, Channel channel, std::string_view operation, FloatSpan numbers);

  /// Payload bytes of one message; nothing where that depends on the numbers.
  std::optional<std::uint64_t> bytes() const;

  /// The sender's residual and draws, as NAME.residual and NAME.draws.
  void visit(StateVisitor& visitor, const std::string& name);

 private:
  std::size_t elements_;
  DType type_;
  std::uint64_t seed_;
  std::unique_ptr<Codec> codec_;
  ErrorFeedback feedback_;
  std::int64_t draws_ = 0;  // messages sent: each draws from a stream of its own
};

}  // namespace ripieno
