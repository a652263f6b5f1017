#include "apps/ripieno/match_step.h"

#include <charconv>
#include <cmath>
#include <iostream>
#include <optional>
#include <thread>

#include "apps/ripieno/job.h"
#include "apps/ripieno/replay.h"
#include "ripieno/predict/costs.h"
#include "ripieno/report/format.h"

namespace ripieno::program {
namespace {

Duration step_of(const std::string& match) {
  const auto refuse = [&match] {
    fail(ErrorKind::usage, "--match ", match, ": give the time of one worker's step, as step=2.23s or step=350ms");
  };
  constexpr std::string_view what = "step=";
  if (!match.starts_with(what)) refuse();
  double number = 0;
  const char* const end = match.data() + match.size();
  const auto [rest, error] = std::from_chars(match.data() + what.size(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (error != std::errc() || (unit != "s" && unit != "ms")) refuse();
  if (unit == "ms") number *= 1e-3;
  if (!(number >= 1e-6 && number <= 1e6)) refuse();
  return from_seconds(number);
}

/// The same job of a single worker, which takes all of batch.global, or the batch.per_worker images of its own.
Settings alone(const Settings& settings) {
  Settings one = settings;
  const auto assign = [&one](const char* key, Value value) { one.assign(key, std::move(value), {"--match"}); };
  const auto [global, per_worker] = settings->batch;
  const std::int64_t images = global == 0 ? per_worker : batch_of(settings);
  assign("strategy", std::string("single"));
  assign("workers", std::int64_t{1});
  assign("batch.global", images);
  assign("batch.per_worker", std::int64_t{0});
  assign("exchange.measure", std::string("off"));
  for (const char* key : {"exchange.codec", "exchange.route"}) assign(key, std::string("auto"));
  for (const char* key : {"batch.shares", "lab.slow", "simulated.slow", "simulated.deaths_s"})
    assign(key, std::vector<double>());
  return one;
}

/// CPU time of a step of one worker, measured here.
struct MeasuredStep {
  Duration pass, optimise;
  int threads = 1;
  Duration cpu() const { return (pass + optimise) * threads; }
};

MeasuredStep measured(const Settings& one, const model::Zoo& zoo) {
  constexpr int tries = 2;  // a run measures anew what is not believed
  KeptProfile kept = profile_here(one, zoo);
  for (int i = 1; i < tries && !doubt_of(kept).empty(); ++i) kept = profile_here(one, zoo);
  if (const std::string doubt = doubt_of(kept); !doubt.empty()) std::cerr << "ripieno: warning: " << doubt << "\n";
  const strategy::ComputeProfile& pass = kept.profile;
  return {pass.read + pass.forward + pass.backward,
          predict::optimiser_cost(plan_of(one).optimiser, zoo.find(one->model).parameters, DType::fp32),
          compute_threads(one)};
}

std::string three_digits(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::general, 3).ptr};
}

/// lab.cpu, in cores.
std::string in_a_lab(const Settings& settings, const MeasuredStep& step, Duration wanted, int nodes) {
  const double cores = seconds(step.cpu()) / seconds(wanted);
  const unsigned here = std::thread::hardware_concurrency();
  if (cores * nodes > here) {
    fail(ErrorKind::usage, "one worker's step takes ", report::format_seconds(seconds(step.pass + step.optimise)),
         " here, and ", report::format_seconds(seconds(wanted)), " on ", nodes, nodes == 1 ? " node" : " nodes",
         " would want ", three_digits(cores * nodes), " cores, of which this machine has ", here,
         ": take transport.kind = simulated with train.compute = replay, or fewer nodes");
  }
  const std::string value = three_digits(cores);
  std::cerr << text("ripieno: one worker's step of ", batch_of(settings), " images takes ",
                    report::format_seconds(seconds(step.pass + step.optimise)), " here with ", step.threads,
                    step.threads == 1 ? " thread" : " threads", "; lab.cpu=", value, " makes it ",
                    report::format_seconds(seconds(wanted)), "\n");
  return "lab.cpu=" + value;
}

/// simulated.slow_all: of the measured pass in a replay, else of simulated.image_us. An optimiser takes no virtual
/// time.
std::string in_virtual_time(const Settings& one, const std::optional<MeasuredStep>& step, Duration wanted) {
  const Duration pass = step ? step->pass : one->compute.image_cost * batch_of(one);
  if (pass <= Duration(0)) {
    fail(ErrorKind::usage, one.shown("simulated.image_us"),
         ": a step takes no virtual time, and no factor makes it longer; give the time of an image, or take "
         "train.compute = replay");
  }
  const std::string value = three_digits(seconds(wanted) / seconds(pass));
  std::cerr << text("ripieno: one worker's step of ", batch_of(one), " images takes ",
                    report::format_seconds(seconds(pass)), step ? " here" : " by simulated.image_us",
                    "; simulated.slow_all=", value, " makes it ", report::format_seconds(seconds(wanted)), "\n");
  return "simulated.slow_all=" + value;
}

/// The parts that two lists "a, b, c" have otherwise.
std::pair<std::string, std::string> differing(std::string one, std::string other) {
  const auto take = [](std::string* list) {
    const std::size_t comma = std::min(list->find(", "), list->size());
    std::string part = list->substr(0, comma);
    list->erase(0, comma + 2);
    return part;
  };
  std::pair<std::string, std::string> found;
  while (!one.empty() || !other.empty()) {
    const std::string first = take(&one), second = take(&other);
    if (first == second) continue;
    found.first += (found.first.empty() ? "" : ", ") + first;
    found.second += (found.second.empty() ? "" : ", ") + second;
  }
  return found;
}

enum class Speed { lab, virtual_time, own };

Speed speed_of(const Settings& settings) {
  if (settings->in_virtual_time()) return Speed::virtual_time;
  return settings->lab.nodes > 0 && !settings->compute.replayed ? Speed::lab : Speed::own;
}

}  // namespace

std::vector<std::string> matched_settings(const std::string& match, const std::vector<RecipeCell>& cells,
                                          const model::Zoo& zoo) {
  const Duration wanted = step_of(match);
  std::vector<std::string> sets;
  std::string untouched;
  for (const Speed speed : {Speed::lab, Speed::virtual_time}) {
    const RecipeCell* first = nullptr;
    int nodes = 1;
    for (const RecipeCell& cell : cells) {
      if (speed_of(cell.settings) != speed) continue;
      nodes = std::max(nodes, cell.settings->lab.nodes);
      if (!first) first = &cell;
      const auto [one, other] = differing(pass_of(alone(first->settings)), pass_of(alone(cell.settings)));
      if (one == other) continue;
      fail(ErrorKind::usage, "--match ", match, ": ", first->name, " and ", cell.name, " have different steps (", one,
           "; ", other, "): match those of one kind, by --only");
    }
    if (!first) continue;
    const Settings one = alone(first->settings);
    const bool is_lab = speed == Speed::lab;
    const bool is_measured = is_lab || one->compute.replayed;
    if (is_measured) check_job(one, zoo);
    const std::optional<MeasuredStep> step = is_measured ? std::optional(measured(one, zoo)) : std::nullopt;
    sets.push_back(is_lab ? in_a_lab(one, *step, wanted, nodes) : in_virtual_time(one, step, wanted));
  }
  for (const RecipeCell& cell : cells) {
    if (cell.seed_index == 0 && speed_of(cell.settings) == Speed::own)
      untouched += (untouched.empty() ? "" : ", ") + cell.name;
  }
  if (sets.empty()) {
    fail(ErrorKind::usage, "--match ", match, " sets lab.cpu or simulated.slow_all, and no cell here has a lab ",
         "(lab.nodes above 0) in which it computes, or virtual time (transport.kind = simulated)");
  }
  if (!untouched.empty())
    std::cerr << "ripieno: note: outside of a lab and of virtual time, and so not matched: " << untouched << "\n";
  return sets;
}

}  // namespace ripieno::program
