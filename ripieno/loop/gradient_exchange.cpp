#include "ripieno/loop/gradient_exchange.h"

#include <algorithm>

#include "ripieno/c10d/limits.h"
#include "ripieno/core/hash.h"
#include "ripieno/loop/meeting.h"
#include "ripieno/loop/open_passes.h"

namespace ripieno::loop {
namespace {

std::vector<NamedParameter> parameters_of(torch::nn::Module& module) {
  std::vector<NamedParameter> all;
  for (const auto& item : module.named_parameters()) {
    const auto is_same = [&](const NamedParameter& known) { return known.tensor.is_same(item.value()); };
    if (std::none_of(all.begin(), all.end(), is_same)) all.push_back({item.key(), item.value()});  // tied ones once
  }
  return all;
}

}  // namespace

GradientExchange::GradientExchange(std::shared_ptr<torch::nn::Module> module, ProcessGroup group,
                                   DistributedDataParallelOptions options)
    : module_(std::move(module)), group_(std::move(group)), options_(std::move(options)) {
  if (!group_) fail(ErrorKind::usage, "there is no process group: take it from init_process_group()");
}

void GradientExchange::start() {
  group_->meet_for("making a DDP model");
  model_ = group_->count_model();
  together("the making of a model", group_->communicator(), group_->communicator().duplicate(&comm_));
  order_of_exchanges_ = group_->new_order();
  const std::string doing = text("the making of model ", model_);
  std::exception_ptr trouble;
  try {
    prepare();
  } catch (...) {
    trouble = std::current_exception();
  }
  together("the making of a model", *comm_, meet(*comm_, doing, trouble));
  std::vector<std::string> lines{text("model ", model_, " with bucket_cap_mb ", options_.bucket_cap_mb,
                                      ", broadcast_buffers ", options_.broadcast_buffers,
                                      options_.hook ? ", a hook" : ", no hook")};
  lines.insert(lines.end(), lines_->begin(), lines_->end());
  together("the comparison of models", *comm_, compare_lines(*comm_, std::move(lines)));
  share_state_of(0);
}

void GradientExchange::together(const char* what, const collective::Communicator& comm, Task<> act) {
  group_->progress().run(what, c10d::within_limit(*group_, comm, what, std::move(act)));
}

void GradientExchange::prepare() {
  if (!module_) fail(ErrorKind::usage, "there is no model: the pointer to it is null");
  if (!(options_.bucket_cap_mb > 0))
    fail(ErrorKind::usage, "bucket_cap_mb is ", options_.bucket_cap_mb, "; it must be above 0");
  for (const auto& [name, tensor] : parameters_of(*module_)) {
    if (AccumulationHook::watches(tensor, AccumulationHook::Owner::model))
      fail(ErrorKind::usage, "parameter ", name, " is of a DistributedDataParallel already: it can be of one");
  }
  take_parameters();
  if (std::none_of(trained_.begin(), trained_.end(), [](bool trained) { return trained; }))
    fail(ErrorKind::usage, "the model has no parameter that requires a gradient");
}

void GradientExchange::share_state_of(int root) {
  if (group_->getSize() == 1) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> all;
  for (const NamedParameter& parameter : parameters_) all.push_back(parameter.tensor.detach());
  for (const torch::Tensor& buffer : module_->buffers()) all.push_back(buffer);
  std::vector<c10::intrusive_ptr<::c10d::Work>> sharing;
  ::c10d::BroadcastOptions options;
  options.rootRank = root;
  for (const torch::Tensor& tensor : all) {
    std::vector<torch::Tensor> one{tensor};
    sharing.push_back(group_->broadcast(one, options));
  }
  for (const auto& work : sharing) work->wait();
}

void GradientExchange::take_parameters() {
  parameters_ = parameters_of(*module_);
  std::vector<std::size_t> order;
  std::vector<std::string> lines;
  std::vector<bool> trained;
  trained_.clear();
  types_.clear();
  shapes_.clear();
  hooks_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    types_.push_back(tensor.scalar_type());
    shapes_.push_back(tensor.sizes().vec());
    trained_.push_back(tensor.requires_grad());
    hooks_.emplace_back(tensor, AccumulationHook::Owner::model, [weak = weak_from_this(), i] {
      if (const auto self = weak.lock()) self->accumulated(i);
    });
    lines.push_back(text("parameter ", name, " of shape ", tensor.sizes(), " and type ", tensor.scalar_type(),
                         trained_[i] ? "" : ", frozen"));
    if (trained_[i]) order.insert(order.begin(), i);
  }
  buffers_.emplace(*module_, comm_->memory());
  buffers_taken_ = module_->buffers().size();
  for (std::string& line : buffers_->lines()) lines.push_back(std::move(line));
  lines_code_ = 0;
  for (const std::string& line : lines) lines_code_ = lines_code_ * 0x9E3779B97F4A7C15ull + hash(line);
  lines_ = std::make_shared<const std::vector<std::string>>(std::move(lines));
  used_.assign(parameters_.size(), false);
  uses_ = group_->allocateTensor(static_cast<long>(parameters_.size()), torch::kUInt8);
  is_order_known_ = false;
  if (group_->getSize() > 1) form_buckets(order);
}

