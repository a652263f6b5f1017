#include "ripieno/codec/error_feedback.h"

#include <algorithm>

#include "ripieno/codec/numbers.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::codec {
namespace {

/// Numbers decoded at a time: they, x and both residuals fit into the L1 cache.
constexpr std::size_t piece_elements = 1024;

/// The new e = x - d, x = d. A number that overflowed keeps the old e: the step is dropped on all ranks, and a residual
/// that is not finite would spoil all later steps.
template <class T>
void keep_what_was_lost(T* __restrict x, const T* __restrict decoded, const T* __restrict old, T* __restrict staged,
                        std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const T lost = x[i] - decoded[i], before = old[i];  // always read: a branch would not vectorise
    const bool finite = lost - lost == T{0};
    staged[i] = finite ? lost : before;
    x[i] = decoded[i];
  }
}

}  // namespace

ErrorFeedback::ErrorFeedback(std::size_t elements, DType type, bool on) : elements_(elements), type_(type), on_(on) {}

void ErrorFeedback::encode(const Codec& codec, std::size_t offset, NumberSpan numbers, Random& random,
                           ByteVector& into) {
  require(numbers.type == type_, "error feedback made for ", name(type_), ", given ", name(numbers.type));
  require(offset <= elements_ && numbers.count <= elements_ - offset, "error feedback of ", elements_,
          " elements: the part at ", offset, " of ", numbers.count, " leaves it");
  into.clear();
  if (!numbers.data) return;
  if (!on_) {
    codec.encode(numbers, random, into);
    codec.decode(into, numbers);
    return;
  }
  if (residual_.empty()) residual_.resize(elements_ * size_of(type_));
  if (staged_.empty()) staged_.resize(residual_.size());
  const Range range{offset, offset + numbers.count};
  const NumberSpan kept = residual().slice(range.begin, range.end);
  const NumberSpan staged = NumberSpan(staged_.data(), elements_, type_).slice(range.begin, range.end);
  for (const Range other : staged_ranges_) {
    const bool apart = range.end <= other.begin || other.end <= range.begin;
    require(apart || range.size() == 0 || other.size() == 0, "error feedback: elements [", range.begin, ", ", range.end,
            ") are encoded in an attempt that has encoded [", other.begin, ", ", other.end, ")");
  }
  staged_ranges_.push_back(range);

  // 1. x <- x + e
  numeric::add(numbers, kept);
  // 2. send C(x)
  codec.encode(numbers, random, into);
  // 3. e <- x - D(C(x)), in pieces if whole blocks can be decoded separately
  const std::size_t block = codec.block();
  const std::size_t whole = std::max<std::size_t>(numbers.count, 1);
  const std::size_t piece = block ? (piece_elements + block - 1) / block * block : whole;
  const Scratch memory = scratch(std::min(piece, numbers.count) * size_of(type_));
  for (std::size_t begin = 0; begin < numbers.count; begin += piece) {
    const std::size_t end = std::min(begin + piece, numbers.count);
    const NumberSpan x = numbers.slice(begin, end), e = kept.slice(begin, end), new_e = staged.slice(begin, end);
    const NumberSpan decoded(memory.get(), x.count, type_);
    const ConstBytes all(into);
    codec.decode(block ? all.subspan(*codec.bytes(begin), *codec.bytes(x.count)) : all, decoded);
    with_numbers(x, [&]<class T>(std::span<T> values) {
      keep_what_was_lost(values.data(), decoded.as<T>().data(), e.as<T>().data(), new_e.as<T>().data(), values.size());
    });
  }
}

void ErrorFeedback::commit() {
  std::size_t staged = 0;
  for (const Range range : staged_ranges_) staged += range.size();
  if (staged == elements_) {
    std::swap(residual_, staged_);
  } else {
    const std::size_t size = size_of(type_);
    for (const Range range : staged_ranges_) {
      std::copy_n(staged_.data() + range.begin * size, range.size() * size, residual_.data() + range.begin * size);
    }
  }
  staged_ranges_.clear();
}

void ErrorFeedback::visit(StateVisitor& visitor, const std::string& name) {
  if (!on_) return;
  if (residual_.empty()) residual_.resize(elements_ * size_of(type_));  // a checkpoint may be about to fill it
  visitor.span(name, residual());
}

}  // namespace ripieno::codec
