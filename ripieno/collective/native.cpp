#include "ripieno/collective/native.h"

#include <array>

namespace ripieno::collective::native {
namespace {

constexpr Route of(transport::Collective collective, std::string_view title) {
  return {name, title, "", "", "Message Passing Interface Forum, MPI 4.1, 2023", nullptr, nullptr, nullptr, collective};
}

// In the order of transport::Collective.
constexpr std::array all{of(transport::Collective::all_reduce, "MPI_Iallreduce, over transport mpi"),
                         of(transport::Collective::reduce_scatter, "MPI_Ireduce_scatter, over transport mpi"),
                         of(transport::Collective::all_gather, "MPI_Iallgatherv, over transport mpi"),
                         of(transport::Collective::broadcast, "MPI_Ibcast, over transport mpi"),
                         of(transport::Collective::reduce, "MPI_Ireduce, over transport mpi"),
                         of(transport::Collective::gather, "MPI_Igatherv, over transport mpi"),
                         of(transport::Collective::scatter, "MPI_Iscatterv, over transport mpi"),
                         of(transport::Collective::all_to_all, "MPI_Ialltoall, over transport mpi")};

}  // namespace

const Route& route(transport::Collective collective) { return all[static_cast<std::size_t>(collective)]; }

}  // namespace ripieno::collective::native
