#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/conditions.h"
#include "apps/ripieno/explain_codec.h"
#include "apps/ripieno/explain_page.h"
#include "apps/ripieno/explain_route.h"
#include "apps/ripieno/explain_strategy.h"
#include "apps/ripieno/operations.h"
#include "apps/ripieno/recipe.h"
#include "apps/ripieno/suggest.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/native.h"
#include "ripieno/core/file.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::program {
namespace {

struct ExplainArguments {
  std::string what, operation = "all-reduce", recipe, model, wire = "fp32", output;
  std::vector<std::string> sets;
  int ranks = 4, per_node = 1, root = 0;
  std::size_t elements = 0;
  bool html = false;
  bool operation_given = false, ranks_given = false, per_node_given = false, root_given = false, wire_given = false;
  AskedLinks links;
};

bool is_strategy(const std::string& name) {
  return std::any_of(strategy::strategies().begin(), strategy::strategies().end(),
                     [&](const strategy::StrategyInfo& info) { return info.name == name; });
}

bool is_codec(const std::string& name) {
  return std::any_of(codec::codecs().begin(), codec::codecs().end(),
                     [&](const codec::CodecInfo& info) { return info.name == name; });
}

bool sets_key(const ExplainArguments& arguments, std::string_view key) {
  return std::any_of(arguments.sets.begin(), arguments.sets.end(),
                     [&](const std::string& one) { return is_of_key(one, key); });
}

/// The job to explain: a recipe's, or the defaults with a batch size; options of the command line take precedence.
/// `sets`: more of them.
Settings job_of(const ExplainArguments& arguments, const std::vector<std::string>& more, const model::Zoo& zoo) {
  std::vector<std::string> sets = arguments.sets;
  sets.insert(sets.end(), more.begin(), more.end());
  if (!arguments.model.empty()) {
    refuse_twice(arguments.sets, "model", "--model " + arguments.model);
    sets.push_back("model=" + arguments.model);
  }
  const bool has_batch = sets_key(arguments, "batch.global") || sets_key(arguments, "batch.per_worker");
  Recipe recipe = !arguments.recipe.empty()
                      ? load_recipe(arguments.recipe, sets)
                      : load_recipe_text(has_batch ? "" : "batch.per_worker = 32", "defaults", sets);
  if (recipe.cells.size() != 1) {
    fail(ErrorKind::usage, arguments.recipe, ": holds ", recipe.cells.size(), " runs; fix its grid with --set");
  }
  tell_idle(recipe.cells, zoo);
  return recipe.cells[0].settings;
}

/// Some names are both a route's and a strategy's; options that only a job has select the strategy.
void run_strategy(const ExplainArguments& arguments, const CommandContext& context) {
  if (arguments.elements > 0) {
    fail(ErrorKind::usage, "--elements ", arguments.elements, " with strategy ", arguments.what,
         ": it exchanges a model; give --model in its place");
  }
  refuse_twice(arguments.sets, "strategy", arguments.what);
  if (arguments.ranks_given) refuse_twice(arguments.sets, "workers", text("-n ", arguments.ranks));
  std::vector<std::string> sets{"strategy=" + arguments.what};
  const bool stated = !arguments.recipe.empty() || sets_key(arguments, "workers") || arguments.what == "single";
  if (arguments.ranks_given || !stated) sets.push_back(text("workers=", arguments.ranks));
  if (arguments.per_node_given) {
    refuse_twice(arguments.sets, "exchange.per_node", text("--per-node ", arguments.per_node));
    sets.push_back(text("exchange.per_node=", arguments.per_node));
  }
  if (arguments.wire_given) {
    refuse_twice(arguments.sets, "exchange.codec", "--wire " + arguments.wire);
    sets.push_back("exchange.codec=" + arguments.wire);
  }
  std::cout << explain_strategy(job_of(arguments, sets, context.zoo), context.zoo, arguments.links.model(),
                                context.format == "json");
}

void run_codec(const ExplainArguments& arguments, const CommandContext& context) {
  if (arguments.wire_given || arguments.per_node_given) {
    fail(ErrorKind::usage, arguments.wire_given ? "--wire" : "--per-node", " has no effect with codec ", arguments.what,
         "; leave it out");
  }
  refuse_twice(arguments.sets, "exchange.codec", arguments.what);
  if (sets_key(arguments, "workers"))
    fail(ErrorKind::usage, "--set workers has no effect with codec ", arguments.what, ": give its ranks with -n");
  const Settings job = job_of(arguments, {"exchange.codec=" + arguments.what}, context.zoo);
  std::cout << explain_codec(job, context.zoo, arguments.elements, arguments.ranks, arguments.links.model(),
                             context.format == "json");
}

void write_page(const WalkedRoute& walked, const ExplainArguments& arguments) {
  report::SchedulePicture picture = picture_of(walked.route, walked.world, walked.elements, walked.number);
  picture.buffer = buffer_of(walked);
  picture.totals = totals_of(walked);
  const transport::Collective operation = walked.route.collective;
  const std::string of = operation == transport::Collective::all_reduce ? "" : text(transport::name(operation), "-");
  const std::string file = arguments.output.empty() ? text(of, walked.route.name, ".html") : arguments.output;
  write_file(file, report::schedule_page(picture));
  std::cerr << file << ": open it in a browser\n";
}

void run_route(const collective::Route& route, const ExplainArguments& arguments, const CommandContext& context) {
  if (arguments.per_node > 1 && !route.looks_at_nodes) {
    fail(ErrorKind::usage, "--per-node ", arguments.per_node, " has no effect with route ", route.name,
         ": it has one with ", either(collective::routes_that_look_at_nodes()), "; leave it out");
  }
  if (arguments.root_given && !collective::has_root(route.collective)) {
    fail(ErrorKind::usage, "--root ", arguments.root, " has no effect with ", transport::name(route.collective),
         ": it has one with broadcast, reduce, gather and scatter; leave it out");
  }
  check_root(arguments.root, arguments.ranks);
  if (arguments.html && arguments.ranks > report::most_drawn_ranks) {
    fail(ErrorKind::usage, "--html draws up to ", report::most_drawn_ranks, " ranks, not ", arguments.ranks,
         ": take fewer with -n, or leave --html out");
  }
  const std::size_t elements =
      arguments.elements > 0
          ? arguments.elements
          : static_cast<std::size_t>(
                context.zoo.find(arguments.model.empty() ? "mnist-cnn" : arguments.model).parameters);
  const collective::World world{arguments.ranks, arguments.per_node, arguments.root};
  const WalkedRoute walked = walk_route(route, world, elements, arguments.wire, arguments.links);
  if (arguments.html) return write_page(walked, arguments);
  std::cout << (context.format == "json" ? route_json(walked) : route_text(walked));
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view one) {
    if (std::find(names.begin(), names.end(), one) == names.end()) names.emplace_back(one);
  };
  for (const strategy::StrategyInfo& info : strategy::strategies()) add(info.name);
  for (const codec::CodecInfo& info : codec::codecs()) add(info.name);
  for (const transport::Collective operation : collective::collectives) {
    add(transport::name(operation));
    for (const collective::Route& route : collective::routes(operation)) add(route.name);
  }
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  fail(ErrorKind::usage, "there is no codec, operation, route or strategy \"", name, "\"", did_you_mean(name, names),
       "; they are ", known);
}

