#include "apps/ripieno/job.h"

#include <algorithm>
#include <thread>

#include "ripieno/data/partition.h"
#include "ripieno/model/classifier.h"
#include "ripieno/model/initialise.h"
#include "ripieno/predict/projection.h"
#include "ripieno/strategy/refusals.h"
#include "ripieno/train/device.h"
#include "ripieno/train/torch_learner.h"
#include "ripieno/transport/frame.h"
#include "ripieno/transport/tcp/endpoint.h"

namespace ripieno::program {
namespace {

std::unique_ptr<data::Dataset> open(const Settings& settings, data::Split split) {
  return data::open_dataset(settings->data_name, split, settings->data);
}

void check_fit(const model::ModelInfo& model, const data::Dataset& data, const std::string& data_name) {
  const data::ImageShape shape = data.shape();
  if (shape == data::ImageShape{model.channels, model.height, model.width} && data.classes() == model.classes) return;
  if (model.resizes && shape.channels == model.channels && data.classes() <= model.classes) return;
  fail(ErrorKind::usage, "model ", model.name, " takes images of ", model.channels, "x", model.height, "x", model.width,
       " in ", model.classes, " classes; data set ", data_name, " has ", shape.channels, "x", shape.height, "x",
       shape.width, " in ", data.classes());
}

/// Gives the first training images to a model that asks for them.
void prepare(model::Classifier& model, data::Loader& train) {
  const std::uint32_t count = std::min(model.images_to_prepare(), train.dataset().size());
  if (count == 0) return;
  data::Batch batch = train.load_range(0, count);
  const data::ImageShape shape = train.dataset().shape();
  model.prepare(
      torch::from_blob(batch.pixels.data(), {count, shape.channels, shape.height, shape.width}, torch::kFloat32));
}

/// The data set's own, but for what data.mean and data.deviation say.
data::Normalisation normalisation_of(const Settings& settings) {
  const data::DatasetInfo& info = data::find_dataset(settings->data_name);
  data::Normalisation all = info.normalisation;
  const auto take = [&info](const char* key, const std::vector<double>& given, std::array<float, 3>* into) {
    const auto channels = static_cast<std::size_t>(info.shape.channels);
    if (given.empty()) return;
    if (given.size() != channels) {
      fail(ErrorKind::usage, key, " has ", given.size(), " values, and ", info.name, " ", channels,
           channels == 1 ? " channel" : " channels", ": give one for each");
    }
    for (std::size_t c = 0; c < channels; ++c) (*into)[c] = static_cast<float>(given[c]);
  };
  take("data.mean", settings->mean, &all.mean);
  take("data.deviation", settings->deviation, &all.std);
  return all;
}

}  // namespace

const strategy::StrategyInfo& strategy_of(const Settings& settings) {
  return strategy::find_strategy(settings->strategy);
}

int ranks_of(const Settings& settings) { return strategy_of(settings).ranks(plan_of(settings), settings->workers); }

strategy::Plan plan_of(const Settings& settings) {
  strategy::Plan plan = settings->plan;
  plan.seed = settings->seed;
  plan.rate_scale = settings->scale_rate ? settings->workers : 1;
  plan.optimiser.first_layer_steps = settings->compute.first_layer_epochs;  // in epochs until add_model()
  plan.optimiser.first_layer_rate = plan.rate_scale * plan.learning_rate.base;
  return plan;
}

void add_model(strategy::Plan* plan, const Settings& settings, train::TorchLearner& learner) {
  const strategy::Layout& layout = learner.layout();
  optim::OptimiserOptions& optimiser = plan->optimiser;
  optimiser.tensors.clear();
  for (const strategy::Layout::Tensor& tensor : layout.tensors) {
    const auto rows = tensor.shape.size() < 2 ? std::size_t{0} : static_cast<std::size_t>(tensor.shape[0]);
    optimiser.tensors.push_back(
        {tensor.range.begin, tensor.range.end, rows, optimiser.tensors.size() < learner.first_layer()});
  }
  const strategy::Traits& traits = strategy_of(settings).traits;
  const std::int64_t passes = traits.sums_passes ? plan->passes : 1;
  const auto in = [passes](std::int64_t batches) { return (batches + passes - 1) / passes; };
  const std::int64_t batches = learner.steps_per_epoch(), most = static_cast<std::int64_t>(plan->max_steps);
  optimiser.first_layer_steps = settings->compute.first_layer_epochs * in(batches);
  std::int64_t steps = in(batches)*plan->epochs;
  if (most > 0 && most < batches * plan->epochs) steps = most / batches * in(batches) + in(most % batches);
  if (traits.own_pace) {  // a server takes a step for each of every worker
    steps = 0;
    for (const std::int64_t its : learner.sampler().steps_of_all())
      steps += most > 0 ? std::min(its * plan->epochs, most) : its * plan->epochs;
  }
  optimiser.total_steps = std::max<std::int64_t>(1, steps);
}

DType numbers_type(const Settings& settings) {
  return settings->compute.precision == "fp64" ? DType::fp64 : DType::fp32;
}

bool is_exact(const Settings& settings) {
  const strategy::StrategyInfo& strategy = strategy_of(settings);
  if (!strategy.exact || settings->workers == 1) return strategy.exact;
  const codec::CodecOptions codec = plan_of(settings).exchange.codec;
  const DType type = numbers_type(settings);
  return codec::find_codec(codec.name).lossless && codec::make_codec(codec, type)->bytes(1) == size_of(type);
}

std::uint32_t train_samples_of(const Settings& settings) {
  const data::DatasetInfo& data = data::find_dataset(settings->data_name);
  if (data.generated) return settings->data.train_samples > 0 ? settings->data.train_samples : data.train;
  return data::limit_samples(data.name, data::Split::train, settings->data, data.train);
}

ModelParts parts_of(const model::ModelInfo& info) {
  const std::shared_ptr<model::Classifier> model = info.make();
  ModelParts parts;
  for (const auto& layer : model->modules()) parts.dropout = parts.dropout || layer->as<torch::nn::DropoutImpl>();
  for (const torch::Tensor& buffer : model->buffers())
    parts.statistics = parts.statistics || buffer.is_floating_point();
  return parts;
}

collective::Communicator group_of(const Settings& settings, std::shared_ptr<transport::Endpoint> endpoint) {
  return collective::Communicator(std::move(endpoint)).on_nodes(settings->per_node);
}

std::vector<double> deaths_of(const Settings& settings) {
  std::vector<double> deaths = settings->deaths_s;
  const int ranks = ranks_of(settings);
  if (deaths.size() > static_cast<std::size_t>(ranks)) {
    fail(ErrorKind::usage, "simulated.deaths_s names ", deaths.size(), " ranks; there are ", ranks);
  }
  deaths.resize(ranks);
  return deaths;
}

transport::SimulatedOptions simulated_of(const Settings& settings) {
  transport::SimulatedOptions options = settings->simulated;
  options.framing_bytes = transport::tcp_framing_bytes;  // as over tcp
  return options;
}

int compute_threads(const Settings& settings) {
  const int threads = settings->compute.threads;
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / settings->workers);
}

