#include "apps/ripieno/job.h"

#include <algorithm>
#include <thread>

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
  fail(ErrorKind::usage, "model ", model.name, " takes images of ", model.channels, "x", model.height, "x", model.width, " in ",
       model.classes, " classes; data set ", data_name, " has ", shape.channels, "x", shape.height, "x", shape.width, " in ",
       data.classes());
}

int compute_threads(const Settings& settings) {
  const int threads = settings.get<int>("train.threads");
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / settings.get<int>("workers"));
}

}  // namespace

const StrategyInfo& strategy_of(const Settings& settings) { return find_strategy(settings.get<std::string>("strategy")); }

int ranks_of(const Settings& settings) { return strategy_of(settings).ranks(settings.get<int>("workers")); }

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
  plan.learning_rate.schedule = settings.get<std::string>("learning_rate.schedule");
  plan.learning_rate.base = settings.get<double>("learning_rate.base");
  plan.learning_rate.warmup_epochs = settings.get<double>("learning_rate.warmup_epochs");
  plan.learning_rate.step_epochs = settings.get<std::vector<double>>("learning_rate.step_epochs");
  plan.learning_rate.step_factor = settings.get<double>("learning_rate.step_factor");
  plan.learning_rate.final_fraction = settings.get<double>("learning_rate.final_fraction");
  plan.learning_rate.peak_at = settings.get<double>("learning_rate.peak_at");
  plan.learning_rate.start_fraction = settings.get<double>("learning_rate.start_fraction");
  plan.rate_scale = settings.get<std::string>("learning_rate.scale") == "linear" ? settings.get<int>("workers") : 1;
  plan.wire = settings.get<std::string>("exchange.wire");
  plan.segment_bytes = settings.get<std::size_t>("exchange.segment_kb") << 10;
  plan.local_epochs = settings.get<std::uint32_t>("fedavg.local_epochs");
  return plan;
}

SimulatedOptions simulated_of(const Settings& settings) {
  SimulatedOptions options;
  options.link.latency = from_seconds(settings.get<double>("simulated.latency_us") * 1e-6);
  options.link.per_byte = from_seconds(8e-9 / settings.get<double>("simulated.gbit_s"));
  options.framing_bytes = frame_bytes;  // as tcp has
  options.window_bytes = settings.get<std::size_t>("simulated.window_kb") << 10;
  return options;
}

std::uint32_t batch_of(const Settings& settings) {
  const auto workers = settings.get<std::uint32_t>("workers");
  const auto global = settings.get<std::uint32_t>("batch.global"), per_worker = settings.get<std::uint32_t>("batch.per_worker");
  if (strategy_of(settings).data == DataUse::global_batches) return global > 0 ? global : per_worker * workers;
  return per_worker > 0 ? per_worker : std::max(1u, global / workers);
}

std::vector<std::uint32_t> steps_of(const Settings& settings, std::uint32_t train_samples) {
  const int workers = settings.get<int>("workers");
  const std::uint32_t batch = batch_of(settings);
  std::vector<std::uint32_t> steps;
  for (int worker = 0; worker < workers; ++worker) {
    const auto [begin, end] = share(train_samples, worker, workers);
    const std::uint32_t samples = strategy_of(settings).data == DataUse::shards ? end - begin : train_samples;
    steps.push_back((samples + batch - 1) / batch);
  }
  return steps;
}

std::unique_ptr<TorchLearner> make_learner(const Settings& settings, const Zoo& zoo, int rank, Runtime& runtime,
                                           Recorder& recorder) {
  const StrategyInfo& strategy = strategy_of(settings);
  const std::string data_name = settings.get<std::string>("data.name");
  const ModelInfo& info = zoo.find(settings.get<std::string>("model"));
  const auto seed = settings.get<std::uint64_t>("seed");
  std::shared_ptr<Dataset> train = open(settings, Split::train), test = open(settings, Split::test);
  check_fit(info, *train, data_name);

  SamplerOptions sampling;
  sampling.seed = seed;
  sampling.worker = std::max(0, strategy.worker(rank));
  sampling.workers = settings.get<int>("workers");
  sampling.batch = batch_of(settings);
  sampling.partition = strategy.data == DataUse::shards ? Partition::shards : Partition::global_batches;
  AugmentOptions augmentation;
  augmentation.crop_padding = settings.get<int>("data.crop_padding");
  augmentation.flip = settings.get<bool>("data.flip");
  augmentation.normalise = settings.get<bool>("data.normalise");
  const Normalisation normalisation = find_dataset(data_name).normalisation;
  Loader train_loader(train, Sampler(train->size(), sampling), augmentation, normalisation, seed);
  Loader test_loader(test, Sampler(test->size(), {.batch = 1}), augmentation, normalisation, seed);

  TorchOptions options;
  options.precision = find_precision(settings.get<std::string>("train.precision"));
  options.flat.bucket_bytes = static_cast<std::size_t>(settings.get<double>("exchange.bucket_mb") * 1e6);
  options.flat.channels_last = settings.get<bool>("train.channels_last");
  options.label_smoothing = settings.get<double>("train.label_smoothing");
  options.accumulate = settings.get<std::uint32_t>("train.accumulate");
  options.threads = compute_threads(settings);
  options.seed = seed;
  options.worker = sampling.worker;
  const auto slow = settings.get<std::vector<double>>("simulated.slow");
  const double factor = static_cast<std::size_t>(rank) < slow.size() ? slow[rank] : 1;
  options.image_cost = from_seconds(settings.get<double>("simulated.image_us") * 1e-6 * factor);

  torch::manual_seed(seed);
  return std::make_unique<TorchLearner>(runtime, recorder, info.make(), std::move(train_loader), std::move(test_loader),
                                        options);
}

void check_job(const Settings& settings, const Zoo& zoo) {
  settings.check();
  if (strategy_of(settings).servers > 0 && settings.get<int>("run.checkpoint_every") > 0) {
    fail(ErrorKind::usage, "run.checkpoint_every = ", settings.get<int>("run.checkpoint_every"), ": ", strategy_of(settings).name,
         " is saved at its end only, as its workers are never at the same step; leave it at 0");
  }
  const ModelInfo& model = zoo.find(settings.get<std::string>("model"));
  for (const Split split : {Split::train, Split::test}) {
    check_fit(model, *open(settings, split), settings.get<std::string>("data.name"));
  }
  const Plan plan = plan_of(settings);
  make_optimiser(plan.optimiser, 1, DType::fp32);
  LearningRate(plan.learning_rate, plan.epochs, plan.rate_scale);
}

}  // namespace ripieno
