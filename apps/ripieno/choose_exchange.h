// exchange.measure: at a run's start the links are measured and what the recipe leaves open is chosen
// (collective/tune.h).
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::program {

/// Whoever starts a job calls it before it writes the settings for the workers, where all keys look given: auto becomes
/// off where a key that would be chosen was given, in virtual time, and with a strategy that exchanges nothing while it
/// computes.
void settle_measure(Settings* settings);

/// Every rank calls it, and all choose the same. On, or auto where not all ranks share memory: replaces
/// exchange.bucket_mb and, where the codec and the strategy leave them open, route, segment_kb, small_route and
/// small_kb; returns what was found and chosen, in one line. exchange.measure becomes off, so that a run with these
/// settings repeats the choice and does not measure. Where nothing is measured, nothing is replaced and the line is
/// empty.
Task<std::string> choose_exchange(Settings* settings, const model::Zoo* zoo, collective::Communicator comm);

/// The choice itself, for such links between the ranks of `world`. `plan`: of these settings, its route settled.
std::string choose_for_links(Settings* settings, const model::Zoo& zoo, collective::World world,
                             const transport::LinkModel& link, const strategy::Plan& plan);

}  // namespace ripieno::program