std::string kind_of(const Settings& settings) {
  const bool replayed = settings->compute.replayed;
  return settings->in_virtual_time() ? (replayed ? "projected" : "simulated") : replayed ? "replayed" : "computed";
}

std::uint32_t batch_of(const Settings& settings) {
  const auto workers = settings->workers;
  const auto [global, per_worker] = settings->batch;
  if (strategy_of(settings).data == strategy::DataUse::global_batches)
    return global > 0 ? global : per_worker * workers;
  return per_worker > 0 ? per_worker : std::max(1u, global / workers);
}

data::SamplerOptions sampling_of(const Settings& settings, int worker) {
  data::SamplerOptions sampling = settings->sampling;
  sampling.seed = settings->seed;
  sampling.worker = worker;
  sampling.workers = settings->workers;
  sampling.batch = batch_of(settings);
  switch (strategy_of(settings).data) {
    case strategy::DataUse::global_batches:
      sampling.partition = data::Partition::global_batches;
      break;
    case strategy::DataUse::shards:
      sampling.partition = data::Partition::shards;
      break;
    case strategy::DataUse::shards_in_step:
      sampling.partition = data::Partition::shards_in_step;
      break;
  }
  return sampling;
}

bool divides_buckets(const Settings& settings) {
  const bool muon = settings->plan.optimiser.name == "muon";
  const bool by_matrices = muon || settings->plan.exchange.codec.name == "powersgd";
  return strategy_of(settings).traits.by_buckets && !by_matrices;
}

