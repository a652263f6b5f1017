// The report for other programs and for documents: JSON, CSV and Markdown.
#include <algorithm>
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
    Json statements = Json::array();
    for (const Statement& statement : sentence.statements) {
      Json values = Json::array();
      for (const StatedNumber& value : statement.values) values.push_back(value.number);
      statements.push_back({{"statement", name(statement.kind)},
                            {"quantity", name(statement.quantity)},
                            {"ways", statement.subjects},
                            {"beside", statement.object},
                            {"values", values},
                            {"ranked", statement.is_ranked},
                            {"seeds", statement.seeds}});
    }
    all.push_back(
        {{"about", sentence.about}, {"text", sentence.str()}, {"numbers", numbers}, {"statements", statements}});
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

namespace {

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) line += text(i ? "," : "", quoted(fields[i]));
  return line + "\n";
}

std::string csv_of(const ReportTable& table) {
  std::vector<bool> spreads(table.columns.size());
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) spreads[i] = spreads[i] || row[i].spread;
  }
  std::vector<std::string> head;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    head.push_back(table.columns[i].title);
    if (spreads[i]) head.push_back(table.columns[i].title + " ±");
  }
  std::string out = csv_line(head);
  for (const auto& row : table.rows) {
    std::vector<std::string> fields;
    for (std::size_t i = 0; i < row.size(); ++i) {
      fields.push_back(table.columns[i].is_text ? row[i].text : exact(row[i].number));
      if (spreads[i]) fields.push_back(exact(row[i].spread));
    }
    out += csv_line(fields);
  }
  return out;
}

std::string csv_of(const Figure& figure) {
  const bool bars = !figure.categories.empty();
  const auto any = [&](const auto member) {
    return std::any_of(figure.series.begin(), figure.series.end(),
                       [&](const Series& one) { return !(one.*member).empty(); });
  };
  const bool spreads = any(&Series::spread), sources = any(&Series::sources);
  std::vector<std::string> head{"series"};
  head.insert(head.end(), figure.x_titles.begin(), figure.x_titles.end());
  head.push_back(figure.y_title);
  if (spreads) head.push_back("±");
  if (sources) head.push_back("source");
  std::string out = csv_line(head);
  for (const Series& series : figure.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      std::vector<std::string> fields{series.name};
      if (bars) fields.push_back(figure.categories[i]);
      for (const auto& axis : series.x) fields.push_back(exact(axis[i]));
      fields.push_back(exact(series.y[i]));
      if (spreads) fields.push_back(series.spread.empty() ? "" : exact(series.spread[i]));
      if (sources) fields.push_back(series.sources.empty() ? "" : plain(series.sources[i]));
      out += csv_line(fields);
    }
  }
  return out;
}

/// The sentences and their statements, one a line.
std::pair<std::string, std::string> csv_of(const std::vector<Conclusion>& conclusions) {
  std::string said = csv_line({"setting", "about", "sentence"});
  std::string stated =
      csv_line({"setting", "about", "statement", "quantity", "ways", "beside", "values", "ranked", "seeds"});
  for (const Conclusion& one : conclusions) {
    for (const auto* sentences : {&one.sentences, &one.notes}) {
      for (const Sentence& sentence : *sentences) {
        said += csv_line({one.setting, sentence.about, sentence.str()});
        for (const Statement& statement : sentence.statements) {
          std::string ways, values;
          for (const std::string& way : statement.subjects) ways += (ways.empty() ? "" : "; ") + way;
          for (const StatedNumber& value : statement.values)
            values += (values.empty() ? "" : "; ") + exact(value.number);
          stated +=
              csv_line({one.setting, sentence.about, name(statement.kind), name(statement.quantity), ways,
                        statement.object, values, statement.is_ranked ? "yes" : "no", std::to_string(statement.seeds)});
        }
      }
    }
  }
  return {said, stated};
}

}  // namespace

std::vector<CsvFile> report_csv(const Report& report) {
  const auto [said, stated] = csv_of(report.conclusions);
  std::vector<CsvFile> files{{"sentences.csv", said}, {"statements.csv", stated}};
  for (const ReportTable& table : report.tables) files.push_back({table.id + ".csv", csv_of(table)});
  for (const Figure& figure : report.figures) files.push_back({"figure-" + figure.id + ".csv", csv_of(figure)});
  return files;
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
