// A step's timeline as SVG: one lane per rank, with computing above and exchanges below, and arrows from sends to
// receives.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/html.h"
#include "ripieno/report/step_timeline.h"

namespace ripieno::report {
namespace {

using Bar = StepTimeline::Bar;
using Arrow = StepTimeline::Arrow;

// In pixels.
constexpr double width = 1100, left = 62, right = 14, top = 34, axis = 30;
constexpr double compute_height = 24, exchange_height = 11, lane_gap = 26;
constexpr std::size_t most_arrows = 400, most_lanes = 32;

struct BarColour {
  const char *what, *shown, *light, *dark;
};
/// The colours of the figure "A step by stage". Bars of other names, such as a new stage's, are grey.
constexpr BarColour bar_colours[] = {
    {"read", "read", "#0a58ca", "#7cb3ff"},         {"forward", "forward", "#d9480f", "#ff9f6b"},
    {"backward", "backward", "#2b8a3e", "#69db7c"}, {"exchange", "exchange", "#9c36b5", "#e599f7"},
    {"optimise", "optimise", "#b08900", "#ffd43b"}, {"evaluate", "evaluate", "#495057", "#ced4da"},
    {"exposed", "waits for an exchange", "", ""},   {"wait", "waits for an exchange", "", ""}};

bool waits(const Bar& bar) { return bar.what == "exposed" || bar.what == "wait"; }

std::string style() {
  std::string out =
      "<style>.step text{font:12px system-ui,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;fill:var(--ink)}.step "
      ".in{fill:var(--ground)}"
      ".step .soft{fill:var(--soft)}.step .line{stroke:var(--line)}.step .exposed,.step "
      ".wait{fill:var(--raised);stroke:var(--soft);"
      "stroke-dasharray:3 2}.step .arrow{stroke:var(--ink);stroke-width:1.2;fill:none}.step .memory{stroke-dasharray:4 "
      "3}"
      ".step .head{fill:var(--ink)}.step rect{fill:#868e96}";
  for (const BarColour& colour : bar_colours) {
    if (*colour.light)
      out += text(".step .", colour.what, "{fill:", colour.light, "}[data-theme=\"dark\"] .step .", colour.what,
                  "{fill:", colour.dark, "}");
  }
  return out + "</style>\n";
}

std::string number(double value) { return format_fixed(value, 1); }

/// A tick distance of 1, 2 or 5 times a power of ten, for up to eight ticks.
double tick_of(double length) {
  const double least = length / 8, power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= least) return times * power;
  }
  return 10 * power;
}

struct Unit {
  double seconds;
  const char* name;
};
Unit unit_of(double length) {
  if (length >= 1) return {1, "s"};
  return length >= 1e-3 ? Unit{1e-3, "ms"} : Unit{1e-6, "µs"};
}

class Drawer {
 public:
  explicit Drawer(const StepTimeline& timeline)
      : timeline_(timeline), scale_((width - left - right) / std::max(timeline.length, 1e-9)) {
    double y = top;
    for (std::size_t i = 0; i < std::min(timeline.lanes.size(), most_lanes); ++i) {
      const StepTimeline::Lane& lane = timeline.lanes[i];
      const double exchanges = exchange_height * static_cast<double>(lane.exchange_rows);
      places_[lane.rank] = {y, y + compute_height + 4 + exchanges};
      y += compute_height + 4 + exchanges + lane_gap;
    }
    bottom_ = y - lane_gap + 12;
  }

  std::string svg(const std::string& id, const std::vector<const Arrow*>& arrows) const {
    std::string out =
        text("<svg class=\"step\" role=\"img\" width=\"", width, "\" height=\"", height(), "\" viewBox=\"0 0 ", width,
             " ", height(), "\">\n", style(), "<clipPath id=\"", id, "-clip\"><rect x=\"", left, "\" y=\"0\" width=\"",
             width - left - right, "\" height=\"", number(bottom_), "\"/></clipPath>\n<marker id=\"", id,
             "-head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
             "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head\" d=\"M0,1 L8,4 L0,7 z\"/></marker>\n",
             legend(), ticks());
    for (const StepTimeline::Lane& lane : timeline_.lanes) {
      const auto place = places_.find(lane.rank);
      if (place == places_.end()) continue;
      out += text("<text x=\"0\" y=\"", number(place->second.y + 16), "\">rank ", lane.rank,
                  "</text>\n<line class=\"line\" x1=\"", left, "\" x2=\"", width - right, "\" y1=\"",
                  number(place->second.port), "\" y2=\"", number(place->second.port), "\"/>\n");
      for (const bool waiting : {false, true}) {  // a wait is inside a pass, and drawn over it
        for (const Bar& bar : lane.bars) out += waits(bar) == waiting ? drawn(bar, place->second) : "";
      }
    }
    out += text("<g clip-path=\"url(#", id, "-clip)\"", arrows.size() > 100 ? " opacity=\"0.55\"" : "", ">\n");
    for (const Arrow* arrow : arrows) out += drawn(*arrow, id);
    return out + "</g>\n</svg>\n";
  }

