#include <algorithm>
#include <bit>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/explain_codec.h"
#include "apps/ripieno/explain_page.h"
#include "apps/ripieno/explain_strategy.h"
#include "apps/ripieno/recipe.h"
#include "apps/ripieno/suggest.h"
#include "ripieno/codec/codec.h"
#include "ripieno/codec/wire.h"
#include "ripieno/collective/check.h"
#include "ripieno/collective/closed_form.h"
#include "ripieno/core/file.h"
#include "ripieno/report/format.h"
#include "ripieno/report/table.h"
#include "ripieno/strategy/registry.h"

namespace ripieno {
namespace {

struct ExplainArguments {
  std::string what, recipe, model, wire = "fp32", output;
  std::vector<std::string> sets;
  int ranks = 4, per_node = 1;
  std::size_t elements = 0;
  bool html = false;
  bool ranks_given = false, per_node_given = false, wire_given = false;
  double latency_us = 50, gbit_s = 1;
};

/// Largest table of steps that is still read: more ranks get their costs only.
constexpr int most_columns = 8;

/// "all", or the chunks of P (or of the nodes, or of the largest power of two in P) that a range covers: "c2", "c2-3".
std::string print_range(Range range, World world, std::size_t elements) {
  if (range == Range{0, elements}) return "all";
  for (const int parts : {world.ranks, world.nodes(), static_cast<int>(std::bit_floor(static_cast<unsigned>(world.ranks)))}) {
    int first = -1, last = -1;
    for (int i = 0; i < parts; ++i) {
      if (chunk(elements, parts, i).begin == range.begin) first = i;
      if (chunk(elements, parts, i).end == range.end) last = i;
    }
    if (first >= 0 && last >= first) return first == last ? text("c", first) : text("c", first, "-", last);
  }
  return text("[", range.begin, ",", range.end, ")");
}

std::string print_step(const Step& step, World world, std::size_t elements) {
  std::string out;
  for (const Transfer& one : step.sends) {
    if (one.range.size() == 0) continue;
    out += text(out.empty() ? "" : " ", print_range(one.range, world, elements), "→", one.peer);
  }
  bool is_first = true;
  for (const Transfer& one : step.receives) {
    if (one.range.size() == 0) continue;
    const char* between = out.empty() ? "" : std::exchange(is_first, false) ? "  " : " ";
    out += text(between, one.peer, "→", one.how == Reduce::add ? "+" : "=", print_range(one.range, world, elements));
  }
  return out;
}

/// The steps in which anything moves anywhere: as many rows as there are rounds.
std::string print_steps(const Route& route, World world, std::size_t elements) {
  Table table;
  table.column("step", Align::right);
  for (int rank = 0; rank < world.ranks; ++rank) table.column(text("rank ", rank));
  for (int k = 0; k < route.steps(world); ++k) {
    std::vector<std::string> row{text(table.rows())};
    for (int rank = 0; rank < world.ranks; ++rank) row.push_back(print_step(route.step(rank, world, elements, k), world, elements));
    if (std::any_of(row.begin() + 1, row.end(), [](const std::string& cell) { return !cell.empty(); })) table.row(row);
  }
  return table.str();
}

/// "6.91 MB  = 2n(Q-1)/Q + n min(1, P-Q), Q = 4": what was walked and its form; "≈" where the figures shown differ, since the buffer does
/// not divide evenly into the route's chunks.
std::string with_form(double walked, std::string_view form, World world, double n, std::string (*shown)(double)) {
  const std::string letters = letters_of(form, world);
  const bool equal = shown(walked) == shown(closed_form(form, world, n));
  return text(shown(walked), equal ? "  = " : "  ≈ ", form, letters.empty() ? "" : ", " + letters,
              equal ? "" : "  (its chunks are of unequal size)");
}

nlohmann::ordered_json transfer_json(const Transfer& transfer) {
  return {{"peer", transfer.peer}, {"begin", transfer.range.begin}, {"end", transfer.range.end},
          {"how", transfer.how == Reduce::add ? "add" : "replace"}};
}

bool is_route(const std::string& name) {
  return std::any_of(routes().begin(), routes().end(), [&](const Route& route) { return route.name == name; });
}

bool is_strategy(const std::string& name) {
  return std::any_of(strategies().begin(), strategies().end(), [&](const StrategyInfo& info) { return info.name == name; });
}

bool is_codec(const std::string& name) {
  return std::any_of(codecs().begin(), codecs().end(), [&](const CodecInfo& info) { return info.name == name; });
}

bool sets_key(const ExplainArguments& arguments, std::string_view key) {
  return std::any_of(arguments.sets.begin(), arguments.sets.end(), [&](const std::string& one) { return one.starts_with(key); });
}

LinkModel link_of(const ExplainArguments& arguments) {
  return {from_seconds(arguments.latency_us * 1e-6), from_seconds(8e-9 / arguments.gbit_s)};
}

/// The job that is meant: a recipe's, or the defaults with a batch size, in which the options of the command line go before. `sets`: more.
Settings job_of(const ExplainArguments& arguments, const std::vector<std::string>& more, const Zoo& zoo) {
  std::vector<std::string> sets = arguments.sets;
  sets.insert(sets.end(), more.begin(), more.end());
  if (!arguments.model.empty()) sets.push_back("model=" + arguments.model);
  const bool has_batch = sets_key(arguments, "batch.global") || sets_key(arguments, "batch.per_worker");
  Recipe recipe = !arguments.recipe.empty() ? load_recipe(arguments.recipe, sets) : load_recipe_text(has_batch ? "" : "batch.per_worker = 32", "defaults", sets);
  if (recipe.cells.size() != 1) fail(ErrorKind::usage, arguments.recipe, ": holds ", recipe.cells.size(), " runs; fix its grid with --set");
  tell_idle(recipe.cells, zoo);
  return recipe.cells[0].settings;
}

/// Some names are a route's and a strategy's: what only a job has makes it the strategy.
void run_strategy(const ExplainArguments& arguments, const CommandContext& context) {
  if (arguments.elements > 0) fail(ErrorKind::usage, "--elements ", arguments.elements, " with strategy ", arguments.what, ": it exchanges a model; give --model in its place");
  std::vector<std::string> sets{"strategy=" + arguments.what};
  if (arguments.ranks_given) sets.push_back(text("workers=", arguments.ranks));
  if (arguments.per_node_given) sets.push_back(text("exchange.per_node=", arguments.per_node));
  if (arguments.wire_given) sets.push_back("exchange.codec=" + arguments.wire);
  std::cout << explain_strategy(job_of(arguments, sets, context.zoo), context.zoo, link_of(arguments), context.format == "json");
}

void run_codec(const ExplainArguments& arguments, const CommandContext& context) {
  if (arguments.wire_given || arguments.per_node_given) {
    fail(ErrorKind::usage, arguments.wire_given ? "--wire" : "--per-node", " has no effect with codec ", arguments.what, "; leave it out");
  }
  const Settings job = job_of(arguments, {"exchange.codec=" + arguments.what}, context.zoo);
  std::cout << explain_codec(job, context.zoo, arguments.elements, arguments.ranks, link_of(arguments), context.format == "json");
}

/// A route in the world that is asked for, walked.
struct WalkedRoute {
  const Route& route;
  World world;
  std::size_t elements, number;  ///< numbers, and bytes of one
  std::vector<ScheduleCost> costs;  ///< of each rank
  std::uint64_t total = 0, most = 0;  ///< bytes sent by all together, and by the busiest
  int rounds;
  double time;

