// All keys of a recipe, in one table (settings_table.cpp): each with the bound member of the options, type, default,
// range and meaning. And Settings, a value for every key with its origin. Only this file and recipe.cpp know TOML; the
// library has plain structs.
//
// Every function that takes input throws Error(usage), in one line that names the place (file:line:column or "--set"),
// the key, what was given and what is allowed.
#pragma once

#include <array>
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

/// An integer is accepted as a number; nothing else is converted.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>>;

/// In TOML, with the fewest digits that read back as the same number: true, 5, 0.1, "ring", [1.0, 2.5]. Always UTF-8
/// (bytes.h).
std::string to_toml(const Value& value);

/// A range of finite numbers; each bound is included or excluded.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool without_low = false;
  bool without_high = false;

  bool contains(double x) const;
  /// "from 0 to below 1", "at least 0".
  std::string str() const;
};

/// Keys of which each host may have a value of its own.
inline constexpr std::array settings_of_a_host{"run.folder", "data.folder", "data.cache", "transport.interface"};

class Settings;

/// What another setting must be for a key to have an effect.
struct Condition {
  std::string key;    ///< the other setting
  std::string words;  ///< what it must be: "strategy ps-ssp", "lab.nodes above 0"
  std::function<bool(const Settings&)> holds;
};

struct Setting {
  std::string key;                                         ///< with its table: "learning_rate.base"
  Value standard;                                          ///< the default; its alternative is the key's type
  std::string help;                                        ///< one line, with the unit
  std::function<void(Options&, const Value&)> write = {};  ///< writes a checked value to the bound member
  std::vector<std::string> allowed = {};                   ///< allowed words; empty: any
  Bounds range = {};                                       ///< for numbers, and for each of a list
  std::vector<std::string> of_flag = {};  ///< what false and true stand for, where the words once were a flag
  bool is_path = false;                   ///< a folder's path, of any bytes; other strings are UTF-8
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

/// The key that was probably meant: misspelt, with a missing or wrong table, or under another name
/// (core/guessed_words.h: "lr", "train.batch_size"). Empty: no key is close.
struct LikelyKey {
  std::string key;
  std::string_view note = "";  ///< what else to know of it, such as another unit
};
LikelyKey likely_key(std::string_view given);

/// A given key that has no effect with the other settings.
struct IdleKey {
  std::string key;
  bool asked = false;  ///< given on the command line, not in a file
  std::string why;     ///< one line: the key, its value, and the setting that leaves it without effect
};

/// The origin of a value.
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

  /// Takes the values of a file; other values stay. Refuses a missing file, bad TOML, keys that are unknown (naming the
  /// nearest known one) or given twice, wrong types and values out of range.
  void load(const std::filesystem::path& toml);
  /// The same from text; `name` stands for the file. `skip`: top-level keys to ignore.
  void load_text(std::string_view toml, const std::string& name, const std::vector<std::string>& skip = {"title"});
  /// "learning_rate.base=0.1", of origin "--set". The value is TOML; strings need no quotes.
  void set(std::string_view assignment);
  void assign(std::string_view key, Value value, const Origin& origin);

  /// The options from all keys.
  const Options& options() const { return options_; }
  const Options* operator->() const { return &options_; }
  /// The value of one key, as given.
  const Value& value(std::string_view key) const;
  /// Whether the key was given, even with its default value.
  bool is_set(std::string_view key) const { return origin(key) != "default"; }
  /// "default", "recipes/demo.toml:12", "--set" or the name given to assign().
  const std::string& origin(std::string_view key) const;

  /// "workers = 2 (recipes/demo.toml:4)"
  std::string shown(std::string_view key) const;

  /// The keys given in a file or on the command line that have no effect. Not counted: values that switch something off
  /// as the default does, and files that give every key, such as a run's config.toml.
  std::vector<IdleKey> idle() const;

  /// Checks keys against each other: one of batch.global and batch.per_worker is given; Nesterov has a momentum;
  /// warm-up ends before training; step_epochs ascend, and are given for the step schedule.
  void check() const;

  /// Every value, in tables: a run's config.toml. Loading it gives the same values and the same text.
  std::string to_toml() const;
  /// The same with a comment on each line: where the value came from.
  std::string print() const;
  /// The hash of to_toml() without settings_of_a_host: equal for workers with equal settings.
  std::uint64_t digest() const;

 private:
  struct Entry {
    Value value;
    std::string origin;
    bool from_file = false;
  };
  std::string written(bool with_origins) const;

  std::vector<Entry> entries_;  // in the order of all_settings()
  Options options_;             // from the entries
};

}  // namespace ripieno::program
