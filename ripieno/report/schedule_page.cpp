#include "ripieno/report/schedule_page.h"

#include <algorithm>

#include "ripieno/core/error.h"
#include "ripieno/report/assets.h"
#include "ripieno/report/format.h"
#include "ripieno/report/html.h"

namespace ripieno::report {
namespace {

nlohmann::ordered_json round_json(const SchedulePicture& picture, std::size_t round) {
  auto transfers = nlohmann::ordered_json::array();
  if (round > 0) {
    for (const auto& [from, to, first, last, into, bytes, adds] : picture.rounds[round - 1]) {
      transfers.push_back({{"from", from},
                           {"to", to},
                           {"first", first},
                           {"last", last},
                           {"into", into},
                           {"bytes", format_bytes(bytes)},
                           {"adds", adds}});
    }
  }
  return {{"sentence", round_sentence(picture, round)}, {"transfers", transfers}, {"held", picture.held[round]}};
}

/// What the bars and arrows of the picture say.
std::string legend_of(const SchedulePicture& picture) {
  const auto arrow = [](const char* kind, const char* word) {
    return text("<span class=\"", kind, "\">", word, "</span>");
  };
  if (!picture.sums) {
    return text("A bar above: what the rank is to hold in the end. A dot below: changed in this round. ",
                arrow("keeps", "Arrow"), ": kept where it arrives.");
  }
  const bool keeps = std::any_of(picture.rounds.begin(), picture.rounds.end(), [](const auto& round) {
    return std::any_of(round.begin(), round.end(), [](const SchedulePicture::Transfer& one) { return !one.adds; });
  });
  return text("A bar above: the sum of all. A dot below: changed in this round. ", arrow("adds", "Arrow"),
              ": added where it arrives",
              keeps ? text(";\n", arrow("keeps", "arrow"), ": kept as it is, the sum of all.") : ".");
}

}  // namespace

std::string schedule_page(const SchedulePicture& picture) {
  require(picture.ranks <= most_drawn_ranks, "a picture of ", picture.ranks, " ranks; the most are ", most_drawn_ranks);
  nlohmann::ordered_json json{{"ranks", picture.ranks},
                              {"per_node", picture.per_node},
                              {"root", picture.root},
                              {"sums", picture.sums},
                              {"goal", picture.goal}};
  for (const double bytes : picture.chunks) json["chunks"].push_back(format_bytes(bytes));
  for (std::size_t round = 0; round <= picture.rounds.size(); ++round) {
    json["rounds"].push_back(round_json(picture, round));
  }
  std::string totals;
  for (const auto& [name, value] : picture.totals) {
    totals += text("<dt>", escaped_html(name), "</dt><dd>", escaped_html(value), "</dd>\n");
  }
  const std::string title =
      text(escaped_html(picture.name), ", ", picture.ranks, picture.ranks == 1 ? " rank" : " ranks");
  const std::string lead =
      text(escaped_html(picture.title), " (", escaped_html(picture.source), "); ", escaped_html(picture.buffer));
  const PageAssets assets = page_assets();
  return replaced(assets.schedule_html, {{"title", title},
                                         {"style", assets.style},
                                         {"schedule_style", assets.schedule_style},
                                         {"lead", lead},
                                         {"holds", picture.sums ? "a stripe in it a rank whose numbers it holds"
                                                                : "its colour the rank whose numbers it holds"},
                                         {"legend", legend_of(picture)},
                                         {"totals", totals},
                                         {"picture", script_json(json)},
                                         {"script", assets.schedule_script}});
}

}  // namespace ripieno::report
