// The route "native": the endpoint's own operation (transport::Endpoint::engine), such as MPI_Iallreduce over MPI. It
// has no schedule: the library below chooses one. So nobody can draw it, run it in virtual time or predict it, its sums
// may have other bits than those of Ripieno's routes, and the ledger counts what was handed over, not what was sent.
// It is not among routes().
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::native {

inline constexpr std::string_view name = transport::native_route;

/// Its `steps`, `step` and `time` are null.
const Route& route(transport::Collective collective = transport::Collective::all_reduce);

inline bool is(const Route& route) { return route.name == name; }

}  // namespace ripieno::collective::native