void GradientExchange::form_buckets(const std::vector<std::size_t>& order) {
  const auto bytes = static_cast<std::size_t>(options_.bucket_cap_mb * (1 << 20));
  buckets_ = GradientBuckets(parameters_, order, bytes, *group_);
  ++generation_;
  order_ = order;
}

/// Whether parameters were added, frozen, unfrozen, converted or given another shape, or buffers added.
bool GradientExchange::have_parameters_changed() const {
  const std::vector<torch::Tensor> now = module_->parameters();
  std::size_t known = 0;
  for (const torch::Tensor& parameter : now) {
    // Usually both are in the same order; tied ones come again.
    if (known < parameters_.size() && parameter.is_same(parameters_[known].tensor)) {
      ++known;
      continue;
    }
    const auto is_same = [&](const NamedParameter& one) { return one.tensor.is_same(parameter); };
    if (std::none_of(parameters_.begin(), parameters_.end(), is_same)) return true;
  }
  if (known != parameters_.size() || module_->buffers().size() != buffers_taken_) return true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& tensor = parameters_[i].tensor;
    if (tensor.requires_grad() != trained_[i] || tensor.scalar_type() != types_[i] || tensor.sizes() != shapes_[i])
      return true;
  }
  return false;
}

void GradientExchange::accumulated(std::size_t parameter) {
  if (group_->getSize() == 1) return;
  const std::lock_guard lock(mutex_);
  used_[parameter] = true;
  if (averages) telling_others([&] { take_gradient(parameter); });
}

/// An error here ends the group; the other ranks get its first line.
void GradientExchange::telling_others(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    has_failed_ = true;
    const std::string all = error.what();
    group_->end(all.substr(0, all.find('\n')), true);
    if (pass_ && pass_->check) pass_->check->forget();
    throw;
  }
}

void GradientExchange::take_gradient(std::size_t parameter) {
  if (pass_ && pass_->alive.expired()) {
    fail(ErrorKind::peer, "an exception broke off ", state().doing, " on rank ", group_->getRank(),
         ", whose exchange the others had begun: it cannot be taken again");
  }
  if (!pass_) {
    const bool is_renumbered = take_changed_parameters();
    begin_pass(true);
    if (is_renumbered) return;  // this parameter counts when the pass ends
  }
  if (!trained_[parameter]) return;
  if (pass_->ready[parameter]) {
    fail(ErrorKind::usage, "parameter ", parameters_[parameter].name,
         " got a gradient twice in one backward pass, from passes within it (activation checkpointing): they must not "
         "share parameters");
  }
  make_ready(parameter);
  launch_full_buckets();
}

ReplicaState GradientExchange::state() const {
  return {passes_, text("backward pass ", passes_, " of model ", model_), lines_, lines_code_};
}

bool GradientExchange::take_changed_parameters() {
  if (!have_parameters_changed()) return false;
  take_parameters();
  for (std::size_t i = 0; i < parameters_.size(); ++i) used_[i] = parameters_[i].tensor.grad().defined();
  return true;
}

