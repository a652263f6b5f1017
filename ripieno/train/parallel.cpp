#include "ripieno/train/parallel.h"

#include <array>
#include <cstring>
#include <optional>

#include "ripieno/collective/execute.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/strategy/slots.h"
#include "ripieno/train/gradient_watch.h"
#include "ripieno/train/torch_internals.h"

namespace ripieno::train {
namespace {

FlatOptions flat_options(const ParallelOptions& options, const transport::Cluster& cluster) {
  if (!(options.bucket_mb > 0)) fail(ErrorKind::usage, "bucket_mb is ", options.bucket_mb, "; it must be above 0");
  return {.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * 1e6),
          .channels_last = options.channels_last,
          .memory = collective::Communicator(cluster.endpoint).memory()};
}

collective::Communicator all_of(const transport::Cluster& cluster) {
  if (!cluster.endpoint || !cluster.runtime)
    fail(ErrorKind::usage, "the cluster is empty: take it from join(), and keep it");
  return collective::Communicator(cluster.endpoint);
}

/// Lines of what must be the same on all workers besides the model.
std::vector<std::string> lines_of(const ParallelOptions& options) {
  const std::array<const char*, 3> names{"rank0", "mean", "own"};
  const codec::CodecOptions& codec = options.codec;
  return {text("route ", options.route),
          text("codec ", codec.name, ", error_feedback ", codec.error_feedback, ", block ", codec.block, ", bits ",
               codec.bits, ", fraction ", codec.fraction, ", rank ", codec.rank),
          text("bucket_mb ", options.bucket_mb),
          text("channels_last ", options.channels_last),
          text("overlap ", options.overlap),
          text("local_steps ", options.local_steps),
          text("buffers ", names.at(static_cast<std::size_t>(options.buffers)))};
}

Task<> meeting(collective::Communicator comm, const Attendance* mine, double* sum) {
  Task<double> met = meet(comm, *mine);
  *sum = co_await std::move(met);
}

}  // namespace

Parallel::Parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser,
                   transport::Cluster& cluster, ParallelOptions options)
    : optimiser_(optimiser), cluster_(cluster), comm_(all_of(cluster)), options_(std::move(options)) {
  if (++cluster.models > 1) which_ = text(" of model ", cluster.models);
  Attendance mine{text("parallel()", which_)};
  try {
    prepare(std::move(model));
  } catch (...) {
    mine.trouble = std::current_exception();
  }
  meet_all(std::move(mine));

  std::vector<std::string> alike = lines_of(options_);
  for (const auto& lines : {homes_->lines(), buffers_->lines()}) alike.insert(alike.end(), lines.begin(), lines.end());
  run(compare_lines(comm_, std::move(alike)));
  for (const NumberSpan state : {host_->parameters(), host_->frozen()})
    run(collective::broadcast(comm_, state, {state.type, observe::Purpose::setup}));
  host_->state_to_device();
  run(buffers_->give_first(comm_));
}

void Parallel::prepare(std::shared_ptr<torch::nn::Module> model) {
  if (options_.local_steps < 1)
    fail(ErrorKind::usage, "local_steps is ", options_.local_steps, "; it must be at least 1");
  if (options_.local_steps > 1 && codec::find_codec(options_.codec.name).kind != codec::CodecKind::wire) {
    fail(ErrorKind::usage, "codec ", options_.codec.name, " with local_steps = ", options_.local_steps,
         ": parameters are averaged then, of which it loses too much; take fp16 or bf16");
  }
  const FlatOptions flat = flat_options(options_, cluster_);
  model_ = std::make_unique<FlatModel>(std::move(model), flat);
  homes_ = std::make_unique<TensorHomes>(*model_);
  host_ = std::make_unique<HostCopy>(*model_, flat.memory);
  backward_ = std::make_unique<BackwardWatch>(*model_, *host_);
  buffers_ = std::make_unique<ModuleBuffers>(model_->module(), comm_.memory());
  check_optimiser();
  const strategy::Layout& layout = model_->layout();
  strategy::Plan plan;
  plan.exchange.route = options_.route;
  plan.exchange.codec = options_.codec;
  const std::string route = strategy::settled(strategy::find_strategy("ddp"), plan, comm_).exchange.route;
  averager_ = collective::make_averager({.route = route, .codec = options_.codec},
                                        strategy::slots_of(layout, layout.buckets), layout.type);
}

