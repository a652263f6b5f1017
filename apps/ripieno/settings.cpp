#include "apps/ripieno/settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "apps/ripieno/bytes.h"
#include "apps/ripieno/toml_value.h"
#include "ripieno/core/edit_distance.h"
#include "ripieno/core/file.h"
#include "ripieno/core/guessed_words.h"
#include "ripieno/core/hash.h"
#include "ripieno/transport/transports.h"

namespace ripieno::program {
namespace {

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

std::string hint(std::string_view key) {
  const LikelyKey likely = likely_key(key);
  if (likely.key.empty()) return "--print-config lists all keys";
  return text("did you mean ", likely.key, "?", likely.note.empty() ? "" : text(" (", likely.note, ")"));
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

/// Whether a default switches something off, or leaves it open.
bool is_off(const Value& value) {
  static const std::vector<Value> all{
      false, std::int64_t{0}, 0.0, std::string(), std::string("none"), std::string("auto"), std::vector<double>()};
  return std::find(all.begin(), all.end(), value) != all.end();
}

std::string_view trimmed(std::string_view s) {
  const auto begin = s.find_first_not_of(" \t");
  return begin == s.npos ? "" : s.substr(begin, s.find_last_not_of(" \t") - begin + 1);
}

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

LikelyKey likely_key(std::string_view given) {
  const auto apart = [&](const Setting& one) {
    return std::min(edit_distance(given, one.key), edit_distance(last_part(given), last_part(one.key)) + 2);
  };
  const auto& all = all_settings();
  std::vector<std::string_view> keys;
  for (const Setting& one : all) keys.emplace_back(one.key);
  const auto meant = [](const GuessedWord& guess) { return LikelyKey{std::string(guess.meant), guess.note}; };
  if (const GuessedWord* whole = guessed(given, keys)) return meant(*whole);
  const auto nearest =
      std::min_element(all.begin(), all.end(), [&](const Setting& a, const Setting& b) { return apart(a) < apart(b); });
  const std::size_t edits = apart(*nearest);
  if (edits == 1) return {nearest->key};
  if (const GuessedWord* part = guessed(last_part(given), keys)) return meant(*part);
  return {edits < std::min<std::size_t>(given.size() / 2 + 1, 5) ? nearest->key : ""};
}

std::string to_toml(const Value& value) {
  if (auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (auto* v = std::get_if<std::int64_t>(&value)) return std::to_string(*v);
  if (auto* v = std::get_if<std::string>(&value)) return quoted(text_of(*v));
  if (auto* v = std::get_if<double>(&value)) {
    std::string digits = shortest(*v);
    // In TOML a point or an exponent distinguishes a number from an integer.
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

std::string Origin::str() const { return line ? text(name, ":", line) : name; }
std::string Origin::place() const { return line ? text(name, ":", line, ":", column) : name; }

const Setting& known_setting(std::string_view key, const Origin& origin) {
  const std::size_t index = index_of(key);
  if (index < all_settings().size()) return all_settings()[index];
  if (is_group(key)) {
    fail(ErrorKind::usage, origin.place(), ": ", key, " is a table of keys, not a value: write [", key, "], or ", key,
         ".KEY = ...");
  }
  fail(ErrorKind::usage, origin.place(), ": unknown key ", key, "; ", hint(key));
}

Value checked(const Setting& setting, Value value, const Origin& origin) {
  if (!setting.of_flag.empty()) {
    const bool is_on = value == Value(true) || value == Value("true"),
               is_off = value == Value(false) || value == Value("false");
    if (is_on || is_off) value = setting.of_flag[is_on ? 1 : 0];
  }
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
    fail(ErrorKind::usage, origin.place(), ": ", setting.key, " = ", to_toml(value),
         " is out of range: ", numbers.size() > 1 ? "each number must be " : "it must be ", setting.range.str());
  }
  const auto* name = std::get_if<std::string>(&value);
  if (name && !setting.is_path && !is_utf8(*name)) {
    fail(ErrorKind::usage, origin.place(), ": ", setting.key, " = ", to_toml(value),
         " is not text in UTF-8, as all names must be; folders alone may be other bytes");
  }
  const auto& allowed = setting.allowed;
  if (!name || allowed.empty() || std::count(allowed.begin(), allowed.end(), *name)) return value;
  std::string names;
  for (const std::string& one : allowed) names += (names.empty() ? "" : ", ") + one;
  const std::string_view likely = likely_name({allowed.begin(), allowed.end()}, *name);
  fail(ErrorKind::usage, origin.place(), ": ", setting.key, " = ", to_toml(value), " is not one of ", names,
       likely.empty() ? "" : text("; did you mean ", likely, "?"));
}

Value checked(const Setting& setting, const toml::node& node, const Origin& origin) {
  if (const auto value = to_value(node)) return checked(setting, *value, origin);
  fail(ErrorKind::usage, origin.place(), ": ", setting.key, " must be ", setting.type(), ", not ", describe(node));
}

std::string Setting::effect() const {
  std::string all;
  for (const Condition& condition : when) all += (all.empty() ? "with " : " and ") + condition.words;
  return all;
}

Settings::Settings() {
  for (const Setting& one : all_settings()) {
    entries_.push_back({one.standard, "default", false});
    one.write(options_, one.standard);
  }
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
  const bool bare_string =
      std::holds_alternative<std::string>(setting.standard) && !written.starts_with('"') && !written.starts_with('\'');
  Value value{std::string(written)};
  if (!bare_string) {
    try {
      const toml::table parsed = toml::parse(text("value = ", written));
      const toml::node* node = parsed.get("value");
      if (node && parsed.size() == 1) value = checked(setting, *node, origin);
    } catch (const toml::parse_error& error) {  // a bare word is a string
      const std::size_t first = written.find_first_not_of("+-.[ ");
      if (first != written.npos && std::isdigit(static_cast<unsigned char>(written[first])))
        fail(ErrorKind::usage, "--set: ", key, " = ", written, " cannot be read: ", error.description());
    }
  }
  assign(key, std::move(value), origin);
}

void Settings::assign(std::string_view key, Value value, const Origin& origin) {
  const Setting& setting = known_setting(key, origin);
  Entry& entry = entries_[index_of(key)];
  entry = {checked(setting, std::move(value), origin), origin.str(), origin.line > 0};
  setting.write(options_, entry.value);
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

std::string Settings::shown(std::string_view key) const {
  return text(key, " = ", program::to_toml(value(key)), " (", origin(key), ")");
}

std::vector<IdleKey> Settings::idle() const {
  std::vector<IdleKey> found;
  const bool lists_all =
      std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.origin != "default"; });
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Setting& setting = all_settings()[i];
    const Entry& entry = entries_[i];
    const bool asked = entry.origin == "--set";
    if (!(asked || (entry.from_file && !lists_all)) || (entry.value == setting.standard && is_off(entry.value)))
      continue;
    const auto failed =
        std::find_if(setting.when.begin(), setting.when.end(), [&](const Condition& one) { return !one.holds(*this); });
    if (failed == setting.when.end()) continue;
    found.push_back(
        {setting.key, asked,
         text(shown(setting.key), " has no effect with ", shown(failed->key), ": it has one with ", failed->words)});
  }
  return found;
}

void Settings::check() const {
  const auto shown = [&](const char* key) { return this->shown(key); };
  const BatchOptions& batch = options_.batch;
  if (batch.global > 0 && batch.per_worker > 0) {
    fail(ErrorKind::usage, shown("batch.global"), " and ", shown("batch.per_worker"),
         " are both stated: with several workers they mean different things; state one, and 0 for the other");
  }
  if (batch.global == 0 && batch.per_worker == 0) {
    fail(ErrorKind::usage, "no batch size: state batch.global (samples a step over all workers) or batch.per_worker ",
         "(samples a step and worker)");
  }
  if (options_.plan.optimiser.nesterov && options_.plan.optimiser.momentum == 0) {
    fail(ErrorKind::usage, shown("optimiser.nesterov"), " needs a momentum above 0, but ", shown("optimiser.momentum"));
  }
  if (!options_.transport.interface.empty() && options_.lab.nodes > 0) {
    fail(ErrorKind::usage, shown("transport.interface"), " has no effect with ", shown("lab.nodes"),
         ": a lab's workers meet on its own network");
  }
  const bool over_mpi = transport::find_transport(options_.transport.kind).has_launcher;
  if (options_.plan.exchange.is_native() && (!over_mpi || options_.lab.nodes > 0)) {
    fail(ErrorKind::usage, shown("exchange.route"), " is MPI's own operation, but ",
         shown(over_mpi ? "lab.nodes" : "transport.kind"),
         ": take transport.kind = mpi without a lab, or another route");
  }
  const optim::LearningRateOptions& rate = options_.plan.learning_rate;
  if (rate.warmup_epochs >= options_.plan.epochs) {
    fail(ErrorKind::usage, shown("learning_rate.warmup_epochs"),
         " must end before training does: ", shown("train.epochs"));
  }
  const std::vector<double>& steps = rate.step_epochs;
  if (std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end()) {
    fail(ErrorKind::usage, shown("learning_rate.step_epochs"), " must rise from each number to the next");
  }
  if (rate.schedule == "step" && steps.empty()) {
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
    out += text(last_part(key), " = ", program::to_toml(entries_[i].value));
    if (with_origins) out += "  # " + entries_[i].origin;
    out += '\n';
  }
  return out;
}

std::string Settings::to_toml() const { return written(false); }

std::string Settings::print() const { return written(true); }

std::uint64_t Settings::digest() const {
  Settings common = *this;
  for (const char* of_a_host : settings_of_a_host) common.assign(of_a_host, std::string(), {"default"});
  return hash(common.to_toml());
}

}  // namespace ripieno::program
