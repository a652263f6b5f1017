// Explains a codec: its kind, its bytes, and the bytes of an average through it.
#pragma once

#include <cstddef>
#include <string>

#include "apps/ripieno/settings.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// Explains exchange.codec with its own keys, for `elements` numbers (0: the model's parameters) averaged on a ring of
/// `ranks` over `link`. For people, or as JSON.
std::string explain_codec(const Settings& settings, const model::Zoo& zoo, std::size_t elements, int ranks,
                          const transport::LinkModel& link, bool json);

}  // namespace ripieno::program
