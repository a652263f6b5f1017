// The averaging of one model's gradients, backward pass by backward pass; what DistributedDataParallel is made of.
//
// 1. The first gradient of a pass begins it: ranks begin to compare themselves (replica_check.h).
// 2. Each gradient that autograd has accumulated is copied to its place in a bucket (gradient_buckets.h), divided by
//    the number of ranks, and the parameter's grad() becomes that place. A bucket that is full is exchanged, in the
//    buckets' order, while the pass goes on and once the comparison has found nothing.
// 3. When the pass ends, parameters without a gradient count as zeros, and the remaining buckets are exchanged; so
//    are the parameters that this rank has used, and rank 0's buffers. Then all is waited for. A parameter that no
//    rank has used keeps the grad() that it had.
// 4. After the first pass buckets are formed anew in the order in which rank 0's gradients came.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/loop/backward_end.h"
#include "ripieno/loop/communication_hook.h"
#include "ripieno/loop/gradient_buckets.h"
#include "ripieno/loop/module_buffers.h"
#include "ripieno/loop/replica_check.h"

namespace ripieno::loop {

struct DistributedDataParallelOptions {
  double bucket_cap_mb = 25;            ///< gradients exchanged together, in MiB; > 0
  bool broadcast_buffers = true;        ///< all have rank 0's buffers after each backward pass
  bool gradient_as_bucket_view = true;  ///< grad() is exchanged memory: the next pass overwrites it. Else a copy
  CommunicationHook hook = {};          ///< empty: the mean
};

/// What a backward pass has come to.
struct BackwardPass {
  std::vector<bool> ready;        // by parameter
  std::vector<std::size_t> left;  // by bucket: gradients to come
  std::size_t launched = 0;       // buckets
  std::vector<c10::intrusive_ptr<::c10d::Work>> exchanges;
  std::optional<ReplicaCheck> check;
  bool has_checked = false;
  std::weak_ptr<const void> alive;  // it expires if backward() breaks off
  std::vector<std::size_t> order;   // in which gradients came
  double divisor = 1;
};

class GradientExchange : public std::enable_shared_from_this<GradientExchange> {
 public:
  GradientExchange(std::shared_ptr<torch::nn::Module> module, ProcessGroup group,
                   DistributedDataParallelOptions options);
  /// Compares the models, and gives all ranks rank 0's parameters and buffers. Every rank calls it, once.
  void start();

  const ProcessGroup& group() const { return group_; }
  /// Whether an exchange has failed, of which the other ranks have been told.
  bool has_failed() const { return has_failed_; }
  /// Whether backward passes average: not within NoSync.
  bool averages = true;

  /// Between these, ranks may take part in unequal numbers of passes (Join).
  void begin_uneven(bool divide_by_present);
  /// All ranks get the parameters and buffers of the first rank that took the most passes.
  void end_uneven();
  void leave_uneven();
  /// Takes part in a pass of other ranks with no gradient of its own; false, on all ranks, if there is none. Where
  /// there is one, and `as_gradients`, each grad() is then the average, as on the others after zero_grad().
  bool accompany(bool as_gradients);

  /// Finds parameters and buffers that were added, frozen, unfrozen or converted, as each backward pass does.
  void refresh();
  /// The mean over the ranks of a tensor of any floating-point type. Error(mismatch): a rank is in a backward pass.
  /// Error(usage): between begin_uneven() and end_uneven(); a parameter that no pass knows has a gradient.
  torch::Tensor mean(const torch::Tensor& tensor);

 private:
  void prepare();
  /// Runs what all ranks do at once, on the model's communicator or the group's.
  void together(const char* what, const collective::Communicator& comm, Task<> act);
  void share_state_of(int root);
  void take_parameters();
  bool have_parameters_changed() const;
  bool take_changed_parameters();
  void refuse_unknown_gradients() const;
  void form_buckets(const std::vector<std::size_t>& order);
  void accumulated(std::size_t parameter);
  void telling_others(const std::function<void()>& act);
  void take_gradient(std::size_t parameter);
  void begin_pass(bool present);
  void end_pass();
  void make_ready(std::size_t parameter);
  void launch_full_buckets();
  void conclude_check();
  void conclude(ReplicaCheck& check, const std::string& doing);
  void exchange_uses();
  void wait_for_all();
  void place_gradients();
  void follow_order_of_first_rank();
  void check_gradient(std::size_t parameter, const torch::Tensor& gradient) const;
  c10::intrusive_ptr<::c10d::Work> reduce(const torch::Tensor& tensor, const ::c10d::ReduceOp& operation);
  double count_present(bool present);
  ReplicaState state() const;

  const std::shared_ptr<torch::nn::Module> module_;
  const ProcessGroup group_;
  const DistributedDataParallelOptions options_;
  std::optional<collective::Communicator> comm_;  // the model's own, for what is not c10d's
  std::optional<ModuleBuffers> buffers_;
  std::shared_ptr<c10d::Backend::Order> order_of_exchanges_;
  int model_ = 1;  // of this group, counted from 1

  std::recursive_mutex mutex_;  // with GPUs hooks run on several threads
  std::vector<NamedParameter> parameters_;
  std::vector<bool> trained_;
  std::vector<torch::ScalarType> types_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::size_t buffers_taken_ = 0;
  std::vector<AccumulationHook> hooks_;
  std::shared_ptr<const std::vector<std::string>> lines_;
  std::uint64_t lines_code_ = 0;
  GradientBuckets buckets_;
  int generation_ = 0;              // of the buckets
  std::vector<std::size_t> order_;  // of the trained parameters, in the buckets
  bool is_order_known_ = false;     // it is that of rank 0's first pass
  std::vector<bool> used_;          // since the last average
  torch::Tensor uses_;              // the same as numbers, for all ranks
  std::optional<BackwardPass> pass_;
  std::uint64_t passes_ = 0, own_passes_ = 0;
  bool has_failed_ = false;
  bool has_said_not_finite_ = false;
  bool is_uneven_ = false, divides_by_present_ = false;
};

}  // namespace ripieno::loop
