#include "apps/ripieno/conditions.h"

#include <algorithm>

#include "ripieno/collective/schedule.h"
#include "ripieno/data/dataset.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::program {
namespace {

bool among(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string word_of(const Settings& settings, const std::string& key) {
  return std::get<std::string>(settings.value(key));
}

/// The built-in strategies for which `which` is true.
template <class Which>
std::vector<std::string> strategies_that(Which which) {
  std::vector<std::string> names;
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    if (strategy::is_built_in(info.name) && which(info)) names.emplace_back(info.name);
  }
  return names;
}

bool has_route(const strategy::StrategyInfo& info) {  // a route with a schedule, for averages
  return !info.traits.alone && !info.traits.mixes && !info.traits.has_cloud && !info.has_servers;
}

bool is_generated(const Settings& settings) {
  const std::string name = word_of(settings, "data.name");
  return std::any_of(data::datasets().begin(), data::datasets().end(),
                     [&](const data::DatasetInfo& data) { return data.name == name && data.generated; });
}

}  // namespace

std::string either(const std::vector<std::string>& words) {
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) all += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
  return all;
}

Condition is(std::string key, std::vector<std::string> words) {
  return {key, text(key, " = ", either(words)),
          [key, words](const Settings& s) { return among(words, word_of(s, key)); }};
}

Condition is_not(std::string key, std::string word) {
  return {key, text("another ", key, " than ", word),
          [key, word](const Settings& s) { return word_of(s, key) != word; }};
}

Condition above(std::string key, double least) {
  return {key, text(key, " above ", least), [key, least](const Settings& s) {
            const Value& value = s.value(key);
            const auto* whole = std::get_if<std::int64_t>(&value);
            return (whole ? static_cast<double>(*whole) : std::get<double>(value)) > least;
          }};
}

Condition on(std::string key) {
  return {key, key + " = true", [key](const Settings& s) { return std::get<bool>(s.value(key)); }};
}

Condition codec_of(std::vector<codec::CodecKind> kinds) {
  std::vector<std::string> names;
  for (const codec::CodecInfo& info : codec::codecs()) {
    if (std::find(kinds.begin(), kinds.end(), info.kind) != kinds.end()) names.emplace_back(info.name);
  }
  return is("exchange.codec", std::move(names));
}

Condition strategy_of(std::vector<std::string> names) {
  return {"strategy", "strategy " + either(names), [names](const Settings& s) {
            const std::string name = word_of(s, "strategy");
            return among(names, name) || !strategy::is_built_in(name);
          }};
}

Condition several_workers() {
  return {"strategy", "another strategy than single",
          [](const Settings& s) { return word_of(s, "strategy") != "single" || s->workers == 1; }};
}

Condition data_of_its_own() {
  // By label with a strategy that divides batches is refused, with the reason (strategy/refusals.cpp).
  Condition condition = strategy_of(strategies_that(
      [](const strategy::StrategyInfo& info) { return info.data != strategy::DataUse::global_batches; }));
  condition.holds = [inner = condition.holds](const Settings& s) {
    return inner(s) || among({"labels", "dirichlet"}, word_of(s, "data.partition"));
  };
  return condition;
}

Condition data_in_files() {
  return {"data.name", "data that is read from files", [](const Settings& s) { return !is_generated(s); }};
}

Condition data_that_is_kept() {
  return {"data.name", "data that is read from files, or a replay",
          [](const Settings& s) { return !is_generated(s) || word_of(s, "train.compute") == "replay"; }};
}

Condition route_is_open() {
  return strategy_of(strategies_that([](const strategy::StrategyInfo& info) { return info.route == "any"; }));
}

Condition route_knows_nodes() {
  const std::vector<std::string> routes = collective::routes_that_look_at_nodes();
  Condition condition = strategy_of(
      strategies_that([&](const strategy::StrategyInfo& info) { return among(routes, std::string(info.route)); }));
  condition.words += ", or route " + either(routes);
  condition.holds = [inner = condition.holds, routes](const Settings& s) {
    return inner(s) || among(routes, word_of(s, "exchange.route")) || among(routes, word_of(s, "exchange.small_route"));
  };
  return condition;
}

Condition gradients_are_averaged() {
  return strategy_of(
      strategies_that([](const strategy::StrategyInfo& info) { return has_route(info) && info.what == "gradients"; }));
}

Condition schedule_is_run() {
  Condition condition = strategy_of(strategies_that(has_route));
  condition.words += ", or ring-passes with passes = workers";
  condition.holds = [inner = condition.holds](const Settings& s) {
    return inner(s) || (word_of(s, "strategy") == "ring-passes" && s->plan.passes == s->workers);
  };
  return condition;
}

Condition links_are_measured() {
  Condition condition = strategy_of(strategies_that(has_route));
  condition.holds = [inner = condition.holds](const Settings& s) {
    return inner(s) || word_of(s, "exchange.measure") == "off";
  };
  return condition;
}

Condition what_is_lost_can_be_kept() {
  return {"fedavg.exchange", "fedavg.exchange = deltas", [](const Settings& s) {
            return !strategy::find_strategy(word_of(s, "strategy")).traits.has_cloud ||
                   word_of(s, "fedavg.exchange") == "deltas";
          }};
}

Condition overlap_is_chosen() {
  Condition condition = strategy_of({"ddp"});
  condition.holds = [inner = condition.holds](const Settings& s) {
    return inner(s) || word_of(s, "exchange.overlap") == "forward";
  };
  return condition;
}

Condition rate_falls_in_time() {
  return {"train.epochs", "one at least below train.epochs", [](const Settings& s) {
            const auto epochs = s->plan.learning_rate.step_epochs;
            return epochs.empty() || epochs.front() < s->plan.epochs;
          }};
}

}  // namespace ripieno::program
