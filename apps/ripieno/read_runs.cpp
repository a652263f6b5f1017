#include "apps/ripieno/read_runs.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "apps/ripieno/job.h"
#include "apps/ripieno/program_runs.h"
#include "ripieno/codec/codec.h"
#include "ripieno/data/dataset.h"
#include "ripieno/report/loop_file.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

/// What guessing gets of the test set: one of its classes, and by luck, that is three standard deviations, more.
report::Run::Guessing guessing_of(const Settings& settings) {
  const data::DatasetInfo& data = data::find_dataset(settings->data_name);
  const double mean = 1.0 / data.classes,
               images = settings->data.test_samples > 0 ? settings->data.test_samples : data.test;
  return {mean, mean + 3 * std::sqrt(mean * (1 - mean) / images)};
}

/// A run's settings, if its loop.json is there, or its config.toml can be read; one of an earlier version may have
/// other keys.
void know_settings(report::Run* run) {
  const RunFolder folder(run->folder);
  if (fs::exists(folder.loop())) {
    run->settings = report::read_loop(folder.loop()).settings;
    run->own_loop = true;
    return;
  }
  Settings settings, asked;
  try {
    settings.load(folder.config());
    asked.load(fs::exists(folder.asked()) ? folder.asked() : folder.config());
    run->exact = is_exact(settings);
    run->guessing = guessing_of(settings);
  } catch (const Error&) {
    return;
  }
  for (const Setting& setting : all_settings()) {
    const bool is_measured = setting.key.starts_with("exchange.");  // each seed's links may have chosen others
    run->settings[setting.key] = to_toml((is_measured ? asked : settings).value(setting.key));
  }
}

/// What is known of a run before it ends.
report::Summary described_in(const RunFolder& folder) {
  if (fs::exists(folder.loop())) return report::read_loop(folder.loop()).known;
  Settings settings;
  settings.load(folder.config());
  report::Summary known;
  known.strategy = std::string(strategy_of(settings).name);
  known.name = settings->run.name.empty() ? known.strategy : settings->run.name;
  known.kind = kind_of(settings);
  known.codec = plan_of(settings).exchange.codec.name;
  known.model = settings->model;
  known.dataset = settings->data_name;
  known.world_size = ranks_of(settings);
  known.seed = settings->seed;
  return known;
}

/// Reads a run that was killed or still runs.
report::Run read_unfinished_run(const fs::path& folder) {
  report::Run run = report::read_unfinished(folder, described_in(RunFolder(folder)));
  know_settings(&run);
  return run;
}

/// The runs in a folder, in order. Unfinished runs are included as far as they can be shown. Those that cannot be read,
/// or have nothing to show, are reported.
std::vector<report::Run> read_all(const std::vector<fs::path>& folders) {
  std::vector<report::Run> runs;
  for (const fs::path& folder : folders) {
    try {
      runs.push_back(report::is_finished(folder) ? read_finished_run(folder) : read_unfinished_run(folder));
    } catch (const Error& error) {
      std::cerr << "left out: " << error.what() << "\n";
    }
  }
  if (runs.empty()) fail(ErrorKind::data, folders[0].parent_path().string(), ": none of its runs can be shown");
  return runs;
}

}  // namespace

report::Run read_finished_run(const fs::path& folder) {
  report::Run run = report::read_run(folder);
  know_settings(&run);
  return run;
}

report::Summary read_known(const fs::path& folder) {
  const RunFolder run(folder);
  if (report::is_finished(folder)) return report::read_summary(run.summary());
  report::Summary known = described_in(run);
  known.unfinished = true;
  return known;
}

std::vector<fs::path> run_folders(const fs::path& folder) {
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (report::is_finished(entry.path()) || RunFolder::is_one(entry.path())) inside.push_back(entry.path());
  }
  std::sort(inside.begin(), inside.end());
  return inside;
}

std::vector<report::Run> read_runs(const std::vector<std::string>& paths) {
  std::vector<report::Run> runs;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path))
      fail(ErrorKind::usage, path, ": there is no such folder; give a run's folder, or one that holds runs");
    const std::vector<fs::path> inside = run_folders(path);
    if (report::is_finished(path) || (inside.empty() && !RunFolder::is_one(path))) {
      runs.push_back(read_finished_run(path));
    } else if (RunFolder::is_one(path)) {
      runs.push_back(read_unfinished_run(path));
    } else {
      for (report::Run& run : read_all(inside)) runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace ripieno::program
