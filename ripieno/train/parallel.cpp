#include "ripieno/train/parallel.h"

#include <array>

#include "ripieno/collective/execute.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

FlatOptions flat_options(const ParallelOptions& options, const Cluster& cluster) {
  if (!(options.bucket_mb > 0)) fail(ErrorKind::usage, "bucket_mb is ", options.bucket_mb, "; it must be above 0");
  return {.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * 1e6),
          .channels_last = options.channels_last,
          .memory = Group(cluster.endpoint).memory()};
}

Task<> sum_of(Group group, FloatSpan value) {
  const ExecuteOptions options{DType::fp64, Purpose::control};
  return all_reduce(find_route("reduce-broadcast"), group, value, options);
}

}  // namespace

Parallel::Parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, Cluster& cluster,
                   ParallelOptions options)
    : model_(std::make_unique<FlatModel>(std::move(model), flat_options(options, cluster))),
      optimiser_(optimiser),
      cluster_(cluster),
      options_(options) {
  if (options.local_steps < 1) fail(ErrorKind::usage, "local_steps is ", options.local_steps, "; it must be at least 1");
  if (options.local_steps > 1 && find_codec(options.codec.name).kind != CodecKind::wire) {
    fail(ErrorKind::usage, "codec ", options.codec.name, " with local_steps = ", options.local_steps,
         ": parameters are averaged then, of which it loses too much; take fp16 or bf16");
  }
  const Layout& layout = model_->layout();
  Plan plan;
  plan.exchange.route = options.route;
  plan.exchange.codec = options.codec;
  const std::string route = settled(find_strategy("ddp"), plan, Group(cluster.endpoint)).exchange.route;
  averager_ = make_averager({.route = route, .codec = options.codec}, slots_of(layout, layout.buckets), layout.type);
  const std::array all{model_->parameters(), model_->frozen(), model_->buffers()};
  for (const FloatSpan state : all) run(broadcast(Group(cluster_.endpoint), state, {state.type, Purpose::setup}));
  model_->state_to_device();
}

int Parallel::rank() const { return cluster_.endpoint->rank(); }
int Parallel::workers() const { return cluster_.endpoint->size(); }
const Ledger& Parallel::ledger() const { return cluster_.endpoint->ledger(); }

torch::Tensor Parallel::step(const std::function<torch::Tensor()>& closure, std::int64_t samples) {
  model_->zero_gradients();
  const double mine = samples == every_worker_alike ? 1 : static_cast<double>(samples);
  if (options_.local_steps > 1) return local_step(closure, mine);
  const double all = sum(mine);
  if (!(mine >= 0 && all > 0)) fail(ErrorKind::usage, "a step over ", samples, " samples here, ", all, " of all workers together");
  torch::Tensor loss;
  if (options_.overlap) {
    run(compute_and_average(&closure, mine / all, &loss));
  } else {
    loss = closure();
    model_->collect_gradients();
    run(average(model_->gradients(), mine / all));
  }
  model_->gradients_to_device();
  optimiser_.step();
  return loss;
}

torch::Tensor Parallel::local_step(const std::function<torch::Tensor()>& closure, double samples) {
  const torch::Tensor loss = closure();
  model_->collect_gradients();
  optimiser_.step();
  samples_since_average_ += samples;
  if (++steps_since_average_ < options_.local_steps) return loss;
  const double all = sum(samples_since_average_);
  if (!(samples_since_average_ >= 0 && all > 0)) fail(ErrorKind::usage, samples_since_average_, " samples since the last average here, ", all, " of all workers together");
  model_->parameters_to_host();
  run(average(model_->parameters(), samples_since_average_ / all));
  model_->parameters_to_device();
  steps_since_average_ = 0;
  samples_since_average_ = 0;
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

Task<> Parallel::average(FloatSpan numbers, double weight) {
  const Group group(cluster_.endpoint);
  const auto& buckets = model_->layout().buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    co_await averager_->average(group, i, numbers.slice(buckets[i].begin, buckets[i].end), weight);
  }
}

/// The closure runs on the runtime's worker thread; buckets are averaged beside it, in the same order on all workers.
Task<> Parallel::compute_and_average(const std::function<torch::Tensor()>* closure, double weight, torch::Tensor* loss) {
  Runtime& runtime = *cluster_.runtime;
  std::vector<std::unique_ptr<Event>> ready;
  std::vector<Task<>> tasks;
  for (std::size_t i = 0; i < model_->layout().buckets.size(); ++i) {
    ready.push_back(std::make_unique<Event>(runtime));
    tasks.push_back(await_and_average(i, ready.back().get(), weight));
  }
  auto compute = [this, closure, loss, &ready, &runtime] {
    model_->on_ready = [&ready, &runtime](std::size_t bucket) {
      asio::post(runtime.context(), [event = ready[bucket].get()] { event->set(); });
    };
    *loss = (*closure)();
    model_->on_ready = nullptr;
  };
  auto revoke = [this](std::exception_ptr error) { cluster_.endpoint->revoke(error); };
  Flight averaging(runtime, all(runtime, std::move(tasks), revoke));
  std::exception_ptr error;
  try {
    co_await runtime.offload(Duration(0), compute);
  } catch (...) {
    error = std::current_exception();
    revoke(error);
  }
  model_->on_ready = nullptr;
  for (std::size_t i = 0; i < ready.size(); ++i) {  // buckets that the closure did not use as a whole
    if (!error && !ready[i]->is_set()) model_->collect_gradients(i);
    ready[i]->set();
  }
  std::exception_ptr exchange_error;
  try {
    co_await averaging.landed();
  } catch (...) {
    exchange_error = std::current_exception();
  }
  if (error) std::rethrow_exception(error);
  if (exchange_error) std::rethrow_exception(exchange_error);
}

Task<> Parallel::await_and_average(std::size_t bucket, Event* ready, double weight) {
  co_await ready->wait();
  const Range range = model_->layout().buckets[bucket];
  co_await averager_->average(Group(cluster_.endpoint), bucket, model_->gradients().slice(range.begin, range.end), weight);
}

Parallel parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, Cluster& cluster,
                  ParallelOptions options) {
  return Parallel(std::move(model), optimiser, cluster, std::move(options));
}

}  // namespace ripieno
