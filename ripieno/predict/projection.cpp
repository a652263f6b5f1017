#include "ripieno/predict/projection.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/predict/charged_learner.h"
#include "ripieno/predict/shrink.h"

namespace ripieno::predict {
namespace {

constexpr std::uint64_t for_passes = 0x706173736573;  // "passes": a stream of random numbers
constexpr double enough_numbers = 32768;              // elements of a projected model
constexpr std::size_t turn_bytes = 16 << 10;          // turns of messages to several ranks that share a link
constexpr std::uint32_t most_steps = 8192;            // of all epochs that are run as they are
constexpr double whole_enough = 0.05;                 // the part of some epochs' steps that may be no whole period

/// The number of steps after which a strategy's exchanges repeat.
std::uint32_t period_of(const ProjectedJob& job) {
  return job.info->period ? job.info->period(job.plan, job.workers) : 8;
}

/// Whether all workers wait for all, in every step or after some.
bool all_wait(const ProjectedJob& job) { return job.info->agrees || job.info->traits.local_steps; }

/// The number of steps after which a strategy's pace is steady, and by which the two epochs differ at least. Where all
/// of many workers meet, the slowest is nearly as slow in every step, and what they send in a step is much.
std::uint32_t few_steps(const ProjectedJob& job) {
  std::uint32_t steps = 16;
  if (!all_wait(job)) return steps;
  for (int workers = 128; steps > 2 && workers < job.workers; workers *= 2) steps /= 2;
  return steps;
}

/// Whether a worker waits for no other, but for links to servers that they share.
bool at_own_pace(const ProjectedJob& job) { return job.info->has_servers && job.info->traits.own_pace; }

bool is_federated(const ProjectedJob& job) { return job.info->traits.has_cloud; }

/// The projected epochs: whole rounds, and several if not all clients take part in each.
std::uint32_t epochs_of(const ProjectedJob& job) {
  if (!is_federated(job)) return 1;
  return job.plan.federated.local_epochs * (job.plan.federated.fraction < 1 ? 4 : 1);
}

/// Epochs that are run, of so many steps of each worker.
struct RunEpochs {
  std::uint32_t steps = 1, epochs = 1;
};

/// As many epochs as make whole periods, nearly; one, if it is long.
std::uint32_t epochs_of_periods(std::uint32_t steps, std::uint32_t period) {
  const auto rest = [&](std::uint32_t epochs) {
    const std::uint64_t all = std::uint64_t{epochs} * steps;
    return all < period ? 1 : static_cast<double>(all % period) / static_cast<double>(all);
  };
  std::uint32_t best = 1;
  for (std::uint32_t epochs = 2; rest(best) > whole_enough && epochs * steps <= most_steps; ++epochs) {
    if (rest(epochs) < rest(best)) best = epochs;
  }
  return best;
}

strategy::Workload workload_of(const ProjectedJob& job, RunEpochs run) {
  const collective::World world(job.info->ranks(job.plan, job.workers), job.per_node);
  return {world, std::vector<std::uint32_t>(static_cast<std::size_t>(job.workers), run.steps), run.epochs};
}

/// Bytes by the closed form: of the busiest rank and of all together.
struct ProjectedBytes {
  double busiest = 0, all = 0;
};
std::optional<ProjectedBytes> bytes_of(const ProjectedJob& job, const strategy::Plan& plan,
                                       const strategy::Layout& layout, const strategy::Workload& work) {
  ProjectedBytes bytes;
  for (int rank = 0; rank < work.world.ranks; ++rank) {
    const auto sent = job.info->bytes_sent(*job.info, plan, layout, work, rank);
    if (!sent) return std::nullopt;
    bytes.busiest = std::max(bytes.busiest, static_cast<double>(*sent));
    bytes.all += static_cast<double>(*sent);
  }
  return bytes;
}

/// ddp encodes on the same core while it computes, which makes passes longer; other strategies wait for encoding.
double coding_beside_passes(const ProjectedJob& job) {
  return job.info->traits.by_buckets ? job.plan.exchange.codec.number_s * static_cast<double>(job.layout.parameters)
                                     : 0;
}

/// The model that is simulated instead of the job.
struct Model {
  strategy::Layout layout;
  strategy::Plan plan;
  transport::SimulatedOptions network;
  double bytes = 1;   // the job's bytes per byte of this model
  Duration apart{0};  // each worker begins its first pass so much later than the one before it
};

strategy::Plan plan_of(const ProjectedJob& job, std::uint32_t epochs) {
  strategy::Plan plan = job.plan;
  plan.epochs = epochs;
  plan.first_epoch = 0;
  plan.max_steps = 0;
  plan.evaluate_every = plan.epochs;
  plan.optimiser = {};  // its time is charged instead
  plan.learning_rate = {};
  return plan;
}

Model model_of(const ProjectedJob& job, RunEpochs run) {
  const double factor = std::max(1.0, static_cast<double>(job.layout.parameters) / enough_numbers);
  Model model{shrunk(job.layout, factor, job.plan.exchange.codec), plan_of(job, run.epochs), {job.link}, factor, {}};
  const strategy::Plan whole = model.plan;
  codec::CodecOptions& codec = model.plan.exchange.codec;
  codec = shrunk(codec, factor);
  codec.number_s *= coding_beside_passes(job) > 0
                        ? 0
                        : static_cast<double>(job.layout.parameters) / static_cast<double>(model.layout.parameters);
  const strategy::Workload work = workload_of(job, run);
  const auto large = bytes_of(job, whole, job.layout, work), small = bytes_of(job, model.plan, model.layout, work);
  if (large && small && small->all > 0) model.bytes = large->all / small->all;
  const auto fewer = [&](std::size_t bytes) {
    return static_cast<std::size_t>(std::llround(static_cast<double>(bytes) / model.bytes));
  };
  if (job.plan.exchange.segment_bytes > 0)
    model.plan.exchange.segment_bytes = std::max<std::size_t>(1, fewer(job.plan.exchange.segment_bytes));
  model.plan.exchange.small_bytes = fewer(job.plan.exchange.small_bytes);
  model.network.link.per_byte = from_seconds(seconds(job.link.per_byte) * model.bytes);
  model.network.per_node = job.link_per_node;
  model.network.node_link = {job.node_link.latency, from_seconds(seconds(job.node_link.per_byte) * model.bytes)};
  model.network.framing_bytes = fewer(job.framing_bytes);
  model.network.burst_bytes = fewer(job.burst_bytes);
  model.network.turn_bytes = std::max<std::size_t>(1, fewer(turn_bytes));
  model.network.window_bytes = std::max<std::size_t>(1, fewer(job.window_bytes));
  return model;
}

/// So many quantiles of the exponential distribution, as factors whose mean is 1.
std::vector<double> quantiles(double spread, std::uint32_t count) {
  std::vector<double> draws;
  for (std::uint32_t i = 0; i < count; ++i) draws.push_back(-std::log(1 - (i + 0.5) / count));
  const double mean = std::accumulate(draws.begin(), draws.end(), 0.0) / count;
  for (double& draw : draws) draw = 1 - spread + spread * draw / mean;
  return draws;
}

/// Factors of `passes` passes, by rank. Each rank has all quantiles, in an order of its own, so that its mean is 1; but
/// where many ranks wait for each other, each step has all quantiles, so that the slowest is as slow as of so many.
/// Where no worker waits for another, their mean alone counts.
std::vector<std::vector<double>> factors_of(const ProjectedJob& job, std::uint32_t passes, int ranks) {
  std::vector<std::vector<double>> factors(static_cast<std::size_t>(ranks));
  if (job.spread == 0 || at_own_pace(job)) return factors;
  const auto many = static_cast<std::uint32_t>(ranks);
  if (!all_wait(job) || many <= passes) {
    const std::vector<double> all = quantiles(job.spread, passes);
    for (std::size_t rank = 0; rank < factors.size(); ++rank) {
      for (const std::uint32_t i : Random(for_passes, rank).permutation(passes)) factors[rank].push_back(all[i]);
    }
    return factors;
  }
  const std::vector<double> all = quantiles(job.spread, many);
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    const auto order = Random(for_passes, pass).permutation(many);
    for (std::size_t rank = 0; rank < factors.size(); ++rank) factors[rank].push_back(all[order[rank]]);
  }
  return factors;
}

/// `factors`: of the rank's passes, in turn.
ChargedOptions learner_of(const ProjectedJob& job, const Model& model, int rank, std::uint32_t steps,
                          std::vector<double> factors) {
  const int worker = std::max(0, job.info->worker(model.plan, rank));
  const double factor = static_cast<std::size_t>(rank) < job.slow.size() ? job.slow[static_cast<std::size_t>(rank)] : 1;
  ChargedOptions options;
  options.layout = model.layout;
  options.profile = strategy::slowed(job.profile, factor);
  options.before_pass = from_seconds((seconds(job.optimise) + coding_beside_passes(job)) * factor);
  options.before_all = model.apart * std::max(0, job.info->worker(model.plan, rank));
  options.factors = std::move(factors);
  options.steps = steps;
  options.samples = std::max(1u, job.images.at(static_cast<std::size_t>(worker)));
  options.global_samples = job.info->data == strategy::DataUse::shards
                               ? options.samples
                               : std::accumulate(job.images.begin(), job.images.end(), 0u);
  options.loss_scale = job.loss_scale;
  options.numbers = looks_at_numbers(*job.info, job.plan.exchange.codec, job.layout.type);
  options.seed = model.plan.seed + static_cast<std::uint64_t>(rank);
  return options;
}

/// Of an epoch.
struct Taken {
  double epoch = 0, exchange = 0, bytes = 0;
  std::uint64_t messages = 0;
};

/// `cycle`: the number of passes after which their factors come again.
Taken simulated(const ProjectedJob& job, const Model& model, std::uint32_t steps, std::uint32_t cycle) {
  collective::VirtualCluster cluster(job.info->ranks(model.plan, job.workers), model.network, model.plan.seed);
  std::vector<std::vector<double>> factors = factors_of(job, cycle, cluster.size());
  std::vector<std::unique_ptr<ChargedLearner>> learners;
  std::vector<std::unique_ptr<observe::Recorder>> recorders;
  std::vector<std::unique_ptr<strategy::Strategy>> strategies;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    ChargedOptions options = learner_of(job, model, rank, steps, std::move(factors[static_cast<std::size_t>(rank)]));
    learners.push_back(std::make_unique<ChargedLearner>(cluster.runtime(), std::move(options)));
    recorders.push_back(std::make_unique<observe::Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
    strategies.push_back(strategy::make_strategy(
        *job.info, model.plan, {cluster.comm(rank).on_nodes(job.per_node), *learners.back(), *recorders.back(), {}}));
  }
  cluster.run([&](collective::Communicator comm) {
    return strategies[static_cast<std::size_t>(comm.endpoint().rank())]->run();
  });
  Taken taken;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    taken.bytes =
        std::max(taken.bytes, static_cast<double>(cluster.ledger(rank).total(observe::Purpose::exchange).payload_sent) *
                                  model.bytes);
    if (job.info->worker(model.plan, rank) < 0) continue;
    const observe::Recorder& recorder = *recorders[static_cast<std::size_t>(rank)];
    const auto& times = recorder.epoch_times();
    const Duration late = model.apart * job.info->worker(model.plan, rank);
    const double epoch = seconds(std::accumulate(times.begin(), times.end(), Duration{0}) - late);
    if (epoch > taken.epoch) taken = {epoch, seconds(recorder.totals()[observe::Stage::exchange]), taken.bytes};
  }
  std::uint64_t messages = 0;
  for (int rank = 0; rank < cluster.size(); ++rank) messages += cluster.ledger(rank).total().messages_sent;
  const double epochs = model.plan.epochs;
  return {taken.epoch / epochs, taken.exchange / epochs, taken.bytes / epochs, messages};
}

