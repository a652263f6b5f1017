// The common part of the block codecs. Each block of `block` numbers is an fp32 scale followed by the numbers' codes;
// the last block may be shorter. Blocks are independent, so ranges that begin at a block can be encoded separately and
// joined.
//
// A Code supplies, for a block of m numbers:
//   static constexpr const char* name
//   std::size_t bytes(m)                            bytes of the codes of m numbers
//   float encode(const T* x, m, random, std::byte*) writes the codes, returns the scale
//   void decode<adds>(float scale, const std::byte*, T* y, m)
#pragma once

#include <algorithm>
#include <utility>

#include "ripieno/codec/codec.h"
#include "ripieno/codec/numbers.h"

namespace ripieno::codec {

/// The scale of a block that holds an infinity or NaN: all its numbers decode to NaN.
constexpr float no_scale = std::numeric_limits<float>::quiet_NaN();

template <class Code>
class BlockCodec final : public Codec {
 public:
  BlockCodec(std::size_t block, Code code) : block_(block), code_(std::move(code)) {}

  std::size_t block() const override { return block_; }

  std::optional<std::size_t> bytes(std::size_t count) const override { return size(count); }

  void encode(NumberSpan numbers, Random& random, ByteVector& into) const override {
    into.resize(size(numbers.count));
    with_numbers(numbers, [&](auto x) {
      std::byte* to = into.data();
      for (std::size_t i = 0; i < x.size(); i += block_) {
        const std::size_t m = std::min(block_, x.size() - i);
        store<float>(to, code_.encode(x.data() + i, m, random, to + sizeof(float)));
        to += sizeof(float) + code_.bytes(m);
      }
    });
  }

  void decode(ConstBytes bytes, NumberSpan numbers) const override { decode_as<false>(bytes, numbers); }
  void add(ConstBytes bytes, NumberSpan numbers) const override { decode_as<true>(bytes, numbers); }

 private:
  std::size_t size(std::size_t count) const {
    const std::size_t rest = count % block_;
    return count / block_ * (sizeof(float) + code_.bytes(block_)) + (rest ? sizeof(float) + code_.bytes(rest) : 0);
  }

  template <bool adds>
  void decode_as(ConstBytes bytes, NumberSpan numbers) const {
    if (bytes.size() != size(numbers.count)) {
      fail(ErrorKind::mismatch, numbers.count, " numbers in ", Code::name, " take ", size(numbers.count), " bytes, ",
           bytes.size(), " came: do all ranks run the same recipe?");
    }
    with_numbers(numbers, [&](auto y) {
      const std::byte* from = bytes.data();
      for (std::size_t i = 0; i < y.size(); i += block_) {
        const std::size_t m = std::min(block_, y.size() - i);
        code_.template decode<adds>(load<float>(from), from + sizeof(float), y.data() + i, m);
        from += sizeof(float) + code_.bytes(m);
      }
    });
  }

  std::size_t block_;
  Code code_;
};

}  // namespace ripieno::codec
