// The one executor that runs any schedule over any endpoint, whatever it moves (payload.h).
//
// For k = 0, 1, ..: what the step sends goes out, one message after the other, while all that it receives is asked for.
// (The card would send one after the other anyway, and so the ranks' i-th messages, which go to different ranks, do not
// meet at a receiver.) Empty ranges are not sent. An error ends the communicator's operations on all members
// (Communicator::abort).
#pragma once

#include <functional>

#include "ripieno/collective/communicator.h"
#include "ripieno/collective/payload.h"
#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// What all members of a communicator do together with their numbers.
struct ExecuteOptions {
  DType wire = DType::fp32;  ///< type of the numbers on the wire; whole numbers are sent as they are
  observe::Purpose purpose = observe::Purpose::exchange;
  std::uint32_t channel = 0;  ///< of the communicator; 0 for what goes on one after the other, else taken from it
  /// Bytes of the buffer that go through the schedule as one; larger buffers are cut and their parts go through it side
  /// by side, so that one part's sending hides another's adding. 0: never cut. Of all-reduce, broadcast and reduce.
  std::size_t segment_bytes = 0;
  int urgency = 0;  ///< see Message
  /// Each part's numbers are taken times `weight` right before they go out, so that the first is on its way while the
  /// others wait for that; and `done`, if there is one, is told of each part of the buffer once it holds its outcome
  /// and this call will not look at it again.
  double weight = 1;
  std::function<void(Range)> done = {};
  Reduction reduction = Reduction::sum;
  int root = 0;  ///< of broadcast, reduce, gather and scatter
};

/// The parts that a buffer of so many elements is cut into, up to parts_of_a_channel of them.
std::vector<Range> segments(std::size_t elements, DType type, std::size_t segment_bytes);

/// Runs the route's collective (schedule.h says what all begin and end with) on `data`. Every member calls it with as
/// many numbers and the same options.
Task<> run_collective(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options);

/// The same of what is not numbers. Steps of `payload->units()` units; the caller keeps the payload.
Task<> run_schedule(const Route* route, Communicator comm, World world, Payload* payload);

/// All end with the sum of all members' weight * numbers. Where the endpoint's engine does what the route does, it does
/// it.
Task<> all_reduce(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options);

/// All end with the root's numbers, along the tree.
Task<> broadcast(Communicator comm, NumberSpan data, ExecuteOptions options);

/// Sends `numbers` converted to message.type. `peer` is the endpoint's.
Task<> send_numbers(transport::Endpoint* endpoint, int peer, transport::Message message, NumberSpan numbers);

}  // namespace ripieno::collective