  double buffer() const { return static_cast<double>(elements * number); }
};

WalkedRoute walk(const Route& route, const ExplainArguments& arguments, const Zoo& zoo) {
  const World world{arguments.ranks, arguments.per_node};
  const std::size_t elements = arguments.elements > 0 ? arguments.elements
                                                      : static_cast<std::size_t>(zoo.find(arguments.model.empty() ? "mnist-cnn" : arguments.model).parameters);
  const std::size_t number = size_of(find_wire_format(arguments.wire).type(DType::fp32));
  check_schedule(route, world, elements);
  WalkedRoute walked{route, world, elements, number, {}, 0, 0, schedule_rounds(route, world, elements), seconds(route.time(world, elements * number, link_of(arguments)))};
  for (int rank = 0; rank < world.ranks; ++rank) {
    walked.costs.push_back(schedule_cost(route, rank, world, elements));
    const std::uint64_t sent = walked.costs.back().elements_sent * number;
    walked.total += sent;
    walked.most = std::max(walked.most, sent);
  }
  return walked;
}

/// "1,724,320 numbers in fp32 (6.90 MB) on 6 ranks, 2 a node"
std::string print_buffer(const WalkedRoute& walked, const ExplainArguments& arguments) {
  return text(format_count(static_cast<std::int64_t>(walked.elements)), " numbers in ", arguments.wire, " (", format_bytes(walked.buffer()), ") on ",
              walked.world.ranks, walked.world.ranks == 1 ? " rank" : " ranks", walked.world.per_node > 1 ? text(", ", walked.world.per_node, " a node") : "");
}

/// What the whole costs, a name and its value each.
std::vector<std::pair<std::string, std::string>> totals_of(const WalkedRoute& walked, const ExplainArguments& arguments) {
  const Route& route = walked.route;
  return {{"rounds", with_form(walked.rounds, route.rounds, walked.world, walked.buffer(), format_count)},
          {"sent by all together", text(format_bytes(static_cast<double>(walked.total)), adds_on_the_way(route) ? "  = 2n(P-1)" : "  = nP(P-1)")},
          {"sent by the busiest", with_form(static_cast<double>(walked.most), route.bytes, walked.world, walked.buffer(), format_bytes)},
          {"time on such links", text(format_seconds(walked.time), "  (", arguments.latency_us, " us, ", arguments.gbit_s, " Gb/s)")}};
}

std::string route_json(const WalkedRoute& walked, const ExplainArguments& arguments) {
  const auto& [route, world, elements, number, costs, total, most, rounds, time] = walked;
  nlohmann::ordered_json json{{"route", route.name}, {"ranks", world.ranks}, {"per_node", world.per_node}, {"elements", elements}, {"wire", arguments.wire},
                              {"rounds", rounds}, {"bytes_sent", total}, {"seconds", time}};
  json["per_rank"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < world.ranks; ++rank) {
    nlohmann::ordered_json own{{"rank", rank}, {"bytes_sent", costs[rank].elements_sent * number},
                               {"bytes_received", costs[rank].elements_received * number}, {"messages_sent", costs[rank].messages_sent}};
    own["steps"] = nlohmann::ordered_json::array();
    for (int k = 0; k < route.steps(world); ++k) {
      const Step step = route.step(rank, world, elements, k);
      nlohmann::ordered_json one{{"step", k}};
      for (const Transfer& out : step.sends) one["sends"].push_back(transfer_json(out));
      for (const Transfer& in : step.receives) one["receives"].push_back(transfer_json(in));
      own["steps"].push_back(one);
    }
    json["per_rank"].push_back(own);
  }
  return json.dump(2) + "\n";
}

std::string print_costs(const WalkedRoute& walked) {
  Table table;
  table.column("rank", Align::right).column("sends", Align::right).column("receives", Align::right).column("messages", Align::right);
  for (std::size_t rank = 0; rank < walked.costs.size(); ++rank) {
    const ScheduleCost& cost = walked.costs[rank];
    table.row({text(rank), format_bytes(static_cast<double>(cost.elements_sent * walked.number)),
               format_bytes(static_cast<double>(cost.elements_received * walked.number)), text(cost.messages_sent)});
  }
  return table.str();
}

std::string route_text(const WalkedRoute& walked, const ExplainArguments& arguments) {
  const Route& route = walked.route;
  std::string out = text(route.name, ": ", route.title, " (", route.source, ")\n", print_buffer(walked, arguments), "; proved: every rank ends with the sum of all\n\n");
  for (const auto& [name, value] : totals_of(walked, arguments)) out += text(std::left, std::setw(23), name, value, "\n");
  out += "\n";
  if (walked.world.ranks == 1) return out + "(one rank has nothing to send)\n";
  if (walked.world.ranks > most_columns) {
    return out + print_costs(walked) + text("\n(the steps are shown for up to ", most_columns, " ranks; --format json has them all)\n");
  }
  return out + print_steps(route, walked.world, walked.elements) +
         (adds_on_the_way(route) ? "" : "\nall is sent at once, as it was before the step, and the sums are made in the order of ranks") +
         "\nc2: chunk 2 of the buffer; c2→3: sent to rank 3; 1→+c2: added as it arrives from rank 1; 1→=c2: replaced\n";
}

void write_page(const WalkedRoute& walked, const ExplainArguments& arguments) {
  SchedulePicture picture = picture_of(walked.route, walked.world, walked.elements, walked.number);
  picture.buffer = print_buffer(walked, arguments);
  picture.totals = totals_of(walked, arguments);
  const std::string file = arguments.output.empty() ? text(walked.route.name, ".html") : arguments.output;
  write_file(file, schedule_page(picture));
  std::cerr << file << ": open it in a browser\n";
}

void run_route(const Route& route, const ExplainArguments& arguments, const CommandContext& context) {
  if (arguments.per_node > 1 && route.name != std::string_view("hierarchical")) {
    fail(ErrorKind::usage, "--per-node ", arguments.per_node, " has no effect with route ", route.name, ": it has one with hierarchical; leave it out");
  }
  if (arguments.html && arguments.ranks > most_drawn_ranks) {
    fail(ErrorKind::usage, "--html draws up to ", most_drawn_ranks, " ranks, not ", arguments.ranks, ": take fewer with -n, or leave --html out");
  }
  const WalkedRoute walked = walk(route, arguments, context.zoo);
  if (arguments.html) return write_page(walked, arguments);
  std::cout << (context.format == "json" ? route_json(walked, arguments) : route_text(walked, arguments));
}

void run_explain(const ExplainArguments& arguments, const CommandContext& context) {
  const bool codec = is_codec(arguments.what), strategy = is_strategy(arguments.what);
  if (!codec && !strategy && !is_route(arguments.what)) {
    std::vector<std::string> names;
    for (const StrategyInfo& info : strategies()) names.emplace_back(info.name);
    for (const CodecInfo& info : codecs()) names.emplace_back(info.name);
    for (const Route& route : routes()) {
      if (!is_strategy(std::string(route.name))) names.emplace_back(route.name);
    }
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorKind::usage, "there is no codec, route or strategy \"", arguments.what, "\"", did_you_mean(arguments.what, names), "; they are ", known);
  }
  if (!arguments.html && !arguments.output.empty()) fail(ErrorKind::usage, "--output ", arguments.output, " without --html: it is where the page goes; add --html");
  if (arguments.html && context.format == "json") fail(ErrorKind::usage, "--html with --format json: they are two forms; leave one out");
  if (arguments.html && codec) fail(ErrorKind::usage, "--html with codec ", arguments.what, ": it draws a route's schedule; see ripieno list routes");
  if (codec) return run_codec(arguments, context);
  const bool of_a_job = !arguments.sets.empty() || !arguments.recipe.empty();
  if (of_a_job && !strategy) fail(ErrorKind::usage, "route ", arguments.what, " has no job: --set and --recipe are a strategy's, such as ddp with exchange.route = ", arguments.what);
  const bool is_job = of_a_job || !is_route(arguments.what);
  if (arguments.html && is_job) {
    fail(ErrorKind::usage, "--html with strategy ", arguments.what, ": it draws a route's schedule; give a route (ripieno list routes), without --set or --recipe");
  }
  if (is_job) return run_strategy(arguments, context);
  run_route(find_route(arguments.what), arguments, context);
}

}  // namespace

