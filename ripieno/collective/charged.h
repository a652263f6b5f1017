// An averager that, in virtual time, waits for as long as encoding and decoding take (CodecOptions::number_s) before
// each average begins.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

/// `number_s` > 0: seconds a number. In real time it behaves as `inner`.
std::unique_ptr<Averager> make_charged(std::unique_ptr<Averager> inner, double number_s);

}  // namespace ripieno::collective
