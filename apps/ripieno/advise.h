// Projects a job's time and bytes for many strategies and codecs (predict/projection.h), from a worker's step measured
// on this machine.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/ripieno/kept_numbers.h"
#include "apps/ripieno/recipe.h"
#include "ripieno/model/zoo.h"
#include "ripieno/observe/others.h"
#include "ripieno/predict/projection.h"

namespace ripieno::program {

/// The links between workers: each has its own link to all others.
struct StatedLink {
  double mbit_s = 0;            ///< 10^6 bits a second, each way, of whole packets
  bool of_payload = false;      ///< not of packets: a simulated network's
  double latency_ms = 0;        ///< one way: half of what ping shows
  std::size_t burst_bytes = 0;  ///< sent at once after a pause
  /// The model for payloads: TCP sends 1448 bytes of payload in a packet of 1514.
  transport::LinkModel model() const;
};

/// One way (strategy, route and codec), and its projection once that is made.
struct Advice {
  RecipeCell cell;  ///< its settings as they would run
  std::string strategy, codec;
  bool exact = false;       ///< takes the same steps as one worker with the whole batch
  bool agrees = false;      ///< all workers hold the same parameters
  std::uint32_t steps = 0;  ///< of a worker in an epoch
  predict::ProjectedJob job;
  predict::Projection projection;
};

/// The time of a pass in training, of a machine that is not this one.
struct StatedPass {
  Duration time{0};          ///< 0: not stated
  std::uint32_t images = 0;  ///< of that pass; others take as much longer
};

/// A worker's pass, measured alone on this machine, or stated.
struct WorkersPass {
  strategy::ComputeProfile profile;
  std::vector<Range> buckets;  ///< the buckets of the profile's `ready`
  int threads = 1;
  Circumstances when;      ///< of a measured one
  bool is_stated = false;  ///< as it takes in training
  /// How many times longer it takes in training.
  double times() const;
};

/// Measures everything it needs once, and keeps it in data.cache.
class Adviser {
 public:
  Adviser(StatedLink link, StatedPass pass, const model::Zoo& zoo) : link_(link), stated_(pass), zoo_(zoo) {}

  /// What is to be projected, with all that must be measured for it. Throws Error(usage) if the cell's settings cannot
  /// be combined. Opens only the data that measuring a pass needs.
  Advice measure(const RecipeCell& cell);

  /// The pass of a cell that measure() has seen.
  const WorkersPass& pass(const RecipeCell& cell) { return pass_of_cell(as_it_runs(cell.settings)); }

  /// Why costs of encoding and of optimisers' steps are not believed, in words; empty: they are.
  const std::string& doubt_of_costs() const { return doubt_of_costs_; }

 private:
  Settings as_it_runs(Settings settings) const;
  const strategy::Layout& layout(const Settings& settings);
  const WorkersPass& pass_of_cell(const Settings& settings);
  WorkersPass stated_pass(const Settings& settings);
  /// A cost in seconds, kept under this name or measured now.
  double cost(const Settings& settings, const std::string& of, const std::function<double()>& measure);
  double coding(const Settings& settings, const codec::CodecOptions& codec, const strategy::Layout& layout);
  Duration optimiser_step(const Settings& settings, optim::OptimiserOptions optimiser, const strategy::Layout& layout);

  StatedLink link_;
  StatedPass stated_;
  const model::Zoo& zoo_;
  observe::OthersWatch others_;
  std::string doubt_of_costs_;
  std::map<std::string, strategy::Layout> layouts_;
  std::map<std::string, WorkersPass> passes_;
  std::map<std::string, double> costs_;  // in seconds
};

/// The recipe's own setting with every requested strategy and codec (empty: all); refused combinations go into
/// `refused`. Throws Error(usage) on names that are not known.
std::vector<RecipeCell> all_ways(const Settings& base, const std::vector<std::string>& strategies,
                                 const std::vector<std::string>& codecs, std::vector<RefusedCell>* refused);

}  // namespace ripieno::program
