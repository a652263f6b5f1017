// From settings to the plain structs of the library: what a job consists of, for any of its ranks.
#pragma once

#include <memory>

#include "apps/ripieno/settings.h"
#include "ripieno/data/sampler.h"
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

/// Of a run's summary: "computed", "replayed", "simulated" or "projected".
std::string kind_of(const Settings& settings);

/// A group of all ranks, on nodes as the settings say.
collective::Communicator group_of(const Settings& settings, std::shared_ptr<transport::Endpoint> endpoint);

transport::SimulatedOptions simulated_of(const Settings& settings);

/// Of each worker: train.threads, or the cores over the workers.
int compute_threads(const Settings& settings);

/// Samples of a worker's step where the strategy uses shards, else of all workers' together.
std::uint32_t batch_of(const Settings& settings);

/// How a worker takes its samples.
data::SamplerOptions sampling_of(const Settings& settings, int worker);

/// Whether the tensor that ends the first bucket may lie in two (FlatOptions::divide).
bool divides_buckets(const Settings& settings);

/// How the model's numbers are laid out; in memory of its own.
train::FlatOptions layout_of(const Settings& settings);

/// What closed forms go by. `steps`: of each worker, as a sampler knows them.
strategy::Workload workload_of(const Settings& settings, std::vector<std::uint32_t> steps, std::uint32_t epochs);

/// Virtual times at which ranks die; 0: never.
std::vector<double> deaths_of(const Settings& settings);

/// Model, data and compute of one rank; what is exchanged lies in `memory`. Throws Error(usage) when the model does not
/// fit the data. `replay`: times to wait for in place of computing.
std::unique_ptr<train::TorchLearner> make_learner(const Settings& settings, const model::Zoo& zoo, int rank,
                                                  Runtime& runtime, observe::Recorder& recorder, Memory memory,
                                                  std::optional<strategy::ComputeProfile> replay = {});

/// What of a model some keys are about.
struct ModelParts {
  bool dropout = false,
       statistics = false;  ///< layers of dropout; buffers of numbers, as batch norm's mean and variance
};
ModelParts parts_of(const model::ModelInfo& model);

/// Refuses what cannot go together, and values that no part of the job takes. Throws Error(usage).
void check_choices(const Settings& settings);

/// Tells a plan what the optimiser must know of the model: its tensors, and how many steps there will be.
void know_model(strategy::Plan* plan, const Settings& settings, train::TorchLearner& learner);

/// check_choices(), and opens what the job names, so that what is wrong with it is said before anything starts. Unpacks
/// data into the cache.
void check_job(const Settings& settings, const model::Zoo& zoo);

}  // namespace ripieno::program
