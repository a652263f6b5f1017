// A few bits a number: its sign and one of s levels of the block's largest magnitude, rounded up or down at random so
// that on average nothing is lost.
//
// Per block x of d numbers, s = 2^(bits-1) - 1:
// 1. M = max |x_i|, as fp32, rounded up
// 2. r_i = s |x_i| / M, p_i = r_i - floor(r_i); l_i = floor(r_i), plus 1 with probability p_i: 0 .. s
// 3. each number is a sign bit above bits-1 bits of l_i; numbers are packed from the lowest bit on
// 4. D_i = M sign(x_i) l_i / s, an unbiased estimate of x_i: E||x - D||^2 = (M / s)^2 sum p_i (1 - p_i)
//    = omega ||x||^2 with omega = sum p_i (1 - p_i) / sum r_i^2
// 5. for error feedback, D_i / (1 + omega): the encoder, which knows this block's omega, sends M / (1 + omega) instead
//    of M
//
// Under error feedback an unbiased code with a large omega diverges: a step may lose more than its own size. Step 5,
// which needs no bytes, makes the code a contraction on average and shrinks a step no more than its block needs:
// E||x - D / (1 + omega)||^2 = omega / (1 + omega) ||x||^2 (Beznosikov et al., On biased compression for distributed
// learning, 2020).
//
// At worst omega = (sqrt(1 + (d-1) / s^2) - 1) / 2 <= d / (4 s^2): for one large number and d-1 equal ones below the
// first level. Typical blocks are far from it: for numbers spread evenly between levels, p (1 - p) is 1/6 on average,
// and omega about (M / s)^2 / 6 over the mean square of x. For 256 Gaussian numbers M is about 2.8 standard deviations:
// with 4 bits omega is about 0.03, at worst 0.75.
//
// Draws: ceil(d / 2) of 64 bits a block, none if M is 0 or not finite. If M is below 2^-126, the block's numbers become
// 0; a block with an infinity or NaN, or with M above fp32's range, decodes to NaN.
//
// Bytes: ceil(n bits / 8) + 4 ceil(n / block).
// Source: Alistarh et al., QSGD: Communication-efficient SGD via gradient quantization and encoding, NeurIPS 2017. As
// in its experiments, blocks are scaled by their maximum, while its theory uses the 2-norm; codes of fixed width
// replace its Elias codes, whose length depends on the numbers.
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

/// `bits` per number, 2 .. 8. `contraction`: with step 5.
std::unique_ptr<Codec> make_qsgd(std::size_t block, int bits, bool contraction);

}  // namespace ripieno::codec
