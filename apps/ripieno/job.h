// Converts settings to the library's plain structs: the parts of a job, for any of its ranks.
#pragma once

#include <memory>

#include "apps/ripieno/settings.h"
#include "ripieno/data/sampler.h"
#include "ripieno/launch/join.h"
#include "ripieno/model/zoo.h"
#include "ripieno/strategy/compute_profile.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/transport/simulated/network.h"

namespace ripieno::train {
struct FlatOptions;
class TorchLearner;
}  // namespace ripieno::train

namespace ripieno::program {

const strategy::StrategyInfo& strategy_of(const Settings& settings);

/// Ranks that the job needs: its workers and its strategy's servers.
int ranks_of(const Settings& settings);

strategy::Plan plan_of(const Settings& settings);

/// Of the numbers in memory: fp64 if compute is.
DType numbers_type(const Settings& settings);

/// Whether the run takes the steps of one worker with the whole batch.
bool is_exact(const Settings& settings);

/// The training samples of an epoch. Throws Error(usage) if the recipe asks for more than there are, as opening the
/// data would.
std::uint32_t train_samples_of(const Settings& settings);

/// The kind in a run's summary: "computed", "replayed", "simulated" or "projected".
std::string kind_of(const Settings& settings);

/// A communicator of all ranks, on nodes as in the settings.
collective::Communicator group_of(const Settings& settings, std::shared_ptr<transport::Endpoint> endpoint);

transport::SimulatedOptions simulated_of(const Settings& settings);

/// Threads per worker: train.threads, or the cores divided by the workers.
int compute_threads(const Settings& settings);

/// Samples per step: of one worker if the strategy uses shards, else of all workers.
std::uint32_t batch_of(const Settings& settings);

/// The sampler options of a worker.
data::SamplerOptions sampling_of(const Settings& settings, int worker);

/// Whether the tensor that ends the first bucket may be divided (FlatOptions::divide).
bool divides_buckets(const Settings& settings);

/// The layout options of the model's numbers, in the process's own memory.
train::FlatOptions layout_of(const Settings& settings);

/// The workload for closed forms. `steps`: each worker's, from a sampler.
strategy::Workload workload_of(const Settings& settings, std::vector<std::uint32_t> steps, std::uint32_t epochs);

/// Virtual times at which ranks die; 0: never.
std::vector<double> deaths_of(const Settings& settings);

/// One rank's learner, with model and data; exchanged numbers are in `memory`. Throws Error(usage) if the model does
/// not fit the data. `local_rank`: see RankTask. `replay`: times to wait for instead of computing.
std::unique_ptr<train::TorchLearner> make_learner(const Settings& settings, const model::Zoo& zoo, int rank,
                                                  int local_rank, Runtime& runtime, observe::Recorder& recorder,
                                                  Memory memory, std::optional<strategy::ComputeProfile> replay = {});

/// Parts of a model that some keys refer to.
struct ModelParts {
  bool dropout = false,
       statistics = false;  ///< dropout layers; float buffers, such as batch norm's mean and variance
};
ModelParts parts_of(const model::ModelInfo& model);

/// Throws Error(usage) for refused combinations, and for values that a part of the job does not accept.
void check_choices(const Settings& settings);

/// Adds to a plan what the optimiser must know of the model: its tensors, and the number of steps.
void add_model(strategy::Plan* plan, const Settings& settings, train::TorchLearner& learner);

/// check_choices(), and opens everything that the job names, so that errors appear before anything starts. Unpacks data
/// into the cache.
void check_job(const Settings& settings, const model::Zoo& zoo);

/// How a rank of this job joins the others.
launch::JoinOptions join_options(const Settings& settings);

}  // namespace ripieno::program
