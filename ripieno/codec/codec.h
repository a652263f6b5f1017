// Codec: numbers as bytes, smaller than they are in memory. Four kinds, by how an average can be taken through them:
//
//   wire      a narrower floating-point type (codec/wire.h): converted at every hop of any route
//   block     each block of numbers takes the same bytes, whatever they are (int8, QSGD, sign): ranges of whole blocks
//             are encoded anew at every hop of any route
//   gathered  what is sent depends on the numbers (top-k): sums of encoded values cannot be encoded in the same bytes,
//             so every rank gets every other's bytes and adds them up itself
//   low-rank  PowerSGD: two small averages of factors (collective/powersgd.h); no codec of its own
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
  bool error_feedback = true;  ///< lossy codecs but wire formats: what a step loses is added to the next one's numbers
  std::size_t block = 256;     ///< int8, qsgd, sign: numbers that share a scale, 8 .. 2^20, a multiple of 8
  int bits = 4;                ///< qsgd: of each number, 2 .. 8
  double fraction = 0.01;      ///< topk, topk-sampled: of the numbers that are sent, in (0, 1]
  int rank = 2;                ///< powersgd: of the factors, 1 .. 64
  /// In virtual time: seconds that encoding, decoding and adding are charged for each number of an average; half of it
  /// at each end where numbers are sent to one (collective/encoded.h). 0: nothing.
  double number_s = 0;
};

/// A way to encode. Without state: random draws come from the caller, what is lost is kept by ErrorFeedback
/// (codec/error_feedback.h). Numbers are fp32 or fp64 in memory.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Numbers that are encoded together, >= 1: ranges that begin at a multiple of it can be encoded apart and their
  /// bytes joined (wire, block). 0: numbers are encoded as a whole (gathered).
  virtual std::size_t block() const = 0;

  /// Bytes of `count` numbers; nothing where that depends on the numbers.
  virtual std::optional<std::size_t> bytes(std::size_t count) const = 0;
  /// The most bytes that `count` numbers can take: what a receiver holds an announced size against.
  virtual std::size_t most_bytes(std::size_t count) const { return bytes(count).value(); }

  /// Replaces `into` by the encoded numbers. Infinity and NaN come out as numbers that are not finite either.
  virtual void encode(NumberSpan numbers, Random& random, ByteVector& into) const = 0;

  /// numbers = what was encoded, or += it. Throws Error(mismatch) on bytes that cannot be an encoding of so many
  /// numbers.
  virtual void decode(ConstBytes bytes, NumberSpan numbers) const = 0;
  virtual void add(ConstBytes bytes, NumberSpan numbers) const = 0;
};

struct CodecInfo {
  std::string_view name, title;
  CodecKind kind;
  bool lossless;           ///< gives back the bits of numbers that are fp32 in memory
  std::string_view bytes;  ///< of n numbers in closed form, for people
  std::string_view source;
};

/// Every codec in one table: auto, fp32, fp16, bf16, int8, qsgd, sign, topk, topk-sampled, powersgd.
std::span<const CodecInfo> codecs();

/// Throws Error(usage) that lists the known codecs.
const CodecInfo& find_codec(std::string_view name);

/// For numbers that are `native` in memory. Throws Error(usage), with the option and its value, on an unknown name or a
/// value out of range; for powersgd, which has none, Error(internal).
std::unique_ptr<Codec> make_codec(const CodecOptions& options, DType native);

/// Checks the options without making anything. Throws as make_codec().
void check_codec(const CodecOptions& options);

}  // namespace ripieno::codec
