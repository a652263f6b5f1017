#include "ripieno/strategy/parameter_server.h"

#include <cmath>
#include <numeric>

#include "ripieno/collective/execute.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/apart.h"
#include "ripieno/strategy/key_shards.h"
#include "ripieno/strategy/pauses.h"
#include "ripieno/strategy/shard_link.h"
#include "ripieno/strategy/shard_snapshots.h"
#include "ripieno/strategy/trainer.h"

namespace ripieno::strategy {
namespace {

class ParameterServer final : public Strategy {
 public:
  ParameterServer(Pace pace, const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : Strategy(plan, std::move(workplace)),
        pace_(pace),
        layout_(place_.learner.layout()),
        servers_(info.servers(plan)),
        worker_(info.worker(plan, place_.comm.rank())),
        keys_(layout_, plan.servers.count),
        learner_free_(place_.comm.runtime()) {
    check(info);
    const int rank = place_.comm.rank();
    const std::uint32_t snapshots = take_channels();
    if (rank < keys_.count()) {
      const std::size_t buffers = rank == 0 ? layout_.buffers : 0;
      shard_ = std::make_unique<ServerShard>(plan, pace, keys_.size(rank), buffers, layout_.type, place_);
      snapshots_ = std::make_unique<ShardSnapshots>(place_.comm, snapshots, keys_, layout_.parameters, layout_.type,
                                                    *shard_, place_.regroup != nullptr);
    }
    for (int s = 0; s < keys_.count() && worker_ >= 0; ++s) {
      ServerShard* const local = s == rank ? shard_.get() : nullptr;
      const ShardLinkOptions options = link(worker_, s);
      links_.emplace_back(options, &place_.comm.endpoint(), place_.comm.member(s), local);
    }
  }

  NumberSpan consensus() override { return place_.learner.parameters(); }

  void visit(StateVisitor& visitor) override {
    if (shard_) shard_->visit(visitor);
    for (ShardLink& link : links_) link.visit(visitor);
  }

 private:
  /// The service starts again once ranks have recovered from `renewed_after` aborts.
  using Service = std::function<Task<>(std::int64_t* renewed_after)>;

  /// A worker's progress.
  struct Progress {
    std::int64_t has_weights = 0;  ///< whether it has the weights to start from
    std::int64_t steps = 0;        ///< committed
  };

  std::vector<Task<>> services() override {
    std::vector<Service> all;
    if (shard_) {
      for (int w = 0; w < workers(); ++w) {
        if (servers_ + w != place_.comm.rank())
          all.push_back([this, w](std::int64_t* renewed_after) { return serve(w, renewed_after); });
      }
      for (Service& service : snapshots_->services()) all.push_back(std::move(service));
    }
    std::vector<Task<>> tasks;
    for (Service& service : all) tasks.push_back(lasting(std::move(service)));
    if (place_.comm.rank() == 0) tasks.push_back(evaluate_epochs());
    return tasks;
  }

  /// Runs a service, and again after each abort until all have trained. A service that had ended starts again too: its
  /// peer may not have received everything.
  Task<> lasting(Service service) {
    std::int64_t renewed_after = 0;
    for (;;) {
      Task<> once = service(&renewed_after);
      const std::exception_ptr loss = co_await loss_in(std::move(once));
      if (!place_.regroup && loss) std::rethrow_exception(loss);
      if (!place_.regroup) co_return;
      if (loss) shard_->interrupt(loss);
      while (recovered_from_ < renewed_after) {
        if (has_trained_) co_return;
        const auto recovered = recovered_;
        co_await recovered->wait();
      }
    }
  }

  void trained() override {
    has_trained_ = true;
    recovered_->set();
  }

  std::uint32_t take_channels() {
    const std::uint32_t snapshots = place_.comm.take_channels(), links = place_.comm.take_channels(2);
    up_ = place_.comm.channel(links, observe::Purpose::exchange);
    down_ = place_.comm.channel(links + 1, observe::Purpose::exchange);
    return snapshots;
  }

  void regrouped() override {
    const std::uint32_t snapshots = take_channels();
    ++aborts_;
    if (snapshots_) snapshots_->regroup(place_.comm, snapshots, aborts_);
    for (ShardLink& link : links_) link.set_channels(up_, down_);
  }

  /// Tells shards each worker's progress and which snapshots have arrived; then they serve again.
  Task<bool> recover(BrokenOff) override {
    const std::vector<Progress> all = co_await place_.comm.all_gather(progress_);
    std::vector<std::int64_t> received;
    if (place_.comm.rank() == 0) received = snapshots_->received();
    received = co_await place_.comm.broadcast(std::move(received));
    if (snapshots_) snapshots_->recover(received);
    of_workers_.assign(all.begin() + servers_, all.end());
    recovered_from_ = aborts_;
    std::exchange(recovered_, std::make_shared<Event>(place_.comm.runtime()))->set();
    co_return false;
  }

  int workers() const { return place_.comm.size() - servers_; }
  ShardLinkOptions link(int worker, int shard) const {
    ShardLinkOptions options = link_options(plan_, layout_, keys_, worker, shard);
    options.up = up_;
    options.down = down_;
    options.memory = numeric::memory_like(place_.learner.parameters());
    return options;
  }
  bool resumed() const { return plan_.first_epoch > 0; }
  /// Whether shard 0 and a worker are on this rank; they then share its learner and its recorder.
  bool beside_shard_0() const { return place_.comm.rank() == 0 && worker_ >= 0; }

  void check(const StrategyInfo& info) const {
    if (workers() < 1) {
      fail(ErrorKind::usage, info.name, " with ", servers_, " servers on ", place_.comm.size(),
           " ranks has no worker; lower ps.servers");
    }
    if (plan_.servers.beside && keys_.count() > workers()) {
      fail(ErrorKind::usage, info.name, " with ", keys_.count(), " servers beside ", workers(),
           " workers; lower ps.servers to ", workers(), " at most, or give them ranks of their own");
    }
  }

  /// Everything that this rank waits for ends with the error.
  void give_up(std::exception_ptr error) override {
    place_.comm.abort(error);
    if (!shard_) return;
    shard_->give_up(error);
    snapshots_->give_up();
  }

  /// 1
  Task<> start() override {
    const int rank = place_.comm.rank();
    co_await start_apart(place_.comm, &place_.learner, resumed());  // workers have statistics of their own

    struct Sizes {
      std::uint32_t samples, steps;
    };
    Sizes own{};
    if (worker_ >= 0) own = {place_.learner.samples_per_epoch(), place_.learner.steps_per_epoch()};
    const std::vector<Sizes> all = co_await place_.comm.all_gather(own, observe::Purpose::setup);
    for (std::size_t i = static_cast<std::size_t>(servers_); i < all.size(); ++i) {
      work_.samples.push_back(all[i].samples);
      work_.steps.push_back(all[i].steps);
    }

    if (!shard_) co_return;
    if (!resumed()) {  // else the checkpoint's
      keys_.gather(rank, shard_->weights(), place_.learner.parameters());
      if (rank == 0) numeric::convert(shard_->buffers(), place_.learner.buffers());
    }
    if (pace_ == Pace::together && worker_ < 0) {
      shard_->on_epoch = [this](std::uint32_t epoch) {
        if (plan_.max_steps > 0 && (epoch + 1) * std::uint64_t{work_.steps[0]} >= plan_.max_steps) return;
        if (place_.checkpoint) place_.checkpoint(epoch);
        if (!place_.pauses) return;
        epoch + 1 < plan_.epochs ? place_.pauses->pass({epoch + 1, 0}, {epoch + 2, 0}) : place_.pauses->leave();
      };
      if (place_.pauses) {
        place_.pauses->pass({plan_.first_epoch, 0}, {plan_.first_epoch + 1, 0});
        shard_->before_update = [this] { return place_.pauses->agreed(); };
      }
    }
    shard_->begin(work_, rank == 0 && worker_ < 0);
  }

  Task<> serve(int worker, std::int64_t* renewed_after) {
    *renewed_after = aborts_ + 1;
    const ShardLinkOptions options = link(worker, place_.comm.rank());
    const Progress its = of_workers_.empty() ? Progress() : of_workers_[static_cast<std::size_t>(worker)];
    return serve_worker(options, &place_.comm.endpoint(), place_.comm.member(servers_ + worker), shard_.get(),
                        its.has_weights, steps_in_all(plan_, work_.steps[worker]) - its.steps);
  }

  Task<> begin_training() override {
    if (worker_ < 0) co_return;
    const auto lock = co_await learner_free_.lock();
    for (ShardLink& link : links_) co_await link.pull_first();
    take_weights();
    progress_.has_weights = 1;
  }

  std::uint32_t epochs_end() const override {
    const bool has_steps = worker_ >= 0 && steps_in_all(plan_, work_.steps[worker_]) > 0;
    return has_steps ? Strategy::epochs_end() : plan_.first_epoch;
  }

  Task<> attempt(TrainingStep step, StepResult* result) override {
    lock_.emplace(co_await learner_free_.lock());
    const std::exception_ptr error = co_await error_of(compute_and_exchange(step, result));
    if (!error) co_return;
    place_.learner.drop();
    lock_.reset();
    std::rethrow_exception(error);
  }

  Task<> compute_and_exchange(TrainingStep step, StepResult* result) {
    Learner& learner = place_.learner;
    const Weighting weighting = [this](BatchSize size) { return weight(size); };
    const auto pass = co_await learner.begin(step.batch, weighting);  // 2
    static_cast<PassResult&>(*result) = co_await pass->finish();
    divide_by_loss_scale(learner);
    const bool finite = learner.loss_scale() == nullptr || stays_finite(learner.gradients());
    const Push push{result->loss, result->samples, finite, static_cast<std::int64_t>(step.number)};
    answer_ = co_await push_and_pull(push);  // 3, 5
    if (pace_ != Pace::together) result->age = answer_.age;
  }

  void commit(TrainingStep) override {
    take_weights();
    const bool applied = answer_.applied != 0;
    for (ShardLink& link : links_) {
      if (applied) link.commit();  // else what error feedback has kept of the push is dropped with it
    }
    if (place_.learner.loss_scale()) place_.learner.loss_scale()->update(applied);
    place_.learner.commit();
    ++progress_.steps;
    lock_.reset();
  }

  Task<> end_epoch(EpochEnd, observe::EpochRecord* record) override {
    record->parameters_hash = numeric::hash(place_.learner.parameters());
    co_return;
  }
  Task<> end_loop() override {
    for (ShardLink& link : links_) co_await link.end();
  }
  bool records_epochs() const override { return !beside_shard_0(); }
  bool can_save_after(EpochEnd end) const override { return pace_ == Pace::together && !end.early; }
  Task<> land() override {
    if (shard_) co_await shard_->all_answered();
  }

  double weight(BatchSize size) const {
    if (pace_ == Pace::together) return size.share();
    const double samples = std::accumulate(work_.samples.begin(), work_.samples.end(), 0.0);
    const double steps = std::accumulate(work_.steps.begin(), work_.steps.end(), 0.0);
    return size.samples / (samples / steps);
  }

  /// Whether the gradients are finite, also after rounding to the wire's type.
  bool stays_finite(NumberSpan gradients) const {
    numeric::round_through(gradients, pull_type(plan_.exchange.codec, layout_.type));
    return numeric::all_finite(gradients);
  }

  Task<ShardAnswer> push_and_pull(Push push) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, 0);
    std::vector<ShardAnswer> answers(links_.size());
    std::vector<Task<>> exchanges;
    for (std::size_t s = 0; s < links_.size(); ++s) {
      keys_.gather(static_cast<int>(s), links_[s].numbers(), place_.learner.gradients());
      exchanges.push_back(exchange(s, push, &answers[s]));
    }
    auto on_error = [this](std::exception_ptr error) {
      place_.comm.abort(error);
      if (shard_) shard_->interrupt(error);
    };
    Task<> together = all(place_.comm.runtime(), std::move(exchanges), on_error);
    co_await std::move(together);
    ShardAnswer whole;
    for (const ShardAnswer& answer : answers) {
      whole.age = std::max(whole.age, answer.age);
      whole.applied &= answer.applied;  // all shards decide alike
    }
    co_return whole;
  }

