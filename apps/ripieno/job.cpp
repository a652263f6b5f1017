#include "apps/ripieno/job.h"

#include <algorithm>
#include <thread>

#include "ripieno/data/partition.h"
#include "ripieno/strategy/refusals.h"
#include "ripieno/train/device.h"
#include "ripieno/train/torch_learner.h"
#include "ripieno/transport/tcp_frame.h"

namespace ripieno {
namespace {

DataOptions data_of(const Settings& settings) {
  DataOptions options;
  options.folder = settings.get<std::string>("data.folder");
  options.cache = settings.get<std::string>("data.cache");
  options.seed = 0;  // generated data is the same whatever the run's seed
  options.train_samples = settings.get<std::uint32_t>("data.train_samples");
  options.test_samples = settings.get<std::uint32_t>("data.test_samples");
  return options;
}

std::unique_ptr<Dataset> open(const Settings& settings, Split split) {
  return open_dataset(settings.get<std::string>("data.name"), split, data_of(settings));
}

void check_fit(const ModelInfo& model, const Dataset& data, const std::string& data_name) {
  const ImageShape shape = data.shape();
  if (shape == ImageShape{model.channels, model.height, model.width} && data.classes() == model.classes) return;
  if (model.resizes && shape.channels == model.channels && data.classes() <= model.classes) return;
  fail(ErrorKind::usage, "model ", model.name, " takes images of ", model.channels, "x", model.height, "x", model.width, " in ",
       model.classes, " classes; data set ", data_name, " has ", shape.channels, "x", shape.height, "x", shape.width, " in ",
       data.classes());
}

/// Gives a model that asks for them the first training images.
void prepare(Classifier& model, Loader& train) {
  const std::uint32_t count = std::min(model.images_to_prepare(), train.dataset().size());
  if (count == 0) return;
  Batch batch = train.load_range(0, count);
  const ImageShape shape = train.dataset().shape();
  model.prepare(torch::from_blob(batch.pixels.data(), {count, shape.channels, shape.height, shape.width}, torch::kFloat32));
}

}  // namespace

const StrategyInfo& strategy_of(const Settings& settings) { return find_strategy(settings.get<std::string>("strategy")); }

int ranks_of(const Settings& settings) { return strategy_of(settings).ranks(plan_of(settings), settings.get<int>("workers")); }

Plan plan_of(const Settings& settings) {
  Plan plan;
  plan.epochs = settings.get<std::uint32_t>("train.epochs");
  plan.max_steps = settings.get<std::uint64_t>("train.max_steps");
  plan.evaluate_every = settings.get<std::uint32_t>("train.evaluate_every");
  plan.optimiser.name = settings.get<std::string>("optimiser.name");
  plan.optimiser.momentum = settings.get<double>("optimiser.momentum");
  plan.optimiser.weight_decay = settings.get<double>("optimiser.weight_decay");
  plan.optimiser.nesterov = settings.get<bool>("optimiser.nesterov");
  plan.optimiser.beta1 = settings.get<double>("optimiser.beta1");
  plan.optimiser.beta2 = settings.get<double>("optimiser.beta2");
  plan.optimiser.epsilon = settings.get<double>("optimiser.epsilon");
  plan.optimiser.first_layer_steps = settings.get<std::int64_t>("train.first_layer_epochs");  // in epochs until know_model()
  plan.optimiser.newton_schulz = settings.get<int>("optimiser.newton_schulz");
  plan.optimiser.normalise = settings.get<bool>("optimiser.normalise");
  plan.optimiser.sgd_momentum = settings.get<double>("optimiser.sgd_momentum");
  plan.optimiser.vector_factor = settings.get<double>("learning_rate.vector_factor");
  plan.optimiser.head_factor = settings.get<double>("learning_rate.head_factor");
  plan.optimiser.lookahead_every = settings.get<std::int64_t>("optimiser.lookahead_every");
  plan.optimiser.lookahead_decay = settings.get<double>("optimiser.lookahead_decay");
  plan.optimiser.lookahead_power = settings.get<double>("optimiser.lookahead_power");
  plan.learning_rate.schedule = settings.get<std::string>("learning_rate.schedule");
  plan.learning_rate.base = settings.get<double>("learning_rate.base");
  plan.learning_rate.warmup_epochs = settings.get<double>("learning_rate.warmup_epochs");
  plan.learning_rate.step_epochs = settings.get<std::vector<double>>("learning_rate.step_epochs");
  plan.learning_rate.step_factor = settings.get<double>("learning_rate.step_factor");
  plan.learning_rate.final_fraction = settings.get<double>("learning_rate.final_fraction");
  plan.learning_rate.peak_at = settings.get<double>("learning_rate.peak_at");
  plan.learning_rate.start_fraction = settings.get<double>("learning_rate.start_fraction");
  plan.rate_scale = settings.get<std::string>("learning_rate.scale") == "linear" ? settings.get<int>("workers") : 1;
  plan.seed = settings.get<std::uint64_t>("seed");
  plan.passes = settings.get<int>("passes");
  plan.exchange.route = settings.get<std::string>("exchange.route");
  plan.exchange.small_route = settings.get<std::string>("exchange.small_route");
  plan.exchange.small_bytes = settings.get<std::size_t>("exchange.small_kb") << 10;
  plan.exchange.codec.name = settings.get<std::string>("exchange.codec");
  plan.exchange.codec.error_feedback = settings.get<bool>("codec.error_feedback");
  plan.exchange.codec.block = settings.get<std::size_t>("codec.block");
  plan.exchange.codec.bits = settings.get<int>("codec.bits");
  plan.exchange.codec.fraction = settings.get<double>("codec.fraction");
  plan.exchange.codec.rank = settings.get<int>("codec.rank");
  plan.exchange.segment_bytes = settings.get<std::size_t>("exchange.segment_kb") << 10;
  plan.exchange.in_flight = settings.get<int>("exchange.in_flight");
  plan.exchange.forward = settings.get<std::string>("exchange.overlap") == "forward";
  plan.servers.count = settings.get<int>("ps.servers");
  plan.servers.beside = settings.get<std::string>("ps.placement") == "beside";
  plan.servers.staleness = settings.get<int>("ps.staleness");
  plan.federated.local_epochs = settings.get<std::uint32_t>("fedavg.local_epochs");
  plan.federated.fraction = settings.get<double>("fedavg.fraction");
  plan.federated.deltas = settings.get<std::string>("fedavg.exchange") == "deltas";
  const std::string statistics = settings.get<std::string>("fedavg.batch_norm");
  plan.federated.statistics = statistics == "rank0" ? Statistics::rank0 : statistics == "mean" ? Statistics::mean : Statistics::local;
  plan.local.steps = settings.get<std::uint32_t>("local.steps");
  plan.local.fragments = settings.get<std::uint32_t>("local.fragments");
  plan.local.delay = settings.get<std::uint32_t>("local.delay");
  plan.outer.learning_rate = settings.get<double>("outer.learning_rate");
  plan.outer.momentum = settings.get<double>("outer.momentum");
  plan.outer.beta1 = settings.get<double>("outer.beta1");
  plan.outer.beta2 = settings.get<double>("outer.beta2");
  plan.outer.epsilon = settings.get<double>("outer.epsilon");
  return plan;
}

void know_model(Plan* plan, const Settings& settings, TorchLearner& learner) {
  const Layout& layout = learner.layout();
  OptimiserOptions& optimiser = plan->optimiser;
  optimiser.tensors.clear();
  for (const Layout::Tensor& tensor : layout.tensors) {
    const auto rows = tensor.shape.size() < 2 ? std::size_t{0} : static_cast<std::size_t>(tensor.shape[0]);
    optimiser.tensors.push_back({tensor.range.begin, tensor.range.end, rows, optimiser.tensors.size() < learner.first_layer()});
  }
  const std::uint32_t batches = learner.steps_per_epoch(), passes = strategy_of(settings).traits.sums_passes ? plan->passes : 1;
  const std::int64_t steps = (batches + passes - 1) / passes;
  optimiser.first_layer_steps = settings.get<std::int64_t>("train.first_layer_epochs") * steps;
  optimiser.total_steps = std::max<std::int64_t>(1, steps * plan->epochs);
}

ModelParts parts_of(const ModelInfo& info) {
  const std::shared_ptr<Classifier> model = info.make();
  ModelParts parts;
  for (const auto& layer : model->modules()) parts.dropout = parts.dropout || layer->as<torch::nn::DropoutImpl>();
  for (const torch::Tensor& buffer : model->buffers()) parts.statistics = parts.statistics || buffer.is_floating_point();
  return parts;
}

Communicator group_of(const Settings& settings, std::shared_ptr<Endpoint> endpoint) {
  return Communicator(std::move(endpoint)).on_nodes(settings.get<int>("exchange.per_node"));
}

std::vector<double> deaths_of(const Settings& settings) {
  std::vector<double> deaths = settings.get<std::vector<double>>("simulated.deaths_s");
  const int ranks = ranks_of(settings);
  if (deaths.size() > static_cast<std::size_t>(ranks)) {
    fail(ErrorKind::usage, "simulated.deaths_s names ", deaths.size(), " ranks; there are ", ranks);
  }
  deaths.resize(ranks);
  return deaths;
}

LinkModel node_link_of(const Settings& settings) {
  return {from_seconds(settings.get<double>("simulated.node_latency_us") * 1e-6),
          from_seconds(8e-9 / settings.get<double>("simulated.node_gbit_s"))};
}

SimulatedOptions simulated_of(const Settings& settings) {
  SimulatedOptions options;
  options.link.latency = from_seconds(settings.get<double>("simulated.latency_us") * 1e-6);
  options.link.per_byte = from_seconds(8e-9 / settings.get<double>("simulated.gbit_s"));
  options.per_node = settings.get<int>("simulated.per_node");
  options.node_link = node_link_of(settings);
  options.framing_bytes = frame_bytes;  // as tcp has
  options.window_bytes = settings.get<std::size_t>("simulated.window_kb") << 10;
  return options;
}

int compute_threads(const Settings& settings) {
  const int threads = settings.get<int>("train.threads");
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / settings.get<int>("workers"));
}

