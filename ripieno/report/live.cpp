#include "ripieno/report/live.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

/// The lines of the last `window` seconds, the newest last; at least two if there are two.
template <class Line>
std::vector<const Line*> last(const std::vector<Line>& lines, double window) {
  std::vector<const Line*> found;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (found.size() >= 2 && line->time < lines.back().time - window) break;
    found.push_back(&*line);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

RankNow rank_now(const Metrics& metrics, double window) {
  RankNow now;
  now.rank = metrics.start->rank;
  now.steps = metrics.steps.size();
  const auto steps = last(metrics.steps, window);
  double samples = 0, loss = 0, with_loss = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    now.epoch = steps[i]->epoch;
    now.stages += steps[i]->seconds;
    samples += steps[i]->samples;
    if (!steps[i]->loss) continue;
    loss += *steps[i]->loss * steps[i]->samples;
    with_loss += steps[i]->samples;
  }
  if (with_loss > 0) now.loss = loss / with_loss;
  if (steps.size() > 1) {  // from the end of the first to the end of the last
    now.images_per_second =
        (samples - steps.front()->samples) / std::max(1e-9, steps.back()->time - steps.front()->time);
  }
  double cpu = 0, spans = 0, network = 0, loopback = 0;
  for (const SampleLine* sample : last(metrics.samples, window)) {
    cpu += sample->cpu_user + sample->cpu_system;
    spans += sample->seconds;
    network += sample->bytes_sent;
    loopback += sample->loopback_bytes;
    now.resident = sample->resident;
  }
  if (spans > 0) {
    now.cpu = cpu / spans;
    now.bytes_per_second = (network > 0 ? network : loopback) / spans;
  }
  return now;
}

/// A rank's last sample: when it was, since 1970, and how long after the rank's last step.
struct Still {
  double at, seconds, patience;
  int rank;
  std::vector<int> waits_for;
};

std::optional<Still> still_of(const Metrics& metrics, double window) {
  if (metrics.samples.empty()) return std::nullopt;
  const SampleLine& sample = metrics.samples.back();
  double moved = metrics.steps.empty() ? 0 : metrics.steps.back().time;
  if (!metrics.epochs.empty()) moved = std::max(moved, metrics.epochs.back().time);
  const auto steps = last(metrics.steps, window);
  const double of_step =
      steps.size() < 2 ? 0 : (steps.back()->time - steps.front()->time) / static_cast<double>(steps.size() - 1);
  return Still{metrics.start->unix_time + sample.time, sample.time - moved, is_long(of_step) + sample.seconds,
               metrics.start->rank, sample.waits_for};
}

/// Ranks that take no samples any more, though others do, are stopped, or gone: nobody knows whom they wait for.
void find_waits(const std::vector<const Metrics*>& ranks, double window, RunNow* now) {
  std::vector<Still> all;
  double newest = 0;
  for (const Metrics* metrics : ranks) {
    const auto still = metrics->start ? still_of(*metrics, window) : std::nullopt;
    if (!still) continue;
    all.push_back(*still);
    newest = std::max(newest, still->at);
  }
  std::map<int, std::vector<int>> waits;
  double least = std::numeric_limits<double>::infinity();
  for (const Still& one : all) {
    if (one.at < newest - one.patience) continue;
    if (one.seconds < one.patience) return;
    if (!one.waits_for.empty()) waits[one.rank] = one.waits_for;
    least = std::min(least, one.seconds);
  }
  if (waits.empty() || std::isinf(least)) return;
  now->still = least;
  now->awaited = awaited_at_last(waits);
}

}  // namespace

double is_long(double seconds_of_step) { return std::max(5.0, 3 * seconds_of_step); }

std::vector<int> awaited_at_last(const std::map<int, std::vector<int>>& waits) {
  std::set<int> all, ends;
  for (const auto& [rank, awaited] : waits) {
    for (const int other : awaited) {
      all.insert(other);
      if (!waits.contains(other)) ends.insert(other);
    }
  }
  const std::set<int>& found = ends.empty() ? all : ends;
  return {found.begin(), found.end()};
}

std::string waiting_for(const std::vector<int>& ranks, double seconds) {
  constexpr std::size_t most = 4;
  std::string words = ranks.size() > 1 ? "waiting for ranks " : "waiting for rank ";
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i)
    words += text(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  if (ranks.size() > most) words += text(" and ", ranks.size() - most, " more");
  return words + text(" for ", std::lround(seconds), " s");
}

RunNow run_now(const std::vector<const Metrics*>& ranks, double window) {
  RunNow now;
  double done = 1, planned = 0, took = 0, first = 0;
  for (const Metrics* metrics : ranks) {
    if (!metrics->start) continue;
    now.ranks.push_back(rank_now(*metrics, window));
    now.images_per_second += now.ranks.back().images_per_second;
    const StartLine& start = *metrics->start;
    now.epochs = start.epochs;
    if (!metrics->epochs.empty() && metrics->epochs.back().test) now.accuracy = metrics->epochs.back().test->accuracy;
    const double all = static_cast<double>(start.steps_per_epoch) * start.epochs;
    if (all > 0) now.is_planned = true;
    if (metrics->steps.empty() || metrics->steps.back().samples == 0) continue;
    // The slowest worker determines the run's progress.
    const double fraction = all > 0 ? (static_cast<double>(metrics->steps.back().step) + 1) / all : 0;
    if (fraction > done) continue;
    done = fraction;
    planned = all;
    first = static_cast<double>(metrics->steps.front().step) / all;
    took = metrics->steps.back().time - (metrics->steps.front().time - metrics->steps.front().seconds.steps());
  }
  find_waits(ranks, window, &now);
  if (planned == 0) return now;
  now.fraction = std::clamp(done, 0.0, 1.0);
  if (done > first) now.seconds_left = took * (1 - now.fraction) / (done - first);
  return now;
}

}  // namespace ripieno::report
