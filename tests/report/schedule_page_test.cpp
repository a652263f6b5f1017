#include "ripieno/report/schedule_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

using Transfer = SchedulePicture::Transfer;

/// Rounds of `ranks` ranks with a buffer of `chunks` chunks of 1 kB each; nobody's numbers come together but where a
/// test says so.
SchedulePicture made_picture(int ranks, std::size_t chunks, std::vector<std::vector<Transfer>> rounds) {
  SchedulePicture picture;
  picture.name = "made-up";
  picture.title = "for <tests>";
  picture.source = "nobody, 2026";
  picture.buffer = "a buffer";
  picture.ranks = ranks;
  picture.chunks.assign(chunks, 1000);
  picture.rounds = std::move(rounds);
  std::vector<std::vector<std::uint64_t>> start;
  for (int rank = 0; rank < ranks; ++rank) start.emplace_back(chunks, std::uint64_t{1} << rank);
  picture.held.assign(picture.rounds.size() + 1, start);
  picture.goal.assign(static_cast<std::size_t>(ranks),
                      std::vector<std::uint64_t>(chunks, (std::uint64_t{1} << ranks) - 1));
  picture.start = "every rank holds its own numbers alone";
  picture.outcome = "every rank holds the sum of all";
  picture.totals = {{"rounds", "3  = a & b"}};
  return picture;
}

std::string sentence(int ranks, std::size_t chunks, const std::vector<Transfer>& round, int per_node = 1) {
  SchedulePicture picture = made_picture(ranks, chunks, {round});
  picture.per_node = per_node;
  const std::string all = round_sentence(picture, 1);
  const std::string begin = "Round 1 of 1: ", end = " No chunk is the sum of all yet.";
  EXPECT_TRUE(all.starts_with(begin) && all.ends_with(end)) << all;
  return all.substr(begin.size(), all.size() - begin.size() - end.size());
}

TEST(ScheduleSentence, SaysWhoSendsWhatToWhom) {
  EXPECT_EQ(sentence(3, 3, {{0, 1, 0, 0, 0, 1000}, {1, 2, 1, 1, 1, 1000}, {2, 0, 2, 2, 2, 1000}}),
            "every rank sends 1 chunk (1.00 kB) to its right neighbour, which adds it.");
  EXPECT_EQ(sentence(3, 3, {{0, 2, 0, 0, 0, 1000, false}, {1, 0, 1, 1, 1, 1000, false}, {2, 1, 2, 2, 2, 1000, false}}),
            "every rank sends 1 chunk (1.00 kB) to its left neighbour, which keeps it: it is the sum of all.");
  EXPECT_EQ(sentence(5, 5,
                     {{0, 2, 0, 1, 0, 2000},
                      {1, 3, 1, 2, 1, 2000},
                      {2, 4, 2, 3, 2, 2000},
                      {3, 0, 3, 4, 3, 2000},
                      {4, 1, 0, 1, 0, 2000}}),
            "every rank sends 2 chunks (2.00 kB) to the rank 2 places to its right, which adds it.");
  EXPECT_EQ(
      sentence(3, 3, {{0, 1, 2, 0, 2, 2000}, {1, 2, 0, 1, 0, 2000}, {2, 0, 1, 2, 1, 2000}}),  // rank 0's around the end
      "every rank sends 2 chunks (2.00 kB) to its right neighbour, which adds it.");
  EXPECT_EQ(sentence(4, 4, {{0, 1, 3, 0, 3, 2000}, {2, 3, 0, 0, 0, 1000}}),
            "2 ranks send chunks (1.00 kB to 2.00 kB) each, 0 → 1, 2 → 3; the receivers add it.");
  EXPECT_EQ(sentence(4, 1, {{3, 0, 0, 0, 0, 1000}}),
            "rank 3 sends the whole buffer (1.00 kB) to rank 0, which adds it.");
  EXPECT_EQ(sentence(5, 2, {{1, 0, 1, 1, 1, 1000}, {3, 2, 1, 1, 1, 1000}}),
            "2 ranks send chunk 1 (1.00 kB) each, 1 → 0, 3 → 2; the receivers add it.");
  EXPECT_EQ(
      sentence(4, 2, {{0, 2, 0, 0, 0, 1000}, {2, 0, 1, 1, 1, 1000}, {1, 3, 0, 0, 0, 1000}, {3, 1, 1, 1, 1, 1000}}),
      "ranks send to each other in pairs (0 and 2, 1 and 3), each 1 chunk (1.00 kB) to its partner, which adds it.");
  EXPECT_EQ(sentence(3, 1,
                     {{0, 1, 0, 0, 0, 9},
                      {0, 2, 0, 0, 0, 9},
                      {1, 0, 0, 0, 0, 9},
                      {1, 2, 0, 0, 0, 9},
                      {2, 0, 0, 0, 0, 9},
                      {2, 1, 0, 0, 0, 9}}),
            "every rank sends the whole buffer (9 B) to every other rank, which adds it.");
  EXPECT_EQ(sentence(4, 2, {{0, 2, 0, 0, 0, 1000}, {2, 0, 1, 1, 1, 1000}}, 2),
            "each node's first rank sends 1 chunk (1.00 kB) to that of the next node, which adds it.");
  EXPECT_EQ(sentence(4, 2, {{0, 1, 0, 0, 0, 900}, {2, 3, 1, 1, 1, 1000, false}}),
            "2 ranks send 1 chunk (900 B to 1.00 kB) each, 0 → 1, 2 → 3; the receivers add it, or keep it: it is the "
            "sum of all.");
}

