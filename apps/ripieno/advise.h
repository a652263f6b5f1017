// What each of many ways to agree would take in a job (predict/projection.h), from what one worker's step takes on this
// machine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/ripieno/recipe.h"
#include "ripieno/model/zoo.h"
#include "ripieno/predict/projection.h"

namespace ripieno::program {

/// What joins the workers: each has a link of its own to all others.
struct StatedLink {
  double mbit_s = 0;            ///< 10^6 bits a second, each way, of whole packets
  double latency_ms = 0;        ///< one way: half of what ping shows
  std::size_t burst_bytes = 0;  ///< that it lets through at once after a pause
  /// For a payload: TCP sends 1448 bytes of it in a packet of 1514.
  transport::LinkModel model() const;
};

/// One way to agree and what it would take.
struct Advice {
  RecipeCell cell;  ///< its settings as they would run
  std::string strategy, codec;
  bool exact = false;       ///< takes the steps of one worker with the whole batch
  bool agrees = false;      ///< all workers hold the same parameters
  std::uint32_t steps = 0;  ///< of a worker in an epoch
  predict::Projection projection;
};

/// A worker's pass, measured alone on this machine.
struct MeasuredPass {
  strategy::ComputeProfile profile;
  std::vector<Range> buckets;  ///< that the profile's `ready` is of
  int threads = 1;
};

/// Measures what it needs once, and keeps it in data.cache.
class Adviser {
 public:
  Adviser(StatedLink link, const model::Zoo& zoo) : link_(link), zoo_(zoo) {}

  /// Throws Error(usage) where the cell's settings do not go together. Of data, only what a pass is measured with is
  /// opened.
  Advice advise(const RecipeCell& cell);

  /// The pass of a cell that was advised.
  const MeasuredPass& pass(const RecipeCell& cell) { return pass_of_cell(as_it_runs(cell.settings)); }

 private:
  Settings as_it_runs(Settings settings) const;
  const strategy::Layout& layout(const Settings& settings);
  const MeasuredPass& pass_of_cell(const Settings& settings);
  double coding(const Settings& settings, const codec::CodecOptions& codec, const strategy::Layout& layout);
  Duration optimiser_step(const Settings& settings, optim::OptimiserOptions optimiser, const strategy::Layout& layout);

  StatedLink link_;
  const model::Zoo& zoo_;
  std::map<std::string, strategy::Layout> layouts_;
  std::map<std::string, MeasuredPass> passes_;
  std::map<std::string, double> costs_;  // in seconds
};

/// The recipe's own setting with every strategy and codec that are asked for (empty: all); what cannot go together is
/// put into `refused`. Throws Error(usage) on names that are not known.
std::vector<RecipeCell> all_ways(const Settings& base, const std::vector<std::string>& strategies,
                                 const std::vector<std::string>& codecs, std::vector<RefusedCell>* refused);

}  // namespace ripieno::program
