// Every way to agree, in a user's own loop: the strategies of `ripieno train` (docs/strategies.md), by name and with
// the same options, around a module and an optimiser of the user's.
//
//   auto group = ripieno::init_process_group({.timeout = 5min});
//   auto agreement = ripieno::agree(net, optimiser, group, "diloco", {.steps = 16});
//   for (...) {
//     optimiser.zero_grad();
//     loss(net->forward(x), y).backward();
//     agreement.step();   // in place of optimiser.step()
//   }
//   agreement.finish();   // all ranks now hold the strategy's consensus
//
// step() hands the gradients to the strategy, which runs the user's optimiser where its workers step by themselves, and
// averages gradients, changes or parameters as it says. It returns when the net holds the weights of the next forward
// pass. What a strategy exchanges meanwhile (local-sgd with a delay, parameter servers) goes on on a thread of the
// library while the loop computes.
//
// Whose optimiser: the user's, with the user's learning rate, and its state stays there. Parameter servers step by
// themselves, as the user's SGD, Adam or AdamW says, with the learning rate that it has on the server's rank; the
// user's own then holds no state. Whose evaluation, and whose checkpoints: the user's. A lost rank ends the agreement:
// nobody goes on without it, not with leader-ring either.
//
// Errors: the first error of a rank ends the agreement on all ranks. That rank's step() throws it, the others' throw an
// Error(peer) that names the rank and its error. A rank that takes more steps than another gets Error(mismatch), except
// with strategies whose ranks go at their own pace. Ranks with different learning rates are told both values, at the
// beginning and, with strategies whose exchanges need all ranks, in each exchange; so are, with strategies by which all
// ranks hold the same weights after each exchange, ranks whose weights have parted (replica_check.h).
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string_view>

#include "ripieno/loop/agree_options.h"
#include "ripieno/loop/process_group.h"
#include "ripieno/observe/recorder.h"

namespace ripieno::loop {

class Agreement {
 public:
  /// agree().
  Agreement(std::shared_ptr<torch::nn::Module> net, UsersOptimiser optimiser, const ProcessGroup& group,
            std::string_view strategy, const AgreeOptions& options);
  Agreement(Agreement&&) noexcept;
  Agreement& operator=(Agreement&&) = delete;
  /// Without finish(), ends the agreement on all ranks, with an error there that names this rank.
  ~Agreement();

  /// This rank's gradients are complete. All ranks call it, equally often except with parameter servers at their own
  /// pace. Before, gradients are this rank's own: clip them in AgreeOptions::before_update. Afterwards they are the
  /// strategy's; zero_grad() them as usual. Throws Error(usage) after finish(), and if parameters have been replaced
  /// since (load weights before agree()); else see above.
  void step();
  /// The same where batches differ in size (AgreeOptions::uneven_batches): this one has so many samples, 0 or more.
  void step(std::int64_t samples);
  /// Every rank calls it, after its last step. What is in flight is waited for, and the consensus of the strategy is
  /// put into the net on every rank: parameters, and buffers (batch norm's statistics). Of local-sgd and diloco it
  /// holds the steps after the last exchange, too (their mean over the ranks, by samples). What has not been exchanged
  /// and that the strategy has no consensus on is dropped: of accumulate, passes since the last exchange; of federated
  /// averaging, steps since the last round.
  void finish();

  /// step() calls so far.
  std::uint64_t steps() const;
  /// The strategy's times so far (observe/stages.h): exchange, optimise, and exchange_hidden, what it exchanged beside
  /// the loop. Not within step().
  observe::StageTimes times() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Begins to agree: all ranks of the group call it, with the same net, strategy and options. All get rank 0's
/// parameters and buffers. It counts among the group's operations, whose order is the same on all ranks. The net's
/// parameters become views of one flat block, in fp32 or fp64 on one device (train/flat_model.h); `net` and `optimiser`
/// must outlive the agreement. Several may be at work in one group. Throws Error(usage) for an unknown strategy, and
/// for what cannot work, with its reason; Error(mismatch) if ranks differ.
Agreement agree(std::shared_ptr<torch::nn::Module> net, torch::optim::Optimizer& optimiser, const ProcessGroup& group,
                std::string_view strategy, const AgreeOptions& options = {});

/// For a net held by torch's ModuleHolder (TORCH_MODULE, torch::nn::Sequential, ...).
template <class Contained>
Agreement agree(const torch::nn::ModuleHolder<Contained>& net, torch::optim::Optimizer& optimiser,
                const ProcessGroup& group, std::string_view strategy, const AgreeOptions& options = {}) {
  const std::shared_ptr<torch::nn::Module> module = net.is_empty() ? nullptr : net.ptr();
  return agree(module, optimiser, group, strategy, options);
}

}  // namespace ripieno::loop

namespace ripieno {
using loop::agree, loop::Agreement, loop::AgreeOptions;  // own loops need no rooms
}
