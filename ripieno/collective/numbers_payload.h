// A payload of numbers, which are sent as a wire type and combined or stored as they arrive.
//
// Before a range is first sent as final (Reduce::replace) its owner rounds its own copy to the wire's type, so that
// every rank ends with the same bits. If a step receives into ranges that it also sends, the received numbers are
// buffered until all have arrived. Final ones are then stored; others are added in rank order, with this rank's own
// numbers at its place and rounded to the wire's type, so that every rank adds the same numbers in the same order.
#pragma once

#include "ripieno/collective/payload.h"

namespace ripieno::collective {

class NumbersPayload final : public MessagePayload {
 public:
  /// `message` gives channel, operation, wire type and urgency; `reduction` replaces Reduce::add.
  NumbersPayload(Communicator comm, NumberSpan data, transport::Message message, numeric::Reduce reduction)
      : MessagePayload(std::move(comm)), data_(data), message_(message), reduction_(reduction) {}

  std::size_t units() const override { return data_.count; }
  void begin(const Step& step) override;
  void end(const Step& step) override;

 private:
  /// A member's buffered numbers, in the wire's type.
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
  /// Null if nothing of that member is buffered.
  Kept* kept_of(int member, Range range);
  NumberSpan part(Range range) const { return data_.slice(range.begin, range.end); }

  const NumberSpan data_;
  const transport::Message message_;
  const numeric::Reduce reduction_;
  Scratch encoded_;  ///< the outgoing message, if the wire's type differs from that in memory
  std::vector<Kept> kept_;
};

}  // namespace ripieno::collective
