// Pairwise exchanges: every rank exchanges with every other rank; in each step every rank has a different partner.
//
// Reduce-scatter, k = 0 .. P-2: rank r sends chunk r+k+1 to its owner r+k+1, and adds its own chunk r as it arrives
//   from r-k-1.
// All-gather, k = 0 .. P-2: rank r sends chunk r to r+k+1, and replaces its chunk r-k-1 by what arrives from there.
// All-to-all, k = 0 .. P-1: ranks r and k-r swap blocks: r's block k-r for the other's block r, each into the other's
//   place. A rank whose partner would be itself idles, once.
//
// Rounds: P-1; all-to-all: P, for P > 2. Bytes sent by a rank, for n bytes: n (P-1)/P. Time: alpha + n/P beta a round.
// Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::pairwise {

int steps(World world);
Step reduce_scatter(int rank, World world, std::size_t elements, int k);
Step all_gather(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

int all_to_all_steps(World world);
Step all_to_all(int rank, World world, std::size_t elements, int k);
Duration all_to_all_time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::pairwise
