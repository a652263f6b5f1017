// exchange.measure: at the start of a run, measures the links and chooses what the recipe leaves open
// (collective/measure_links.h, collective/tune.h).
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::program {

/// The launcher calls it before it writes the settings for the workers, in which all keys look given. auto becomes off
/// if a key that would be chosen was given, in virtual time, and for a strategy that exchanges nothing while it
/// computes.
void settle_measure(Settings* settings);

/// Every rank calls it, and all choose the same. If `on`, or if `auto` and not all ranks share memory: replaces
/// exchange.bucket_mb and, if codec and strategy leave them open, route, segment_kb, small_route and small_kb; returns
/// the measurement, the choice and what the measurement does not believe of itself in one line. exchange.measure
/// becomes off, so that a run with these settings repeats the choice without measuring. If nothing is measured, nothing
/// is replaced and the line is empty.
Task<std::string> choose_exchange(Settings* settings, const model::Zoo* zoo, collective::Communicator comm);

/// The choice itself, for links `link` between the ranks of `world`. `plan` is the settings' plan with its route
/// settled.
std::string choose_for_links(Settings* settings, const model::Zoo& zoo, collective::World world,
                             const transport::LinkModel& link, const strategy::Plan& plan);

}  // namespace ripieno::program