train::FlatOptions layout_of(const Settings& settings) {
  train::FlatOptions options;
  options.bucket_bytes = settings->compute.bucket_bytes;
  options.channels_last = settings->compute.channels_last;
  options.divide = divides_buckets(settings);
  return options;
}

strategy::Workload workload_of(const Settings& settings, std::vector<std::uint32_t> steps, std::uint32_t epochs) {
  return {collective::World(ranks_of(settings), settings->per_node), std::move(steps), epochs};
}

std::unique_ptr<train::TorchLearner> make_learner(const Settings& settings, const model::Zoo& zoo, int rank,
                                                  int local_rank, Runtime& runtime, observe::Recorder& recorder,
                                                  Memory memory, std::optional<strategy::ComputeProfile> replay) {
  const strategy::StrategyInfo& strategy = strategy_of(settings);
  const std::string data_name = settings->data_name;
  const model::ModelInfo& info = zoo.find(settings->model);
  const auto seed = settings->seed;
  std::shared_ptr<data::Dataset> train = open(settings, data::Split::train), test = open(settings, data::Split::test);
  check_fit(info, *train, data_name);

  const data::SamplerOptions sampling = sampling_of(settings, std::max(0, strategy.worker(plan_of(settings), rank)));
  std::vector<std::uint8_t> labels;  // read separately, so that a worker's bytes_read counts only its own samples
  if (data::needs_labels(sampling.sharing) && sampling.partition != data::Partition::global_batches)
    labels = data::labels_of(*open(settings, data::Split::train));
  const data::Normalisation normalisation = normalisation_of(settings);
  data::Loader train_loader(train, data::Sampler(train->size(), sampling, labels), settings->augmentation,
                            normalisation, seed);
  data::Loader test_loader(test, data::Sampler(test->size(), {.batch = 1}), settings->augmentation, normalisation,
                           seed);

  train::TorchOptions options;
  options.device = train::find_device(settings->compute.device, local_rank);
  options.precision = train::find_precision(settings->compute.precision);
  options.flat = layout_of(settings);
  options.flat.memory = std::move(memory);
  options.label_smoothing = settings->compute.label_smoothing;
  options.first_layer_epochs = settings->compute.first_layer_epochs;
  options.test_views = train::find_test_views(settings->compute.test_views);
  options.evaluation_batch = settings->compute.evaluation_batch;
  options.accumulate = settings->compute.accumulate;
  options.threads = compute_threads(settings);
  options.seed = seed;
  options.worker = sampling.worker;
  const std::vector<double>& slow = runtime.is_virtual() ? settings->compute.virtual_slow : settings->compute.slow;
  const double own = static_cast<std::size_t>(rank) < slow.size() ? slow[rank] : 1;
  const double factor = runtime.is_virtual() ? own * settings->compute.virtual_slow_all : own;
  if (replay) {
    options.replay = strategy::slowed(std::move(*replay), factor);
    const codec::CodecOptions& codec = settings->plan.exchange.codec;
    options.numbers = !runtime.is_virtual() || predict::looks_at_numbers(strategy_of(settings), codec, DType::fp32);
  } else if (!runtime.is_virtual()) {
    options.slow = factor;
  }
  options.image_cost = from_seconds(seconds(settings->compute.image_cost) * factor);

  torch::manual_seed(seed);
  std::shared_ptr<model::Classifier> model = info.make();
  model::initialise(*model, settings->compute.first_weights);
  prepare(*model, train_loader);
  if (const double dropout = settings->compute.dropout; dropout >= 0) {
    for (const auto& layer : model->modules()) {
      if (auto* its = layer->as<torch::nn::DropoutImpl>()) its->options.p(dropout);
    }
  }
  return std::make_unique<train::TorchLearner>(runtime, recorder, std::move(model), std::move(train_loader),
                                               std::move(test_loader), options);
}