std::string kind_of(const Settings& settings) {
  const bool replayed = is_replayed(settings), simulated = settings.get<std::string>("transport.kind") == "simulated";
  return simulated ? (replayed ? "projected" : "simulated") : replayed ? "replayed" : "computed";
}

bool is_replayed(const Settings& settings) { return settings.get<std::string>("train.compute") == "replay"; }

std::uint32_t batch_of(const Settings& settings) {
  const auto workers = settings.get<std::uint32_t>("workers");
  const auto global = settings.get<std::uint32_t>("batch.global"), per_worker = settings.get<std::uint32_t>("batch.per_worker");
  if (strategy_of(settings).data == DataUse::global_batches) return global > 0 ? global : per_worker * workers;
  return per_worker > 0 ? per_worker : std::max(1u, global / workers);
}

SamplerOptions sampling_of(const Settings& settings, int worker) {
  SamplerOptions sampling;
  sampling.seed = settings.get<std::uint64_t>("seed");
  sampling.worker = worker;
  sampling.workers = settings.get<int>("workers");
  sampling.batch = batch_of(settings);
  sampling.shares = settings.get<std::vector<double>>("batch.shares");
  sampling.sharing = settings.get<std::string>("data.partition");
  sampling.shards_per_worker = settings.get<std::uint32_t>("data.shards_per_worker");
  sampling.alpha = settings.get<double>("data.alpha");
  switch (strategy_of(settings).data) {
    case DataUse::global_batches: sampling.partition = Partition::global_batches; break;
    case DataUse::shards: sampling.partition = Partition::shards; break;
    case DataUse::shards_in_step: sampling.partition = Partition::shards_in_step; break;
  }
  return sampling;
}