void GradientExchange::begin_pass(bool present) {
  ++passes_;
  pass_.emplace();
  pass_->divisor = group_->getSize();
  pass_->ready.assign(parameters_.size(), false);
  for (const GradientBuckets::Bucket& bucket : buckets_.all()) pass_->left.push_back(bucket.members.size());
  if (present) {
    ++own_passes_;
    const auto end = std::make_shared<const std::function<void()>>([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end_pass();
    });
    pass_->alive = end;
    open_pass(group_.get(), this, state().doing, pass_->alive);
    at_end_of_backward(end);
    if (is_uneven_) {
      const double others = count_present(true);
      if (divides_by_present_) pass_->divisor = others;
    }
  }
  pass_->check.emplace(*group_, group_->communicator(), group_->next_channel(), parameters_, state(), present);
}

/// Copies its gradient to its place, as this rank's part of the mean.
void GradientExchange::make_ready(std::size_t parameter) {
  const torch::NoGradGuard no_grad;
  torch::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  torch::Tensor place = buckets_.place(parameter);
  const bool divides = !options_.hook;
  const double ranks = group_->getSize();
  if (!gradient.defined()) {
    place.zero_();
  } else {
    check_gradient(parameter, gradient);
    const bool is_there = gradient.const_data_ptr() == place.const_data_ptr();
    if (divides) {
      torch::div_out(place, gradient, torch::scalar_tensor(pass_->divisor));
    } else {
      if (!is_there) place.copy_(gradient);
      if (pass_->divisor != ranks) place.mul_(ranks / pass_->divisor);  // hooks divide by the number of all ranks
    }
    if (options_.gradient_as_bucket_view && !is_there) gradient = place;
  }
  pass_->ready[parameter] = true;
  pass_->order.push_back(parameter);
  --pass_->left[buckets_.bucket_of(parameter)];
}

void GradientExchange::check_gradient(std::size_t parameter, const torch::Tensor& gradient) const {
  const std::string& name = parameters_[parameter].name;
  if (gradient.layout() != torch::kStrided) {
    fail(ErrorKind::usage, "parameter ", name,
         " has a sparse gradient, which is not averaged here: make its layer without "
         "sparse(true)");
  }
  if (gradient.requires_grad()) {
    fail(ErrorKind::usage, "parameter ", name,
         " has a gradient with a graph, of backward() with create_graph, which the "
         "average would cut: take torch::autograd::grad() for the inner derivative");
  }
}

void GradientExchange::launch_full_buckets() {
  // A hook's exchanges match those of other models in the order of the calls, which must not be one of chance.
  const std::vector<std::size_t>& left = pass_->left;
  const bool in_order = options_.hook && pass_->launched < left.size() && left[pass_->launched] == 0;
  if (in_order || pass_->check->is_complete()) conclude_check();
  if (!pass_->has_checked) return;  // at the next gradient, or when the pass ends
  const auto& all = buckets_.all();
  while (pass_->launched < all.size() && pass_->left[pass_->launched] == 0) {
    const std::size_t bucket = pass_->launched++;
    const torch::Tensor& numbers = all[bucket].numbers;
    pass_->exchanges.push_back(options_.hook
                                   ? options_.hook(group_, {static_cast<int>(bucket), generation_, all[bucket].code,
                                                            numbers, buckets_.gradients(bucket), this})
                                   : reduce(numbers, ::c10d::ReduceOp::SUM));
    if (!pass_->exchanges.back()) fail(ErrorKind::usage, "the hook of ", state().doing, " has returned no work");
    if (pass_->launched == all.size()) exchange_uses();
  }
}

/// Before anything is exchanged: ranks that have parted may exchange buckets of other sizes.
void GradientExchange::conclude_check() {
  if (std::exchange(pass_->has_checked, true)) return;
  conclude(*pass_->check, state().doing);
}

/// A rank whose loop has ended before the others' is lost to them.
void GradientExchange::conclude(ReplicaCheck& check, const std::string& doing) {
  try {
    check.conclude(*group_);
    check.say_not_finite(&has_said_not_finite_);
  } catch (const Error& error) {
    if (!error.loss() || error.loss()->how != Lost::ended) throw;
    fail(*error.loss(), "rank ", group_->getRank(), " is in ", doing,
         ", which not all have reached (for unequal numbers of batches take ripieno::Join): ", error.what());
  }
}

