#include "ripieno/loop/agree.h"

#include "ripieno/c10d/limits.h"
#include "ripieno/loop/meeting.h"
#include "ripieno/loop/module_buffers.h"
#include "ripieno/loop/replica_check.h"
#include "ripieno/loop/strategy_run.h"
#include "ripieno/loop/tensor_homes.h"
#include "ripieno/strategy/alike.h"
#include "ripieno/train/flat_model.h"
#include "ripieno/train/host_copy.h"

namespace ripieno::loop {
namespace {

void check_parameters(const UsersOptimiser& optimiser, const train::FlatModel& model, const TensorHomes& homes,
                      bool on_servers) {
  std::size_t known = 0, trained = 0;
  for (const torch::Tensor& parameter : optimiser.parameters()) {
    known += homes.knows(parameter);
    trained += homes.knows(parameter) && parameter.requires_grad();
    if (parameter.requires_grad() && !homes.knows(parameter)) {
      fail(ErrorKind::usage, "the optimiser has a parameter of shape ", parameter.sizes(),
           " that the net does not have: nobody would agree on it");
    }
  }
  if (known == 0)
    fail(ErrorKind::usage, "the optimiser has none of the net's parameters: was it made for another net, or a clone?");
  if (on_servers && trained < model.trained().size()) {
    fail(ErrorKind::usage, "parameter servers step on all parameters, and the optimiser has ", trained, " of ",
         model.trained().size(), "; give it all, or freeze the others (requires_grad_(false))");
  }
}

/// The trained parameters that the optimiser steps on, as parts of the flat numbers.
std::vector<NamedParameter> stepped_parameters(const UsersOptimiser& optimiser, const train::FlatModel& model,
                                               NumberSpan numbers) {
  const std::vector<torch::Tensor> stepped = optimiser.parameters();
  std::vector<NamedParameter> found;
  for (std::size_t i = 0; i < model.trained().size(); ++i) {
    const auto is_same = [&](const torch::Tensor& tensor) { return tensor.is_same(model.trained()[i]); };
    if (std::none_of(stepped.begin(), stepped.end(), is_same)) continue;
    const auto& [name, shape, range] = model.layout().tensors[i];
    const NumberSpan part = numbers.slice(range.begin, range.end);
    const auto type = part.type == DType::fp64 ? torch::kFloat64 : torch::kFloat32;
    found.push_back({name, torch::from_blob(part.data, static_cast<std::int64_t>(part.count), type)});
  }
  return found;
}

/// What parameter servers take of the optimiser when they begin, apart from its learning rate.
std::string fixed_options(const optim::OptimiserOptions& options) {
  const bool is_sgd = options.name == "sgd";
  return is_sgd ? text("sgd with momentum ", options.momentum, ", nesterov ", options.nesterov, ", weight decay ",
                       options.weight_decay)
                : text(options.name, " with betas ", options.beta1, " and ", options.beta2, ", epsilon ",
                       options.epsilon, ", weight decay ", options.weight_decay);
}

/// One for each group of the optimiser's, to be compared as parameters are.
std::vector<NamedParameter> learning_rates(const UsersOptimiser& optimiser) {
  const std::vector<double> rates = optimiser.rates();
  std::vector<NamedParameter> found;
  for (const double rate : rates) {
    const std::string group = rates.size() > 1 ? text(" of parameter group ", found.size()) : "";
    found.push_back({"the learning rate" + group, torch::scalar_tensor(rate, torch::kFloat64)});
  }
  return found;
}

std::vector<std::string> lines_of(const std::vector<NamedParameter>& rates) {
  std::vector<std::string> lines;
  for (const auto& [name, rate] : rates) lines.push_back(text(name, " ", rate.item<double>()));
  return lines;
}

constexpr const char* same_rates =
    "all ranks must have the same; only where workers step by themselves, own_rates allows others";

}  // namespace

struct Agreement::State {
  State(const ProcessGroup& its_group, UsersOptimiser its_optimiser)
      : group(its_group), optimiser(std::move(its_optimiser)) {}

