#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "apps/ripieno/advise.h"
#include "apps/ripieno/advise_recipe.h"
#include "apps/ripieno/advise_table.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/train.h"
#include "ripieno/core/file.h"
#include "ripieno/core/side_by_side.h"
#include "ripieno/launch/lab.h"

namespace ripieno::program {
namespace {

struct AdviseArguments : RecipeArguments {
  int workers = 0;
  double mbit_s = 0, latency_ms = -1, pass_ms = 0, burst_bytes = -1;  // not given
  std::vector<std::string> strategies, codecs;
  bool exact = false, grid = false, refused = false;
  std::size_t top = 15;
  std::string format = "text", output;
};

/// Links that the command line leaves open come from the recipe: its lab, its shaped endpoints, or its simulated
/// network.
StatedLink link_of(const AdviseArguments& arguments, const Settings& recipe) {
  const bool simulated = recipe->in_virtual_time(), lab = !simulated && recipe->lab.nodes > 0;
  StatedLink link{.mbit_s = arguments.mbit_s, .latency_ms = arguments.latency_ms};
  if (link.mbit_s <= 0 && simulated) {
    link.mbit_s = std::get<double>(recipe.value("simulated.mbit_s"));
    link.of_payload = true;
  } else if (link.mbit_s <= 0) {  // the slower of two limits
    for (const double limit : {lab ? recipe->lab.mbit_s : 0, recipe->transport.shape.mbit_s}) {
      if (limit > 0) link.mbit_s = link.mbit_s > 0 ? std::min(link.mbit_s, limit) : limit;
    }
  }
  if (link.mbit_s <= 0) {
    fail(ErrorKind::usage, "over which links? The recipe sets no rate: give one, such as --mbit-s 100");
  }
  const bool delayed = !simulated && recipe.is_set("transport.delay_ms");
  const double latency_ms = 1e3 * seconds(delayed ? recipe->transport.shape.delay : recipe->simulated.link.latency);
  if (link.latency_ms < 0) link.latency_ms = latency_ms;
  if (lab) link.burst_bytes = launch::burst_of_lab(link.mbit_s);
  if (arguments.burst_bytes >= 0) link.burst_bytes = static_cast<std::size_t>(arguments.burst_bytes);
  return link;
}

/// What a lab's links would let through at once, where the question says nothing of it; 0: it does, or has no lab's
/// links.
double burst_left_out(const AdviseArguments& arguments, const Settings& recipe, const StatedLink& link) {
  if (recipe->in_virtual_time() || link.burst_bytes > 0 || arguments.burst_bytes >= 0) return 0;
  return static_cast<double>(launch::burst_of_lab(link.mbit_s));
}

/// A pass of a worker's share of the recipe's batch.
StatedPass stated_pass_of(const AdviseArguments& arguments, const Settings& recipe) {
  if (arguments.pass_ms <= 0) return {};
  const auto workers = static_cast<std::uint32_t>(recipe->workers);
  const bool shared = strategy_of(recipe).data == strategy::DataUse::global_batches;
  return {from_seconds(1e-3 * arguments.pass_ms),
          shared ? (batch_of(recipe) + workers - 1) / workers : batch_of(recipe)};
}

/// Refuses what has no effect, or tells of it where a file says it; data.cache has one, since passes are kept there.
void know_what_counts(std::vector<RecipeCell>* cells) {
  for (RecipeCell& cell : *cells) std::erase_if(cell.idle, [](const IdleKey& one) { return one.key == "data.cache"; });
  refuse_idle(*cells);
  const char* const key = "simulated.image_us";
  for (const RecipeCell& cell : *cells) {
    const Settings& settings = cell.settings;
    if (!settings.is_set(key) || !settings->in_virtual_time()) continue;
    const std::string why = text(settings.shown(key), " has no effect on advise, which measures a worker's pass here");
    if (settings.origin(key) == "--set") fail(ErrorKind::usage, why, "; leave it out");
    std::cerr << "ripieno: note: " << why << "\n";
    return;
  }
}

/// The recipe's cells, of one seed each; refused combinations go into `refused`.
std::vector<RecipeCell> cells_of_grid(const Recipe& recipe) {
  std::vector<RecipeCell> cells;
  for (const RecipeCell& cell : recipe.cells) {
    if (cell.seed_index == 0) cells.push_back(cell);
  }
  return cells;
}

void check_workers(const AdviseArguments& arguments, const Settings& base) {
  if (arguments.grid && !(arguments.strategies.empty() && arguments.codecs.empty())) {
    fail(ErrorKind::usage, "--strategy and --codec have no effect with --grid, whose cells have theirs; ",
         "leave them out");
  }
  if (!arguments.grid && !base.is_set("workers")) {
    fail(ErrorKind::usage, "how many workers? The recipe does not say: give -n N");
  }
  if (!arguments.grid && base->workers == 1) {
    fail(ErrorKind::usage, base.shown("workers"), ": one worker agrees with nobody; give -n N, 2 or more");
  }
}

/// advise takes every rank to have a link of its own. In a lab of fewer nodes some share one, and memory with each
/// other.
void tell_of_shared_nodes(const Settings& base, const std::vector<Advice>& ways) {
  const int nodes = base->lab.nodes;
  int ranks = 0;
  for (const Advice& way : ways) ranks = std::max(ranks, way.job.info->ranks(way.job.plan, way.job.workers));
  if (nodes == 0 || nodes >= ranks) return;
  const bool servers = nodes >= base->workers;
  std::cerr << "ripieno: note: lab.nodes = " << nodes << " is less than " << ranks << " ranks"
            << (servers ? ", with servers," : "")
            << ": those on one node share its link, and memory; advise takes each to have a link of its own\n";
}

/// What advise chooses itself cannot be set; what a recipe's file says of it is one of the ways.
void check_not_chosen(const Settings& base) {
  for (const auto& [key, option] : {std::pair("strategy", "--strategy"), {"exchange.codec", "--codec"}}) {
    if (base.origin(key) == "--set")
      fail(ErrorKind::usage, base.shown(key), " has no effect: advise ranks all of them; ask for some with ", option);
  }
}

Recipe recipe_of(const AdviseArguments& arguments, std::vector<RefusedCell>* refused) {
  std::vector<std::string> sets = arguments.sets;
  if (arguments.workers > 0) {
    refuse_twice(arguments.sets, "workers", text("-n ", arguments.workers));
    sets.push_back(text("workers=", arguments.workers));
  }
  if (!arguments.grid) return load_recipe_base(arguments.recipe, sets, arguments.scale);
  return load_recipe(arguments.recipe, sets, arguments.scale, refused);
}

/// Says on a terminal how many ways are projected.
class WaysDone {
 public:
  explicit WaysDone(std::size_t all) : all_(all), shown_(::isatty(STDERR_FILENO) && all > 1) {}
  ~WaysDone() {
    if (shown_) std::cerr << "\r\033[K" << std::flush;
  }
  /// From any thread.
  void one() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (shown_) std::cerr << "\r\033[K" << done_ << " of " << all_ << " ways projected" << std::flush;
  }

