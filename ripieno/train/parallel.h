// The library's face: your own module, optimiser and loop, made data-parallel.
//
//   auto workers = ripieno::join();                      // the workers that `ripieno launch -n 4 -- ./mine` started
//   auto dp = ripieno::parallel(model, optimiser, workers);
//   for (...) dp.step([&] { auto loss = ...; loss.backward(); return loss; });
//
// Every worker runs the same program on its own share of the data. step() takes the mean of the workers' gradients
// before the optimiser's step, so that all hold the same weights at all times: what torch's DistributedDataParallel
// does in Python.
//
// All workers call parallel(), step() and sum() equally often and in the same order. An error on one of them (an
// exception in its closure, say) is thrown on it as it is and on all others as Error(peer) that names it and says what
// it was; no worker takes that step, and all can go on with the next one.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "ripieno/collective/averager.h"
#include "ripieno/core/async.h"
#include "ripieno/train/agreement.h"
#include "ripieno/train/backward_watch.h"
#include "ripieno/train/flat_model.h"
#include "ripieno/train/host_copy.h"
#include "ripieno/train/module_buffers.h"
#include "ripieno/train/tensor_homes.h"
#include "ripieno/transport/cluster.h"

namespace ripieno::train {

/// What buffers (batch norm's statistics, say) hold after a step; before the first all hold rank 0's, of every type.
enum class Buffers {
  rank0,  ///< what rank 0's held after its forward pass, of every type: what torch's DistributedDataParallel computes
          ///< with
  mean,   ///< the mean over the workers, weighted by samples, of floating-point buffers; rank 0's of the others
  own,    ///< each worker's own: the same input then gives another result on each, in eval mode
};

struct ParallelOptions {
  std::string route = "auto";      ///< see collective/schedule.h; auto: what settled() chooses (strategy/registry.h)
  codec::CodecOptions codec = {};  ///< see codec/codec.h
  double bucket_mb = 25;           ///< gradients that travel together, 10^6 bytes
  bool channels_last = false;      ///< memory format of 4-dimensional parameters
  /// Averages buckets while the closure's backward pass still runs, on the caller's thread as ever: the exchange goes
  /// on beside it (core/progress.h). The closure calls backward() once, and leaves gradients alone after it.
  bool overlap = false;
  /// Above 1: local SGD. Each worker's optimiser steps on its own gradients, and after so many steps all take the mean
  /// of their parameters, weighted by samples, and exchange their buffers.
  int local_steps = 1;
  Buffers buffers = Buffers::rank0;
};

class Parallel {
 public:
  /// Gives every worker rank 0's parameters and buffers. The module must be on one device, in fp32 or fp64; its
  /// parameters become views of one flat buffer there (flat_model.h). What is exchanged crosses by the host. `cluster`
  /// must outlive this object. Throws Error(usage) on unknown names and no model, Error(mismatch) that names the first
  /// parameter, buffer or option that a worker has otherwise than rank 0, Error(peer) when one is lost.
  ///
  /// Change the model's form before: a layer that is added, unfrozen or converted later is refused at the next step
  /// where it is noticed. Weights that are loaded later are taken at the next step; they must be the same on all
  /// workers (checked).
  Parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, transport::Cluster& cluster,
           ParallelOptions options);

  int rank() const;
  int workers() const;

  /// One step on all workers: zeroes the gradients, runs `closure` (which computes the loss of this worker's part of
  /// the batch, as a mean over its samples, calls backward() on it, and returns it), averages the gradients over the
  /// workers, and runs the optimiser. `samples` weighs this worker's mean where the parts differ in size; 0 is allowed
  /// (the closure then leaves the gradients alone); by default all count the same (as one sample each).
  ///
  /// A layer that no worker used has a gradient of zero, not none: its weights still get weight decay, and what
  /// momentum is left, where in Python's DistributedDataParallel with find_unused_parameters the optimiser would skip
  /// them. A gradient of zero is the mean of what the workers found, and is the same whichever of them used the layer.
  /// Freeze it (requires_grad_(false) before parallel()), or leave it out of the optimiser or its weight decay, where
  /// it is to stay as it is.
  ///
  /// Returns the closure's loss. Throws what the closure throws; Error(usage) where the closure changes parameters
  /// (step() runs the optimiser itself) or, with overlap, calls backward() twice; Error(mismatch) where workers do not
  /// do the same or hold other parameters; else as the constructor.
  torch::Tensor step(const std::function<torch::Tensor()>& closure, std::int64_t samples = every_worker_alike);
  static constexpr std::int64_t every_worker_alike = -1;

  /// The sum of one number over the workers, for counting: samples, correct answers, losses. Errors as of step().
  double sum(double value);

  /// Bytes of this worker so far.
  const observe::Ledger& ledger() const;

 private:
  /// What a step comes to on this worker.
  struct Pass {
    const std::function<torch::Tensor()>* closure = nullptr;
    double samples = 1;
    bool replaced = false;       // parameters had been replaced since the last step
    std::vector<double> before;  // some parameters
    torch::Tensor loss;
    std::exception_ptr trouble;  // the first
  };
  void prepare(std::shared_ptr<torch::nn::Module> model);
  void check_optimiser();
  void run(Task<> task);
  void wait(const Work& work);
  void telling_launcher(const std::function<void()>& exchange);
  double meet_all(Attendance mine);
  Pass begin(const std::function<torch::Tensor()>& closure, std::int64_t samples);
  void compute(Pass& pass);
  double share_of(double samples, double all) const;
  Task<> average(NumberSpan numbers, double weight);
  void commit();
  void compute_and_average(Pass& pass, double weight);
  void compute_watched(Pass& pass, const std::function<void(std::size_t)>& announce);
  void complete_bucket(Pass& pass, std::size_t bucket);
  Task<> await_and_average(std::size_t bucket, Event* ready, double weight);
  void exchange_buffers(double weight);
  torch::Tensor local_step(Pass pass);
  std::string this_step() const;

  std::unique_ptr<FlatModel> model_;
  std::unique_ptr<TensorHomes> homes_;
  std::unique_ptr<HostCopy> host_;
  std::unique_ptr<BackwardWatch> backward_;
  std::unique_ptr<ModuleBuffers> buffers_;
  torch::optim::Optimizer& optimiser_;
  transport::Cluster& cluster_;
  const collective::Communicator comm_;  ///< of all workers
  ParallelOptions options_;
  std::unique_ptr<collective::Averager> averager_;
  std::string which_;          // " of model 2", where the cluster has several
  std::size_t optimised_ = 0;  // parameters of the optimiser that were looked at
  std::uint64_t steps_ = 0;    // begun
  bool in_closure_ = false;
  int steps_since_average_ = 0;  // local SGD
  double samples_since_average_ = 0;
  bool replaced_since_average_ = false;
};

Parallel parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser,
                  transport::Cluster& cluster, ParallelOptions options = {});

/// For a model held by torch's ModuleHolder (TORCH_MODULE, torch::nn::Sequential, ...).
template <class Contained>
Parallel parallel(const torch::nn::ModuleHolder<Contained>& model, torch::optim::Optimizer& optimiser,
                  transport::Cluster& cluster, ParallelOptions options = {}) {
  const std::shared_ptr<torch::nn::Module> module = model.is_empty() ? nullptr : model.ptr();
  return parallel(module, optimiser, cluster, std::move(options));
}

}  // namespace ripieno::train

namespace ripieno {
using train::parallel, train::Parallel, train::ParallelOptions;  // own loops need no rooms
}
