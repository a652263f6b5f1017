// An averager that is charged, in virtual time, for what encoding and decoding takes (CodecOptions::number_s): before
// each average begins.
#pragma once

#include "ripieno/collective/averager.h"

namespace ripieno::collective {

/// `number_s` > 0: seconds a number. By the real clock it does as `inner` does.
std::unique_ptr<Averager> make_charged(std::unique_ptr<Averager> inner, double number_s);

}  // namespace ripieno::collective
