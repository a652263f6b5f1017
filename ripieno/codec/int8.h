// 8 bits a number with a scale for each block.
//
// Per block x of m numbers:
// 1. scale = max |x_i| / 127, as fp32 with 17 significant bits
// 2. q_i = x_i / scale, rounded to nearest, ties to even: -127 .. 127
// 3. D(q)_i = scale q_i
//
// With 17 bits (the other 7 are cut off) every scale q_i is exact in fp32, so that encoding decoded numbers gives the
// same bytes; before rounding, q_i still stays within 127.01. |x_i - D_i| <= scale / 2, and the relative error of the
// largest number is at most 2^-16, hence a contraction. A scale below 2^-126 becomes 0, and so do its block's numbers;
// a block with an infinity or NaN decodes to NaN.
//
// Bytes: n + 4 ceil(n / block).
// Source: Dettmers, 8-bit approximations for parallelism in deep learning, ICLR 2016 (linear quantisation, per block).
#pragma once

#include "ripieno/codec/codec.h"

namespace ripieno::codec {

std::unique_ptr<Codec> make_int8(std::size_t block);

}  // namespace ripieno::codec