  void prepare(std::shared_ptr<torch::nn::Module> net, const strategy::StrategyInfo& info, const AgreeOptions& given);
  void begin(const strategy::StrategyInfo& info);
  void step(std::uint32_t samples);
  void finish();
  void compare_ranks(const std::string& doing);
  double servers_rate() const { return on_servers ? optimiser.rates().front() : 0; }
  void check_that_servers_follow() const;
  void note_versions();
  void conclude_check();
  void step_optimiser();
  Task<> spread_consensus();
  void leave(const std::exception_ptr& why) noexcept;
  void run(const std::string& name, Task<> task) { group->progress().run_here(name, std::move(task)); }
  /// run() of what all ranks do at once, outside of the strategy.
  void meet(const char* name, const collective::Communicator& on, Task<> task) {
    run(name, c10d::within_limit(*group, on, name, std::move(task)));
  }

  const ProcessGroup group;
  UsersOptimiser optimiser;
  AgreeOptions options;
  strategy::Plan plan;
  std::optional<collective::Communicator> comm;
  std::unique_ptr<train::FlatModel> model;
  std::unique_ptr<TensorHomes> homes;
  std::unique_ptr<train::HostCopy> host;
  std::unique_ptr<ModuleBuffers> buffers;
  std::vector<NamedParameter> alike;  // parameters that all ranks hold alike after every exchange
  std::uint32_t period = 1;           // in steps, of exchanges
  std::uint32_t compares_on = 0;      // a channel
  std::optional<ReplicaCheck> check;
  std::unique_ptr<StrategyRun> strategy_run;
  Work whole;                           // of the strategy, from the beginning to its end
  bool on_servers = false;              // parameter servers step in place of the optimiser
  std::vector<std::uint32_t> versions;  // then, of the trained parameters, as the servers' weights left them
  bool all_meet = false;                // in every exchange
  std::uint64_t comparisons = 0;
  bool has_said_not_finite = false;
  bool finished = false, left = false;
};

void Agreement::State::prepare(std::shared_ptr<torch::nn::Module> net, const strategy::StrategyInfo& info,
                               const AgreeOptions& given) {
  options = given;
  plan = strategy::settled(info, plan_of_loop(info, options, comm->size()), *comm);
  on_servers = info.has_servers;
  if (on_servers && options.before_update) {
    fail(ErrorKind::usage, "before_update has no effect with ", info.name,
         ", whose servers step in place of your optimiser; leave it out, or take a strategy whose workers step "
         "themselves");
  }
  if (on_servers) plan.optimiser = optimiser.on_servers();
  const train::FlatOptions flat{.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * 1e6),
                                .memory = comm->memory()};
  model = std::make_unique<train::FlatModel>(std::move(net), flat);
  homes = std::make_unique<TensorHomes>(*model);
  check_parameters(optimiser, *model, *homes, on_servers);
  host = std::make_unique<train::HostCopy>(*model, flat.memory);
  buffers = std::make_unique<ModuleBuffers>(model->module(), flat.memory);
  const std::uint32_t steps = epoch_length(options);
  const LoopLearnerOptions learner{
      .steps_per_epoch = steps,
      .samples_per_epoch = options.samples_per_epoch > 0 ? options.samples_per_epoch : steps,
      .uneven_batches = options.uneven_batches,
      .first_rate = servers_rate(),
      .make_optimiser = [this] { return std::make_unique<UsersSteps>([this] { step_optimiser(); }); }};
  if (info.agrees && comm->size() > 1) alike = stepped_parameters(optimiser, *model, host->parameters());
  all_meet = comm->size() > 1 && (info.agrees || info.traits.local_steps);
  period = info.period ? info.period(plan, comm->size()) : 1;
  compares_on = comm->take_channels();
  const LoopNumbers numbers{host->parameters(), host->gradients(), host->buffers(), host->frozen()};
  strategy_run =
      std::make_unique<StrategyRun>(*comm, model->layout(), numbers, info, plan,
                                    StrategyRun::Options{.learner = learner, .limit = c10d::waiting_limit(*group)});
}