 private:
  std::mutex mutex_;
  std::size_t all_, done_ = 0;
  bool shown_;
};

/// Projects all, on all cores; what is refused moves to `refused`.
void project_all(std::vector<Advice>* ways, std::vector<RefusedCell>* refused) {
  std::vector<std::optional<std::string>> refusals(ways->size());
  WaysDone done(ways->size());
  side_by_side(ways->size(), [&](std::size_t i) {
    Advice& way = (*ways)[i];
    try {
      way.projection = predict::project(way.job);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal || ways->size() == 1) throw;
      refusals[i] = error.what();
    }
    done.one();
  });
  std::vector<Advice> projected;
  for (std::size_t i = 0; i < ways->size(); ++i) {
    if (refusals[i]) {
      refused->push_back({(*ways)[i].cell.name, *refusals[i], ErrorKind::usage});
    } else {
      projected.push_back(std::move((*ways)[i]));
    }
  }
  *ways = std::move(projected);
}

/// 0: they differ.
int workers_of_all(const std::vector<Advice>& cells) {
  const int first = cells.front().cell.settings->workers;
  const auto is_same = [first](const Advice& one) { return one.cell.settings->workers == first; };
  return std::all_of(cells.begin(), cells.end(), is_same) ? first : 0;
}

AdviceList advice_of(const AdviseArguments& arguments, const Recipe& recipe, std::vector<RefusedCell> refused,
                     const model::Zoo& zoo) {
  AdviceList list;
  list.refused = std::move(refused);
  check_workers(arguments, recipe.base);
  std::vector<RecipeCell> cells;
  if (arguments.grid) {
    cells = cells_of_grid(recipe);
  } else {
    check_not_chosen(recipe.base);
    cells = all_ways(recipe.base, arguments.strategies, arguments.codecs, &list.refused);
  }
  know_what_counts(&cells);
  list.link = link_of(arguments, recipe.base);
  list.lab_burst_bytes = burst_left_out(arguments, recipe.base, list.link);
  Adviser adviser(list.link, stated_pass_of(arguments, recipe.base), zoo);
  const RecipeCell* measured = nullptr;  // one with several workers, if there is one
  for (RecipeCell& cell : cells) {
    const Settings as_given = cell.settings;
    find_data(cell.settings);
    try {
      Advice advice = adviser.measure(cell);
      if (!measured || measured->settings->workers == 1) measured = &cell;
      advice.cell.settings = as_given;
      if (!arguments.exact || advice.exact) list.ranked.push_back(std::move(advice));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage || cells.size() == 1) throw;
      list.refused.push_back({cell.name, error.what(), error.kind()});
    }
  }
  project_all(&list.ranked, &list.refused);
  if (list.ranked.empty() && !list.refused.empty()) fail(ErrorKind::usage, list.refused.front().reason);
  if (list.ranked.empty()) fail(ErrorKind::usage, "nothing is left to be ranked: ask for more strategies or codecs");
  std::stable_sort(list.ranked.begin(), list.ranked.end(),
                   [](const Advice& a, const Advice& b) { return a.projection.epoch_s < b.projection.epoch_s; });
  list.pass = adviser.pass(*measured);
  list.doubt_of_costs = adviser.doubt_of_costs();
  tell_of_shared_nodes(recipe.base, list.ranked);
  list.of_grid = arguments.grid;
  list.workers = arguments.grid ? workers_of_all(list.ranked) : recipe.base->workers;
  list.model = recipe.base->model;
  list.data = recipe.base->data_name;
  return list;
}

