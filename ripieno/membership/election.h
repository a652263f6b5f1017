// The bully algorithm: every live rank calls elect(), which returns the highest of them, the leader, on all. A rank
// that gets an answer from a higher one gives way; the rank with no higher one tells all others that it leads.
//
// With m live ranks, this one the i-th in ascending order (i = 0 .. m-1):
// 1. Election: send ELECTION to all m-1-i higher ranks.
// 2. Answer: when the ELECTION of one of the i lower ranks arrives, send it OK: a higher rank takes over.
// 3. Give way: await the OK of every higher rank, then the COORDINATOR of the highest.
// 4. Lead: without a higher rank, send COORDINATOR to all lower ones.
//
// The paper's ranks time out if no answer comes. Here a failure detector reports a death: it fails the operation that
// waits for the dead rank, so a silent rank is slow, not dead, and no timeout is needed. elect() passes that
// Error(peer) on; the caller tells the others, whose operations wait for live ranks (Communicator::abort), calls
// Communicator::survivors() and elects again. A rank that has returned before the leader dies learns of it in its next
// operation.
//
// Messages, each of 4 bytes (its sender's rank): rank i < m-1 sends m-1 and receives m; the leader sends 2(m-1) and
// receives m-1. All together m^2 - 1, the algorithm's worst case, since all start at once. Two latencies: the leader's
// OK and COORDINATOR leave together. The order of sends and receives does not deadlock even if every message needs a
// posted receive.
//
// Source: H. Garcia-Molina, Elections in a distributed computing system, IEEE Transactions on Computers C-31(1), 1982,
// section III ("The Bully Algorithm"); the message names are from later textbooks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ripieno/transport/endpoint.h"

namespace ripieno::membership {

/// Returns the leader's rank. `alive`: what survivors() returned, ascending (it need not be contiguous), own rank
/// included, the same on every member. `channel` separates elections: the same on every member, a different one for
/// each election of an epoch.
/// Error(peer): a rank died. Error(mismatch): a message does not carry its sender's rank.
/// Error(internal): `alive` is not ascending, lacks the own rank or names one that does not exist.
Task<int> elect(std::shared_ptr<transport::Endpoint> endpoint, std::vector<int> alive, transport::Channel channel);

}  // namespace ripieno::membership