  bool has(int rank) const { return places_.contains(rank); }
  int height() const { return static_cast<int>(std::ceil(bottom_ + axis)); }

 private:
  struct Place {
    double y, port;  ///< where the lane begins, and where messages leave and arrive
  };

  double x(double time) const { return left + time * scale_; }

  /// The bars' names and how the legend calls them: those of the table in its order, then others.
  std::vector<std::pair<std::string, std::string>> kinds_of_bars() const {
    std::set<std::string> there;
    for (const auto& lane : timeline_.lanes) {
      for (const Bar& bar : lane.bars) there.insert(bar.what);
    }
    std::vector<std::pair<std::string, std::string>> kinds;
    for (const BarColour& colour : bar_colours) {
      if (there.erase(colour.what) > 0 && (kinds.empty() || kinds.back().second != colour.shown))
        kinds.emplace_back(colour.what, colour.shown);
    }
    for (const std::string& other : there) kinds.emplace_back(other, other);
    return kinds;
  }

  std::string legend() const {
    std::string out;
    double at = left;
    for (const auto& [what, shown] : kinds_of_bars()) {
      out += text("<rect class=\"", escaped_html(what), "\" x=\"", number(at),
                  "\" y=\"6\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"", number(at + 17), "\" y=\"16\">",
                  escaped_html(shown), "</text>\n");
      at += 36 + 7.2 * static_cast<double>(shown.size());
    }
    return out;
  }

  std::string ticks() const {
    std::string out;
    const Unit unit = unit_of(timeline_.length);
    const double tick = tick_of(timeline_.length);
    const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(tick / unit.seconds) + 1e-9)));
    for (int i = 0; i * tick <= timeline_.length; ++i) {
      const double at = x(i * tick);
      out += text("<line class=\"line\" x1=\"", number(at), "\" x2=\"", number(at), "\" y1=\"", top - 6, "\" y2=\"",
                  number(bottom_), "\"/><text class=\"soft\" text-anchor=\"middle\" x=\"", number(at), "\" y=\"",
                  number(bottom_ + 17), "\">", format_fixed(i * tick / unit.seconds, digits),
                  i == 0 ? text(" ", unit.name) : "", "</text>\n");
    }
    return out;
  }

  std::string drawn(const Bar& bar, const Place& place) const {
    const double begin = x(std::max(bar.begin, 0.0)), end = x(std::min(bar.end, timeline_.length)),
                 wide = std::max(end - begin, 0.6);
    const bool exchange = bar.what == "exchange";
    const double y = exchange ? place.y + compute_height + 2 + exchange_height * static_cast<double>(bar.row) : place.y;
    const double height = exchange ? exchange_height - 1.5 : compute_height;
    const std::string label = exchange ? "" : waits(bar) ? "waits" : bar.what;
    std::string out = text("<rect class=\"", escaped_html(bar.what), "\" x=\"", number(begin), "\" y=\"", number(y),
                           "\" width=\"", number(wide), "\" height=\"", number(height), "\" rx=\"1.5\"><title>",
                           escaped_html(bar.what == "exposed" ? "waits for an exchange" : bar.what),
                           exchange || bar.what == "wait" ? text(", bucket ", bar.index) : "", ": ",
                           format_seconds(bar.end - bar.begin), "</title></rect>\n");
    if (!label.empty() && wide > 7.2 * static_cast<double>(label.size()) + 6) {
      out +=
          text("<text class=\"", waits(bar) ? "soft" : "in", "\" text-anchor=\"middle\" pointer-events=\"none\" x=\"",
               number(begin + wide / 2), "\" y=\"", number(y + 16), "\">", label, "</text>\n");
    }
    return out;
  }

  std::string drawn(const Arrow& arrow, const std::string& id) const {
    const double from = places_.at(arrow.from).port, to = places_.at(arrow.to).port;
    return text("<line class=\"arrow", arrow.in_memory ? " memory" : "", "\" marker-end=\"url(#", id, "-head)\" x1=\"",
                number(x(arrow.begin)), "\" y1=\"", number(from), "\" x2=\"", number(x(arrow.end)), "\" y2=\"",
                number(to), "\"><title>rank ", arrow.from, " to rank ", arrow.to, ": ", escaped_html(arrow.operation),
                ", ", format_bytes(static_cast<double>(arrow.bytes)), ", ", format_seconds(arrow.end - arrow.begin),
                "</title></line>\n");
  }

  const StepTimeline& timeline_;
  double scale_, bottom_ = 0;
  std::map<int, Place> places_;
};