bool divides_buckets(const Settings& settings) {
  const bool muon = settings.get<std::string>("optimiser.name") == "muon";
  const bool by_matrices = muon || settings.get<std::string>("exchange.codec") == "powersgd";
  return strategy_of(settings).traits.by_buckets && !by_matrices;
}

FlatOptions layout_of(const Settings& settings) {
  FlatOptions options;
  options.bucket_bytes = static_cast<std::size_t>(settings.get<double>("exchange.bucket_mb") * 1e6);
  options.channels_last = settings.get<bool>("train.channels_last");
  options.divide = divides_buckets(settings);
  return options;
}

Workload workload_of(const Settings& settings, std::vector<std::uint32_t> steps, std::uint32_t epochs) {
  return {World(ranks_of(settings), settings.get<int>("exchange.per_node")), std::move(steps), epochs};
}

std::unique_ptr<TorchLearner> make_learner(const Settings& settings, const Zoo& zoo, int rank, Runtime& runtime,
                                           Recorder& recorder, Memory memory, std::optional<ComputeProfile> replay) {
  const StrategyInfo& strategy = strategy_of(settings);
  const std::string data_name = settings.get<std::string>("data.name");
  const ModelInfo& info = zoo.find(settings.get<std::string>("model"));
  const auto seed = settings.get<std::uint64_t>("seed");
  std::shared_ptr<Dataset> train = open(settings, Split::train), test = open(settings, Split::test);
  check_fit(info, *train, data_name);

  const SamplerOptions sampling = sampling_of(settings, std::max(0, strategy.worker(plan_of(settings), rank)));
  std::vector<std::uint8_t> labels;  // read apart: a worker's count of bytes read is of its own samples
  if (needs_labels(sampling.sharing) && sampling.partition != Partition::global_batches) labels = labels_of(*open(settings, Split::train));
  AugmentOptions augmentation;
  augmentation.crop_padding = settings.get<int>("data.crop_padding");
  augmentation.border = settings.get<std::string>("data.crop_border") == "black" ? Border::black : Border::reflected;
  augmentation.flip = settings.get<bool>("data.flip");
  augmentation.alternate = settings.get<bool>("data.flip_alternate");
  augmentation.normalise = settings.get<bool>("data.normalise");
  const Normalisation normalisation = find_dataset(data_name).normalisation;
  Loader train_loader(train, Sampler(train->size(), sampling, labels), augmentation, normalisation, seed);
  Loader test_loader(test, Sampler(test->size(), {.batch = 1}), augmentation, normalisation, seed);

  TorchOptions options;
  options.device = find_device(settings.get<std::string>("train.device"), sampling.worker);
  options.precision = find_precision(settings.get<std::string>("train.precision"));
  options.flat = layout_of(settings);
  options.flat.memory = std::move(memory);
  options.label_smoothing = settings.get<double>("train.label_smoothing");
  options.first_layer_epochs = settings.get<std::uint32_t>("train.first_layer_epochs");
  options.test_views = find_test_views(settings.get<std::string>("evaluate.tta"));
  options.evaluation_batch = settings.get<std::uint32_t>("evaluate.batch");
  options.accumulate = settings.get<std::uint32_t>("train.accumulate");
  options.threads = compute_threads(settings);
  options.seed = seed;
  options.worker = sampling.worker;
  const auto slow = settings.get<std::vector<double>>(runtime.is_virtual() ? "simulated.slow" : "lab.slow");
  const double factor = static_cast<std::size_t>(rank) < slow.size() ? slow[rank] : 1;
  if (replay) {
    options.replay = slowed(std::move(*replay), factor);
  } else if (!runtime.is_virtual()) {
    options.slow = factor;
  }
  options.image_cost = from_seconds(settings.get<double>("simulated.image_us") * 1e-6 * factor);

  torch::manual_seed(seed);
  std::shared_ptr<Classifier> model = info.make();
  prepare(*model, train_loader);
  if (const double dropout = settings.get<double>("train.dropout"); dropout >= 0) {
    for (const auto& layer : model->modules()) {
      if (auto* its = layer->as<torch::nn::DropoutImpl>()) its->options.p(dropout);
    }
  }
  return std::make_unique<TorchLearner>(runtime, recorder, std::move(model), std::move(train_loader), std::move(test_loader),
                                        options);
}