/// Checks that the optimiser steps on the averaged parameters: once, and again if their number has changed.
void Parallel::check_optimiser() {
  std::size_t parameters = 0, known = 0;
  for (const auto& group : optimiser_.param_groups()) parameters += group.params().size();
  if (parameters == optimised_) return;
  std::optional<torch::Tensor> unknown;
  for (const auto& group : optimiser_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (homes_->knows(parameter)) {
        ++known;
      } else if (parameter.requires_grad() && !unknown) {
        unknown = parameter;
      }
    }
  }
  if (known == 0)
    fail(ErrorKind::usage,
         "the optimiser has none of the model's parameters: was it made for another model, or a clone?");
  if (unknown) {
    fail(ErrorKind::usage, "the optimiser has a parameter of shape ", unknown->sizes(),
         " that the model did not have at parallel(): ",
         "its gradients would not be averaged. Add layers before parallel()");
  }
  optimised_ = parameters;
}

int Parallel::rank() const { return cluster_.endpoint->rank(); }
int Parallel::workers() const { return cluster_.endpoint->size(); }
const observe::Ledger& Parallel::ledger() const { return cluster_.endpoint->ledger(); }
std::string Parallel::this_step() const { return text("step() number ", steps_, which_); }

torch::Tensor Parallel::step(const std::function<torch::Tensor()>& closure, std::int64_t samples) {
  if (in_closure_) fail(ErrorKind::usage, "step() within the closure of a step");
  ++steps_;
  Pass pass = begin(closure, samples);
  if (options_.local_steps > 1) return local_step(std::move(pass));
  if (!options_.overlap) compute(pass);
  const double share =
      share_of(pass.samples, meet_all({this_step(), pass.samples, pass.trouble, pass.replaced, pass.before}));
  if (options_.overlap) {
    compute_and_average(pass, share);
    meet_all({this_step(), 0, pass.trouble});
  } else {
    run(average(host_->gradients(), share));
  }
  commit();
  host_->gradients_to_device();
  exchange_buffers(share);
  optimiser_.step();
  return pass.loss;
}

/// Prepares for the closure. An error of this worker is kept until all meet, so that all learn of it.
Parallel::Pass Parallel::begin(const std::function<torch::Tensor()>& closure, std::int64_t samples) {
  Pass pass{&closure, samples == every_worker_alike ? 1. : static_cast<double>(samples)};
  try {
    if (!closure) fail(ErrorKind::usage, "step() was given an empty closure");
    if (pass.samples < 0) fail(ErrorKind::usage, "step() over ", samples, " samples: 0 or more");
    pass.replaced = homes_->bring_back();
    buffers_->check();
    check_optimiser();
    backward_->zero_gradients();
    pass.before = homes_->sample();
  } catch (...) {
    pass.trouble = std::current_exception();
    pass.samples = 0;
    pass.before.clear();
  }
  return pass;
}

/// Runs the closure and checks what it did.
void Parallel::compute(Pass& pass) {
  if (pass.trouble) return;
  try {
    in_closure_ = true;
    pass.loss = (*pass.closure)();
    in_closure_ = false;
    const std::vector<double> after = homes_->sample();
    if (!homes_->is_in_place() || std::memcmp(after.data(), pass.before.data(), after.size() * sizeof(double)) != 0) {
      fail(ErrorKind::usage, "the closure of ", this_step(),
           " changed the model's parameters: leave optimiser.step() and loading ",
           "out of it; step() runs the optimiser itself, on the averaged gradients");
    }
    if (backward_->added_too_late()) {
      fail(ErrorKind::usage, "the closure of ", this_step(),
           " called backward() again after gradients were on their way: ",
           "with overlap call it once, on the sum of the losses, or take overlap = false");
    }
    if (!options_.overlap || options_.local_steps > 1) backward_->collect_gradients();
  } catch (...) {
    pass.trouble = std::current_exception();
  }
  in_closure_ = false;
}

double Parallel::share_of(double samples, double all) const {
  if (!(all > 0)) fail(ErrorKind::usage, this_step(), ": all workers together have ", all, " samples");
  return samples / all;
}

/// The others notice an error here at the next average. A failed step counts, so that all reach that average together.
torch::Tensor Parallel::local_step(Pass pass) {
  compute(pass);
  try {
    if (!pass.trouble) optimiser_.step();
  } catch (...) {
    pass.trouble = std::current_exception();
  }
  if (!pass.trouble) samples_since_average_ += pass.samples;
  replaced_since_average_ = replaced_since_average_ || pass.replaced;
  if (++steps_since_average_ < options_.local_steps) {
    if (pass.trouble) std::rethrow_exception(pass.trouble);
    return pass.loss;
  }
  const double all = meet_all({this_step(), samples_since_average_, pass.trouble, replaced_since_average_});
  const double share = share_of(samples_since_average_, all);
  host_->parameters_to_host();
  run(average(host_->parameters(), share));
  commit();
  host_->parameters_to_device();
  exchange_buffers(share);
  steps_since_average_ = 0;
  samples_since_average_ = 0;
  replaced_since_average_ = false;
  return pass.loss;
}

void Parallel::exchange_buffers(double weight) {
  if (buffers_->empty() || options_.buffers == Buffers::own) return;
  run(options_.buffers == Buffers::rank0 ? buffers_->give_first(comm_) : buffers_->average(comm_, weight));
}

