// The bully algorithm: every live rank calls elect(), and the highest of them comes out as the leader on all. A rank
// that a higher one answers gives way to it; the one that nobody can answer tells all others that it leads.
//
// With m live ranks, of which this one is the i-th from below (i = 0 .. m-1):
// 1. Election: send ELECTION to all m-1-i higher ranks.
// 2. Answer: to each of the i lower ranks, whose ELECTION comes, send OK: a higher one takes over.
// 3. Give way: await the OK of every higher rank, then the COORDINATOR of the highest that answered.
// 4. Lead: where there is no higher rank to answer, send COORDINATOR to all lower ones.
//
// The paper's ranks time out where no answer comes. Here a failure detector tells of every death: it fails the waiting
// operation, so a rank that is silent is slow, not dead, and there is no time to choose. elect() lets that Error(peer)
// through; the caller calls Endpoint::survivors() and elects again. Who has returned when the leader dies learns of it
// in its next operation.
//
// Messages, each of 4 bytes (its sender's rank): rank i < m-1 sends m-1 and receives m; the leader sends 2(m-1) and
// receives m-1. All together m^2 - 1, the algorithm's worst case, for all start at once. Two latencies: the leader's OK
// and COORDINATOR leave together. The order of sends and receives does not deadlock where nothing may travel unasked.
//
// Source: H. Garcia-Molina, Elections in a distributed computing system, IEEE Transactions on Computers C-31(1), 1982,
// section III ("The Bully Algorithm"); the names of the messages are those of later textbooks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ripieno/transport/endpoint.h"

namespace ripieno::membership {

/// Returns the leader's rank. `alive`: what survivors() returned, ascending (it need not be contiguous), own rank
/// included, the same on every member. `channel` keeps two elections apart: the same on every member, another one for
/// each election of an epoch.
/// Error(peer): a rank died. Error(mismatch): a message carries another rank than its sender's.
/// Error(internal): `alive` is not ascending, lacks the own rank or names one that does not exist.
Task<int> elect(std::shared_ptr<transport::Endpoint> endpoint, std::vector<int> alive, transport::Channel channel);

}  // namespace ripieno::membership
