#include "ripieno/codec/wire_codec.h"

#include "ripieno/numeric/elementwise.h"

namespace ripieno::codec {
namespace {

class WireCodec final : public Codec {
 public:
  explicit WireCodec(DType type) : type_(type) {}

  std::size_t block() const override { return 1; }

  std::optional<std::size_t> bytes(std::size_t count) const override { return count * size_of(type_); }

  void encode(NumberSpan numbers, Random&, ByteVector& into) const override {
    into.resize(numbers.count * size_of(type_));
    numeric::convert(NumberSpan(into.data(), numbers.count, type_), numbers);
  }

  void decode(ConstBytes bytes, NumberSpan numbers) const override {
    numeric::convert(numbers, checked(bytes, numbers.count));
  }

  void add(ConstBytes bytes, NumberSpan numbers) const override {
    numeric::add(numbers, checked(bytes, numbers.count));
  }

 private:
  NumberSpan checked(ConstBytes bytes, std::size_t count) const {
    if (bytes.size() != count * size_of(type_)) {
      fail(ErrorKind::mismatch, count, " numbers in ", name(type_), " take ", count * size_of(type_), " bytes, ",
           bytes.size(), " came: do all ranks run the same recipe?");
    }
    return NumberSpan(const_cast<std::byte*>(bytes.data()), count, type_);  // read only
  }

  DType type_;
};

}  // namespace

std::unique_ptr<Codec> make_wire(DType type) { return std::make_unique<WireCodec>(type); }

}  // namespace ripieno::codec