/// Refuses options of route schedules for a strategy or a codec.
void check_no_schedule(const ExplainArguments& arguments, const char* what) {
  const std::string of = text(" with ", what, " ", arguments.what);
  if (arguments.operation_given) {
    fail(ErrorKind::usage, "--operation ", arguments.operation, of, ": it is a route's; leave it out");
  }
  if (arguments.root_given) fail(ErrorKind::usage, "--root ", arguments.root, of, ": it is a route's; leave it out");
  if (arguments.html) {
    fail(ErrorKind::usage, "--html", of,
         ": it draws a route's schedule; give a route (ripieno list routes), without --set or --recipe");
  }
}

void run_explain(ExplainArguments arguments, const CommandContext& context) {
  if (arguments.what.empty() && !arguments.operation_given) {
    fail(ErrorKind::usage, "explain what? Name a route, a strategy, a codec or an operation; ripieno list shows them");
  }
  if (!arguments.html && !arguments.output.empty()) {
    fail(ErrorKind::usage, "--output ", arguments.output, " without --html: it is where the page goes; add --html");
  }
  if (arguments.html && context.format == "json") {
    fail(ErrorKind::usage, "--html with --format json: they are two forms; leave one out");
  }
  if (arguments.what == collective::native::name) {
    fail(ErrorKind::usage,
         "route native has no schedule of Ripieno's to show: MPI chooses one; time it with ripieno "
         "bench --transport mpi --route native, under mpirun or srun");
  }
  if (is_operation(arguments.what)) {
    if (arguments.operation_given && arguments.operation != arguments.what) {
      fail(ErrorKind::usage, "explain ", arguments.what, " with --operation ", arguments.operation,
           ": they are two operations; leave one out");
    }
    arguments.operation = std::exchange(arguments.what, "");
  }
  const transport::Collective operation = find_operation(arguments.operation);
  if (is_codec(arguments.what)) {
    check_no_schedule(arguments, "codec");
    return run_codec(arguments, context);
  }
  const bool of_a_job = !arguments.sets.empty() || !arguments.recipe.empty();
  const bool is_route = arguments.what.empty() || is_route_of_any(arguments.what);
  if (is_strategy(arguments.what) && (of_a_job || !is_route)) {
    check_no_schedule(arguments, "strategy");
    return run_strategy(arguments, context);
  }
  if (!is_route) refuse_name(arguments.what);
  const collective::Route& route =
      arguments.what.empty() ? collective::default_route(operation) : find_route_of(operation, arguments.what);
  if (of_a_job) {
    const std::string such =
        operation == transport::Collective::all_reduce ? text(", such as ddp with exchange.route = ", route.name) : "";
    fail(ErrorKind::usage, "route ", route.name, " has no job: --set and --recipe are a strategy's", such);
  }
  run_route(route, arguments, context);
}

}  // namespace

