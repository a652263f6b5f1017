#include "ripieno/codec/topk.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ripieno/codec/numbers.h"

namespace ripieno::codec {
namespace {

struct Pair {
  std::uint32_t index;
  float value;
};
static_assert(sizeof(Pair) == 8);

/// The k-th largest magnitude, as bits; reorders the magnitudes.
template <class Key>
Key kth_largest(RecycledVector<Key>& keys, std::size_t k) {
  const auto kth = keys.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys.begin(), kth, keys.end(), std::greater<>());
  return *kth;
}

/// The k-th largest |x_i|, as bits. One pass counts the numbers by their leading bits; then only the few with the same
/// leading bits as the k-th are sorted.
template <class T>
SignedBits<T> kth_largest_magnitude(std::span<const T> x, std::size_t k) {
  constexpr int leading = 12, shift = sizeof(T) * 8 - 1 - leading;  // fp32: exponent and 4 bits
  std::vector<std::size_t> counts(std::size_t{1} << leading);
  for (const T number : x) ++counts[static_cast<std::size_t>(magnitude(number) >> shift)];
  std::size_t bin = counts.size() - 1, above = 0;
  while (above + counts[bin] < k) above += counts[bin--];

  RecycledVector<SignedBits<T>> keys;
  keys.reserve(counts[bin]);
  for (const T number : x) {
    if (static_cast<std::size_t>(magnitude(number) >> shift) == bin) keys.push_back(magnitude(number));
  }
  return kth_largest(keys, k - above);
}

template <class T>
void append(ByteVector& into, std::size_t& size, std::size_t index, T value) {
  if (size + sizeof(Pair) > into.size()) into.resize(std::max(size + sizeof(Pair), 2 * into.size()));
  store(into.data() + size, Pair{static_cast<std::uint32_t>(index), static_cast<float>(value)});
  size += sizeof(Pair);
}

/// Steps 2 and 3 of the exact codec.
template <class T>
void encode_largest(std::span<const T> x, std::size_t k, ByteVector& into) {
  const SignedBits<T> t = kth_largest_magnitude(x, k);
  std::size_t larger = 0;
  for (const T number : x) larger += magnitude(number) > t;
  std::size_t ties = k - larger, size = 0;
  into.resize(k * sizeof(Pair));
  for (std::size_t i = 0; i < x.size() && size < into.size(); ++i) {
    const SignedBits<T> key = magnitude(x[i]);
    if (key < t || (key == t && ties == 0)) continue;
    if (key == t) --ties;
    append(into, size, i, x[i]);
  }
}

/// The handling of pairs, common to both codecs.
class PairCodec : public Codec {
 public:
  explicit PairCodec(double fraction) : fraction_(fraction) {}

  std::size_t block() const override { return 0; }

  void decode(ConstBytes bytes, NumberSpan numbers) const override {
    check(bytes, numbers.count);
    with_numbers(numbers, [&]<class T>(std::span<T> y) {
      std::fill(y.begin(), y.end(), T{0});
      each(bytes, [&](Pair pair) { y[pair.index] = pair.value; });
    });
  }

  void add(ConstBytes bytes, NumberSpan numbers) const override {
    check(bytes, numbers.count);
    with_numbers(numbers, [&](auto y) { each(bytes, [&](Pair pair) { y[pair.index] += pair.value; }); });
  }

 protected:
  virtual const char* name() const = 0;
  std::size_t k(std::size_t count) const { return top_count(fraction_, count); }
  static void check_count(std::size_t count) {
    require(count <= std::size_t{1} << 32, count, " numbers in one encoding whose indices have 4 bytes");
  }

  double fraction_;

 private:
  template <class Body>
  static void each(ConstBytes bytes, Body body) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Pair)) body(load<Pair>(bytes.data() + at));
  }

  void check(ConstBytes bytes, std::size_t count) const {
    const std::size_t most = most_bytes(count), least = this->bytes(count).value_or(count ? sizeof(Pair) : 0);
    if (bytes.size() < least || bytes.size() > most || bytes.size() % sizeof(Pair) != 0) {
      fail(ErrorKind::mismatch, count, " numbers in ", name(), " take ",
           least == most ? text(most) : text(least, " to ", most, " (a multiple of ", sizeof(Pair), ")"), " bytes, ",
           bytes.size(), " came: do all ranks run the same recipe?");
    }
    std::size_t next = 0;  // the smallest valid next index
    each(bytes, [&](Pair pair) {
      if (pair.index >= count) {
        fail(ErrorKind::mismatch, "an encoding in ", name(), " holds number ", pair.index, " of ", count,
             ": do all ranks run the same recipe?");
      }
      if (pair.index < next) {
        fail(ErrorKind::mismatch, "an encoding in ", name(), " holds number ", pair.index, " after number ", next - 1,
             ": its indices must ascend");
      }
      next = std::size_t{pair.index} + 1;
    });
  }
};

class TopK final : public PairCodec {
 public:
  using PairCodec::PairCodec;

  std::optional<std::size_t> bytes(std::size_t count) const override { return sizeof(Pair) * k(count); }

  void encode(NumberSpan numbers, Random&, ByteVector& into) const override {
    check_count(numbers.count);
    into.clear();
    if (numbers.count == 0) return;
    with_numbers(numbers, [&]<class T>(std::span<T> x) { encode_largest<T>(x, k(x.size()), into); });
  }

 private:
  const char* name() const override { return "topk"; }
};

class TopKSampled final : public PairCodec {
 public:
  using PairCodec::PairCodec;

  std::optional<std::size_t> bytes(std::size_t) const override { return std::nullopt; }
  std::size_t most_bytes(std::size_t count) const override { return sizeof(Pair) * std::min(2 * k(count), count); }

  void encode(NumberSpan numbers, Random& random, ByteVector& into) const override {
    check_count(numbers.count);
    into.clear();
    if (numbers.count == 0) return;
    with_numbers(numbers, [&]<class T>(std::span<T> x) { encode_sampled<T>(x, random, into); });
  }

 private:
  const char* name() const override { return "topk-sampled"; }

  template <class T>
  void encode_sampled(std::span<const T> x, Random& random, ByteVector& into) const {
    const std::size_t n = x.size(), sampled = std::min(n, std::max<std::size_t>(1024, n / 100));
    // 1. t = the sample's ceil(fraction m)-th largest
    RecycledVector<SignedBits<T>> sample(sampled);
    for (std::size_t i = 0; i < sampled; ++i) sample[i] = magnitude(x[sampled == n ? i : random.below(n)]);
    const SignedBits<T> t = kth_largest(sample, k(sampled));

    // 2. all that reach it; if these are too many, the k largest of them, which are the k largest of all
    const std::size_t most = 2 * k(n);
    into.resize(sizeof(Pair) * std::min(n, k(n) + k(n) / 4 + 16));
    std::size_t size = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (magnitude(x[i]) < t) continue;
      if (size == most * sizeof(Pair)) return encode_largest(x, k(n), into);
      append(into, size, i, x[i]);
    }
    into.resize(size);
  }
};

}  // namespace

std::size_t top_count(double fraction, std::size_t count) {
  if (count == 0) return 0;
  // Slightly less, because in doubles 0.07 of 100 is 7.000000000000001, and k must be 7.
  const double wanted = std::ceil(fraction * static_cast<double>(count) * (1 - 1e-12));
  return std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, count);
}

std::unique_ptr<Codec> make_topk(double fraction) { return std::make_unique<TopK>(fraction); }
std::unique_ptr<Codec> make_topk_sampled(double fraction) { return std::make_unique<TopKSampled>(fraction); }

}  // namespace ripieno::codec