/// How much less time the epoch's passes take than as many full ones, since its last batches are smaller.
double saved_by_small_batches(const ProjectedJob& job, std::uint32_t steps) {
  const double pass = seconds(job.profile.read + job.profile.forward + job.profile.backward);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t worker = 0; worker < job.images.size(); ++worker) {
    const double missing = static_cast<double>(steps) * job.images[worker] - job.samples.at(worker);
    least = std::min(least, missing * pass / std::max(1u, job.profile.images));
  }
  return least;
}

/// Payload of plain numbers in an epoch, the mean of a run's.
double plain_bytes(const ProjectedJob& job, RunEpochs run) {
  strategy::Plan plan = plan_of(job, run.epochs);
  plan.exchange.codec = {};
  const auto bytes = bytes_of(job, plan, job.layout, workload_of(job, run));
  return bytes ? bytes->busiest / run.epochs : 0;
}

/// Workers that wait for no other drift apart: real connections share a link unevenly, so that one is soon ahead, and
/// pushes while others pull. Here they would stay together as they began, and use a server's link in one direction at a
/// time. So they begin evenly spread: over a lone worker's step, or over their own in that case, whichever is faster.
Duration apart_of(const ProjectedJob& job, Model model, std::uint32_t steps) {
  if (!at_own_pace(job) || job.workers == 1) return Duration(0);
  ProjectedJob lone = job;
  lone.workers = 1;
  const auto apart_over = [&](double epoch_s) { return from_seconds(epoch_s / steps / job.workers); };
  const Duration first = apart_over(simulated(lone, model, steps, steps).epoch);
  model.apart = first;
  const double before = simulated(job, model, steps, steps).epoch;
  const Duration second = apart_over(before);
  model.apart = second;
  return simulated(job, model, steps, steps).epoch < before ? second : first;
}

