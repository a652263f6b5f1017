// One bit a number, its sign, with a scale for each block that keeps the block's L1 norm.
//
// Per block x of m numbers:
// 1. scale = ||x||_1 / m, the mean of |x_i|, as fp32
// 2. one bit a number: 1 for a negative one (and -0)
// 3. D_i = -scale or +scale
//
// ||x - D||^2 = ||x||^2 - ||x||_1^2 / m: a contraction with delta = ||x||_1^2 / (m ||x||^2), between 1/m and 1. Signs
// are biased, so without error feedback training may not converge. Encoding decoded numbers gives the same bytes. In a
// block with an infinity or NaN no decoded number is finite.
//
// Bytes: ceil(n / 8) + 4 ceil(n / block).
// Source: Karimireddy et al., Error feedback fixes SignSGD and other gradient compression schemes, ICML 2019.
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

std::unique_ptr<Codec> make_sign(std::size_t block);

}  // namespace ripieno::codec