namespace {

/// A rank that is to be slow must exist and compute. A single worker may be a cell of a grid in which other cells have
/// more ranks.
void check_slow(const Settings& settings) {
  const strategy::StrategyInfo& strategy = strategy_of(settings);
  const bool simulated = settings->in_virtual_time();
  const char* key = simulated ? "simulated.slow" : "lab.slow";
  const std::vector<double>& slow = simulated ? settings->compute.virtual_slow : settings->compute.slow;
  const int ranks = ranks_of(settings);
  for (int rank = 0; rank < static_cast<int>(slow.size()) && !strategy.traits.alone; ++rank) {
    if (slow[static_cast<std::size_t>(rank)] == 1) continue;
    if (rank >= ranks) {
      fail(ErrorKind::usage, settings.shown(key), " slows rank ", rank, ", but ", strategy.name, " has ranks 0 to ",
           ranks - 1, " here; give a number for each of these");
    }
    if (strategy.worker(plan_of(settings), rank) < 0) {
      fail(ErrorKind::usage, settings.shown(key), " slows rank ", rank,
           ", which is a server and computes nothing; give it 1");
    }
  }
}

}  // namespace

void check_choices(const Settings& settings) {
  settings.check();
  const strategy::StrategyInfo& strategy = strategy_of(settings);
  const strategy::Plan plan = plan_of(settings);
  const bool simulated = settings->in_virtual_time();
  const std::vector<double> deaths = deaths_of(settings);
  strategy::Choice choice{strategy, plan, settings->workers};
  choice.loss_scale = settings->compute.precision == "fp16";
  choice.uneven_data = data::needs_labels(settings->sampling.sharing);
  choice.saves_on_the_way = settings->run.checkpoint_every > 0;
  choice.deaths = std::any_of(deaths.begin(), deaths.end(), [](double time) { return time > 0; });
  strategy::refuse(choice);
  if (choice.deaths && (!simulated || deaths[0] > 0)) {
    fail(ErrorKind::usage, "simulated.deaths_s: ",
         simulated ? "rank 0 writes the run's results and cannot die"
                   : "ranks die with transport.kind = simulated only");
  }
  if (const double dropout = settings->compute.dropout; dropout < 0 && dropout != -1) {
    fail(ErrorKind::usage, "train.dropout = ", dropout, "; give a rate from 0 to below 1, or -1 for each layer's own");
  }
  if (const auto all = settings->batch.global; all > 0 && all < static_cast<std::uint32_t>(settings->workers) &&
                                               strategy.data != strategy::DataUse::global_batches) {
    fail(ErrorKind::usage, settings.shown("batch.global"), " is less than a sample for each of ", settings->workers,
         " workers, of which each takes batches of its own: give at least ", settings->workers);
  }
  train::find_device(settings->compute.device, 0);  // an error should come now, not in every worker
  codec::check_codec(plan.exchange.codec);
  data::check_shares(settings->sampling.shares, settings->workers);
  check_slow(settings);
  optim::OptimiserOptions tried = plan.optimiser;
  tried.tensors = {{0, 1, 1}};
  optim::make_optimiser(tried, 1, DType::fp32);
  optim::LearningRate(plan.learning_rate, plan.epochs, plan.rate_scale);
}

void check_job(const Settings& settings, const model::Zoo& zoo) {
  check_choices(settings);
  const model::ModelInfo& model = zoo.find(settings->model);
  for (const data::Split split : {data::Split::train, data::Split::test}) {
    check_fit(model, *open(settings, split), settings->data_name);
  }
}

launch::JoinOptions join_options(const Settings& settings) {
  launch::JoinOptions options;
  options.digest = settings.digest();
  options.seed = settings->seed;
  options.transport = settings->transport.kind;
  options.interface = settings->transport.interface;
  options.timeout = settings->transport.timeout;
  options.shape = settings->transport.shape;
  return options;
}

}  // namespace ripieno::program
