// A route's schedule as the picture that report/schedule_page.h draws.
#pragma once

#include "ripieno/collective/schedule.h"
#include "ripieno/report/schedule_page.h"

namespace ripieno::program {

/// The picture for `elements` numbers of `number` bytes each, without totals and without the description of the buffer.
/// `world` has up to most_drawn_ranks ranks.
report::SchedulePicture picture_of(const collective::Route& route, collective::World world, std::size_t elements,
                                   std::size_t number);

}  // namespace ripieno::program
