#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/operations.h"
#include "apps/ripieno/read_runs.h"
#include "apps/ripieno/recipe.h"
#include "apps/ripieno/suggest.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/native.h"
#include "ripieno/data/dataset.h"
#include "ripieno/report/format.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/table.h"
#include "ripieno/strategy/refusals.h"
#include "ripieno/transport/transports.h"

namespace ripieno::program {
namespace {

using Json = nlohmann::ordered_json;

std::string shape(int channels, int height, int width) { return text(channels, "x", height, "x", width); }

double rounded(double value, int digits) {
  const double unit = std::pow(10, digits);
  return std::round(value * unit) / unit;
}

/// MiB: of all fp32 numbers; GFLOPs: multiply-adds for one image forward, as papers state them.
Json models(const model::Zoo& zoo) {
  Json rows = Json::array();
  for (const model::ModelInfo& m : zoo.all()) {
    const Json layers = m.layers > 0 ? Json(m.layers) : Json(),
               gflops = m.multiply_adds > 0 ? Json(rounded(m.multiply_adds * 1e-9, 3)) : Json();
    rows.push_back({{"name", m.name},
                    {"images", shape(m.channels, m.height, m.width)},
                    {"classes", m.classes},
                    {"parameters", m.parameters},
                    {"MiB", rounded(static_cast<double>(m.parameters + m.untrained) * 4 / (1 << 20), 1)},
                    {"GFLOPs", gflops},
                    {"layers", layers},
                    {"about", m.title}});
  }
  return rows;
}

Json data_sets() {
  Json rows = Json::array();
  for (const data::DatasetInfo& d : data::datasets()) {
    rows.push_back({{"name", d.name},
                    {"images", shape(d.shape.channels, d.shape.height, d.shape.width)},
                    {"classes", d.classes},
                    {"train", d.train},
                    {"test", d.test},
                    {"generated", d.generated},
                    {"about", d.title}});
  }
  return rows;
}

Json strategy_rows() {
  Json rows = Json::array();
  for (const strategy::StrategyInfo& s : strategy::strategies()) {
    rows.push_back({{"name", s.name},
                    {"what", s.what},
                    {"when", s.when},
                    {"with whom", s.route},
                    {"exact", s.exact},
                    {"agrees", s.agrees},
                    {"about", s.title}});
  }
  return rows;
}

/// The routes of that operation, or of all.
Json route_rows(const std::string& operation) {
  Json rows = Json::array();
  for (const transport::Collective one :
       operation.empty() ? find_operations("all") : std::vector{find_operation(operation)}) {
    for (const collective::Route& r : collective::routes(one)) {
      rows.push_back({{"operation", transport::name(one)},
                      {"name", r.name},
                      {"default", &r == &collective::default_route(one)},
                      {"rounds", r.rounds},
                      {"bytes of the busiest", r.bytes},
                      {"about", r.title},
                      {"source", r.source}});
    }
    const collective::Route& native = collective::native::route(one);
    rows.push_back({{"operation", transport::name(one)},
                    {"name", native.name},
                    {"default", false},
                    {"rounds", "MPI's choice"},
                    {"bytes of the busiest", "MPI's choice"},
                    {"about", native.title},
                    {"source", native.source}});
  }
  return rows;
}

Json transport_rows() {
  Json rows = Json::array();
  for (const transport::Transport& t : transport::transports()) {
    rows.push_back({{"name", t.name}, {"time", t.is_virtual() ? "virtual" : "real"}, {"about", t.title}});
  }
  return rows;
}

const char* name(codec::CodecKind kind) {
  switch (kind) {
    case codec::CodecKind::wire:
      return "wire";
    case codec::CodecKind::block:
      return "block";
    case codec::CodecKind::gathered:
      return "gathered";
    case codec::CodecKind::low_rank:
      return "low-rank";
  }
  return "";
}

Json codec_rows() {
  Json rows = Json::array();
  for (const codec::CodecInfo& c : codec::codecs()) {
    rows.push_back({{"name", c.name},
                    {"kind", name(c.kind)},
                    {"lossless", c.lossless},
                    {"bytes of n numbers", c.bytes},
                    {"about", c.title},
                    {"source", c.source}});
  }
  return rows;
}

Json refusal_rows() {
  Json rows = Json::array();
  for (const strategy::Refusal& r : strategy::refusals())
    rows.push_back({{"refused", r.what}, {"because", r.reason}, {"instead", r.instead}});
  return rows;
}

Json measure_rows() {
  Json rows = Json::array();
  for (const report::Measure& m : report::measures()) rows.push_back({{"name", m.name}, {"about", m.title}});
  return rows;
}

/// The settings whose keys, or last parts of keys, begin with this word.
std::vector<Setting> settings_that_begin(const std::string& prefix) {
  std::vector<Setting> found, by_last;
  std::vector<std::string> names;
  for (const Setting& setting : all_settings()) {
    const std::size_t dot = setting.key.rfind('.');
    const std::string last = setting.key.substr(dot + 1),
                      table = dot == setting.key.npos ? "" : setting.key.substr(0, dot);
    if (setting.key.starts_with(prefix)) found.push_back(setting);
    if (last.starts_with(prefix)) by_last.push_back(setting);
    for (const std::string& name : {table, setting.key, last}) names.push_back(name);
  }
  if (!found.empty()) return found;
  if (!by_last.empty()) return by_last;
  fail(ErrorKind::usage, "no key begins with \"", prefix, "\"", did_you_mean(prefix, names),
       "; ripieno list settings shows all");
}

std::string range_of(const Setting& setting) {
  std::string words;
  for (const std::string& one : setting.allowed) words += (words.empty() ? "" : ", ") + one;
  if (!words.empty()) return "one of " + words;
  const bool is_number =
      !std::holds_alternative<bool>(setting.standard) && !std::holds_alternative<std::string>(setting.standard);
  const bool each = std::holds_alternative<std::vector<double>>(setting.standard);
  return text(setting.type(), is_number ? text(each ? ", each " : ", ", setting.range.str()) : "");
}

Json setting_rows(const std::string& prefix) {
  Json rows = Json::array();
  for (const Setting& s : settings_that_begin(prefix)) {
    rows.push_back({{"key", s.key},
                    {"about", s.help},
                    {"value", range_of(s)},
                    {"default", to_toml(s.standard)},
                    {"has an effect", s.effect().empty() ? "always" : s.effect()}});
  }
  return rows;
}

/// The folder of recipes: here, beside the built program, or where it was installed.
std::filesystem::path recipes_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path places[] = {"recipes", program.parent_path() / "../../../recipes",
                                          program.parent_path() / "../share/ripieno/recipes"};
  for (const auto& place : places) {
    if (std::filesystem::is_directory(place, error)) return place.lexically_normal();
  }
  fail(ErrorKind::usage,
       "there is no folder recipes here or beside the program; give one: ripieno list recipes FOLDER");
}

std::string scales_of(const Recipe& recipe) {
  std::string all;
  for (const std::string& scale : recipe.scales) all += (all.empty() ? "" : ", ") + scale;
  return all;
}

Json recipe_rows(const std::string& given) {
  const std::filesystem::path folder = given.empty() ? recipes_folder() : std::filesystem::path(given);
  if (!std::filesystem::is_directory(folder)) fail(ErrorKind::usage, "list recipes ", given, ": is no folder");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  if (files.empty())
    fail(ErrorKind::usage, "list recipes: ", folder.string(), " holds no recipe, a file that ends in .toml");
  std::sort(files.begin(), files.end());
  Json rows = Json::array();
  for (const auto& file : files) {
    Json row{{"recipe", file.string()}, {"runs", Json()}, {"scales", ""}, {"about", ""}};
    try {
      const Recipe recipe = load_recipe(file, {});
      row["runs"] = recipe.cells.size();
      row["scales"] = scales_of(recipe);
      row["about"] = recipe.title;
    } catch (const Error& error) {
      row["about"] = error.what();
    }
    rows.push_back(row);
  }
  return rows;
}

/// The runs in a folder.
Json run_rows(const std::string& given) {
  const std::filesystem::path folder = given.empty() ? "runs" : given;
  if (!std::filesystem::is_directory(folder))
    fail(ErrorKind::usage, "list runs: ", folder.string(), " is no folder; name the one that holds your runs");
  Json rows = Json::array();
  for (const std::filesystem::path& run : run_folders(folder)) {
    Json row{{"run", run.string()}, {"name", ""},     {"strategy", ""},    {"model", ""},      {"data", ""},
             {"ranks", Json()},     {"seed", Json()}, {"accuracy, %", ""}, {"s an epoch", ""}, {"state", ""}};
    try {
      const report::Summary known = read_known(run);
      row["name"] = known.name;
      row["strategy"] = known.strategy;
      row["model"] = known.model;
      row["data"] = known.dataset;
      row["ranks"] = known.world_size;
      row["seed"] = known.seed;
      if (known.test) row["accuracy, %"] = report::format_fixed(100 * known.test->accuracy, 2);
      if (const auto epoch = known.epoch_seconds()) row["s an epoch"] = report::format_figures(*epoch, 3);
      row["state"] = known.unfinished ? "unfinished" : known.kind;
    } catch (const Error& error) {
      row["state"] = error.what();
    }
    rows.push_back(row);
  }
  if (rows.empty()) fail(ErrorKind::usage, "list runs: there is no run in ", folder.string());
  return rows;
}

std::string cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "";
  if (value.is_number_float()) return text(value.get<double>());
  return report::format_count(value.get<std::int64_t>());
}

