// What a codec makes of numbers: its kind, its bytes, and what an average through it sends.
#pragma once

#include <cstddef>
#include <string>

#include "apps/ripieno/settings.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// Of exchange.codec with the codec's own keys, for so many numbers (0: the model's parameters), averaged on a ring of
/// so many ranks over such links. For people, or as JSON.
std::string explain_codec(const Settings& settings, const model::Zoo& zoo, std::size_t elements, int ranks,
                          const transport::LinkModel& link, bool json);

}  // namespace ripieno::program
