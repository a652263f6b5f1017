// Operations on the command line: the names of collectives, and what they promise in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ripieno/collective/schedule.h"

namespace ripieno::program {

bool is_operation(std::string_view name);

/// Throws Error(usage), which names the nearest one and lists all, for an unknown name.
transport::Collective find_operation(std::string_view name);

/// "all-gather,reduce", or "all", in the order given, each once. Errors: find_operation's.
std::vector<transport::Collective> find_operations(const std::string& names);

/// "all-reduce, reduce-scatter, ..., all-to-all"
std::string list_operations();

/// "auto, fp32, fp16, bf16"
std::string list_wire_formats();

/// What the operation promises (the table in schedule.h): "every rank ends with the sum of all", with `ends` = "ends
/// with".
std::string promise_of(transport::Collective operation, int root, std::string_view ends);

/// A route of that operation. Otherwise throws Error(usage), which lists the operation's routes, and the other
/// operations that have a route of that name.
const collective::Route& find_route_of(transport::Collective operation, std::string_view name);

/// Whether any operation has a route of that name.
bool is_route_of_any(std::string_view name);

/// Throws Error(usage) unless `root` is one of the ranks.
void check_root(int root, int ranks);

}  // namespace ripieno::program
