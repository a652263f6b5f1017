#include <algorithm>
#include <iostream>
#include <map>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/recipe.h"

namespace ripieno::program {
namespace {

/// A given key that refers to a part of the model.
void note_key_without_part(RecipeCell& cell, const char* key, bool is_there, const char* what) {
  const Settings& settings = cell.settings;
  const bool asked = settings.origin(key) == "--set";
  if (is_there || !settings.is_set(key)) return;
  cell.idle.push_back({key, asked,
                       text(settings.shown(key), " has no effect with ", settings.shown("model"),
                            ": it has one with a model that has ", what)});
}

void note_keys_without_parts(std::vector<RecipeCell>& cells, const model::Zoo& zoo) {
  std::map<std::string, ModelParts> known;  // each model is made once
  for (RecipeCell& cell : cells) {
    const bool drops = cell.settings->compute.dropout >= 0;
    const bool averages = cell.settings->plan.federated.statistics != strategy::Statistics::mean ||
                          cell.settings.origin("fedavg.batch_norm") == "--set";
    const std::string model = cell.settings->model;
    if (!drops && !averages) continue;
    if (!known.contains(model)) known[model] = parts_of(zoo.find(model));
    if (drops) note_key_without_part(cell, "train.dropout", known[model].dropout, "layers of dropout");
    const bool told = std::any_of(cell.idle.begin(), cell.idle.end(),
                                  [](const IdleKey& one) { return one.key == "fedavg.batch_norm"; });
    if (averages && !told) note_key_without_part(cell, "fedavg.batch_norm", known[model].statistics, "batch norm");
  }
}

}  // namespace

void tell_idle(std::vector<RecipeCell>& cells, const model::Zoo& zoo, bool aloud) {
  note_keys_without_parts(cells, zoo);
  refuse_idle(cells);
  if (!aloud) return;
  for (const std::string& line : idle_in_file(cells)) std::cerr << "ripieno: note: " << line << "\n";
}

}  // namespace ripieno::program