  Task<> exchange(std::size_t shard, Push push, ShardAnswer* answer) {
    *answer = co_await links_[shard].exchange(push, place_.learner.buffers());
  }

  void take_weights() {
    for (std::size_t s = 0; s < links_.size(); ++s) {
      keys_.scatter(static_cast<int>(s), place_.learner.parameters(), links_[s].numbers());
    }
  }

  /// 6, on rank 0. It evaluates a copy, so that only the worker on this rank waits for it.
  Task<> evaluate_epochs() {
    for (;;) {
      const Snapshot now = co_await snapshots_->next();
      if (!now.weights) co_return;
      consensus_ = now;
      co_await evaluate(now.epoch);
    }
  }

  Task<> evaluate(std::uint32_t epoch) {
    const auto lock = co_await learner_free_.lock();
    Learner& learner = place_.learner;
    const auto parameters = numeric::copy_of(learner.parameters()), buffers = numeric::copy_of(learner.buffers());
    numeric::convert(learner.parameters(), consensus_.weights->span());
    numeric::convert(learner.buffers(), consensus_.buffers->span());
    observe::EpochRecord record{epoch, NAN, NAN, numeric::hash(consensus_.weights->span()), NAN};
    {
      const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::evaluate);
      const Evaluation whole = co_await learner.evaluate(0, 1);
      record.accuracy = whole.correct / whole.samples;
      record.loss = whole.loss / whole.samples;
    }
    numeric::convert(learner.parameters(), parameters->span());
    numeric::convert(learner.buffers(), buffers->span());
    place_.recorder.epoch(record);
  }

