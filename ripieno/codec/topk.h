// Sends the numbers of largest magnitude, each with its index; the others count as 0.
//
// Exact, k = max(1, ceil(fraction n)) (0 of 0 numbers):
// 1. t = the k-th largest |x_i|
// 2. all i with |x_i| > t, and of those with |x_i| = t the first, up to k in all
// 3. their indices (4 bytes) and values (fp32) in pairs, indices ascending
// Bytes: 8 k.
//
// Sampled, for speed:
// 1. t = the ceil(fraction m)-th largest |x_i| of a random sample (with replacement) of m = max(1024, n / 100) numbers,
//    or of all numbers if there are no more than m
// 2. all i with |x_i| >= t; if these are more than 2 k, the k largest as above
// 3. as above
// Bytes: 8 times the numbers sent, which depends on the numbers and the draws: between 8 and about 16 k.
//
// NaN counts as larger than infinity, and infinity as larger than all numbers, so numbers that are not finite are sent
// first. Contractions with delta = k / n (exact) and 1 / n (sampled: the largest is always sent), except for the
// rounding of fp64 values to fp32. Decoding throws Error(mismatch) on a wrong length, and on an index that is out of
// range or does not ascend, before it writes anything.
//
// Source: Aji and Heafield, Sparse communication for distributed gradient descent, EMNLP 2017 (exact); Lin et al., Deep
// gradient compression, ICLR 2018 (sampled).
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

/// k for `count` numbers: `fraction` (in (0, 1]) of them, rounded up.
std::size_t top_count(double fraction, std::size_t count);

std::unique_ptr<Codec> make_topk(double fraction);
std::unique_ptr<Codec> make_topk_sampled(double fraction);

}  // namespace ripieno::codec
