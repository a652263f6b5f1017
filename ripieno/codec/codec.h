// Codec: encodes numbers as fewer bytes than they have in memory. Four kinds, by how averages use them:
//
//   wire      a narrower floating-point type (codec/wire.h): converted at every hop of any route
//   block     each block of numbers takes a fixed number of bytes (int8, QSGD, sign): ranges of whole blocks are
//             encoded anew at every hop of any route
//   gathered  the numbers decide what is sent (top-k): sums do not fit into the same bytes, so every rank gets all
//             ranks' bytes and adds them up itself
//   low-rank  PowerSGD: two small averages of factors (collective/powersgd.h); it has no Codec
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/core/random.h"
#include "ripieno/core/span.h"

namespace ripieno::codec {

enum class CodecKind : std::uint8_t { wire, block, gathered, low_rank };

struct CodecOptions {
  std::string name = "auto";
  bool error_feedback =
      true;  ///< for lossy codecs other than wire formats: what a step loses is added to the next step's numbers
  std::size_t block = 256;  ///< int8, qsgd, sign: numbers that share a scale, 8 .. 2^20, a multiple of 8
  int bits = 4;             ///< qsgd: bits per number, 2 .. 8
  double fraction = 0.01;   ///< topk, topk-sampled: the part of the numbers that is sent, in (0, 1]
  int rank = 2;             ///< powersgd: rank of the factors, 1 .. 64
  /// In virtual time: seconds charged for encoding, decoding and adding each number of an average; half of it at each
  /// end of a stream to one rank (collective/encoded.h). 0: nothing.
  double number_s = 0;
};

/// A way to encode. It has no state: random draws come from the caller, and ErrorFeedback (codec/error_feedback.h)
/// keeps what is lost. Numbers are fp32 or fp64 in memory.
class Codec {
 public:
  virtual ~Codec() = default;

  /// The number of elements encoded together, >= 1: ranges that begin at a multiple of it can be encoded separately and
  /// their bytes joined (wire, block). 0: numbers are encoded as a whole (gathered).
  virtual std::size_t block() const = 0;

  /// Bytes of `count` numbers; nullopt if they depend on the numbers.
  virtual std::optional<std::size_t> bytes(std::size_t count) const = 0;
  /// The most bytes that `count` numbers can take: a receiver checks an announced size against it.
  virtual std::size_t most_bytes(std::size_t count) const { return bytes(count).value(); }

  /// Replaces `into` by the encoded numbers. Infinity and NaN decode to numbers that are not finite.
  virtual void encode(NumberSpan numbers, Random& random, ByteVector& into) const = 0;

  /// decode: numbers = the encoded ones; add: numbers += the encoded ones. Throws Error(mismatch) on bytes that cannot
  /// be an encoding of so many numbers.
  virtual void decode(ConstBytes bytes, NumberSpan numbers) const = 0;
  virtual void add(ConstBytes bytes, NumberSpan numbers) const = 0;
};

struct CodecInfo {
  std::string_view name, title;
  CodecKind kind;
  bool lossless;           ///< preserves the bits of numbers that are fp32 in memory
  std::string_view bytes;  ///< bytes of n numbers in closed form, for people
  std::string_view source;
  bool for_differences = false;  ///< keeps too little of numbers themselves; of differences to sent ones it is enough
};

/// Every codec in one table: auto, fp32, fp16, bf16, int8, qsgd, sign, topk, topk-sampled, powersgd.
std::span<const CodecInfo> codecs();

/// Throws Error(usage), which lists the known codecs, for an unknown name.
const CodecInfo& find_codec(std::string_view name);

/// Makes a codec for numbers that are `native` in memory. Throws Error(usage), with the option and its value, on an
/// unknown name or a value out of range, and Error(internal) for powersgd, which has no Codec.
std::unique_ptr<Codec> make_codec(const CodecOptions& options, DType native);

/// Checks the options without making a codec. Throws as make_codec().
void check_codec(const CodecOptions& options);

}  // namespace ripieno::codec