ReportTable numbers_of(const StepTimeline& timeline, const std::string& id, const std::string& title) {
  ReportTable table{id, title, "", {{"what", true}, {"bytes"}, {"from, ms"}, {"to, ms"}}, {}};
  const auto row = [&](int rank, const std::string& what, std::optional<std::uint64_t> bytes, double begin,
                       double end) {
    const auto ms = [](double time) { return ReportCell{format_fixed(time * 1e3, 3), {}, time * 1e3}; };
    const ReportCell size =
        bytes ? ReportCell{format_count(static_cast<std::int64_t>(*bytes)), {}, static_cast<double>(*bytes)}
              : ReportCell{"", {}};
    table.rows.push_back({{text("rank ", rank, ": ", what), {}}, size, ms(begin), ms(end)});
  };
  for (const StepTimeline::Lane& lane : timeline.lanes) {
    for (const Bar& bar : lane.bars) {
      row(lane.rank,
          bar.what == "exposed"
              ? "waits for an exchange"
              : text(bar.what, bar.what == "exchange" || bar.what == "wait" ? text(" ", bar.index) : ""),
          {}, bar.begin, bar.end);
    }
  }
  for (const Arrow& arrow : timeline.arrows)
    row(arrow.from, text(arrow.operation, " to rank ", arrow.to), arrow.bytes, arrow.begin, arrow.end);
  return table;
}

std::string caption_of(const StepTimeline& timeline, std::size_t drawn, std::size_t lanes) {
  std::string out = text("Step ", timeline.step, " of the run, ", format_seconds(timeline.length), ". ");
  if (!timeline.is_shared)
    out += "The workers do not step together: it is the first worker's step, and what the others did meanwhile. ";
  if (lanes < timeline.lanes.size()) out += text("The first ", lanes, " of ", timeline.lanes.size(), " ranks. ");
  out +=
      "Above, what a rank computes; below, exchanges, a bar a bucket; arrows from the beginning of a send to the end "
      "of its receive";
  const auto in_memory = [](const Arrow& arrow) { return arrow.in_memory; };
  if (std::any_of(timeline.arrows.begin(), timeline.arrows.end(), in_memory))
    out += ", dashed where ranks read each other's numbers in shared memory";
  if (drawn < timeline.arrows.size()) out += text(", the ", drawn, " largest of ", timeline.arrows.size());
  out += ".";
  if (timeline.clock_error > 0)
    out +=
        text(" Clocks of two ranks differed by up to ", format_seconds(timeline.clock_error), " when the run began.");
  return out;
}

}  // namespace

Drawing drawing_of(const StepTimeline& timeline, const std::string& id, const std::string& title) {
  const Drawer drawer(timeline);
  std::vector<const Arrow*> arrows;
  for (const Arrow& arrow : timeline.arrows) {
    if (drawer.has(arrow.from) && drawer.has(arrow.to)) arrows.push_back(&arrow);
  }
  if (arrows.size() > most_arrows) {
    std::stable_sort(arrows.begin(), arrows.end(), [](const Arrow* a, const Arrow* b) { return a->bytes > b->bytes; });
    arrows.resize(most_arrows);
  }
  const std::string full = text("One step, all ranks: ", title);
  return {id,
          full,
          caption_of(timeline, arrows.size(), std::min(timeline.lanes.size(), most_lanes)),
          drawer.svg(id, arrows),
          static_cast<int>(width),
          drawer.height(),
          numbers_of(timeline, id, full)};
}

}  // namespace ripieno::report
