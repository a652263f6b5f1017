#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/commands.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/data/dataset.h"
#include "ripieno/report/format.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/table.h"
#include "ripieno/strategy/refusals.h"

namespace ripieno {
namespace {

using Json = nlohmann::ordered_json;

std::string shape(int channels, int height, int width) { return text(channels, "x", height, "x", width); }

double rounded(double value, int digits) {
  const double unit = std::pow(10, digits);
  return std::round(value * unit) / unit;
}

/// MiB: of all its fp32 numbers; GFLOPs: multiply-adds of one image forward; as papers state them.
Json models(const Zoo& zoo) {
  Json rows = Json::array();
  for (const ModelInfo& m : zoo.all()) {
    const Json layers = m.layers > 0 ? Json(m.layers) : Json(), gflops = m.multiply_adds > 0 ? Json(rounded(m.multiply_adds * 1e-9, 3)) : Json();
    rows.push_back({{"name", m.name}, {"images", shape(m.channels, m.height, m.width)}, {"classes", m.classes},
                    {"parameters", m.parameters}, {"MiB", rounded(static_cast<double>(m.parameters + m.untrained) * 4 / (1 << 20), 1)},
                    {"GFLOPs", gflops}, {"layers", layers}, {"about", m.title}});
  }
  return rows;
}

Json data_sets() {
  Json rows = Json::array();
  for (const DatasetInfo& d : datasets()) {
    rows.push_back({{"name", d.name}, {"images", shape(d.shape.channels, d.shape.height, d.shape.width)}, {"classes", d.classes},
                    {"train", d.train}, {"test", d.test}, {"generated", d.generated}, {"about", d.title}});
  }
  return rows;
}

Json strategy_rows() {
  Json rows = Json::array();
  for (const StrategyInfo& s : strategies()) {
    rows.push_back({{"name", s.name}, {"what", s.what}, {"when", s.when}, {"with whom", s.route}, {"exact", s.exact}, {"agrees", s.agrees}, {"about", s.title}});
  }
  return rows;
}

Json route_rows() {
  Json rows = Json::array();
  for (const Route& r : routes()) {
    rows.push_back({{"name", r.name}, {"rounds", r.rounds}, {"bytes of the busiest", r.bytes}, {"about", r.title}, {"source", r.source}});
  }
  return rows;
}

const char* name(CodecKind kind) {
  switch (kind) {
    case CodecKind::wire: return "wire";
    case CodecKind::block: return "block";
    case CodecKind::gathered: return "gathered";
    case CodecKind::low_rank: return "low-rank";
  }
  return "";
}

Json codec_rows() {
  Json rows = Json::array();
  for (const CodecInfo& c : codecs()) {
    rows.push_back({{"name", c.name}, {"kind", name(c.kind)}, {"lossless", c.lossless}, {"bytes of n numbers", c.bytes}, {"about", c.title}, {"source", c.source}});
  }
  return rows;
}

Json refusal_rows() {
  Json rows = Json::array();
  for (const Refusal& r : refusals()) rows.push_back({{"refused", r.what}, {"because", r.reason}, {"instead", r.instead}});
  return rows;
}

Json measure_rows() {
  Json rows = Json::array();
  for (const Measure& m : measures()) rows.push_back({{"name", m.name}, {"about", m.title}});
  return rows;
}

std::string cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "";
  if (value.is_number_float()) return text(value.get<double>());
  return format_count(value.get<std::int64_t>());
}

/// Sources are left to docs/strategies.md and to --format json: lines are long enough.
void print_table(Json rows) {
  for (auto& row : rows) row.erase("source");
  Table table;
  for (const auto& [key, value] : rows.at(0).items()) table.column(key, value.is_number() ? Align::right : Align::left);
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [key, value] : row.items()) cells.push_back(cell(value));
    table.row(cells);
  }
  std::cout << table.str();
}

/// For rows of whole sentences: the first value on a line of its own, the others below it.
void print_paragraphs(const Json& rows) {
  for (const auto& row : rows) {
    for (const auto& [key, value] : row.items()) std::cout << (value == row.front() ? "" : "    " + key + ": ") << cell(value) << "\n";
  }
}

}  // namespace

void add_list(CLI::App& app, CommandContext& context) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("list", "List models, data, strategies, routes, codecs, measures of runs, or what is refused");
  command->add_option("what", *what, "models, data, strategies, routes, codecs, measures or refusals")
      ->required()
      ->check(CLI::IsMember({"models", "data", "strategies", "routes", "codecs", "measures", "refusals"}));
  add_format(*command, context);
  command->callback([what, &context] {
    context.chosen = [what, &context] {
      const Json rows = *what == "models"       ? models(context.zoo)
                        : *what == "data"       ? data_sets()
                        : *what == "strategies" ? strategy_rows()
                        : *what == "routes"     ? route_rows()
                        : *what == "codecs"     ? codec_rows()
                        : *what == "measures"   ? measure_rows()
                                                : refusal_rows();
      if (context.format == "json") {
        std::cout << rows.dump(2) << "\n";
      } else if (*what == "refusals") {
        print_paragraphs(rows);
      } else {
        print_table(rows);
      }
    };
  });
}

}  // namespace ripieno