void add_explain(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand("explain", "Show a route's schedule, its rounds, bytes and time; what a strategy exchanges in a job; or what a codec does");
  command->add_option("what", arguments->what, "a route, a strategy or a codec: see ripieno list; one that is both is a route without --set or --recipe")->required();
  command->add_option("--set", arguments->sets, "KEY=VALUE: of the strategy's job, or the codec's")->type_name("KEY=VALUE")->allow_extra_args(false);
  command->add_option("--recipe", arguments->recipe, "the strategy's job")->type_name("FILE");
  auto* ranks = command->add_option("-n,--ranks", arguments->ranks, "how many ranks, or workers of the strategy")->check(CLI::Range(1, 512))->capture_default_str();
  auto* per_node = command->add_option("--per-node", arguments->per_node, "ranks on each node, for the routes that look at it")->check(CLI::Range(1, 512))->capture_default_str();
  auto* elements = command->add_option("--elements", arguments->elements, "how many numbers; default: the model's parameters")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--model", arguments->model, "whose parameters; default mnist-cnn")->excludes(elements);
  auto* wire = command->add_option("--wire", arguments->wire, "fp32, fp16 or bf16")->capture_default_str();
  command->add_option("--latency-us", arguments->latency_us, "of the links, for the time")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--gbit-s", arguments->gbit_s, "rate of the links, for the time")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--html", arguments->html, text("of a route: a page that one steps through, of up to ", most_drawn_ranks, " ranks"));
  command->add_option("-o,--output", arguments->output, "where the page goes; default: ROUTE.html")->type_name("FILE");
  add_format(*command, context);
  command->callback([arguments, ranks, per_node, wire, &context] {
    arguments->ranks_given = ranks->count() > 0;
    arguments->per_node_given = per_node->count() > 0;
    arguments->wire_given = wire->count() > 0;
    context.chosen = [arguments, &context] { run_explain(*arguments, context); };
  });
}

}  // namespace ripieno