namespace {

/// A rank that is to be slow must be there, and compute. One worker alone may be a cell of a grid whose others have more ranks.
void check_slow(const Settings& settings) {
  const StrategyInfo& strategy = strategy_of(settings);
  const char* key = settings.get<std::string>("transport.kind") == "simulated" ? "simulated.slow" : "lab.slow";
  const auto slow = settings.get<std::vector<double>>(key);
  const int ranks = ranks_of(settings);
  for (int rank = 0; rank < static_cast<int>(slow.size()) && !strategy.traits.alone; ++rank) {
    if (slow[static_cast<std::size_t>(rank)] == 1) continue;
    if (rank >= ranks) {
      fail(ErrorKind::usage, settings.shown(key), " slows rank ", rank, ", but ", strategy.name, " has ranks 0 to ", ranks - 1, " here; give a number for each of these");
    }
    if (strategy.worker(plan_of(settings), rank) < 0) {
      fail(ErrorKind::usage, settings.shown(key), " slows rank ", rank, ", which is a server and computes nothing; give it 1");
    }
  }
}

}  // namespace

void check_choices(const Settings& settings) {
  settings.check();
  const StrategyInfo& strategy = strategy_of(settings);
  const Plan plan = plan_of(settings);
  const bool simulated = settings.get<std::string>("transport.kind") == "simulated";
  const std::vector<double> deaths = deaths_of(settings);
  Choice choice{strategy, plan, settings.get<int>("workers")};
  choice.loss_scale = settings.get<std::string>("train.precision") == "fp16";
  choice.uneven_data = needs_labels(settings.get<std::string>("data.partition"));
  choice.saves_on_the_way = settings.get<int>("run.checkpoint_every") > 0;
  choice.deaths = std::any_of(deaths.begin(), deaths.end(), [](double time) { return time > 0; });
  refuse(choice);
  if (choice.deaths && (!simulated || deaths[0] > 0)) {
    fail(ErrorKind::usage, "simulated.deaths_s: ", simulated ? "rank 0 writes the run's results and cannot die" : "ranks die with transport.kind = simulated only");
  }
  if (const double dropout = settings.get<double>("train.dropout"); dropout < 0 && dropout != -1) {
    fail(ErrorKind::usage, "train.dropout = ", dropout, "; give a rate from 0 to below 1, or -1 for each layer's own");
  }
  find_device(settings.get<std::string>("train.device"), 0);  // now, not in every worker
  check_codec(plan.exchange.codec);
  check_shares(settings.get<std::vector<double>>("batch.shares"), settings.get<int>("workers"));
  check_slow(settings);
  OptimiserOptions tried = plan.optimiser;
  tried.tensors = {{0, 1, 1}};
  make_optimiser(tried, 1, DType::fp32);
  LearningRate(plan.learning_rate, plan.epochs, plan.rate_scale);
}

void check_job(const Settings& settings, const Zoo& zoo) {
  check_choices(settings);
  const ModelInfo& model = zoo.find(settings.get<std::string>("model"));
  for (const Split split : {Split::train, Split::test}) {
    check_fit(model, *open(settings, split), settings.get<std::string>("data.name"));
  }
}

}  // namespace ripieno
