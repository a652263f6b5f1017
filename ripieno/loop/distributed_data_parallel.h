// A user's own net, optimiser and loop on many workers, as torch.nn.parallel.DistributedDataParallel in Python:
//
//   auto group = ripieno::init_process_group({.timeout = 5min});
//   ripieno::DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 25, .hook = ripieno::hooks::powersgd(2)});
//   for (...) {
//     optimiser.zero_grad();
//     loss_of(net->forward(images), labels).backward();   // when it returns, gradients are the mean over the workers
//     torch::nn::utils::clip_grad_norm_(net->parameters(), 1);
//     optimiser.step();
//   }
//
// The net is used as before: nothing of it is replaced or wrapped. All ranks take the same backward passes in the same
// order, and whatever else changes parameters is the same on all. What parts them is noticed in the next backward pass
// (replica_check.h). An error in an exchange ends the group on all ranks.
#pragma once

#include <functional>
#include <memory>

#include "ripieno/loop/gradient_exchange.h"

namespace ripieno::loop {

class DistributedDataParallel {
 public:
  /// All ranks call it with the same model and options; they get rank 0's parameters and buffers. Parameters may be of
  /// several types and be frozen, unfrozen, added or converted later, on all ranks alike. `group` may have several
  /// models. Errors: Error(usage) on bad options or without a model; Error(mismatch), which names the first parameter,
  /// buffer or option in which a rank differs from rank 0.
  [[nodiscard]] DistributedDataParallel(std::shared_ptr<torch::nn::Module> net, ProcessGroup group,
                                        DistributedDataParallelOptions options = {});
  /// For a net held by torch's ModuleHolder (TORCH_MODULE, torch::nn::Sequential, ...).
  template <class Contained>
  [[nodiscard]] DistributedDataParallel(const torch::nn::ModuleHolder<Contained>& net, ProcessGroup group,
                                        DistributedDataParallelOptions options = {})
      : DistributedDataParallel(net.is_empty() ? nullptr : std::shared_ptr<torch::nn::Module>(net.ptr()),
                                std::move(group), std::move(options)) {}
  DistributedDataParallel(DistributedDataParallel&&) = default;
  DistributedDataParallel& operator=(DistributedDataParallel&&) = delete;
  /// Backward passes average no more. If an exception ends this rank's loop, the other ranks are told.
  ~DistributedDataParallel();

  int rank() const { return exchange_->group()->getRank(); }
  int world_size() const { return exchange_->group()->getSize(); }
  /// The mean over the ranks of a floating-point tensor that has no gradient, such as a loss to print, or the one that
  /// a closure of LBFGS returns. All ranks call it, but not within a Join.
  torch::Tensor mean(const torch::Tensor& tensor) const { return exchange_->mean(tensor); }
  /// All ranks call it after adding layers where, from now on, nothing else is trained. (A backward pass that reaches
  /// any parameter known before finds new ones by itself.)
  void refresh() { exchange_->refresh(); }

 private:
  friend class NoSync;
  friend class Join;
  std::shared_ptr<GradientExchange> exchange_;
  int exceptions_;  // in flight when it was made
};

/// While it lives, backward passes only accumulate; the next one after it averages what has come together.
class NoSync {
 public:
  explicit NoSync(DistributedDataParallel& ddp);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  const std::shared_ptr<GradientExchange> exchange_;
  const bool before_;
};

/// For ranks with unequal numbers of batches:
///
///   ripieno::Join join(ddp);
///   for (...) ...                // each rank its own number of steps
///   join.finish([&] { optimiser.step(); });
///
/// finish() takes part in the others' exchanges, with zeros, until all have come there. After each it calls `step`,
/// with the averages as gradients: what the loop does after backward() (clipping, the optimiser, a schedule), so that
/// momentum and the like stay the same on all ranks. Then all get the parameters and buffers of the first rank that
/// took the most steps. Without `step` the optimiser's state stays behind: enough for one without state and schedule.
/// Gradients are divided by the number of all ranks, or of those that still have batches. Buffers are not exchanged
/// before finish(). A step must have one backward() that averages. Error(usage): a Join is open in the group already.
class Join {
 public:
  explicit Join(DistributedDataParallel& ddp, bool divide_by_present = false);
  /// Without finish() the other ranks are told that this one has gone.
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  void finish(const std::function<void()>& step = {});

 private:
  const std::shared_ptr<GradientExchange> exchange_;
  bool finished_ = false;
};

}  // namespace ripieno::loop

namespace ripieno {
using loop::DistributedDataParallel, loop::DistributedDataParallelOptions, loop::Join, loop::NoSync;
}
