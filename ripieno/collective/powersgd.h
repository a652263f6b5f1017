// PowerSGD averages: every matrix of a slot is sent as the product of two thin factors, found by one step of power
// iteration towards the best approximation of rank r. For a matrix of rows x columns on worker i:
//
// 1. M_i <- weight_i * numbers_i + e_i            (rows x columns)
// 2. P_i <- M_i Q                                 (rows x r)
// 3. P <- all-reduce of P_i
// 4. P <- orthogonalise(P)
// 5. Q_i <- M_i^T P                               (columns x r)
// 6. e_i <- M_i - P Q_i^T
// 7. Q <- all-reduce of Q_i
// 8. numbers_i <- P Q^T
// 9. Q <- Q without zeros, its columns brought near 1
//
// Q is kept for the next call (warm start); the first Q is uniform over [-1, 1), the same on all ranks. Matrices whose
// factors would not be smaller, (rows + columns) r >= rows columns, and numbers outside matrices are averaged
// uncompressed, together with P in step 3. r is at most min(rows, columns); with that r, the average is exact.
//
// Step 6 subtracts from M_i the part that worker i itself put into the result, not the whole result as the paper's
// memory does. So the errors need no worker's weight, and e_i is never larger than M_i, however much the workers
// differ. Since P Q^T = sum of P Q_i^T, nothing is lost: outputs + sum of e_i = sum of weight_i numbers_i over all
// calls. Without error feedback e_i stays 0.
//
// Step 4 is modified Gram-Schmidt, each column twice. A column that is 0 or depends linearly on earlier ones is
// replaced by a random direction, so that r directions are tried even if M has a lower rank.
//
// Step 9, which the paper has not, keeps the warm start alive. After M = 0 Q would be 0, and then P = M Q for ever;
// after a column of M that is 0 its row of Q would be 0, and hide that column as long as others fill the rank. So zeros
// are replaced by random numbers of their column's size. Powers of two bring columns near 1, which leaves their
// directions as they are, so that P neither overflows nor vanishes. Random numbers are drawn from the seed, the slot,
// the matrix and the last Q: the same on all ranks, new ones in each call.
//
// Bytes: the route's closed form for sum(rows) r + uncompressed numbers, and for sum(columns) r. Rounds: twice the
// route's. Numbers that are not finite reach all ranks as such; e_i and Q then stay as they were, on all ranks alike. A
// group of one factors and sends nothing.
//
// Source: Vogels, Karimireddy and Jaggi, PowerSGD: practical low-rank gradient compression for distributed
// optimization, NeurIPS 2019, algorithms 1 and 2.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

struct PowerSgdOptions {
  int rank = 2;
  bool error_feedback = true;
  bool factor_all = false;  ///< also factor matrices whose factors are not smaller
};

/// Uses options.route and .seed. Throws Error(usage) if a matrix is not inside its slot, overlaps another, or does not
/// have rows * columns elements.
std::unique_ptr<Averager> make_powersgd(const AveragerOptions& options, PowerSgdOptions powersgd,
                                        std::vector<Slot> slots, DType type);

}  // namespace ripieno::collective
