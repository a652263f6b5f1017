// Explains a strategy in a job before it runs: its place on the four axes and its bytes in closed form.
#pragma once

#include <string>

#include "apps/ripieno/settings.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// For people, or as JSON. `link` gives the least time that the exchange takes.
std::string explain_strategy(const Settings& settings, const model::Zoo& zoo, const transport::LinkModel& link,
                             bool json);

}  // namespace ripieno::program