void GradientExchange::exchange_uses() {
  auto* into = uses_.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < used_.size(); ++i) into[i] = used_[i] ? 1 : 0;
  pass_->exchanges.push_back(reduce(uses_, ::c10d::ReduceOp::MAX));
}

c10::intrusive_ptr<::c10d::Work> GradientExchange::reduce(const torch::Tensor& tensor,
                                                          const ::c10d::ReduceOp& operation) {
  return group_->reduce_in(order_of_exchanges_, tensor, operation);
}

void GradientExchange::end_pass() {
  const std::lock_guard lock(mutex_);
  if (!pass_) return;
  telling_others([this] {
    for (const std::size_t parameter : order_) {
      if (!pass_->ready[parameter]) make_ready(parameter);
    }
    conclude_check();
    launch_full_buckets();
    wait_for_all();
    place_gradients();
    if (!is_order_known_) follow_order_of_first_rank();
  });
  used_.assign(used_.size(), false);
  pass_.reset();
  close_pass(group_.get(), this);
}

void GradientExchange::wait_for_all() {
  std::optional<ripieno::Work> sharing;
  if (options_.broadcast_buffers && !buffers_->empty() && !is_uneven_) {
    buffers_->check();
    sharing = group_->progress().submit("buffers",
                                        c10d::within_limit(*group_, *comm_, "buffers", buffers_->give_first(*comm_)));
  }
  for (const auto& exchange : pass_->exchanges) exchange->wait();
  if (sharing) sharing->wait();
}

void GradientExchange::place_gradients() {
  const torch::NoGradGuard no_grad;
  const auto* used_by_any = uses_.const_data_ptr<std::uint8_t>();
  for (const std::size_t parameter : order_) {
    if (!used_by_any[parameter]) continue;
    torch::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
    const torch::Tensor& place = buckets_.place(parameter);
    if (options_.gradient_as_bucket_view) {
      if (!gradient.defined()) gradient = place;
    } else if (gradient.defined()) {
      gradient.copy_(place);
    } else {
      gradient = place.clone();
    }
  }
}

void GradientExchange::follow_order_of_first_rank() {
  std::vector<std::uint64_t> order(pass_->order.begin(), pass_->order.end());
  const auto share = [](collective::Communicator comm, std::vector<std::uint64_t>* shared) -> Task<> {
    Task<std::vector<std::uint64_t>> sharing = comm.broadcast(*shared);
    *shared = co_await std::move(sharing);
  };
  together("the order of gradients", *comm_, share(*comm_, &order));
  is_order_known_ = true;
  const std::vector<std::size_t> first(order.begin(), order.end());
  if (first != order_) form_buckets(first);
}

void GradientExchange::refresh() {
  const std::lock_guard lock(mutex_);
  if (pass_) fail(ErrorKind::usage, "refresh() within ", state().doing, ": call it between two");
  take_changed_parameters();
}

/// Of layers added where nothing else is trained: backward passes over them reach no hook.
void GradientExchange::refuse_unknown_gradients() const {
  for (const NamedParameter& one : parameters_of(*module_)) {
    const auto is_same = [&](const NamedParameter& known) { return known.tensor.is_same(one.tensor); };
    if (!one.tensor.grad().defined() || std::any_of(parameters_.begin(), parameters_.end(), is_same)) continue;
    fail(ErrorKind::usage, "parameter ", one.name, " was added after backward pass ", passes_, " of model ", model_,
         " and has a gradient that nobody averaged: call refresh() after adding layers, on all ranks");
  }
}

torch::Tensor GradientExchange::mean(const torch::Tensor& tensor) {
  if (is_uneven_)
    fail(ErrorKind::usage, "mean() within a Join, whose ranks end at different times: call it after finish()");
  if (group_->getSize() > 1) {  // a rank with more batches is in a backward pass
    if (averages) refuse_unknown_gradients();
    const std::string doing = text("mean() after backward pass ", passes_, " of model ", model_);
    refuse_beside_others(group_.get(), this, doing);
    ReplicaCheck check(*group_, group_->communicator(), group_->next_channel(), {}, {passes_, doing, nullptr, 0});
    conclude(check, doing);
  }
  torch::Tensor result = tensor.detach().clone().div_(group_->getSize());
  reduce(result, ::c10d::ReduceOp::SUM)->wait();
  return result;
}

}  // namespace ripieno::loop
