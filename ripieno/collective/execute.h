// The one executor that runs any schedule over any endpoint.
//
// For k = 0, 1, ..: encode and send this step's range, while the received range is decoded and added or put in place.
// Before a range is first sent as final (Reduce::replace) its owner rounds its own copy to the wire's type, so that every
// rank ends with the same bits. Empty ranges are not sent. An error on one side of a step revokes the endpoint: the other
// side cannot complete.
//
// A route whose steps are one round (Route::at_once) has them all in flight together. What arrives is kept apart, P times
// the buffer in the wire's type, and added up in the order of the ranks, this rank's own numbers in their place and rounded
// to the wire's type like all others: every rank adds the same numbers in the same order.
#pragma once

#include <functional>

#include "ripieno/collective/communicator.h"
#include "ripieno/collective/schedule.h"

namespace ripieno {

struct ExecuteOptions {
  DType wire = DType::fp32;              ///< type of the numbers on the wire
  Purpose purpose = Purpose::exchange;
  std::uint32_t channel = 0;             ///< distinct for what is in flight at once
  /// Bytes of the buffer that go through the schedule as one; larger buffers are cut and their parts go through it side by
  /// side, so that one part's sending hides another's adding. 0: never cut.
  std::size_t segment_bytes = 0;
  int urgency = 0;  ///< see Message
  /// Of all_reduce(): each part's numbers are taken times `weight` right before they go out, so that the first is on its way while
  /// the others wait for that; and `done`, if there is one, is told of each part of the buffer once it holds the sum and this
  /// call will not look at it again.
  double weight = 1;
  std::function<void(Range)> done = {};
};

/// The most parts that a buffer is cut into.
inline constexpr std::uint32_t max_segments = 64;

/// The parts that a buffer of so many elements is cut into.
std::vector<Range> segments(std::size_t elements, DType type, std::size_t segment_bytes);

/// Every member calls it with as many numbers; all end with the sum of all members' weight * numbers.
Task<> all_reduce(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options);

/// Sends `numbers` converted to message.type. `peer` is the endpoint's.
Task<> send_numbers(Endpoint* endpoint, int peer, Message message, NumberSpan numbers);

/// All end with member 0's numbers: the second half of reduce-broadcast.
Task<> broadcast(Communicator comm, NumberSpan data, ExecuteOptions options);

}  // namespace ripieno
