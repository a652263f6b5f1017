#include "apps/ripieno/earlier_part.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "ripieno/core/file.h"
#include "ripieno/report/metrics.h"

namespace ripieno::program {
namespace {

using report::Metrics;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::istringstream content(read_file(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(content, line);) lines.push_back(line);
  return lines;
}

/// Removes what came after the checkpoint.
void cut(Metrics* metrics, strategy::Point saved) {
  const std::uint64_t steps = metrics->start ? metrics->start->steps_per_epoch : 0;
  const std::uint64_t end = saved.epoch * steps + saved.step;  // a server's steps are its workers'
  std::erase_if(metrics->epochs, [&](const report::EpochLine& line) { return line.epoch >= saved.epoch; });
  std::erase_if(metrics->steps, [&](const report::StepLine& line) {
    return line.epoch > saved.epoch || (line.epoch == saved.epoch && line.step >= end);
  });
  const double last = std::max(metrics->steps.empty() ? 0 : metrics->steps.back().time,
                               metrics->epochs.empty() ? 0 : metrics->epochs.back().time);
  std::erase_if(metrics->samples, [&](const report::SampleLine& line) { return line.time > last; });
}

void add(observe::StageTimes* totals, const report::StageSeconds& seconds) {
  for (const observe::StageInfo& one : observe::stages) (*totals)[one.stage] += from_seconds(seconds[one.stage]);
}

observe::EpochRecord record_of(const report::EpochLine& line) {
  observe::EpochRecord record{line.epoch, NAN, NAN, 0, line.own_accuracy.value_or(NAN)};
  if (!line.test) return record;
  record.accuracy = line.test->accuracy;
  record.has_loss = line.test->loss.has_value();
  record.loss = line.test->loss.value_or(NAN);
  return record;
}

/// Times, samples and scores of what is left.
void count(const Metrics& metrics, observe::EarlierPart* part) {
  if (metrics.steps.empty() && metrics.epochs.empty()) return;
  double begin = 0;  // of the epoch
  if (!metrics.steps.empty()) begin = metrics.steps.front().time - metrics.steps.front().seconds.steps();
  if (!metrics.epochs.empty()) {
    const report::EpochLine& first = metrics.epochs.front();
    begin = std::min(metrics.steps.empty() ? first.time : begin,
                     first.time - first.seconds - first.stages[observe::Stage::evaluate]);
  }
  double trained = 0, end = begin;
  auto epoch = metrics.epochs.begin();
  const auto end_epochs = [&](std::size_t before) {
    for (; epoch != metrics.epochs.end() && epoch->line < before; ++epoch) {
      trained += epoch->seconds;
      begin = end = epoch->time;
      part->epoch_times.push_back(from_seconds(epoch->seconds));
      part->epochs.push_back(record_of(*epoch));
      add(&part->stages, epoch->stages);
    }
  };
  for (const report::StepLine& step : metrics.steps) {
    end_epochs(step.line);
    part->samples += step.samples;
    part->after_steps.emplace_back(from_seconds(trained + step.time - begin), part->samples);
    add(&part->stages, step.seconds);
    if (step.age) ++part->ages[*step.age];
    end = step.time;
  }
  end_epochs(SIZE_MAX);
  part->steps = metrics.steps.size();
  part->time = from_seconds(end);
  part->of_epoch = from_seconds(end - begin);
}

}  // namespace

observe::EarlierPart earlier_part(const std::filesystem::path& file, strategy::Point saved) {
  Metrics metrics = report::read_metrics(file);
  cut(&metrics, saved);
  std::vector<std::size_t> kept;
  for (const auto& line : metrics.steps) kept.push_back(line.line);
  for (const auto& line : metrics.epochs) kept.push_back(line.line);
  for (const auto& line : metrics.samples) kept.push_back(line.line);
  std::sort(kept.begin(), kept.end());
  observe::EarlierPart part;
  const std::vector<std::string> lines = lines_of(file);
  for (const std::size_t line : kept) part.lines.push_back(lines.at(line - 1));
  count(metrics, &part);
  return part;
}

}  // namespace ripieno::program
