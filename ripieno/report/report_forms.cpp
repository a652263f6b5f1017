// The report for other programs and for documents: JSON, CSV and Markdown.
#include <charconv>
#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/report/figure_forms.h"
#include "ripieno/report/format.h"
#include "ripieno/report/table.h"

namespace ripieno::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 40;  // of a figure's numbers in Markdown

std::string name(Form form) {
  switch (form) {
    case Form::lines:
      return "lines";
    case Form::points:
      return "points";
    case Form::bars:
      return "bars";
    case Form::stacked_bars:
      return "stacked_bars";
  }
  return "";
}

std::string plain(const Source& source) { return text(source.file.generic_string(), ":", source.line); }

/// The shortest text that reads back as the same number.
std::string exact(double value) {
  if (!std::isfinite(value)) return format_fixed(value, 0);
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

std::string exact(const std::optional<double>& value) { return value ? exact(*value) : ""; }

/// To five figures, for people.
std::string figure_of(double value) {
  if (!std::isfinite(value)) return format_fixed(value, 0);
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 5).ptr;
  return {digits, end};
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

Json table_json(const ReportTable& table) {
  Json columns = Json::array(), rows = Json::array();
  for (const auto& column : table.columns) columns.push_back(column.title);
  for (const auto& row : table.rows) {
    Json cells = Json::array();
    for (const ReportCell& cell : row) {
      Json made{{"text", cell.text}};
      if (cell.number) made["number"] = *cell.number;
      if (cell.spread) made["spread"] = *cell.spread;
      if (cell.source) made["source"] = plain(*cell.source);
      cells.push_back(made);
    }
    rows.push_back(cells);
  }
  return {{"id", table.id}, {"title", table.title}, {"columns", columns}, {"rows", rows}};
}

Json sentences_json(const std::vector<Sentence>& sentences) {
  Json all = Json::array();
  for (const Sentence& sentence : sentences) {
    Json numbers = Json::array();
    for (const Piece& piece : sentence.pieces) {
      if (piece.source) numbers.push_back({{"text", piece.text}, {"source", plain(*piece.source)}});
    }
    all.push_back({{"about", sentence.about}, {"text", sentence.str()}, {"numbers", numbers}});
  }
  return all;
}

std::string markdown(const ReportTable& table, std::size_t most) {
  Table out;
  for (const auto& column : table.columns) out.column(column.title, column.is_text ? Align::left : Align::right);
  for (std::size_t i = 0; i < std::min(most, table.rows.size()); ++i) {
    std::vector<std::string> cells;
    for (const ReportCell& cell : table.rows[i]) cells.push_back(cell.text);
    out.row(cells);
  }
  return out.markdown() +
         (table.rows.size() > most ? text("\nThe first ", most, " of ", table.rows.size(), " rows.\n") : "");
}

}  // namespace

Json figure_json(const Figure& figure, const std::function<std::string(const Source&)>& source_name) {
  Json series = Json::array();
  for (const Series& one : figure.series) {
    Json made{{"name", one.name}};
    if (!one.x.empty()) made["x"] = one.x;
    made["y"] = one.y;
    if (!one.spread.empty()) made["spread"] = one.spread;
    if (!one.labels.empty()) made["labels"] = one.labels;
    if (!one.sources.empty()) {
      Json names = Json::array();
      for (const Source& source : one.sources) names.push_back(source_name(source));
      made["sources"] = names;
    }
    series.push_back(made);
  }
  Json made{{"id", figure.id},           {"title", figure.title},       {"caption", figure.caption},
            {"form", name(figure.form)}, {"x_titles", figure.x_titles}, {"y_title", figure.y_title}};
  if (!figure.categories.empty()) made["categories"] = figure.categories;
  if (!figure.run.empty()) made["run"] = figure.run;
  made["series"] = series;
  return made;
}