  /// 6: at the end
  Task<> finish() override {
    if (place_.comm.rank() == 0) {
      numeric::convert(place_.learner.parameters(), consensus_.weights->span());
      numeric::convert(place_.learner.buffers(), consensus_.buffers->span());
    }
    const collective::ExecuteOptions options{layout_.type, observe::Purpose::evaluate};
    co_await collective::broadcast(place_.comm, place_.learner.parameters(), options);
    co_await collective::broadcast(place_.comm, place_.learner.buffers(), options);
  }

  /// The shards' states are of the end of an epoch; where rank 0 is no worker, its learner's is none of it.
  Task<> conclude() override {
    Learner& learner = place_.learner;
    for (int s = 0; s < keys_.count(); ++s) {
      numeric::Numbers weights(keys_.size(s), layout_.type, numeric::memory_like(learner.parameters()));
      if (s == place_.comm.rank()) numeric::convert(weights.span(), shard_->weights());
      collective::ExecuteOptions options{layout_.type, observe::Purpose::evaluate};
      options.root = s;
      co_await collective::broadcast(place_.comm, weights.span(), options);
      keys_.scatter(s, learner.parameters(), weights.span());
    }
    if (place_.comm.rank() == 0) numeric::convert(learner.buffers(), shard_->buffers());
  }

