// The messages of views (view.h) as lines of text, in which they travel between ranks and to the witness.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ripieno/membership/view.h"

namespace ripieno::membership {

/// "ask 3 2.5 | | 1 | 4-6 | 0.-1 |": the word, the view's number, the ballot, then seats, unheard and dead in ranges,
/// and what was voted for.
std::string note_of(const ViewMessage& message);

/// nullopt: the note, which comes from outside, is none of these.
std::optional<ViewMessage> message_in(std::string_view note);

}  // namespace ripieno::membership