TEST(ScheduleSentence, SaysWhatHasBeenReached) {
  SchedulePicture picture = made_picture(2, 2, {{{0, 1, 0, 0, 0, 1000}}, {{1, 0, 0, 1, 0, 2000, false}}});
  picture.held[1][1][0] = 0b11;
  picture.held[2] = {{0b11, 0b11}, {0b11, 0b11}};
  EXPECT_EQ(round_sentence(picture, 0), "Start: every rank holds its own numbers alone. 2 rounds follow.");
  EXPECT_TRUE(round_sentence(picture, 1).ends_with(" Then 1 of all 4 chunks is the sum of all."));
  EXPECT_TRUE(round_sentence(picture, 2).ends_with(" Then every rank holds the sum of all."));
  EXPECT_EQ(round_sentence(made_picture(1, 1, {}), 0), "One rank has nothing to send.");
  EXPECT_THROW(round_sentence(picture, 3), Error);
}

/// Every rank's own chunk to all, in two rounds.
SchedulePicture made_all_gather() {
  SchedulePicture picture =
      made_picture(3, 3,
                   {{{0, 1, 0, 0, 0, 1000, false}, {1, 2, 1, 1, 1, 1000, false}, {2, 0, 2, 2, 2, 1000, false}},
                    {{0, 1, 2, 2, 2, 1000, false}, {1, 2, 0, 0, 0, 1000, false}, {2, 0, 1, 1, 1, 1000, false}}});
  picture.sums = false;
  picture.start = "every rank holds its own chunk alone";
  picture.outcome = "every rank holds all ranks' chunks";
  picture.goal.assign(3, {1, 2, 4});
  picture.held = {
      {{1, 0, 0}, {0, 2, 0}, {0, 0, 4}}, {{1, 0, 4}, {1, 2, 0}, {0, 2, 4}}, {{1, 2, 4}, {1, 2, 4}, {1, 2, 4}}};
  return picture;
}

TEST(ScheduleSentence, SaysWhatIsInPlaceWhereNothingIsAddedUp) {
  SchedulePicture picture = made_all_gather();
  EXPECT_EQ(round_sentence(picture, 0), "Start: every rank holds its own chunk alone. 2 rounds follow.");
  EXPECT_EQ(round_sentence(picture, 1),
            "Round 1 of 2: every rank sends 1 chunk (1.00 kB) to its right neighbour, which keeps it. Then 6 of all 9 "
            "chunks are in place.");
  EXPECT_TRUE(round_sentence(picture, 2).ends_with(" Then every rank holds all ranks' chunks."));
  picture.goal = {{1, 2, 4}, {0, 0, 0}, {0, 0, 0}};  // a gather's
  picture.outcome = "rank 0 holds all ranks' chunks";
  EXPECT_TRUE(round_sentence(picture, 1).ends_with(" Then 2 of all 3 chunks are in place."));
  EXPECT_TRUE(round_sentence(picture, 2).ends_with(" Then rank 0 holds all ranks' chunks."));
}

TEST(SchedulePage, SaysWhatArrowsAndBarsAreWhereNothingIsAddedUp) {
  const std::string page = schedule_page(made_all_gather());
  EXPECT_EQ(page.find("the sum of all"), page.find("the sum of all\" : "));  // in the script alone
  EXPECT_NE(page.find(": kept where it arrives."), std::string::npos);
  const std::string sums = schedule_page(made_picture(2, 1, {{{0, 1, 0, 0, 0, 1000}}}));
  EXPECT_NE(sums.find("A bar above: the sum of all."), std::string::npos);
  EXPECT_EQ(sums.find("class=\"keeps\">"), std::string::npos) << "nothing is kept";
}

TEST(SchedulePage, HoldsAllRoundsAndNothingFromElsewhere) {
  const std::string page = schedule_page(made_picture(2, 2, {{{0, 1, 0, 0, 0, 1000}}, {{1, 0, 0, 1, 0, 2000, false}}}));
  EXPECT_NE(page.find("<title>made-up, 2 ranks</title>"), std::string::npos);
  EXPECT_NE(page.find("for &lt;tests&gt; (nobody, 2026); a buffer"), std::string::npos);
  EXPECT_NE(page.find("<dt>rounds</dt><dd>3  = a &amp; b</dd>"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
  const auto begin = page.find("id=\"data\">") + 10;
  const auto json = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  ASSERT_EQ(json["rounds"].size(), 3u);
  EXPECT_EQ(
      json["rounds"][2]["transfers"][0],
      (nlohmann::json{
          {"from", 1}, {"to", 0}, {"first", 0}, {"last", 1}, {"into", 0}, {"bytes", "2.00 kB"}, {"adds", false}}));
  EXPECT_EQ(json["rounds"][0]["held"], (nlohmann::json{{1, 1}, {2, 2}}));
  EXPECT_THROW(schedule_page(made_picture(17, 1, {})), Error);
}

}  // namespace
}  // namespace ripieno::report
