// Numbers that are sent as a wire type, and combined or put in place as they arrive.
//
// Before a range is first sent as final (Reduce::replace) its owner rounds its own copy to the wire's type, so that
// every rank ends with the same bits. What a step receives into ranges that it also sends is kept apart until all is
// there: what is final is then put in place; what is added is added in the order of the ranks, this rank's own numbers
// in their place and rounded to the wire's type like all others, so that every rank adds the same numbers in the same
// order.
#pragma once

#include "ripieno/collective/payload.h"

namespace ripieno::collective {

class NumbersPayload final : public MessagePayload {
 public:
  /// `message` gives channel, operation, the wire's type and urgency; `reduction` is what Reduce::add stands for.
  NumbersPayload(Communicator comm, NumberSpan data, transport::Message message, numeric::Reduce reduction)
      : MessagePayload(std::move(comm)), data_(data), message_(message), reduction_(reduction) {}

  std::size_t units() const override { return data_.count; }
  void begin(const Step& step) override;
  void end(const Step& step) override;

 private:
  /// A member's numbers as they are on the wire, kept apart.
  struct Kept {
    int member;
    Range range;
    numeric::Reduce how;
    Scratch memory;
    NumberSpan numbers;
  };

  transport::Outgoing outgoing(const Transfer& out) override;
  transport::Incoming incoming(const Transfer& in) override;
  void keep(int member, Range range, numeric::Reduce how);
  /// Null where nothing of that member's is kept.
  Kept* kept_of(int member, Range range);
  NumberSpan part(Range range) const { return data_.slice(range.begin, range.end); }

  const NumberSpan data_;
  const transport::Message message_;
  const numeric::Reduce reduction_;
  Scratch encoded_;  ///< what leaves, where the wire's type is another: one message after the other
  std::vector<Kept> kept_;
};

}  // namespace ripieno::collective
