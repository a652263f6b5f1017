// Conditions on other settings, on which a key's effect may depend (settings_table.cpp). Conditions on the strategy
// hold for added strategies (add_strategy), which may read any key, and for unknown ones, which are refused elsewhere.
#pragma once

#include <string>
#include <vector>

#include "apps/ripieno/settings.h"
#include "ripieno/codec/codec.h"

namespace ripieno::program {

/// "a, b or c"
std::string either(const std::vector<std::string>& words);

/// A word is one of these; a word is not this one.
Condition is(std::string key, std::vector<std::string> words);
Condition is_not(std::string key, std::string word);
/// A number is above `least`; a flag is true.
Condition above(std::string key, double least);
Condition on(std::string key);
/// The codec is of one of these kinds.
Condition codec_of(std::vector<codec::CodecKind> kinds);
/// The strategy is one of these.
Condition strategy_of(std::vector<std::string> names);

Condition several_workers();           ///< a strategy other than single, or one worker
Condition data_of_its_own();           ///< workers have their own data: the strategy does not divide each batch
Condition data_in_files();             ///< not generated
Condition data_that_is_kept();         ///< something that data.cache keeps: unpacked files, a replay's times
Condition route_is_open();             ///< the strategy leaves it to exchange.route
Condition route_knows_nodes();         ///< strategy, route or small_route looks at nodes
Condition gradients_are_averaged();    ///< bucket by bucket
Condition schedule_is_run();           ///< a route's schedule runs, which can cut buffers into segments
Condition links_are_measured();        ///< links can be measured for buckets or segments, or measuring is switched off
Condition what_is_lost_can_be_kept();  ///< workers exchange differences, not parameters themselves
Condition overlap_is_chosen();         ///< by ddp; other strategies refuse `forward`, with the reason
Condition rate_falls_in_time();        ///< before training ends

}  // namespace ripieno::program
