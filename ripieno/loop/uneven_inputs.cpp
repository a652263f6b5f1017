// Ranks that take part in unequal numbers of backward passes (Join).
#include <algorithm>
#include <mutex>
#include <set>

#include "ripieno/loop/gradient_exchange.h"

namespace ripieno::loop {
namespace {

/// The groups in which a Join is open.
struct OpenJoins {
  std::mutex mutex;
  std::set<const void*> groups;
};

OpenJoins& open_joins() {
  static OpenJoins all;
  return all;
}

}  // namespace

void GradientExchange::begin_uneven(bool divide_by_present) {
  OpenJoins& open = open_joins();
  const std::lock_guard lock(open.mutex);
  if (!open.groups.insert(group_.get()).second) {
    fail(ErrorKind::usage, "rank ", group_->getRank(),
         ": a second Join while another is open in the same group: a rank that has ended would wait in one for ranks "
         "that "
         "wait in the other; give each model a group of its own");
  }
  is_uneven_ = true;
  own_passes_ = 0;
  divides_by_present_ = divide_by_present;
}

double GradientExchange::count_present(bool present) {
  const torch::Tensor count = torch::full({1}, present ? 1.0 : 0.0, torch::kFloat64);
  reduce(count, ::c10d::ReduceOp::SUM)->wait();
  return count.item<double>();
}

bool GradientExchange::accompany(bool as_gradients) {
  const std::lock_guard lock(mutex_);
  if (count_present(false) == 0) return false;
  begin_pass(false);
  for (const GradientBuckets::Bucket& bucket : buckets_.all()) {
    torch::Tensor numbers = bucket.numbers;
    numbers.zero_();
  }
  pass_->left.assign(buckets_.all().size(), 0);
  pass_->order = order_;
  used_.assign(used_.size(), false);
  conclude_check();
  launch_full_buckets();
  wait_for_all();
  if (as_gradients) {
    for (const NamedParameter& parameter : parameters_) torch::Tensor(parameter.tensor).mutable_grad().reset();
    place_gradients();
  }
  if (!is_order_known_) follow_order_of_first_rank();
  pass_.reset();
  return true;
}

void GradientExchange::end_uneven() {
  const auto gather = [](collective::Communicator comm, std::uint64_t own, std::vector<std::uint64_t>* all) -> Task<> {
    Task<std::vector<std::uint64_t>> gathering = comm.all_gather(own);
    *all = co_await std::move(gathering);
  };
  std::vector<std::uint64_t> passes;
  together("who has gone on longest", *comm_, gather(*comm_, own_passes_, &passes));
  share_state_of(static_cast<int>(std::max_element(passes.begin(), passes.end()) - passes.begin()));
  leave_uneven();
}

void GradientExchange::leave_uneven() {
  is_uneven_ = false;
  OpenJoins& open = open_joins();
  const std::lock_guard lock(open.mutex);
  open.groups.erase(group_.get());
}

}  // namespace ripieno::loop
