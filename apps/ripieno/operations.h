// The operations that the command line names: collectives, what they are asked for with, and what they promise in
// words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::program {

bool is_operation(std::string_view name);

/// Throws Error(usage) that names the nearest one and lists all.
transport::Collective find_operation(std::string_view name);

/// "all-gather,reduce", or "all", in the order given, each once. Errors: find_operation's.
std::vector<transport::Collective> find_operations(const std::string& names);

/// "all-reduce, reduce-scatter, ..., all-to-all"
std::string list_operations();

/// What it promises, as schedule.h's table says: "every rank ends with the sum of all", where `ends` is "ends with".
std::string promise_of(transport::Collective operation, int root, std::string_view ends);

/// A route of that operation. Throws Error(usage) that lists the operation's, and says which other operations have one
/// of that name.
const collective::Route& find_route_of(transport::Collective operation, std::string_view name);

/// Whether any operation has a route of that name.
bool is_route_of_any(std::string_view name);

/// Throws Error(usage) unless `root` is one of the ranks.
void check_root(int root, int ranks);

}  // namespace ripieno::program
