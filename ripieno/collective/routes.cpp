#include <array>

#include "ripieno/collective/gather_scatter.h"
#include "ripieno/collective/halving_doubling.h"
#include "ripieno/collective/reduce_broadcast.h"
#include "ripieno/collective/ring.h"

namespace ripieno {
namespace {

constexpr std::array table{
    Route{"gather-scatter", "every buffer to rank 0, the sum back to every rank", "2(P-1)", "n(P-1)",
          "Li et al., OSDI 2014", gather_scatter::steps, gather_scatter::step, gather_scatter::time},
    Route{"reduce-broadcast", "reduce to rank 0, then broadcast, along a binomial tree", "2 ceil(log2 P)",
          "n ceil(log2 P)", "Thakur et al., IJHPCA 2005", reduce_broadcast::steps, reduce_broadcast::step,
          reduce_broadcast::time},
    Route{"ring", "reduce-scatter, then all-gather, around a ring", "2(P-1)", "2n(P-1)/P",
          "Patarasuk and Yuan, JPDC 2009", ring::steps, ring::step, ring::time},
    Route{"halving-doubling", "recursive halving, then recursive doubling", "2 log2 P (+2)", "2n(P-1)/P (+n)",
          "Thakur et al., IJHPCA 2005", halving_doubling::steps, halving_doubling::step, halving_doubling::time},
};

}  // namespace

std::span<const Route> routes() { return table; }

const Route& find_route(std::string_view name) {
  std::string known;
  for (const Route& route : table) {
    if (route.name == name) return route;
    known += (known.empty() ? "" : ", ") + std::string(route.name);
  }
  fail(ErrorKind::usage, "there is no route \"", name, "\"; the routes are ", known);
}

}  // namespace ripieno