  Pace pace_;
  const Layout& layout_;
  int servers_, worker_;          // the number of ranks that only serve; this worker's index, or -1 on such a rank
  transport::Channel up_, down_;  // between workers and shards
  KeyShards keys_;
  Mutex learner_free_;                // rank 0's learner either trains or evaluates
  std::optional<Mutex::Lock> lock_;   // held from a step's attempt to its commit
  ShardAnswer answer_;                // to the attempted step
  Progress progress_;                 // this worker's
  std::vector<Progress> of_workers_;  // as of the last recovery
  std::shared_ptr<Event> recovered_ = std::make_shared<Event>(place_.comm.runtime());
  /// Aborts before the present channels, and aborts that ranks have recovered from.
  std::int64_t aborts_ = 0, recovered_from_ = 0;
  bool has_trained_ = false;
  WorkersWork work_;
  std::unique_ptr<ServerShard> shard_;  // on ranks with a shard
  std::unique_ptr<ShardSnapshots> snapshots_;
  std::vector<ShardLink> links_;  // a worker's, one to each shard
  Snapshot consensus_;            // on rank 0: the last snapshot
};

}  // namespace

std::unique_ptr<Strategy> make_ps_sync(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<ParameterServer>(Pace::together, info, plan, std::move(workplace));
}
std::unique_ptr<Strategy> make_ps_async(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<ParameterServer>(Pace::own, info, plan, std::move(workplace));
}
std::unique_ptr<Strategy> make_ps_ssp(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<ParameterServer>(Pace::bounded, info, plan, std::move(workplace));
}

}  // namespace ripieno::strategy
