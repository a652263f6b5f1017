// The report as one HTML file: page/page.html with its parts filled in.
#include <algorithm>

#include "ripieno/core/error.h"
#include "ripieno/report/assets.h"
#include "ripieno/report/figure_forms.h"
#include "ripieno/report/format.h"
#include "ripieno/report/html.h"
#include "ripieno/report/report.h"

namespace ripieno {
namespace {

constexpr std::size_t most_numbers = 400;  // in the table below a figure
constexpr std::size_t most_columns = 16;   // of cells: more are drawn as horizontal bars, since their names would not fit side by side

bool is_horizontal(const Figure& figure) {
  return figure.categories.size() > most_columns && figure.x_titles == std::vector<std::string>{"cell"};  // time goes to the right
}

/// `file` as it is reached from a page in `folder`.
std::string address(const std::filesystem::path& file, const std::filesystem::path& folder) {
  const auto absolute = std::filesystem::absolute(file).lexically_normal();
  const auto from = std::filesystem::absolute(folder.empty() ? "." : folder).lexically_normal();
  return absolute.lexically_proximate(from).generic_string();
}

std::string name(const Source& source, const std::filesystem::path& folder) {
  return text(address(source.file, folder), ", line ", source.line);
}

std::string cell(const ReportCell& cell, bool is_text, const std::filesystem::path& folder) {
  std::string inside = escaped(cell.text);
  if (cell.source) {
    inside = text("<a href=\"", percent_encoded(address(cell.source->file, folder)), "#L", cell.source->line, "\" title=\"",
                  escaped(name(*cell.source, folder)), "\">", inside, "</a>");
  }
  return text(is_text ? "<td class=\"text\">" : "<td>", inside, "</td>");
}

std::string table_html(const ReportTable& table, const std::filesystem::path& folder) {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const auto& column : table.columns) out += text(column.is_text ? "<th class=\"text\">" : "<th>", escaped(column.title), "</th>");
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) out += cell(row[i], table.columns[i].is_text, folder);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string section(const ReportTable& one, const std::filesystem::path& folder) {
  return text("<section id=\"", one.id, "\">\n<h2>", escaped(one.title), "</h2>\n<p class=\"caption\">", escaped(one.caption), "</p>\n",
              table_html(one, folder), "</section>\n");
}

/// A table to be unfolded.
std::string numbers_html(ReportTable numbers, const std::filesystem::path& folder) {
  const std::size_t count = numbers.rows.size();
  numbers.rows.resize(std::min(count, most_numbers));
  std::string out = text("<details><summary>Numbers</summary>", table_html(numbers, folder));
  if (count > most_numbers) out += text("<p>The first ", most_numbers, " of ", count, "; all: <code>ripieno report --format csv</code></p>");
  return out + "</details>\n";
}

std::string section(const Drawing& drawing, const std::filesystem::path& folder) {
  return text("<section id=\"", drawing.id, "\">\n<h2>", escaped(drawing.title), "</h2>\n<p class=\"caption\">", escaped(drawing.caption), "</p>\n<div class=\"wide\">",
              drawing.svg, "</div>\n", numbers_html(drawing.numbers, folder), "</section>\n");
}

std::string section(const Figure& figure, const std::filesystem::path& folder) {
  std::string out = text("<section id=\"", figure.id, "\">\n<h2>", escaped(figure.title), "</h2>\n<p class=\"caption\">", escaped(figure.caption), "</p>\n");
  if (figure.x_titles.size() > 1) out += text("<div class=\"axes\" id=\"axes-", figure.id, "\"></div>\n");
  out += text("<div class=\"plot\" id=\"plot-", figure.id, "\" style=\"height: ", drawn_height(figure), "px\"></div>\n");
  return out + numbers_html(numbers_of(figure), folder) + "</section>\n";
}

}  // namespace

int drawn_height(const Figure& figure) {
  if (is_horizontal(figure)) {
    const std::size_t bars = figure.form == Form::stacked_bars ? 1 : figure.series.size();
    return static_cast<int>(100 + figure.categories.size() * (8 + 12 * bars));
  }
  std::size_t legend = 0;
  for (const Series& series : figure.series) legend += 60 + 7 * series.name.size();
  const int rows = static_cast<int>((legend + 899) / 900);
  return 400 + std::max(0, rows - 2) * 44;  // Plotly gives a legend half of it
}

std::string html_page(const Report& report, const std::filesystem::path& folder) {
  std::string contents, body;
  const auto entry = [&](const auto& part) { contents += text("<a href=\"#", part.id, "\">", escaped(part.title), "</a> "); };
  for (const ReportTable& one : report.tables) {
    entry(one);
    body += section(one, folder);
  }
  for (const Figure& one : report.figures) {
    entry(one);
    body += section(one, folder);
  }
  for (const Drawing& one : report.drawings) {
    entry(one);
    body += section(one, folder);
  }
  auto figures = nlohmann::ordered_json::array();
  for (const Figure& figure : report.figures) {
    figures.push_back(figure_json(figure, [&](const Source& source) { return name(source, folder); }));
    figures.back()["horizontal"] = is_horizontal(figure);
  }
  const std::string json = script_json(figures);
  const PageAssets assets = page_assets();
  const std::string title = escaped(report.title), lead = escaped(report.lead);
  const std::string footer = "Made by ripieno report. A number links to the line of the run's file that it is from.";
  return replaced(assets.html, {{"title", title}, {"style", assets.style}, {"plotly", assets.plotly}, {"lead", lead}, {"contents", contents},
                                {"body", body}, {"footer", footer}, {"figures", json}, {"script", assets.script}});
}

}  // namespace ripieno
