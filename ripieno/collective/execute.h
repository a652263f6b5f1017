// The executor: runs any schedule over any endpoint, with any payload (payload.h).
//
// For k = 0, 1, ..: step k sends its messages one after the other while all its receives are posted. (The network card
// would send one at a time anyway; this way the ranks' i-th messages, which go to different ranks, do not compete at
// one receiver.) Empty ranges are not sent. An error ends the communicator's operations on all members
// (Communicator::abort).
#pragma once

#include <functional>

#include "ripieno/collective/communicator.h"
#include "ripieno/collective/payload.h"
#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// Options of a collective.
struct ExecuteOptions {
  DType wire = DType::fp32;  ///< type of the numbers on the wire; integers are sent as they are
  observe::Purpose purpose = observe::Purpose::exchange;
  std::uint32_t channel = 0;  ///< 0 for operations one after the other; else from Communicator::take_channels()
  /// Larger buffers are cut into segments of so many bytes, which go through the schedule side by side, so that sending
  /// one hides adding another. 0: never cut. For all-reduce, broadcast and reduce.
  std::size_t segment_bytes = 0;
  int urgency = 0;  ///< see Message
  /// Each segment is multiplied by `weight` right before it is sent, so that the first is in flight while the others
  /// are still being multiplied. `done`, if set, is called with each part of the buffer once it holds its result and
  /// this call no longer reads it.
  double weight = 1;
  std::function<void(Range)> done = {};
  Reduction reduction = Reduction::sum;
  int root = 0;  ///< for broadcast, reduce, gather and scatter
  /// In messages in place of the route's name (Message::operation): ranks that differ in it are told. Outlives the
  /// call.
  std::string_view operation = {};
};

/// The segments of a buffer of so many elements, at most parts_of_a_channel.
std::vector<Range> segments(std::size_t elements, DType type, std::size_t segment_bytes);

/// Runs the route's collective (schedule.h says what ranks begin and end with) on `data`. Every member calls it with
/// the same count of numbers and the same options. Error(usage): as all_reduce().
Task<> run_collective(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options);

/// Runs a schedule of `payload->units()` units on any payload, which must outlive the call.
Task<> run_schedule(const Route* route, Communicator comm, World world, Payload* payload);

/// All end with the sum of all members' weight * numbers. Uses the endpoint's engine if that does the same as the
/// route. Error(usage): the route is native, and the engine has nothing for it.
Task<> all_reduce(const Route& route, Communicator comm, NumberSpan data, ExecuteOptions options);

/// All end with the root's numbers, sent along the tree.
Task<> broadcast(Communicator comm, NumberSpan data, ExecuteOptions options);

/// Sends `numbers` converted to message.type. `peer` is a rank of the endpoint.
Task<> send_numbers(transport::Endpoint* endpoint, int peer, transport::Message message, NumberSpan numbers);

}  // namespace ripieno::collective
