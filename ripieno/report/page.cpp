// The report as one HTML file: page/page.html with its parts filled in.
#include <algorithm>

#include "ripieno/core/error.h"
#include "ripieno/report/assets.h"
#include "ripieno/report/html.h"
#include "ripieno/report/page_parts.h"
#include "ripieno/report/report.h"
#include "ripieno/report/source_lines.h"

namespace ripieno::report {
namespace {

constexpr int row_height = 24, line_height = 27;  // of a bar, and of a line of a sentence, in pixels

std::string tables_of(const Report& report, Tier tier, const PageParts& parts) {
  std::string out;
  for (const ReportTable& table : report.tables) {
    if (table.tier == tier) out += parts.table(table);
  }
  return out;
}

/// Sentences, their picture, the notes for judging them, and the table.
std::string summary(const Report& report, const PageParts& parts) {
  std::string out, picture;
  if (!report.conclusions.empty()) out += parts.conclusion(report.conclusions[0]);
  for (const Figure& figure : report.figures) {
    if (figure.tier == Tier::summary) picture += parts.figure(figure);
  }
  out += text("<div class=\"picture\">\n", picture, "</div>\n");
  if (!report.conclusions.empty()) out += parts.sentences(report.conclusions[0].notes, "notes");
  out += text("<p class=\"lead\">", escaped_html(report.lead), "</p>\n");
  for (std::size_t i = 1; i < report.conclusions.size(); ++i) {
    if (i == 1)
      out += text("<details id=\"others\"><summary>Other settings: ", report.conclusions.size() - 1, "</summary>\n");
    out += parts.conclusion(report.conclusions[i]) + parts.sentences(report.conclusions[i].notes, "notes");
    if (i + 1 == report.conclusions.size()) out += "</details>\n";
  }
  return out + tables_of(report, Tier::summary, parts);
}

std::string compare(const Report& report, const PageParts& parts) {
  std::string out = tables_of(report, Tier::compare, parts), folded;
  for (const Figure& figure : report.figures) {
    if (figure.tier == Tier::compare) (figure.is_folded ? folded : out) += parts.figure(figure);
  }
  if (!folded.empty()) out += text("<details id=\"more\"><summary>More figures</summary>\n", folded, "</details>\n");
  return out;
}

/// The figures of the run that the reader chooses, drawings of runs, and all runs in a table.
std::string each_run(const Report& report, const PageParts& parts) {
  std::string options, kept;
  for (auto figure = report.figures.begin(); figure != report.figures.end();) {
    if (figure->tier != Tier::runs) {
      ++figure;
      continue;
    }
    const auto end =
        std::find_if(figure, report.figures.end(), [&](const Figure& other) { return other.run != figure->run; });
    const std::string run = escaped_html(figure->run);
    options += text("<option>", run, "</option>");
    kept += text("<template data-run=\"", run, "\">\n");
    for (auto one = figure; one != end; ++one) kept += parts.figure(*one);
    kept += text("</template>\n<script type=\"application/json\" data-run=\"", run, "\">",
                 parts.figure_data({figure, end}), "</script>\n");
    figure = end;
  }
  std::string choice;
  if (!options.empty()) {
    choice = text(
        "<p class=\"choice\"><label>Figures of one run: <select id=\"run\"><option value=\"\">choose a run</option>",
        options, "</select></label></p>\n<div id=\"run-figures\"></div>\n", kept);
  }
  for (const Drawing& drawing : report.drawings) choice += parts.drawing(drawing);
  return choice + tables_of(report, Tier::runs, parts);
}

}  // namespace

int drawn_height(const Figure& figure) {
  const bool is_first = figure.tier == Tier::summary;  // whose figures are as high as each other
  if (!is_horizontal(figure) && !is_first) return 380;
  const std::size_t bars = is_first || figure.form == Form::stacked_bars ? 1 : figure.series.size();
  const std::size_t rows = is_horizontal(figure) ? figure.categories.size() * bars : figure.series.size();
  return std::max(is_first ? 340 : 130, 56 + row_height * static_cast<int>(rows));
}

int pictured_height(const Figure& figure) {
  std::size_t legend = 0;
  for (const Series& series : figure.series) legend += 50 + 8 * series.name.size();
  return drawn_height(figure) + (figure.series.size() > 1 ? 30 * static_cast<int>(1 + legend / 900) : 0) + 30;
}

int summary_height(const Report& report) {
  int height = 50, plots = 0;
  if (!report.conclusions.empty()) {
    for (const Sentence& sentence : report.conclusions[0].sentences)
      height += line_height * static_cast<int>(1 + sentence.str().size() / 125) + 6;
    for (const Sentence& note : report.conclusions[0].notes)
      height += 22 * static_cast<int>(1 + note.str().size() / 150);
  }
  for (const Figure& figure : report.figures) {
    if (figure.tier == Tier::summary) plots = std::max(plots, drawn_height(figure) + 80);
  }
  return height + plots;
}

std::string html_page(const Report& report, const std::filesystem::path& folder) {
  const PageParts parts(folder);
  std::vector<Figure> compared;
  std::copy_if(report.figures.begin(), report.figures.end(), std::back_inserter(compared),
               [](const Figure& figure) { return figure.tier != Tier::runs; });
  const PageAssets assets = page_assets();
  const std::string title = escaped_html(report.title), first = summary(report, parts), second = compare(report, parts),
                    third = each_run(report, parts);
  const std::string data = parts.figure_data(compared), lines = script_json(source_lines(report, folder));
  return replaced(assets.html, {{"title", title},
                                {"style", assets.style},
                                {"plotly", assets.plotly},
                                {"summary", first},
                                {"compare", second},
                                {"runs", third},
                                {"figures", data},
                                {"lines", lines},
                                {"drawing", assets.figures},
                                {"script", assets.script}});
}

}  // namespace ripieno::report
