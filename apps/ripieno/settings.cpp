#include "apps/ripieno/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "apps/ripieno/toml_value.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/core/file.h"

namespace ripieno {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

Setting flag(std::string key, bool standard, std::string help) { return {key, standard, help, {}, {}}; }
Setting whole(std::string key, std::int64_t standard, Bounds range, std::string help) {
  return {key, standard, help, {}, range};
}
Setting number(std::string key, double standard, Bounds range, std::string help) {
  return {key, standard, help, {}, range};
}
Setting list(std::string key, Bounds range, std::string help) { return {key, std::vector<double>{}, help, {}, range}; }
Setting word(std::string key, std::string standard, std::string help, std::vector<std::string> allowed = {}) {
  return {key, standard, help, allowed, {}};
}

template <class Table>
std::vector<std::string> names_in(const Table& table, std::vector<std::string> names = {}) {
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

std::vector<Setting> table() {
  const Bounds from_0{0, unbounded, false, false}, above_0{0, unbounded, true, false}, count{0, 2147483647};
  const Bounds below_1{0, 1, false, true}, fraction{0, 1, false, false}, inside{0, 1, true, true};
  return {
      word("model", "mnist-cnn", "a name of the zoo"),
      word("strategy", "ring", "how the workers agree; \"single\" is one worker alone"),
      whole("workers", 2, {1, 4096}, "how many train together"),
      whole("passes", 1, {1, 4096}, "accumulate: batches before an exchange; ring-passes: predecessors to average with"),
      whole("seed", 0, {0, 1e12}, "of the weights, the order of samples, augmentation and random partners"),
      word("data.name", "digits", "the data set"),
      word("data.folder", "", "where it lies; empty: where the launcher finds data sets"),
      word("data.cache", "", "a folder for what is unpacked once; empty: none"),
      whole("data.train_samples", 0, count, "train on the first so many; 0: all"),
      whole("data.test_samples", 0, count, "evaluate on the first so many; 0: all"),
      word("data.partition", "even", "what a worker with data of its own has of it: alike for all, or skewed by label",
           {"even", "labels", "dirichlet"}),
      whole("data.shards_per_worker", 2, {1, 10000}, "labels: pieces of the data sorted by label that a worker gets"),
      number("data.alpha", 0.5, {0, 1e6, true, false}, "dirichlet: small is skewed, large is even"),
      whole("data.crop_padding", 0, {0, 16}, "pixels of padding around a random crop; 0: no crop"),
      flag("data.flip", false, "mirror half of the images at random"),
      flag("data.normalise", true, "to zero mean and unit deviation for each channel"),
      whole("batch.global", 0, {0, 1000000}, "samples a step, over all workers; state this or per_worker"),
      whole("batch.per_worker", 0, {0, 1000000}, "samples a step and worker; state this or global"),
      list("batch.shares", {0, 1e6, true, false}, "for each worker: how large its part of a batch is beside the others'; empty: alike"),
      whole("train.epochs", 1, {1, 100000}, "passes over the data"),
      word("train.precision", "fp32", "of compute; bf16, fp16: autocast over fp32 weights, fp16 with a loss scale",
           {"fp32", "fp64", "bf16", "fp16"}),
      flag("train.channels_last", false, "store images as N x H x W x C"),
      number("train.label_smoothing", 0, below_1, "share of a label given to all classes"),
      whole("train.accumulate", 1, {1, 1024}, "parts that a worker's batch is computed in, whose gradients are added up"),
      whole("train.threads", 1, {0, 4096}, "compute threads a worker; 0: all cores / workers"),
      whole("train.max_steps", 0, count, "stop after so many steps in all (such a run cannot be resumed); 0: no limit"),
      whole("train.evaluate_every", 1, {1, 100000}, "epochs"),
      word("optimiser.name", "sgd", "the rule by which weights follow gradients", {"sgd", "adam", "adamw"}),
      number("optimiser.momentum", 0, below_1, "sgd"),
      number("optimiser.weight_decay", 0, fraction, "L2; adamw: decoupled"),
      flag("optimiser.nesterov", false, "sgd with momentum"),
      number("optimiser.beta1", 0.9, below_1, "adam, adamw"),
      number("optimiser.beta2", 0.999, below_1, "adam, adamw"),
      number("optimiser.epsilon", 1e-8, from_0, "adam, adamw"),
      word("learning_rate.schedule", "constant", "how it changes over training",
           {"constant", "step", "cosine", "one-cycle"}),
      number("learning_rate.base", 0.1, {0, 1000, true, false}, "of one worker"),
      word("learning_rate.scale", "none", "linear: times the number of workers", {"none", "linear"}),
      number("learning_rate.warmup_epochs", 0, from_0, "rise in a straight line at first; 0: none"),
      list("learning_rate.step_epochs", above_0, "step: when the rate falls"),
      number("learning_rate.step_factor", 0.1, above_0, "step: times which it falls"),
      number("learning_rate.final_fraction", 0, fraction, "cosine, one-cycle: the last rate over the full one"),
      number("learning_rate.peak_at", 0.3, inside, "one-cycle: fraction of training"),
      number("learning_rate.start_fraction", 0.04, fraction, "one-cycle: the first rate over the full one"),
      word("exchange.route", "auto", "of strategies whose route is any (ripieno list strategies); auto: ring", names_in(routes(), {"auto"})),
      word("exchange.codec", "auto", "how numbers are encoded; auto: as they are in memory", names_in(codecs())),
      number("exchange.bucket_mb", 25, {0.001, 4096}, "gradients that travel together, 10^6 bytes"),
      whole("exchange.segment_kb", 0, {0, 1048576}, "1024 bytes of a bucket that go through a route as one; 0: never cut"),
      whole("exchange.in_flight", 4, {1, 256}, "ddp: buckets that are averaged at once"),
      word("exchange.overlap", "backward", "ddp: what the exchange goes on under; forward: the next forward pass too",
           {"backward", "forward"}),
      whole("exchange.per_node", 1, {1, 4096}, "hierarchical: ranks that are on one node"),
      flag("codec.error_feedback", true, "lossy codecs: what is lost is added to what is sent next"),
      whole("codec.block", 256, {8, 1048576}, "int8, qsgd, sign: numbers that share a scale, a multiple of 8"),
      whole("codec.bits", 4, {2, 8}, "qsgd: of each number"),
      number("codec.fraction", 0.01, {0, 1, true, false}, "topk, topk-sampled: of the numbers that are sent"),
      whole("codec.rank", 2, {1, 64}, "powersgd: of the factors"),
      whole("ps.servers", 1, {1, 4096}, "parts of the model, each at a server of its own"),
      word("ps.placement", "own", "own: servers have ranks of their own; beside: server i lives on worker i's", {"own", "beside"}),
      whole("ps.staleness", 2, {0, 1000000}, "ps-ssp: steps that a worker may be ahead of the slowest"),
      whole("fedavg.local_epochs", 1, {1, 1000}, "between two averages"),
      number("fedavg.fraction", 1, {0, 1, true, false}, "of the clients that take part in a round"),
      word("fedavg.exchange", "parameters", "what clients send: their parameters, or what they changed", {"parameters", "deltas"}),
      word("fedavg.batch_norm", "mean", "what becomes of its statistics", {"rank0", "mean", "local"}),
      whole("local.steps", 8, {1, 1000000}, "local-sgd, diloco: between two exchanges"),
      whole("local.fragments", 1, {1, 10000}, "local-sgd, diloco: parts of the model that are exchanged in turn"),
      whole("local.delay", 0, {0, 1000000}, "local-sgd, diloco: steps that an exchange may take while computing goes on"),
      number("outer.learning_rate", 0, {0, 1000}, "fedavg, fedavgm, fedadam, local-sgd, diloco: of the step on mean differences; 0: the strategy's own"),
      number("outer.momentum", 0.9, below_1, "fedavgm, diloco"),
      number("outer.beta1", 0.9, below_1, "fedadam"),
      number("outer.beta2", 0.99, below_1, "fedadam"),
      number("outer.epsilon", 1e-3, from_0, "fedadam"),
      word("transport.kind", "tcp", "simulated: virtual time", {"tcp", "simulated"}),
      word("transport.listen", "127.0.0.1:0", "address:port where the workers meet; port 0: any"),
      number("transport.timeout_s", 1800, {0, 1e6, true, false}, "seconds of silence after which a peer is lost"),
      number("simulated.latency_us", 50, {0, 1e9}, "microseconds, one way"),
      number("simulated.gbit_s", 1, {1e-6, 8000}, "10^9 bits a second, each way of each worker"),
      number("simulated.image_us", 100, {0, 1e9}, "microseconds of compute charged for each image and step"),
      list("simulated.slow", {0, 1e4, true, false}, "for each rank: times that compute takes; missing: 1"),
      list("simulated.deaths_s", from_0, "for each rank: virtual seconds after which it dies; 0 or missing: never"),
      whole("simulated.window_kb", 256, {1, 1048576}, "1024 bytes that may be under way before a send waits"),
      word("run.folder", "runs", "where run folders are made"),
      word("run.name", "", "of the run's folder; empty: made from what runs"),
      whole("run.checkpoint_every", 0, count, "epochs; 0: only at the end"),
      flag("run.trace", false, "write trace-RANK.json: every pass and exchange, for Perfetto or chrome://tracing"),
  };
}

std::string shortest(double x) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    char code[8];
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Letters to change, insert, drop, or swap with their neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }

/// Also finds a key that was written without its table, or in another one.
std::string nearest_key(std::string_view key) {
  const Setting* best = nullptr;
  std::size_t least = key.size() / 2 + 1;
  for (const Setting& one : all_settings()) {
    const std::size_t whole = edit_distance(key, one.key);
    const std::size_t last = edit_distance(last_part(key), last_part(one.key)) + 2;
    if (std::min(whole, last) < least) {
      least = std::min(whole, last);
      best = &one;
    }
  }
  return best ? text("did you mean ", best->key, "?") : "--print-config lists all keys";
}

std::string given(const Value& value) {
  return (std::holds_alternative<std::string>(value) ? "the string " : "") + to_toml(value);
}

bool is_group(std::string_view name) {
  return std::any_of(all_settings().begin(), all_settings().end(),
                     [&](const Setting& one) { return one.key.starts_with(text(name, ".")); });
}

std::size_t index_of(std::string_view key) {
  const auto& all = all_settings();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Setting& one) { return one.key == key; });
  return static_cast<std::size_t>(at - all.begin());
}

