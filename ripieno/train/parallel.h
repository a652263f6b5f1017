// The library's main interface: makes your own module, optimiser and loop data-parallel.
//
//   auto workers = ripieno::join();                      // the workers started by `ripieno launch -n 4 -- ./mine` auto
//   dp = ripieno::parallel(model, optimiser, workers);
//   for (...) dp.step([&] { auto loss = ...; loss.backward(); return loss; });
//
// Every worker runs the same program on its own share of the data. step() averages the workers' gradients before the
// optimiser's step, so that all hold the same weights at all times, as torch's DistributedDataParallel does in Python.
//
// All workers call parallel(), step() and sum() equally often and in the same order. An error on one worker (for
// example an exception in its closure) is thrown unchanged there, and on all others as Error(peer) with the worker's
// rank and its error; no worker takes that step, and all can go on with the next one.
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

/// What buffers (for example batch norm's statistics) hold after a step. Before the first step all hold rank 0's, of
/// every type.
enum class Buffers {
  rank0,  ///< rank 0's after its forward pass, of every type, as torch's DistributedDataParallel computes with
  mean,   ///< floating-point buffers: the mean over the workers, weighted by samples; others: rank 0's
  own,    ///< each worker's own: in eval mode workers then give different results for the same input
};

struct ParallelOptions {
  std::string route = "auto";      ///< see collective/schedule.h; auto: settled() chooses (strategy/registry.h)
  codec::CodecOptions codec = {};  ///< see codec/codec.h
  double bucket_mb = 25;           ///< gradients exchanged together, in 10^6 bytes
  bool channels_last = false;      ///< memory format of 4-dimensional parameters
  /// Averages buckets while the closure's backward pass still runs. The pass stays on the caller's thread; the exchange
  /// runs beside it (core/progress.h). The closure must call backward() once and must not touch gradients after that.
  bool overlap = false;
  /// Above 1: local SGD. Each worker's optimiser steps on its own gradients, and after every so many steps all average
  /// their parameters, weighted by samples, and exchange their buffers.
  int local_steps = 1;
  Buffers buffers = Buffers::rank0;
};

class Parallel {
 public:
  /// Gives every worker rank 0's parameters and buffers. The module must be on one device, in fp32 or fp64; its
  /// parameters become views of one flat buffer there (flat_model.h). Exchanged numbers go through the host. `cluster`
  /// must outlive this object. Throws Error(usage) on unknown names and without a model, Error(mismatch), which names
  /// the first parameter, buffer or option in which a worker differs from rank 0, and Error(peer) if a worker is lost.
  ///
  /// Finish the model's structure before: the next step refuses a layer that it finds added, unfrozen or converted
  /// later. Weights may be loaded later and count from the next step on; they must be the same on all workers
  /// (checked).
  Parallel(std::shared_ptr<torch::nn::Module> model, torch::optim::Optimizer& optimiser, transport::Cluster& cluster,
           ParallelOptions options);

  int rank() const;
  int workers() const;

  /// One step on all workers: zeroes the gradients, runs `closure` (which computes the loss of this worker's part of
  /// the batch, as a mean over its samples, calls backward() on it, and returns it), averages the gradients over the
  /// workers, and runs the optimiser. `samples` weights this worker's mean if the parts differ in size; 0 is allowed
  /// (the closure then must not touch the gradients); by default all workers count the same (one sample each).
  ///
  /// A layer that no worker used has a gradient of zero, not none. So weight decay and remaining momentum still change
  /// its weights, while in Python's DistributedDataParallel with find_unused_parameters the optimiser would skip them.
  /// Zero is the mean of the workers' gradients, whichever of them used the layer. To keep such a layer unchanged,
  /// freeze it (requires_grad_(false) before parallel()), or leave it out of the optimiser or of its weight decay.
  ///
  /// Returns the closure's loss. Throws what the closure throws; Error(usage) if the closure changes parameters (step()
  /// runs the optimiser itself) or, with overlap, calls backward() twice; Error(mismatch) if workers do different
  /// things or hold different parameters; else as the constructor.
  torch::Tensor step(const std::function<torch::Tensor()>& closure, std::int64_t samples = every_worker_alike);
  static constexpr std::int64_t every_worker_alike = -1;

  /// The sum of one number over the workers, for counting: samples, correct answers, losses. Errors: as step().
  double sum(double value);

  /// This worker's bytes so far.
  const observe::Ledger& ledger() const;

 private:
  /// The state of one step on this worker.
  struct Pass {
    const std::function<torch::Tensor()>* closure = nullptr;
    double samples = 1;
    bool replaced = false;       // parameters were replaced since the last step
    std::vector<double> before;  // a sample of the parameters before the closure
    torch::Tensor loss;
    std::exception_ptr trouble;  // the first error
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
  std::string which_;          // " of model 2", if the cluster has several
  std::size_t optimised_ = 0;  // how many of the optimiser's parameters were checked
  std::uint64_t steps_ = 0;    // steps begun
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