ReportTable numbers_of(const Figure& figure) {
  ReportTable table{figure.id, figure.title, figure.caption, {{"series", true}}, {}};
  const bool bars = !figure.categories.empty();
  bool spreads = false;
  for (const Series& series : figure.series) spreads |= !series.spread.empty();
  for (const std::string& title : figure.x_titles) table.columns.push_back({title, bars});
  table.columns.push_back({figure.y_title});
  if (spreads) table.columns.push_back({"±"});
  for (const Series& series : figure.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      std::vector<ReportCell> row{{series.name, {}}};
      if (bars) row.push_back({figure.categories[i], {}});
      for (const auto& x : series.x) row.push_back({figure_of(x[i]), {}});
      row.push_back({figure_of(series.y[i]), series.sources.empty() ? std::optional<Source>() : series.sources[i]});
      if (spreads) row.push_back({series.spread.empty() ? "" : figure_of(series.spread[i]), {}});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::string report_markdown(const Report& report) {
  std::string out = text("# ", report.title, "\n\n");
  for (const Conclusion& one : report.conclusions) {
    out += one.setting + ":\n\n";
    for (const auto* sentences : {&one.sentences, &one.notes}) {
      for (const Sentence& sentence : *sentences) out += text("- ", sentence.str(), "\n");
    }
    out += "\n";
  }
  out += report.lead + "\n";
  for (const ReportTable& table : report.tables)
    out += text("\n## ", table.title, "\n\n", table.caption, "\n\n", markdown(table, SIZE_MAX));
  const bool one_run = report.tables.empty() || report.tables[0].id == "runs";
  for (const Figure& figure : report.figures) {
    if (!figure.run.empty() && !one_run) continue;
    out += text("\n## ", figure.title, "\n\n", figure.caption, "\n\n", markdown(numbers_of(figure), most_rows));
  }
  return out;
}

std::string report_csv(const Report& report) {
  std::string out = "part,series,axis,x,y,spread,source\n";
  const auto line = [&](const std::vector<std::string>& fields) {
    for (std::size_t i = 0; i < fields.size(); ++i) out += text(i ? "," : "", quoted(fields[i]));
    out += "\n";
  };
  std::size_t group = 0;
  for (const Conclusion& one : report.conclusions) {
    const std::string part = text("conclusion-", ++group);
    line({part, "setting", "sentence", "", one.setting, "", ""});
    for (const auto* sentences : {&one.sentences, &one.notes}) {
      for (const Sentence& sentence : *sentences) {
        line({part, sentence.about, "sentence", "", sentence.str(), "", ""});
        for (const Piece& piece : sentence.pieces) {
          if (piece.source) line({part, sentence.about, "number", "", piece.text, "", plain(*piece.source)});
        }
      }
    }
  }
  for (const ReportTable& table : report.tables) {
    for (const auto& row : table.rows) {
      for (std::size_t i = 1; i < row.size(); ++i) {
        const ReportCell& cell = row[i];
        line({table.id, row[0].text, table.columns[i].title, "",
              table.columns[i].is_text ? cell.text : exact(cell.number), exact(cell.spread),
              cell.source ? plain(*cell.source) : ""});
      }
    }
  }
  for (const Figure& figure : report.figures) {
    for (const Series& series : figure.series) {
      for (std::size_t i = 0; i < series.y.size(); ++i) {
        const std::string spread = series.spread.empty() ? "" : exact(series.spread[i]),
                          source = series.sources.empty() ? "" : plain(series.sources[i]);
        if (!figure.categories.empty())
          line({figure.id, series.name, figure.x_titles[0], figure.categories[i], exact(series.y[i]), spread, source});
        for (std::size_t axis = 0; axis < series.x.size(); ++axis) {
          line({figure.id, series.name, figure.x_titles[axis], exact(series.x[axis][i]), exact(series.y[i]), spread,
                source});
        }
      }
    }
  }
  return out;
}

std::string report_json(const Report& report) {
  Json conclusions = Json::array(), tables = Json::array(), figures = Json::array(), runs = Json::array();
  for (const Conclusion& one : report.conclusions) {
    conclusions.push_back(
        {{"setting", one.setting}, {"sentences", sentences_json(one.sentences)}, {"notes", sentences_json(one.notes)}});
  }
  for (const ReportTable& table : report.tables) tables.push_back(table_json(table));
  for (const Figure& figure : report.figures) figures.push_back(figure_json(figure, plain));
  for (const MeasuredRun& run : report.measured) {
    Json values = Json::object();
    for (const auto& [name, value] : run.measures) values[name] = value;
    runs.push_back({{"folder", run.folder}, {"name", run.name}, {"seed", run.seed}, {"measures", values}});
  }
  return Json{{"title", report.title}, {"conclusions", conclusions}, {"lead", report.lead},
              {"tables", tables},      {"figures", figures},         {"runs", runs}}
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace ripieno::report
