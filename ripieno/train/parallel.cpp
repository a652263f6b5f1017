#include "ripieno/train/parallel.h"

#include <array>

#include "ripieno/collective/execute.h"

namespace ripieno {
namespace {

FlatOptions flat_options(const ParallelOptions& options) {
  if (!(options.bucket_mb > 0)) fail(ErrorKind::usage, "bucket_mb is ", options.bucket_mb, "; it must be above 0");
  return {static_cast<std::size_t>(options.bucket_mb * 1e6), options.channels_last};
}

Task<> sum_of(Group group, FloatSpan value) {
  const ExecuteOptions options{DType::fp64, Purpose::control};
  return all_reduce(find_route("reduce-broadcast"), group, value, options);
}

}  // namespace

Parallel::Parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, Cluster& cluster,
                   ParallelOptions options)
    : model_(std::make_unique<FlatModel>(std::move(model), flat_options(options))),
      optimiser_(optimiser),
      cluster_(cluster),
      averager_(make_averager({options.route, options.wire})) {
  run(start());
}

int Parallel::rank() const { return cluster_.endpoint->rank(); }
int Parallel::workers() const { return cluster_.endpoint->size(); }
const Ledger& Parallel::ledger() const { return cluster_.endpoint->ledger(); }

torch::Tensor Parallel::step(const std::function<torch::Tensor()>& closure, std::int64_t samples) {
  model_->zero_gradients();
  const torch::Tensor loss = closure();
  model_->collect_gradients();
  const double mine = samples == every_worker_alike ? 1 : static_cast<double>(samples);
  const double all = sum(mine);
  if (!(mine >= 0 && all > 0)) fail(ErrorKind::usage, "a step over ", samples, " samples here, ", all, " of all workers together");
  run(average(mine / all));
  optimiser_.step();
  return loss;
}

double Parallel::sum(double value) {
  run(sum_of(Group(cluster_.endpoint), FloatSpan(&value, 1, DType::fp64)));
  return value;
}

/// The caller's thread drives the exchange.
void Parallel::run(Task<> task) {
  cluster_.runtime->spawn(text("rank ", rank()), std::move(task));
  cluster_.runtime->run();
}

Task<> Parallel::start() {
  const Group group(cluster_.endpoint);
  const std::array all{model_->parameters(), model_->frozen(), model_->buffers()};
  for (const FloatSpan state : all) {
    const ExecuteOptions options{state.type, Purpose::setup};
    co_await broadcast(group, state, options);
  }
}

Task<> Parallel::average(double weight) {
  const Group group(cluster_.endpoint);
  std::uint32_t channel = 0;
  for (const Range bucket : model_->layout().buckets) {
    co_await averager_->average(group, model_->gradients().slice(bucket.begin, bucket.end), weight, channel++);
  }
}

Parallel parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, Cluster& cluster,
                  ParallelOptions options) {
  return Parallel(std::move(model), optimiser, cluster, std::move(options));
}

}  // namespace ripieno
