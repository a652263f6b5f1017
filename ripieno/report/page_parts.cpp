#include "ripieno/report/page_parts.h"

#include <nlohmann/json.hpp>

#include "ripieno/core/error.h"
#include "ripieno/report/figure_forms.h"
#include "ripieno/report/format.h"
#include "ripieno/report/html.h"
#include "ripieno/report/scale.h"
#include "ripieno/report/source_lines.h"

namespace ripieno::report {
namespace {

constexpr std::size_t most_numbers = 400;  // in the table below a drawing

std::string place(const Source& source, const std::filesystem::path& folder) {
  return text(address(source.file, folder), ", line ", source.line);
}

nlohmann::ordered_json look_json(const Look& look) { return {look.colour, look.dash, look.marker}; }

}  // namespace

bool is_horizontal(const Figure& figure) {
  return !figure.categories.empty() && figure.x_titles == std::vector<std::string>{"way"};
}

std::string PageParts::link(const std::string& shown, const Source& source) const {
  return text("<a href=\"", percent_encoded(address(source.file, folder_)), "#L", source.line, "\" title=\"",
              escaped_html(place(source, folder_)), "\">", escaped_html(shown), "</a>");
}

std::string PageParts::table(const ReportTable& table) const {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const auto& column : table.columns)
    out += text(column.is_text ? "<th class=\"text\">" : "<th>", escaped_html(column.title), "</th>");
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string inside = row[i].source ? link(row[i].text, *row[i].source) : escaped_html(row[i].text);
      out += text(table.columns[i].is_text ? "<td class=\"text\">" : "<td>", inside, "</td>");
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  const std::string title = escaped_html(table.title),
                    caption = text("<p class=\"caption\">", escaped_html(table.caption), "</p>\n");
  if (table.is_folded)
    return text("<details id=\"", table.id, "\"><summary>", title, "</summary>\n", caption, out, "</details>\n");
  return text("<section id=\"", table.id, "\">\n<h3>", title, "</h3>\n", caption, out, "</section>\n");
}

std::string PageParts::figure(const Figure& figure) const {
  std::string out = text("<section class=\"figure\" id=\"", figure.id, "\">\n<h3>", escaped_html(figure.title),
                         "</h3>\n<p class=\"caption\">", escaped_html(figure.caption), "</p>\n");
  out += text("<div class=\"axes\"></div><div class=\"legend\"></div>\n<div class=\"plot\" id=\"plot-", figure.id,
              "\" style=\"height: ", drawn_height(figure), "px\"></div>\n");
  return out + "<details class=\"numbers\"><summary>Numbers</summary></details>\n</section>\n";
}

std::string PageParts::drawing(const Drawing& drawing) const {
  ReportTable numbers = drawing.numbers;
  numbers.title = "Numbers";
  numbers.caption = "";
  numbers.id += "-numbers";
  numbers.is_folded = true;
  const std::size_t count = numbers.rows.size();
  if (count > most_numbers) {
    numbers.rows.resize(most_numbers);
    numbers.caption = text("The first ", most_numbers, " of ", count, "; all: ripieno report --format csv");
  }
  return text("<section class=\"figure\" id=\"", drawing.id, "\">\n<h3>", escaped_html(drawing.title),
              "</h3>\n<p class=\"caption\">", escaped_html(drawing.caption), "</p>\n<div class=\"wide\">", drawing.svg,
              "</div>\n<div class=\"numbers\">", table(numbers), "</div>\n</section>\n");
}

std::string PageParts::sentences(const std::vector<Sentence>& sentences, const char* kind) const {
  if (sentences.empty()) return "";
  std::string out = text("<ul class=\"", kind, "\">\n");
  for (const Sentence& sentence : sentences) {
    out += "<li>";
    for (const Piece& piece : sentence.pieces) {
      if (piece.source) {
        out += link(piece.text, *piece.source);
      } else {
        out += piece.is_name ? text("<b>", escaped_html(piece.text), "</b>") : escaped_html(piece.text);
      }
    }
    out += "</li>\n";
  }
  return out + "</ul>\n";
}

std::string PageParts::conclusion(const Conclusion& conclusion) const {
  return text("<p class=\"setting\">", escaped_html(conclusion.setting), "</p>\n",
              sentences(conclusion.sentences, "sentences"));
}

std::string PageParts::figure_data(const std::vector<Figure>& figures) const {
  auto all = nlohmann::ordered_json::array();
  for (const Figure& figure : figures) {
    auto made = figure_json(figure, [this](const Source& source) { return place(source, folder_); });
    made["horizontal"] = is_horizontal(figure);
    for (std::size_t i = 0; i < figure.series.size(); ++i) {
      if (figure.series[i].look.colour >= 0) made["series"][i]["look"] = look_json(figure.series[i].look);
      if (figure.series[i].by_category) made["series"][i]["by_category"] = true;
    }
    for (const Look& look : figure.category_looks) made["category_looks"].push_back(look_json(look));
    const Scale scale = scale_of(figure);
    if (scale.is_log) made["y_log"] = true;
    if (scale.low < scale.high) made["y_range"] = {scale.low, scale.high};
    for (std::size_t axis = 0; axis < figure.x_titles.size() && figure.categories.empty(); ++axis)
      made["x_log"].push_back(is_x_log(figure, axis));
    all.push_back(std::move(made));
  }
  return script_json(all);
}

}  // namespace ripieno::report