void run_advise(const AdviseArguments& arguments, const CommandContext& context) {
  if (arguments.print_config) {
    std::cout << recipe_of(arguments, nullptr).base.print();
    return;
  }
  if (arguments.refused && (arguments.format == "csv" || arguments.format == "json")) {
    fail(ErrorKind::usage, "--refused has no effect with --format ", arguments.format,
         arguments.format == "json" ? ", which has them anyway" : ", which has a row for each that can be");
  }
  std::vector<RefusedCell> refused;
  const Recipe recipe = recipe_of(arguments, &refused);
  const AdviceList list = advice_of(arguments, recipe, std::move(refused), context.zoo);
  if (arguments.format == "json") {
    std::cout << advice_json(list);
  } else if (arguments.format == "csv") {
    std::cout << advice_csv(list);
  } else if (arguments.format == "md") {
    std::cout << advice_markdown(list, arguments.top, arguments.refused);
  } else {
    std::cout << advice_text(list, arguments.top, arguments.refused);
  }
  if (arguments.output.empty()) return;
  const AskedLink asked{arguments.mbit_s > 0, arguments.latency_ms >= 0};
  write_file(arguments.output, best_recipe(list, arguments.recipe, recipe.base, asked));
  std::cerr << arguments.output << ": " << list.ranked.front().cell.name << "; ripieno train " << arguments.output
            << "\n";
}

}  // namespace

void add_advise(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<AdviseArguments>();
  CLI::App* command = app.add_subcommand(
      "advise", "Rank ways to agree for a recipe's job on other links, by what each would take; no run is needed");
  add_recipe(*command, *arguments, true);
  command->add_option("-n,--workers", arguments->workers, "workers, each on its own machine; default: the recipe's")
      ->check(CLI::Range(2, 4096));
  command
      ->add_option("--mbit-s", arguments->mbit_s,
                   "rate of each worker's link, each way, 10^6 bits a second; default: the recipe's")
      ->check(number_from(0.001, 1e6, 3));
  command
      ->add_option("--latency-ms", arguments->latency_ms,
                   "of the links, one way (half of what ping shows); default: the recipe's, or 0.05")
      ->check(number_from(0, 1e5));
  command
      ->add_option("--burst-bytes", arguments->burst_bytes,
                   "sent at once after a pause, as a token bucket lets through; default: a recipe's lab's, else 0")
      ->check(number_from(0, 1e9));
  command
      ->add_option("--pass-ms", arguments->pass_ms,
                   "time of a worker's pass over its share of the batch, forward and backward, in training on machines "
                   "that are not this one; default: measured here")
      ->check(number_from(1e-3, 1e7, 3));
  const auto list = [&](const char* name, std::vector<std::string>& into, const char* help) {
    command->add_option(name, into, help)->type_name("NAME,..")->delimiter(',')->allow_extra_args(false);
  };
  list("--strategy", arguments->strategies, "only these, e.g. ring,ddp; default: all (ripieno list strategies)");
  list("--codec", arguments->codecs, "only these, e.g. fp32,int8; default: all (ripieno list codecs)");
  command->add_flag("--exact", arguments->exact, "only ways that take the steps of one worker with the whole batch");
  command->add_flag("--grid", arguments->grid, "rank the cells of the recipe's own grid instead");
  command->add_option("--top", arguments->top, "how many rows of the table")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_flag("--refused", arguments->refused, "say for each refused combination why");
  command->add_option("--format", arguments->format, "text, md; csv, json: all rows")
      ->check(CLI::IsMember({"text", "md", "csv", "json"}))
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "write the first as a recipe, for ripieno train")
      ->type_name("FILE");
  command->callback(
      [arguments, &context] { context.chosen = [arguments, &context] { run_advise(*arguments, context); }; });
}

}  // namespace ripieno::program
