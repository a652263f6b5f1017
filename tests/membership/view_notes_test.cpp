#include "ripieno/membership/view_notes.h"

#include <gtest/gtest.h>

#include "ripieno/core/random.h"

namespace ripieno::membership {
namespace {

Seats some(Random& random, int most) {
  Seats seats;
  for (int seat = 0; seat < most; ++seat) {
    if (random.below(3) == 0) seats.push_back(seat);
  }
  return seats;
}

TEST(ViewNotes, ComeBackAsTheyWere) {
  Random random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const int most = static_cast<int>(random.below(40));
    const auto ballot = [&random] {
      return Ballot{static_cast<std::uint32_t>(random.below(5)), static_cast<int>(random.below(12)) - 1};
    };
    const ViewMessage message{static_cast<ViewWord>(random.below(7)),
                              static_cast<std::uint32_t>(random.below(100)),
                              ballot(),
                              some(random, most),
                              some(random, most),
                              some(random, most),
                              {ballot(), some(random, most)}};
    const std::string note = note_of(message);
    EXPECT_EQ(message_in(note), message) << note;
    std::string damaged = note;
    damaged[random.below(damaged.size())] = static_cast<char>(' ' + random.below(95));
    const auto other = message_in(damaged);
    EXPECT_TRUE(!other || message_in(note_of(*other)) == other) << damaged;
    EXPECT_FALSE(message_in(note.substr(0, random.below(note.size()))) == message);
  }
}

TEST(ViewNotes, AreShortForManySeats) {
  ViewMessage message{ViewWord::decided, 7};
  for (int seat = 0; seat < 1000; ++seat) {
    if (seat != 500) message.seats.push_back(seat);
  }
  message.dead = {500};
  EXPECT_EQ(note_of(message), "decided 7 0.-1 | 0-499 501-999 | | 500 0.-1 |");
}

TEST(ViewNotes, WhatIsNoneIsRefused) {
  for (const char* note : {"", "ask", "ask 3", "say 3 2.5 | | | 0.-1 |", "ask 3 2.5 | | | 0.-1",
                           "ask 3 2.5 | 4 3 | | 0.-1 |", "ask 3 2.5 | 5-4 | | | 0.-1 |", "ask -3 2.5 | | | 0.-1 |",
                           "ask 3 2.5 | | | 0.-1 | x", "ask 3 2.-2 | | | 0.-1 |", "ask 3 2.5 | 0-99999999 | | 0.-1 |"})
    EXPECT_FALSE(message_in(note)) << note;
}

}  // namespace
}  // namespace ripieno::membership