std::string_view trimmed(std::string_view s) {
  const auto begin = s.find_first_not_of(" \t");
  return begin == s.npos ? "" : s.substr(begin, s.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::string to_toml(const Value& value) {
  if (auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (auto* v = std::get_if<std::int64_t>(&value)) return std::to_string(*v);
  if (auto* v = std::get_if<std::string>(&value)) return quoted(*v);
  if (auto* v = std::get_if<double>(&value)) {
    std::string digits = shortest(*v);
    // TOML tells a number from a whole one by its point or exponent.
    if (digits.find_first_of(".en") == digits.npos) digits += ".0";
    return digits;
  }
  std::string out;
  for (const double x : std::get<std::vector<double>>(value)) out += (out.empty() ? "" : ", ") + to_toml(Value(x));
  return "[" + out + "]";
}

bool Bounds::contains(double x) const {
  return std::isfinite(x) && (without_low ? x > low : x >= low) && (without_high ? x < high : x <= high);
}

std::string Bounds::str() const {
  const auto plain = [](double x) {
    return x == std::floor(x) && std::abs(x) < 1e15 ? std::to_string(static_cast<std::int64_t>(x)) : shortest(x);
  };
  if (!std::isfinite(high)) return text(without_low ? "above " : "at least ", plain(low));
  return text(without_low ? "above " : "from ", plain(low), without_high ? " to below " : " to ", plain(high));
}

std::string Setting::type() const {
  constexpr const char* names[] = {"true or false", "a whole number", "a number", "a string", "an array of numbers"};
  return names[standard.index()];
}

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = table();
  return all;
}

std::string Origin::str() const { return line ? text(name, ":", line) : name; }
std::string Origin::place() const { return line ? text(name, ":", line, ":", column) : name; }

const Setting& known_setting(std::string_view key, const Origin& origin) {
  const std::size_t index = index_of(key);
  if (index < all_settings().size()) return all_settings()[index];
  if (is_group(key)) {
    fail(ErrorKind::usage, origin.place(), ": ", key, " is a table of keys, not a value: write [", key, "], or ", key,
         ".KEY = ...");
  }
  fail(ErrorKind::usage, origin.place(), ": unknown key ", key, "; ", nearest_key(key));
}

Value checked(const Setting& setting, Value value, const Origin& origin) {
  const auto* as_whole = std::get_if<std::int64_t>(&value);
  if (as_whole && std::holds_alternative<double>(setting.standard)) value = static_cast<double>(*as_whole);
  if (value.index() != setting.standard.index()) {
    fail(ErrorKind::usage, origin.place(), ": ", setting.key, " must be ", setting.type(), ", not ", given(value));
  }
  std::vector<double> numbers;
  if (auto* v = std::get_if<std::int64_t>(&value)) numbers = {static_cast<double>(*v)};
  if (auto* v = std::get_if<double>(&value)) numbers = {*v};
  if (auto* v = std::get_if<std::vector<double>>(&value)) numbers = *v;
  for (const double x : numbers) {
    if (setting.range.contains(x)) continue;
    fail(ErrorKind::usage, origin.place(), ": ", setting.key, " = ", to_toml(value), " is out of range: ",
         numbers.size() > 1 ? "each number must be " : "it must be ", setting.range.str());
  }
  const auto* name = std::get_if<std::string>(&value);
  const auto& allowed = setting.allowed;
  if (!name || allowed.empty() || std::count(allowed.begin(), allowed.end(), *name)) return value;
  std::string names;
  for (const std::string& one : allowed) names += (names.empty() ? "" : ", ") + one;
  const auto nearest = std::min_element(allowed.begin(), allowed.end(), [&](const auto& a, const auto& b) {
    return edit_distance(*name, a) < edit_distance(*name, b);
  });
  const bool close = edit_distance(*name, *nearest) <= nearest->size() / 2;
  fail(ErrorKind::usage, origin.place(), ": ", setting.key, " = ", to_toml(value), " is not one of ", names,
       close ? text("; did you mean ", *nearest, "?") : "");
}

Value checked(const Setting& setting, const toml::node& node, const Origin& origin) {
  if (const auto value = to_value(node)) return checked(setting, *value, origin);
  fail(ErrorKind::usage, origin.place(), ": ", setting.key, " must be ", setting.type(), ", not ", describe(node));
}

Settings::Settings() {
  for (const Setting& one : all_settings()) entries_.push_back({one.standard, "default"});
}

void Settings::load(const std::filesystem::path& toml) {
  std::string content;
  try {
    content = read_file(toml);
  } catch (const Error& error) {
    fail(ErrorKind::usage, error.what(), "; give the path of a recipe");
  }
  load_text(content, toml.string());
}

void Settings::load_text(std::string_view toml, const std::string& name, const std::vector<std::string>& skip) {
  toml::table table = parse_toml(toml, name);
  for (const std::string& key : skip) table.erase(key);
  std::set<std::string> seen;
  for (const Leaf& leaf : leaves(table, name)) {
    if (leaf.key == "seeds" || leaf.key == "grid" || leaf.key.starts_with("grid.")) {
      fail(ErrorKind::usage, leaf.origin.place(), ": a recipe with ", leaf.key == "seeds" ? "seeds" : "a [grid]",
           " is more than one run; one run has a value for each key, such as workers = 2 or seed = 1");
    }
    if (leaf.node->is_table() && is_group(leaf.key)) continue;  // an empty [data]
    const Setting& setting = known_setting(leaf.key, leaf.origin);
    if (!seen.insert(leaf.key).second) {
      fail(ErrorKind::usage, leaf.origin.place(), ": ", leaf.key, " is given twice, first at ", origin(leaf.key));
    }
    assign(leaf.key, checked(setting, *leaf.node, leaf.origin), leaf.origin);
  }
}

void Settings::set(std::string_view assignment) {
  const Origin origin{"--set"};
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos || trimmed(assignment.substr(0, equals)).empty()) {
    fail(ErrorKind::usage, "--set ", assignment, ": write KEY=VALUE, for example --set learning_rate.base=0.1");
  }
  const std::string_view key = trimmed(assignment.substr(0, equals));
  const std::string_view written = trimmed(assignment.substr(equals + 1));
  const Setting& setting = known_setting(key, origin);
  const bool bare_string = std::holds_alternative<std::string>(setting.standard) &&
                           !written.starts_with('"') && !written.starts_with('\'');
  Value value{std::string(written)};
  if (!bare_string) {
    try {
      const toml::table parsed = toml::parse(text("value = ", written));
      const toml::node* node = parsed.get("value");
      if (node && parsed.size() == 1) value = checked(setting, *node, origin);
    } catch (const toml::parse_error&) {  // a bare word: a string
    }
  }
  assign(key, std::move(value), origin);
}

void Settings::assign(std::string_view key, Value value, const Origin& origin) {
  const Setting& setting = known_setting(key, origin);
  entries_[index_of(key)] = {checked(setting, std::move(value), origin), origin.str()};
}

const Value& Settings::value(std::string_view key) const {
  const std::size_t index = index_of(key);
  require(index < entries_.size(), "setting ", key, " is not in the table");
  return entries_[index].value;
}

const std::string& Settings::origin(std::string_view key) const {
  const std::size_t index = index_of(key);
  require(index < entries_.size(), "setting ", key, " is not in the table");
  return entries_[index].origin;
}

void Settings::check() const {
  const auto shown = [&](const char* key) {
    return text(key, " = ", ripieno::to_toml(value(key)), " (", origin(key), ")");
  };
  const bool global = get<int>("batch.global") > 0, per_worker = get<int>("batch.per_worker") > 0;
  if (global && per_worker) {
    fail(ErrorKind::usage, shown("batch.global"), " and ", shown("batch.per_worker"),
         " are both stated: with several workers they mean different things; state one, and 0 for the other");
  }
  if (!global && !per_worker) {
    fail(ErrorKind::usage, "no batch size: state batch.global (samples a step over all workers) or batch.per_worker ",
         "(samples a step and worker)");
  }
  if (get<bool>("optimiser.nesterov") && get<double>("optimiser.momentum") == 0) {
    fail(ErrorKind::usage, shown("optimiser.nesterov"), " needs a momentum above 0, but ",
         shown("optimiser.momentum"));
  }
  if (get<double>("learning_rate.warmup_epochs") >= get<int>("train.epochs")) {
    fail(ErrorKind::usage, shown("learning_rate.warmup_epochs"), " must end before training does: ",
         shown("train.epochs"));
  }
  const auto steps = get<std::vector<double>>("learning_rate.step_epochs");
  if (std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end()) {
    fail(ErrorKind::usage, shown("learning_rate.step_epochs"), " must rise from each number to the next");
  }
  if (get<std::string>("learning_rate.schedule") == "step" && steps.empty()) {
    fail(ErrorKind::usage, shown("learning_rate.schedule"), " needs learning_rate.step_epochs, such as [10, 20]");
  }
}

std::string Settings::written(bool with_origins) const {
  std::string out, group;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string& key = all_settings()[i].key;
    const std::size_t dot = key.find('.');
    if (dot != key.npos && key.substr(0, dot) != group) {
      group = key.substr(0, dot);
      out += text("\n[", group, "]\n");
    }
    out += text(last_part(key), " = ", ripieno::to_toml(entries_[i].value));
    if (with_origins) out += "  # " + entries_[i].origin;
    out += '\n';
  }
  return out;
}

std::string Settings::to_toml() const { return written(false); }

std::string Settings::print() const { return written(true); }

std::uint64_t Settings::digest() const {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : to_toml()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace ripieno