/// An epoch as it is run, or as it follows from two shorter ones.
Taken taken_by(const ProjectedJob& job, RunEpochs run) {
  const std::uint32_t period = period_of(job), periods = (few_steps(job) + period - 1) / period;
  const std::uint32_t first = run.steps % period + periods * period, second = first + periods * period;
  Model model = model_of(job, {std::min(run.steps, second), run.epochs});
  model.apart = apart_of(job, model, std::min(run.steps, first));
  if (run.steps <= second) return simulated(job, model, run.steps, run.steps);
  const Taken shorter = simulated(job, model, first, second - first),
              longer = simulated(job, model, second, second - first);
  const double more = static_cast<double>(run.steps - second) / (second - first);
  const auto further = [more](double from, double to) { return to + (to - from) * more; };
  return {further(shorter.epoch, longer.epoch), further(shorter.exchange, longer.exchange),
          further(shorter.bytes, longer.bytes), longer.messages + shorter.messages};
}

/// The mean of the job's epochs, since the steps between two exchanges go on from one epoch to the next: some epochs
/// are run, with the exchanges that they have, and exposed time grows with exchanges.
Taken taken_by_local_steps(const ProjectedJob& job, std::uint32_t steps) {
  const RunEpochs run{steps, std::min(job.plan.epochs, epochs_of_periods(steps, job.plan.local.steps))};
  Taken taken = taken_by(job, run);
  const double has = plain_bytes(job, run), mean = plain_bytes(job, {steps, job.plan.epochs});
  if (has <= 0) return taken;
  taken.epoch += taken.exchange * (mean / has - 1);
  taken.exchange *= mean / has;
  taken.bytes *= mean / has;
  return taken;
}

}  // namespace

bool looks_at_numbers(const strategy::StrategyInfo& info, const codec::CodecOptions& codec, DType type) {
  if (!strategy::is_built_in(info.name)) return true;
  return codec::find_codec(codec.name).kind != codec::CodecKind::low_rank && !codec::make_codec(codec, type)->bytes(1);
}

Projection project(const ProjectedJob& job) {
  const std::uint32_t steps = std::max(1u, *std::max_element(job.steps.begin(), job.steps.end()));
  const bool has_local_steps = job.info->traits.local_steps;
  const std::uint32_t epochs = has_local_steps ? job.plan.epochs : epochs_of(job);
  Taken taken = has_local_steps ? taken_by_local_steps(job, steps) : taken_by(job, {steps, epochs});
  if (const auto bytes = bytes_of(job, plan_of(job, epochs), job.layout, workload_of(job, {steps, epochs})))
    taken.bytes = bytes->busiest / epochs;
  const double epoch = taken.epoch - saved_by_small_batches(job, steps);
  return {epoch, epoch / steps, taken.exchange, taken.bytes, taken.messages};
}

}  // namespace ripieno::predict