void Agreement::State::begin(const strategy::StrategyInfo& info) {
  std::vector<std::string> lines = lines_of(info, options);
  for (const auto& more : {homes->lines(), buffers->lines()}) lines.insert(lines.end(), more.begin(), more.end());
  for (const NamedParameter& one : alike) lines.push_back(text("parameter ", one.name, " in the optimiser"));
  meet("agree()", *comm, compare_lines(*comm, std::move(lines)));
  if (!options.own_rates) meet("agree()", *comm, compare_lines(*comm, lines_of(learning_rates(optimiser)), same_rates));
  meet("agree()", *comm, buffers->give_first(*comm));
  host->buffers_to_host();
  whole = group->progress().submit(text("strategy ", info.name), strategy_run->run());
  run("agree()", strategy_run->begin());
  host->state_to_device();
  note_versions();
}

void Agreement::State::note_versions() {
  versions.clear();
  if (!on_servers) return;
  for (const torch::Tensor& parameter : model->trained()) versions.push_back(parameter._version());
}

/// The servers hold the weights and the optimiser's state: what the loop changes of them would be lost without a word.
void Agreement::State::check_that_servers_follow() const {
  if (!on_servers) return;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (model->trained()[i]._version() == versions[i]) continue;
    fail(ErrorKind::usage, "parameter ", model->layout().tensors[i].name, " was changed before step() number ",
         strategy_run->steps() + 1,
         " (loaded, clipped, or by its optimiser?), where the weights are those of the parameter servers: load before "
         "agree(), and leave steps to the servers");
  }
  const std::string now = fixed_options(optimiser.on_servers()), then = fixed_options(plan.optimiser);
  if (now != then) {
    fail(ErrorKind::usage, "the optimiser is ", now, " before step() number ", strategy_run->steps() + 1,
         ", and the parameter servers have stepped as ", then,
         " since agree(): they follow its learning rate alone (leave cycle_momentum off)");
  }
}

/// By the strategy, on the thread that drives it.
void Agreement::State::step_optimiser() {
  host->gradients_to_device();
  if (options.before_update) options.before_update();
  optimiser.step();
  host->parameters_to_host();
}

void Agreement::State::step(std::uint32_t samples) {
  if (!homes->is_in_place()) {
    fail(ErrorKind::usage, "parameters or buffers of the net were replaced (loaded, or moved?) before step() number ",
         strategy_run->steps() + 1, ": do that before agree()");
  }
  homes->check_parameters();
  check_parameters(optimiser, *model, *homes, on_servers);
  check_that_servers_follow();
  for (std::size_t i = 0; i < model->trained().size(); ++i) model->collect_gradient(i);
  for (std::size_t i = 0; i < model->layout().buckets.size(); ++i) host->gradients_to_host(i);
  host->buffers_to_host();
  const Turn turn{.samples = samples, .rate = servers_rate()};
  const std::uint64_t number = strategy_run->steps() + 1;
  if (number % period == 0) compare_ranks(text("step() number ", number));
  run("step()", strategy_run->step(turn));
  conclude_check();
  host->state_to_device();
  note_versions();
}

/// Begins to compare what ranks hold, beside an exchange in which all take part.
void Agreement::State::compare_ranks(const std::string& doing) {
  if (!all_meet) return;
  std::vector<NamedParameter> compared;
  if (!options.own_rates) compared = learning_rates(optimiser);
  compared.insert(compared.end(), alike.begin(), alike.end());
  if (!compared.empty()) check.emplace(*group, *comm, compares_on, compared, ReplicaState{comparisons++, doing});
}

void Agreement::State::conclude_check() {
  if (!check) return;
  check->conclude(*group);
  check->say_not_finite(&has_said_not_finite);
  check.reset();
}

void Agreement::State::finish() {
  run("finish()", strategy_run->finish());
  whole.wait();
  compare_ranks("finish()");
  conclude_check();
  meet("finish()", *comm, spread_consensus());
  host->state_to_device();
  meet("finish()", *comm, buffers->give_first(*comm));
  finished = true;
}

