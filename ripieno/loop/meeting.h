// How ranks meet before they go on together: one that cannot is told to all, and what must be the same is compared.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "ripieno/collective/communicator.h"

namespace ripieno::loop {

/// Every rank calls it, with what keeps it from going on, or null. Throws on all ranks if there is something: a rank's
/// own trouble there, elsewhere Error(peer), which names the first rank that has any, and its error.
Task<> meet(collective::Communicator comm, std::string doing, std::exception_ptr trouble);

/// Compares lines, such as a model's parameters and options. Every rank calls it. Where they differ it throws, on all
/// ranks, Error(mismatch) with the first line in which a rank differs from rank 0, in both versions, and the rule.
Task<> compare_lines(collective::Communicator comm, std::vector<std::string> mine,
                     std::string rule = "all ranks must make the same model and options");

}  // namespace ripieno::loop