double Parallel::sum(double value) {
  if (in_closure_ && options_.overlap && options_.local_steps == 1) {
    fail(ErrorKind::usage,
         "sum() within a closure that runs beside the exchange: call it outside, or take overlap = false");
  }
  return meet_all({text("sum() after ", steps_, " steps", which_), value});
}

double Parallel::meet_all(Attendance mine) {
  double sum = 0;
  try {
    run(meeting(comm_, &mine, &sum));
  } catch (const Error& error) {
    if (mine.trouble || error.kind() != ErrorKind::peer ||
        std::string(error.what()).find(mine.doing) != std::string::npos)
      throw;
    fail(error.kind(), error.what(), ", in ", mine.doing);  // a peer was lost
  }
  return sum;
}

void Parallel::run(Task<> task) {
  telling_launcher([&] { cluster_.progress().run(text("rank ", rank()), std::move(task)); });
}

void Parallel::wait(const Work& work) {
  telling_launcher([&] { work.wait(); });
}

/// Tells the launcher if an exchange fails because of another worker.
void Parallel::telling_launcher(const std::function<void()>& exchange) {
  try {
    exchange();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::peer && cluster_.on_peer_error) cluster_.on_peer_error(error);
    throw;
  }
}

Task<> Parallel::average(NumberSpan numbers, double weight) {
  const auto& buckets = model_->layout().buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    co_await averager_->average(comm_, i, numbers.slice(buckets[i].begin, buckets[i].end), weight);
  }
}

/// All workers take this step, so commits the residuals of its gradients. A failed step leaves no trace.
void Parallel::commit() {
  for (std::size_t i = 0; i < model_->layout().buckets.size(); ++i) averager_->commit(i);
}

/// Averages buckets while the closure runs, in the same order on all workers. If the closure fails, its remaining
/// buckets are sent as zeros, so that the others need not wait; all drop the sums when they meet.
void Parallel::compute_and_average(Pass& pass, double weight) {
  Runtime& runtime = *cluster_.runtime;
  const std::size_t buckets = model_->layout().buckets.size();
  std::vector<std::unique_ptr<Event>> ready;
  std::vector<Task<>> tasks;
  for (std::size_t i = 0; i < buckets; ++i) {
    ready.push_back(std::make_unique<Event>(runtime));
    tasks.push_back(await_and_average(i, ready.back().get(), weight));
  }
  std::vector<bool> announced(buckets);
  const auto announce = [&](std::size_t bucket) {
    announced[bucket] = true;
    asio::post(runtime.context(), [event = ready[bucket].get()] { event->set(); });
  };
  const Work averages =
      cluster_.progress().submit(text("rank ", rank()), all(runtime, std::move(tasks), comm_.ending()));
  compute_watched(pass, announce);
  for (std::size_t i = 0; i < buckets; ++i) {  // buckets that the closure did not use completely
    if (announced[i]) continue;
    complete_bucket(pass, i);
    announce(i);
  }
  try {
    wait(averages);
  } catch (...) {
    if (pass.trouble) std::rethrow_exception(pass.trouble);
    throw;
  }
}

/// Runs the closure and announces its gradients bucket by bucket; the closure must not touch them after that.
void Parallel::compute_watched(Pass& pass, const std::function<void(std::size_t)>& announce) {
  try {
    GradientWatch watch(model_->gradients(), model_->layout().buckets);
    backward_->on_ready = [&](std::size_t bucket) {
      watch.announced(bucket);
      announce(bucket);
    };
    compute(pass);
    if (watch.was_used() && !pass.trouble) {
      fail(ErrorKind::usage, "the closure of ", this_step(),
           " used gradients that were on their way already (clipping, norms?): ",
           "with overlap leave them alone after backward(), or take overlap = false");
    }
  } catch (...) {
    pass.trouble = std::current_exception();
  }
  backward_->on_ready = nullptr;
}

void Parallel::complete_bucket(Pass& pass, std::size_t bucket) {
  try {
    if (!pass.trouble) return backward_->collect_gradients(bucket);
  } catch (...) {
    pass.trouble = std::current_exception();
  }
  const Range range = model_->layout().buckets[bucket];
  const NumberSpan zeros = host_->gradients().slice(range.begin, range.end);
  std::memset(zeros.data, 0, zeros.size_bytes());
}

Task<> Parallel::await_and_average(std::size_t bucket, Event* ready, double weight) {
  co_await ready->wait();
  const Range range = model_->layout().buckets[bucket];
  co_await averager_->average(comm_, bucket, host_->gradients().slice(range.begin, range.end), weight);
}

Parallel parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser,
                  transport::Cluster& cluster, ParallelOptions options) {
  return Parallel(std::move(model), optimiser, cluster, std::move(options));
}

}  // namespace ripieno::train
