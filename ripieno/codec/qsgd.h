// A few bits a number: its sign and one of s levels of the block's norm, rounded up or down at random so that on average
// nothing is lost.
//
// Per block x of d numbers, s = 2^(bits-1) - 1:
// 1. norm = ||x||_2, as fp32, rounded up
// 2. r_i = s |x_i| / norm; l_i = floor(r_i), plus 1 with probability r_i - floor(r_i): 0 .. s
// 3. a sign bit above bits-1 bits of l_i, numbers one after the other from the lowest bit on
// 4. D_i = norm sign(x_i) l_i / s, an unbiased estimate of x_i: E||x - D||^2 <= omega ||x||^2 with
//    omega = min(d / s^2, sqrt(d) / s)
// 5. for error feedback, D_i / (1 + omega)
//
// Under error feedback an unbiased code of large omega diverges: what is kept of a step may be larger than the step. Step
// 5, which needs no bytes, makes the code a contraction on average: E||x - D||^2 <= omega / (1 + omega) ||x||^2
// (Beznosikov et al., On biased compression for distributed learning, 2020). Draws: ceil(d / 2) of 64 bits a block.
// A norm below 2^-126 becomes 0, and so do its block's numbers; a block with an infinity or NaN, or with a norm above
// fp32's range, comes out as NaN.
//
// Bytes: ceil(n bits / 8) + 4 ceil(n / block).
// Source: Alistarh et al., QSGD: Communication-efficient SGD via gradient quantization and encoding, NeurIPS 2017 (with
// bits of one width for its Elias codes, whose length would depend on the numbers).
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno {

/// `bits` of each number, 2 .. 8. `contraction`: with step 5.
std::unique_ptr<Codec> make_qsgd(std::size_t block, int bits, bool contraction);

}  // namespace ripieno
