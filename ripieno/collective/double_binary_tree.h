// Double binary tree: two binary trees over all ranks, each for half of the buffer. A rank that is interior in one tree
// is a leaf in the other. A single binary tree leaves the links of its leaves idle; here every rank's link is used both
// ways, in a logarithmic number of rounds. With the buffer cut into segments (ExecuteOptions), it sends at the full
// rate.
//
// First tree: an in-order tree over the labels 1 .. P. A label's level is the number of times that 2 divides it; odd
// labels are leaves; the root is 2^L, L = floor(log2 P). A label x = 2^j (odd) has the children x - 2^(j-1) and x +
// 2^h, for the largest h < j with x + 2^h <= P. Rank r has label r+1. Second tree: the same tree, mirrored if P is even
// (rank r has label P-r), shifted by one rank if P is odd; both turn odd labels into even ones.
// 1. Reduce, for levels j = 1 .. L, in both trees at once: every label of level j adds its left child's sum, then its
//    right child's.
// 2. Broadcast, for levels j = L .. 1, in both trees at once: every label of level j sends to its left child, then its
// right. The paper colours edges so that no rank sends or receives twice at once. Taking whole levels in turn has the
// same effect here: a rank sends to its parent at level 1 in the tree where it is a leaf, and at a higher level in the
// other.
//
// Rounds: 2 (floor(log2 P) + floor(log2(P-1))), P > 1. Bytes sent by a rank, for n bytes: n/2 to each of its parents
// and children, 2n by the busiest rank for P >= 4. Time: (3L-1) alpha + (2L-1) n beta, exact if P is a power of two;
// otherwise at most (3L+1) alpha + 2L n beta, which time() gives. With many segments in flight the term in n beta falls
// towards 2 n beta, whatever P. Source: Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast,
// reduction and scan, Parallel Computing 35(12), 2009.
#pragma once

#include "ripieno/collective/schedule.h"

namespace ripieno::collective::double_binary_tree {

int steps(World world);
Step step(int rank, World world, std::size_t elements, int k);
Duration time(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective::double_binary_tree
