// On what a key's effect may depend: conditions on other settings, for the table of them (settings_table.cpp). A
// strategy that was added (add_strategy) may read any key, and one that is unknown is refused elsewhere: with both,
// what hangs on the strategy holds.
#pragma once

#include <string>
#include <vector>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

/// A word is one of these, or is not this one.
Condition is(std::string key, std::vector<std::string> words);
Condition is_not(std::string key, std::string word);
/// A number, or a flag that is true.
Condition above(std::string key, double least);
Condition on(std::string key);
/// One of these strategies.
Condition strategy_of(std::vector<std::string> names);

Condition several_workers();           ///< a strategy other than single, or the one worker that it has
Condition data_of_its_own();           ///< a worker has some, of which the strategy does not divide each batch
Condition data_in_files();             ///< not generated
Condition data_that_is_kept();         ///< what data.cache keeps: unpacked files, a replay's times
Condition route_is_open();             ///< the strategy leaves it to exchange.route
Condition route_knows_nodes();         ///< hierarchical, as the strategy, the route or the small buckets' one
Condition gradients_are_averaged();    ///< bucket by bucket
Condition schedule_is_run();           ///< a route's, which can cut what it carries into segments
Condition links_are_measured();        ///< for a route's buckets or segments, or are not to be
Condition what_is_lost_can_be_kept();  ///< differences travel, not parameters themselves
Condition overlap_is_chosen();         ///< by ddp; under the next forward pass is refused of others, with the reason
Condition rate_falls_in_time();        ///< before training ends

}  // namespace ripieno::program