/// Rank 0 has the strategy's consensus; other ranks take it if they hold other weights.
Task<> Agreement::State::spread_consensus() {
  LoopLearner& learner = strategy_run->learner();
  if (comm->rank() == 0) {
    const NumberSpan agreed = strategy_run->strategy().consensus();
    const NumberSpan agreed_buffers = strategy_run->strategy().consensus_buffers();
    numeric::convert(learner.parameters(), agreed);
    if (agreed_buffers.count > 0) numeric::convert(learner.buffers(), agreed_buffers);
  }
  Task<> starting = strategy::start_alike(*comm, learner);
  co_await std::move(starting);
}

void Agreement::State::leave(const std::exception_ptr& why) noexcept {
  if (std::exchange(left, true) || !strategy_run || !comm) return;
  try {
    const auto end = [](State* state, std::exception_ptr error) -> Task<> {
      state->strategy_run->leave(error);
      co_return;
    };
    run("the agreement's end", end(this, why));
    whole.wait();
    if (check) check->forget();
  } catch (...) {  // the group is gone: nothing is left to end
  }
}

Agreement::Agreement(std::shared_ptr<torch::nn::Module> net, UsersOptimiser optimiser, const ProcessGroup& group,
                     std::string_view strategy, const AgreeOptions& options) {
  if (!group) fail(ErrorKind::usage, "there is no process group: take it from init_process_group()");
  state_ = std::make_unique<State>(group, std::move(optimiser));
  group->meet_for("agree()");
  state_->meet("agree()", group->communicator(), group->communicator().duplicate(&state_->comm));
  const strategy::StrategyInfo* info = nullptr;
  std::exception_ptr trouble;
  try {
    info = &strategy::find_strategy(strategy);
    state_->prepare(std::move(net), *info, options);
  } catch (...) {
    trouble = std::current_exception();
  }
  state_->meet("agree()", *state_->comm, loop::meet(*state_->comm, "agree()", trouble));
  try {
    state_->begin(*info);
  } catch (...) {
    state_->leave(std::current_exception());
    throw;
  }
}

Agreement::Agreement(Agreement&&) noexcept = default;

Agreement::~Agreement() {
  if (!state_ || state_->finished || state_->left) return;
  state_->leave(
      std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", state_->comm->rank(), " left the agreement after ",
                                                          state_->strategy_run->steps(), " steps, without finish()"))));
}

void Agreement::step() { step(1); }

void Agreement::step(std::int64_t samples) {
  if (state_->finished) fail(ErrorKind::usage, "step() after finish()");
  try {
    if (samples < 0 || samples > INT32_MAX) fail(ErrorKind::usage, "step() over ", samples, " samples: 0 or more");
    if (samples != 1 && !state_->options.uneven_batches) {
      fail(ErrorKind::usage, "step() over ", samples, " samples, while all batches count alike: ",
           "give uneven_batches to agree() on all ranks, or call step() without a number");
    }
    state_->step(static_cast<std::uint32_t>(samples));
  } catch (...) {
    state_->leave(std::current_exception());
    throw;
  }
}

void Agreement::finish() {
  if (state_->finished) return;
  try {
    state_->finish();
  } catch (...) {
    state_->leave(std::current_exception());
    throw;
  }
}

std::uint64_t Agreement::steps() const { return state_->strategy_run->steps(); }

observe::StageTimes Agreement::times() const {
  observe::StageTimes times;
  const auto copy = [](const observe::Recorder* from, observe::StageTimes* into) -> Task<> {
    *into = from->totals();
    co_return;
  };
  state_->run("times", copy(&state_->strategy_run->recorder(), &times));
  return times;
}

Agreement agree(std::shared_ptr<torch::nn::Module> net, torch::optim::Optimizer& optimiser, const ProcessGroup& group,
                std::string_view strategy, const AgreeOptions& options) {
  return Agreement(std::move(net), users_optimiser(optimiser), group, strategy, options);
}

}  // namespace ripieno::loop