/// Without sources, which docs/strategies.md and --format json have: lines are long enough.
void print_table(Json rows) {
  for (auto& row : rows) row.erase("source");
  report::Table table;
  for (const auto& [key, value] : rows.at(0).items())
    table.column(key, value.is_number() ? report::Align::right : report::Align::left);
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [key, value] : row.items()) cells.push_back(cell(value));
    table.row(cells);
  }
  std::cout << table.str();
}

/// For rows of whole sentences: the first value on its own line, the others below it.
void print_paragraphs(const Json& rows) {
  for (const auto& row : rows) {
    for (const auto& [key, value] : row.items())
      std::cout << (value == row.front() ? "" : "    " + key + ": ") << cell(value) << "\n";
  }
}

}  // namespace

namespace {

struct List {
  const char* name;
  std::function<Json(const CommandContext& context, const std::string& of)> rows;
  bool in_paragraphs = false;  // for rows of whole sentences
  bool takes_argument = false;
};

const std::vector<List>& lists() {
  static const std::vector<List> all{
      {"models", [](const CommandContext& context, const std::string&) { return models(context.zoo); }},
      {"data", [](const CommandContext&, const std::string&) { return data_sets(); }},
      {"strategies", [](const CommandContext&, const std::string&) { return strategy_rows(); }},
      {"routes", [](const CommandContext&, const std::string& operation) { return route_rows(operation); }, false,
       true},
      {"codecs", [](const CommandContext&, const std::string&) { return codec_rows(); }},
      {"transports", [](const CommandContext&, const std::string&) { return transport_rows(); }},
      {"settings", [](const CommandContext&, const std::string& prefix) { return setting_rows(prefix); }, true, true},
      {"recipes", [](const CommandContext&, const std::string& folder) { return recipe_rows(folder); }, false, true},
      {"runs", [](const CommandContext&, const std::string& folder) { return run_rows(folder); }, false, true},
      {"measures", [](const CommandContext&, const std::string&) { return measure_rows(); }},
      {"refusals", [](const CommandContext&, const std::string&) { return refusal_rows(); }, true},
  };
  return all;
}

std::vector<std::string> list_names() {
  std::vector<std::string> names;
  for (const List& list : lists()) names.emplace_back(list.name);
  return names;
}

void run_list(const std::string& what, const std::string& of, const CommandContext& context) {
  const auto list = std::find_if(lists().begin(), lists().end(), [&](const List& one) { return one.name == what; });
  if (list == lists().end()) {
    std::string known;
    for (const std::string& name : list_names()) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorKind::usage, "there is no list \"", what, "\"", did_you_mean(what, list_names()), "; they are ", known);
  }
  if (!of.empty() && !list->takes_argument)
    fail(ErrorKind::usage, "list ", what, " ", of,
         ": only list routes, list settings, list recipes and list runs take a further word");
  const Json rows = list->rows(context, of);
  if (context.format == "json") {
    std::cout << rows.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else if (list->in_paragraphs) {
    print_paragraphs(rows);
  } else {
    print_table(rows);
  }
}

}  // namespace

void add_list(CLI::App& app, CommandContext& context) {
  auto what = std::make_shared<std::string>(), of = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("list",
                                         "List models, data, strategies, routes, codecs, transports, settings, "
                                         "recipes, runs, measures of runs, or what is refused");
  command
      ->add_option(
          "what", *what,
          "models, data, strategies, routes, codecs, transports, settings, recipes, runs, measures or refusals")
      ->required();
  command->add_option("of", *of,
                      "routes: the operation, e.g. all-gather; settings: how their keys begin, e.g. optimiser; "
                      "recipes, runs: the folder to look in");
  add_format(*command, context);
  command->callback([what, of, &context] { context.chosen = [what, of, &context] { run_list(*what, *of, context); }; });
}

}  // namespace ripieno::program
