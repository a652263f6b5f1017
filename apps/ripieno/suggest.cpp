#include "apps/ripieno/suggest.h"

#include <algorithm>

#include "apps/ripieno/settings.h"
#include "ripieno/core/edit_distance.h"
#include "ripieno/core/guessed_words.h"

namespace ripieno::program {
namespace {

/// "--batch-size=32" -> "batch_size"
std::string plain(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  std::string name(option.substr(0, option.find('=')));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known, std::size_t edits) {
  if (const GuessedWord* guess = guessed(word, {known.begin(), known.end()})) return std::string(guess->meant);
  std::string found;
  std::size_t least = std::min(edits, word.size() / 2) + 1;
  for (const std::string& one : known) {
    const std::size_t distance = edit_distance(word, one);
    if (distance < least) {
      least = distance;
      found = one;
    }
  }
  if (!found.empty() || word.size() < 3) return found;
  for (const std::string& one : known) {
    if (one.starts_with(word)) return one;
  }
  return "";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string close = nearest(word, known);
  return close.empty() ? "" : text("; did you mean ", close, "?");
}

std::string no_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(command->get_name());
  return text("there is no command \"", word, "\"", did_you_mean(word, names), " (see ripieno --help)");
}

std::string suggestion(const CLI::App& app, const std::vector<std::string>& words) {
  if (app.get_subcommands().empty()) return "";
  const CLI::App& command = *app.get_subcommands()[0];
  std::vector<std::string> left = command.remaining();
  if (left.empty()) left = app.remaining();
  const auto option = std::find_if(left.begin(), left.end(),
                                   [](const std::string& one) { return one.size() > 1 && one.front() == '-'; });
  if (option == left.end()) return "";
  const std::vector<std::string> options = long_options(command);
  const std::string word = plain(*option);
  const LikelyKey likely = std::count(options.begin(), options.end(), "set") > 0 ? likely_key(word) : LikelyKey{};
  const std::string& key = likely.key;
  std::string dashed = word;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const auto with_note = [](std::string_view note) { return note.empty() ? "" : text(" (", note, ")"); };
  if (const GuessedWord* guess = guessed(word, {options.begin(), options.end()}))
    return text("; did you mean --", guess->meant, "?", with_note(guess->note));
  const std::string close = nearest(dashed, options);
  if (!close.empty() && (key.empty() || edit_distance(dashed, close) <= 1))
    return text("; did you mean --", close, "?");
  if (key.empty()) return "";
  std::string value = "VALUE";
  const auto at = std::find(words.begin(), words.end(), *option);
  if (const std::size_t equals = option->find('='); equals != option->npos) {
    value = option->substr(equals + 1);
  } else if (at != words.end() && at + 1 != words.end() && !(at + 1)->starts_with('-')) {
    value = *(at + 1);
  }
  return text("; did you mean --set ", key, "=", value, "?", with_note(likely.note));
}

}  // namespace ripieno::program
