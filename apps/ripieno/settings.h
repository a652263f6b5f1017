// Every key of a recipe: the member of the options that it is bound to, its type, default, range and meaning in one
// table (settings_table.cpp), and a set of values for all of them that remembers where each came from. TOML is known
// here and in recipe.cpp only; below apps/ there are plain structs.
//
// Every function that takes input throws Error(usage), in one line that names the place (file:line:column or "--set"),
// the key, what was given and what is allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/ripieno/options.h"
#include "ripieno/core/error.h"

namespace ripieno::program {

/// A whole number given for a number is one; nothing else is converted.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>>;

/// As TOML writes it, with the fewest digits that read back as the same number: true, 5, 0.1, "ring", [1.0, 2.5].
/// Always UTF-8 (bytes.h).
std::string to_toml(const Value& value);

/// Finite numbers between two bounds, which belong to it or not.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool without_low = false;
  bool without_high = false;

  bool contains(double x) const;
  /// "from 0 to below 1", "at least 0".
  std::string str() const;
};

class Settings;

/// What another setting must be for a key to have an effect.
struct Condition {
  std::string key;    ///< the other setting
  std::string words;  ///< what it must be: "strategy ps-ssp", "lab.nodes above 0"
  std::function<bool(const Settings&)> holds;
};

struct Setting {
  std::string key;   ///< with its table: "learning_rate.base"
  Value standard;    ///< the default; its alternative is the key's type
  std::string help;  ///< one line, with the unit
  std::function<void(Options&, const Value&)> write =
      {};                                 ///< puts a value, in range and allowed, where the key is bound to
  std::vector<std::string> allowed = {};  ///< for words; empty: any
  Bounds range = {};                      ///< for numbers, and for each of a list
  std::vector<std::string> of_flag = {};  ///< for words that once were a flag: what false and true stand for
  bool is_path = false;                   ///< of a folder: any bytes; other strings are UTF-8
  std::vector<Condition> when = {};       ///< all must hold for the key to have an effect; empty: it always has one

  Setting& only(Condition condition) {
    when.push_back(std::move(condition));
    return *this;
  }
  Setting& once_a_flag(std::string off, std::string on) {
    of_flag = {std::move(off), std::move(on)};
    return *this;
  }
  Setting& within(Bounds bounds) {
    range = bounds;
    return *this;
  }
  /// "with strategy ps-ssp"; empty: always.
  std::string effect() const;
  /// "a whole number", "true or false", ...
  std::string type() const;
};

/// The table, in the order in which it is printed.
const std::vector<Setting>& all_settings();

/// The key that was probably meant: misspelt, without its table or in another one, or by the name that other programs
/// give it
/// ("lr", "train.batch_size"). Empty: none comes near.
std::string likely_key(std::string_view given);

/// A key that was given and changes nothing beside the other settings.
struct IdleKey {
  std::string key;
  bool asked = false;  ///< on the command line, not in a file
  std::string why;     ///< one line: the key, its value, and the setting that leaves it without effect
};

/// Where a value came from.
struct Origin {
  std::string name;   ///< "recipes/demo.toml", "--set"
  unsigned line = 0;  ///< from 1; 0: not from a file
  unsigned column = 0;

  std::string str() const;    ///< "recipes/demo.toml:12"
  std::string place() const;  ///< "recipes/demo.toml:12:5"
};

class Settings {
 public:
  /// All defaults, of origin "default".
  Settings();

  /// Takes the values of a file; other values stay. A file that is missing, bad TOML, a key that is unknown (named with
  /// the nearest known one) or given twice, a wrong type and a value out of range are refused.
  void load(const std::filesystem::path& toml);
  /// The same from text; `name` stands for the file. `skip` names top-level keys that belong to somebody else.
  void load_text(std::string_view toml, const std::string& name, const std::vector<std::string>& skip = {"title"});
  /// "learning_rate.base=0.1", of origin "--set". The value is read as TOML; where a string is wanted, quotes are not.
  void set(std::string_view assignment);
  void assign(std::string_view key, Value value, const Origin& origin);

  /// What all keys together say.
  const Options& options() const { return options_; }
  const Options* operator->() const { return &options_; }
  /// Of one key, as it was given.
  const Value& value(std::string_view key) const;
  /// Whether it was given, be it with its default value.
  bool is_set(std::string_view key) const { return origin(key) != "default"; }
  /// "default", "recipes/demo.toml:12", "--set" or the name that assign() was given.
  const std::string& origin(std::string_view key) const;

  /// "workers = 2 (recipes/demo.toml:4)"
  std::string shown(std::string_view key) const;

  /// The keys that were given, by a file or the command line, and have no effect. A value that switches something off,
  /// as the default does, is not counted, nor is a file that gives every key: a run's config.toml.
  std::vector<IdleKey> idle() const;

  /// What no key shows alone: one of batch.global and batch.per_worker is stated; Nesterov has a momentum; warm-up ends
  /// before training; step_epochs rise, and are there for the step schedule.
  void check() const;

  /// Every value, in tables: a run's config.toml. Loading it gives the same values and the same text.
  std::string to_toml() const;
  /// The same with a comment on each line: where the value came from.
  std::string print() const;
  /// Of to_toml() (core/hash.h): equal for workers that are to do the same.
  std::uint64_t digest() const;

 private:
  struct Entry {
    Value value;
    std::string origin;
    bool from_file = false;
  };
  std::string written(bool with_origins) const;

  std::vector<Entry> entries_;  // in the order of all_settings()
  Options options_;             // what they say
};

}  // namespace ripieno::program
