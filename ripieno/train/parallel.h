// The library's face: your own module, optimiser and loop, made data-parallel.
//
//   auto workers = ripieno::join();                      // the workers that `ripieno launch -n 4 -- ./mine` started
//   auto dp = ripieno::parallel(model, optimiser, workers);
//   for (...) dp.step([&] { auto loss = ...; loss.backward(); return loss; });
//
// Every worker runs the same program on its own share of the data. step() takes the mean of the workers' gradients before
// the optimiser's step, so that all hold the same weights at all times: what torch's DistributedDataParallel does in Python.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "ripieno/collective/averager.h"
#include "ripieno/core/async.h"
#include "ripieno/train/flat_model.h"
#include "ripieno/transport/cluster.h"

namespace ripieno {

struct ParallelOptions {
  std::string route = "auto";   ///< see collective/schedule.h; auto: what settled() chooses (strategy/registry.h)
  CodecOptions codec = {};      ///< see codec/codec.h
  double bucket_mb = 25;        ///< gradients that travel together, 10^6 bytes
  bool channels_last = false;   ///< memory format of 4-dimensional parameters
  /// Averages buckets while the closure's backward pass still runs, on a thread of its own (with torch's settings of threads
  /// and autograd as they are on a new thread, so set what you need within the closure). The closure calls backward() once.
  bool overlap = false;
  /// Above 1: local SGD. Each worker's optimiser steps on its own gradients, and after so many steps all take the mean of
  /// their parameters, weighted by samples.
  int local_steps = 1;
};

class Parallel {
 public:
  /// Gives every worker rank 0's parameters and buffers. The module must be on one device, in fp32 or fp64; its parameters
  /// become views of one flat buffer there (flat_model.h). What is exchanged crosses by the host. `cluster` must outlive this object.
  /// Throws Error(usage) on unknown names, Error(mismatch) when a worker has another model, Error(peer) when one is lost.
  Parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, Cluster& cluster,
           ParallelOptions options);

  int rank() const;
  int workers() const;

  /// One step on all workers: zeroes the gradients, runs `closure` (which computes the loss of this worker's part of the
  /// batch, as a mean over its samples, calls backward() on it, and returns it), averages the gradients over the workers,
  /// and runs the optimiser. `samples` weighs this worker's mean where the parts differ in size; 0 is allowed (the
  /// closure then leaves the gradients alone); by default all count the same (as one sample each).
  /// Returns the closure's loss. Throws as the constructor.
  torch::Tensor step(const std::function<torch::Tensor()>& closure, std::int64_t samples = every_worker_alike);
  static constexpr std::int64_t every_worker_alike = -1;

  /// The sum of one number over the workers, for counting: samples, correct answers, losses.
  double sum(double value);

  /// Bytes of this worker so far.
  const Ledger& ledger() const;

 private:
  void run(Task<> task);
  Task<> start();
  Task<> average(FloatSpan numbers, double weight);
  Task<> compute_and_average(const std::function<torch::Tensor()>* closure, double weight, torch::Tensor* loss);
  Task<> await_and_average(std::size_t bucket, Event* ready, double weight);
  torch::Tensor local_step(const std::function<torch::Tensor()>& closure, double samples);

  std::unique_ptr<FlatModel> model_;
  torch::optim::Optimizer& optimiser_;
  Cluster& cluster_;
  ParallelOptions options_;
  std::unique_ptr<Averager> averager_;
  int steps_since_average_ = 0;      // local SGD
  double samples_since_average_ = 0;
};

Parallel parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, Cluster& cluster,
                  ParallelOptions options = {});

/// For a model held by torch's ModuleHolder (TORCH_MODULE, torch::nn::Sequential, ...).
template <class Contained>
Parallel parallel(const torch::nn::ModuleHolder<Contained>& model, torch::optim::Optimizer& optimiser, Cluster& cluster,
                  ParallelOptions options = {}) {
  return parallel(std::shared_ptr<torch::nn::Module>(model.ptr()), optimiser, cluster, std::move(options));
}

}  // namespace ripieno