void add_explain(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand(
      "explain",
      "Show a route's schedule, its rounds, bytes and time; what a strategy exchanges in a job; or what a codec does");
  command->add_option("what", arguments->what,
                      "a route, a strategy or a codec: see ripieno list; one that is both is a route without --set or "
                      "--recipe; or an operation, "
                      "of which its default route is shown");
  auto* operation = command->add_option("--operation", arguments->operation, "of the route: " + list_operations())
                        ->type_name("OPERATION")
                        ->capture_default_str();
  command->add_option("--set", arguments->sets, "KEY=VALUE: of the strategy's job, or the codec's")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--recipe", arguments->recipe, "the strategy's job")->type_name("FILE");
  auto* ranks = command->add_option("-n,--ranks", arguments->ranks, "how many ranks, or workers of the strategy")
                    ->check(CLI::Range(1, 512))
                    ->capture_default_str();
  auto* per_node =
      command->add_option("--per-node", arguments->per_node, "ranks on each node, for routes that use nodes")
          ->check(CLI::Range(1, 512))
          ->capture_default_str();
  auto* root = command
                   ->add_option("--root", arguments->root,
                                "the rank that broadcast and scatter start at, and reduce and gather end at")
                   ->check(CLI::Range(0, 511))
                   ->capture_default_str();
  auto* elements =
      command->add_option("--elements", arguments->elements, "how many numbers; default: the model's parameters")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--model", arguments->model, "the model whose parameters are counted; default mnist-cnn")
      ->excludes(elements);
  auto* wire = command->add_option("--wire", arguments->wire, list_wire_formats())->capture_default_str();
  command->add_option("--latency-us", arguments->links.latency_us, "latency of the links, for the time")
      ->check(number_from(0, 1e10))
      ->capture_default_str();
  command->add_option("--mbit-s", arguments->links.mbit_s, "rate of the links, 10^6 bits a second, for the time")
      ->check(number_from(1e-3, 1e6, 3))
      ->capture_default_str();
  command->add_flag("--html", arguments->html,
                    text("of a route: a page that one steps through, of up to ", report::most_drawn_ranks, " ranks"));
  command
      ->add_option("-o,--output", arguments->output,
                   "where the page goes; default: ROUTE.html, or OPERATION-ROUTE.html")
      ->type_name("FILE");
  add_format(*command, context);
  command->callback([arguments, operation, ranks, per_node, root, wire, &context] {
    arguments->operation_given = operation->count() > 0;
    arguments->root_given = root->count() > 0;
    arguments->ranks_given = ranks->count() > 0;
    arguments->per_node_given = per_node->count() > 0;
    arguments->wire_given = wire->count() > 0;
    context.chosen = [arguments, &context] { run_explain(*arguments, context); };
  });
}

}  // namespace ripieno::program
