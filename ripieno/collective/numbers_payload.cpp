#include "ripieno/collective/numbers_payload.h"

#include <algorithm>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::collective {

void NumbersPayload::begin(const Step& step) {
  bool adds = false;
  for (const Transfer& in : step.receives) {
    if (!overlaps(in, step.sends)) continue;
    keep(in.peer, in.range, in.how);
    if (in.how == numeric::Reduce::add && !std::exchange(adds, true)) {
      keep(comm_.rank(), in.range, numeric::Reduce::add);
      numeric::convert(kept_.back().numbers, part(in.range));
    }
  }
}

void NumbersPayload::end(const Step&) {
  std::sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.member < b.member; });
  bool is_first = true;
  for (const Kept& one : kept_) {
    if (one.how == numeric::Reduce::replace || std::exchange(is_first, false)) {
      numeric::convert(part(one.range), one.numbers);
    } else {
      numeric::combine(part(one.range), one.numbers, reduction_);
    }
  }
  kept_.clear();
}

void NumbersPayload::keep(int member, Range range, numeric::Reduce how) {
  const std::size_t bytes = data_.data ? range.size() * size_of(message_.type) : 0;
  Scratch memory = scratch(bytes);
  const NumberSpan numbers(data_.data ? memory.get() : nullptr, range.size(), message_.type);
  kept_.push_back({member, range, how, std::move(memory), numbers});
}

NumbersPayload::Kept* NumbersPayload::kept_of(int member, Range range) {
  const auto is_it = [&](const Kept& one) { return one.member == member && one.range == range; };
  const auto found = std::find_if(kept_.begin(), kept_.end(), is_it);
  return found == kept_.end() ? nullptr : &*found;
}

transport::Outgoing NumbersPayload::outgoing(const Transfer& out) {
  const NumberSpan numbers = part(out.range);
  if (out.how == numeric::Reduce::replace) numeric::round_through(numbers, message_.type);
  transport::Outgoing leaving{comm_.member(out.peer), message_, numbers.bytes()};
  leaving.message.count = numbers.count;
  if (numbers.type == message_.type) return leaving;
  if (const Kept* const own = kept_of(comm_.rank(), out.range)) {
    leaving.payload = own->numbers.bytes();
    return leaving;
  }
  const std::size_t bytes = numbers.count * size_of(message_.type);
  encoded_ = scratch(numbers.data ? bytes : 0);
  const NumberSpan encoded(numbers.data ? encoded_.get() : nullptr, numbers.count, message_.type);
  numeric::convert(encoded, numbers);
  leaving.payload = encoded.bytes();
  return leaving;
}

transport::Incoming NumbersPayload::incoming(const Transfer& in) {
  transport::Message message = message_;
  message.count = in.range.size();
  const int peer = comm_.member(in.peer);
  if (const Kept* const apart = kept_of(in.peer, in.range))
    return {peer, message, transport::Sink(apart->numbers, message.type, numeric::Reduce::replace)};
  return {peer, message,
          transport::Sink(part(in.range), message.type,
                          in.how == numeric::Reduce::add ? reduction_ : numeric::Reduce::replace)};
}

}  // namespace ripieno::collective
