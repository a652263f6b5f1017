#include "ripieno/strategy/parameter_server.h"

#include <array>
#include <cmath>
#include <numeric>

#include "ripieno/codec/wire.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"
#include "ripieno/strategy/together.h"

namespace ripieno {
namespace {

constexpr int server = 0;

/// What goes with a gradient, and comes back with the weights.
struct Push {
  std::uint64_t done = 0;  ///< 1: the worker has ended, nothing follows
  std::uint64_t samples = 0;
};
struct Reply {
  std::int64_t age = 0;
  std::int64_t version = 0;
};

Message control(std::string_view operation) { return {{Purpose::control, 0}, operation, DType::fp32, 16}; }

template <class Record>
ConstBytes read_only(const Record& record) {
  static_assert(sizeof(Record) == 16);
  return std::as_bytes(std::span(&record, 1));
}
template <class Record>
Bytes writable(Record& record) {
  static_assert(sizeof(Record) == 16);
  return std::as_writable_bytes(std::span(&record, 1));
}

/// Numbers that a strategy owns.
class Numbers {
 public:
  Numbers(std::size_t count, DType type) : memory_(count * size_of(type)), span_(memory_.data(), count, type) {}
  Numbers(Numbers&&) = default;
  FloatSpan span() const { return span_; }

 private:
  std::vector<std::byte> memory_;
  FloatSpan span_;
};

class ParameterServer final : public Strategy {
 public:
  ParameterServer(const Plan& plan, Workplace workplace)
      : plan_(plan),
        place_(std::move(workplace)),
        layout_(place_.learner.layout()),
        wire_(find_wire_format(plan.wire).type(layout_.type)),
        learning_rate_(plan.learning_rate, plan.epochs, plan.rate_scale),
        evaluations_(place_.group.runtime()) {
    if (is_server()) {
      weights_ = std::make_unique<Numbers>(layout_.parameters, layout_.type);
      buffers_ = std::make_unique<Numbers>(layout_.buffers, layout_.type);
      optimiser_ = make_optimiser(plan.optimiser, layout_.parameters, layout_.type);
    }
  }

  Task<> run() override {
    co_await start_alike(place_.group, place_.learner);  // 1
    std::array<double, 1> samples{is_server() ? 0.0 : place_.learner.samples_per_epoch()};
    const ExecuteOptions options{DType::fp64, Purpose::setup};
    co_await all_reduce(find_route("reduce-broadcast"), place_.group, FloatSpan(std::span<double>(samples)), options);
    samples_per_epoch_ = samples[0];
    samples_done_ = plan_.first_epoch * samples_per_epoch_;
    epochs_seen_ = plan_.first_epoch;
    place_.recorder.begin();
    if (is_server()) {
      co_await serve();
    } else {
      co_await work();
    }
  }

  FloatSpan consensus() override { return is_server() ? weights_->span() : place_.learner.parameters(); }

  void visit(StateVisitor& visitor) override {
    if (!is_server()) return;
    optimiser_->visit(visitor);
    visitor.number("parameter_server.version", version_);
  }

 private:
  bool is_server() const { return place_.group.rank() == server; }
  Message gradient() const { return {{Purpose::exchange, 0}, "push", wire_, layout_.parameters}; }
  Message statistics() const { return {{Purpose::exchange, 0}, "push buffers", layout_.type, layout_.buffers}; }
  Message weights() const { return {{Purpose::exchange, 0}, "pull", wire_, layout_.parameters}; }

  Task<> work() {
    Learner& learner = place_.learner;
    const std::uint32_t steps = learner.steps_per_epoch();
    std::uint64_t step = std::uint64_t{plan_.first_epoch} * steps;
    bool ended = false;
    for (std::uint32_t epoch = plan_.first_epoch; epoch < plan_.epochs && !ended; ++epoch) {
      for (std::uint32_t k = 0; k < steps && !ended; ++k, ++step) {
        const BatchId batch{epoch, k};
        const auto pass = co_await learner.begin(batch);  // 2
        const PassResult result = co_await pass->finish();
        const Reply reply = co_await push_and_pull(result);  // 3, 4
        const double rate = learning_rate_.at(epoch + static_cast<double>(k) / steps);
        place_.recorder.step({epoch, step, result.loss, result.samples, rate, reply.age});
        ended = plan_.max_steps > 0 && step + 1 >= plan_.max_steps;
      }
      place_.recorder.epoch({epoch, NAN, NAN, hash(learner.parameters())});
    }
    const Push goodbye{.done = 1};
    co_await place_.group.endpoint().send(place_.group.member(server), control("push"), read_only(goodbye));
  }

  Task<Reply> push_and_pull(PassResult result) {
    const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::exchange);
    Endpoint& endpoint = place_.group.endpoint();
    const int to = place_.group.member(server);
    const Push push{.samples = result.samples};
    Reply reply;
    co_await endpoint.send(to, control("push"), read_only(push));
    co_await send_numbers(&endpoint, to, gradient(), place_.learner.gradients());
    co_await send_numbers(&endpoint, to, statistics(), place_.learner.buffers());
    co_await endpoint.receive(to, control("pull"), writable(reply));
    co_await endpoint.receive(to, weights(), place_.learner.parameters(), Reduce::replace);
    co_return reply;
  }

  Task<> serve() {
    convert(weights_->span(), place_.learner.parameters());
    convert(buffers_->span(), place_.learner.buffers());
    workers_left_ = place_.group.size() - 1;
    std::vector<Task<>> tasks;
    for (int worker = 1; worker < place_.group.size(); ++worker) tasks.push_back(serve_worker(worker));
    tasks.push_back(evaluate_epochs());
    Endpoint* endpoint = &place_.group.endpoint();
    auto revoke = [this, endpoint](std::exception_ptr error) {
      endpoint->revoke(error);
      evaluations_.push({0, nullptr, nullptr});  // the evaluation waits for no endpoint
    };
    Task<> together = all(place_.group.runtime(), std::move(tasks), revoke);
    co_await std::move(together);
  }

  Task<> serve_worker(int worker) {
    Endpoint& endpoint = place_.group.endpoint();
    const int peer = place_.group.member(worker);
    const Numbers arrived(layout_.parameters, layout_.type), statistics_arrived(layout_.buffers, layout_.type);
    std::int64_t pulled = version_;
    for (;;) {
      Push push;
      co_await endpoint.receive(peer, control("push"), writable(push));
      if (push.done) break;
      co_await endpoint.receive(peer, gradient(), arrived.span(), Reduce::replace);
      co_await endpoint.receive(peer, statistics(), statistics_arrived.span(), Reduce::replace);
      convert(buffers_->span(), statistics_arrived.span());
      const Reply reply = apply(arrived.span(), push, pulled);
      pulled = reply.version;
      convert(arrived.span(), weights_->span());  // a snapshot: others' updates go on while it is sent
      co_await endpoint.send(peer, control("pull"), read_only(reply));
      co_await send_numbers(&endpoint, peer, weights(), arrived.span());
    }
    if (--workers_left_ == 0) finish_epochs();
  }

  /// 3: one update; nothing else runs meanwhile.
  Reply apply(FloatSpan gradient, const Push& push, std::int64_t pulled) {
    const Reply reply{.age = version_ - pulled, .version = version_ + 1};
    const double epochs_done = samples_done_ / samples_per_epoch_;
    const double rate = learning_rate_.at(epochs_done);
    {
      const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::optimise);
      optimiser_->begin_step();
      optimiser_->update(0, weights_->span(), gradient, rate);
    }
    const auto epoch = static_cast<std::uint32_t>(epochs_done);
    place_.recorder.step({epoch, static_cast<std::uint64_t>(version_), NAN, static_cast<std::uint32_t>(push.samples), rate, reply.age});
    ++version_;
    samples_done_ += static_cast<double>(push.samples);
    while (samples_done_ >= (epochs_seen_ + 1) * samples_per_epoch_) snapshot(epochs_seen_++);
    return reply;
  }

  /// 5: what is evaluated is a copy, so that nobody waits for it.
  struct Snapshot {
    std::uint32_t epoch;
    std::shared_ptr<Numbers> weights, buffers;  ///< null: no more epochs
  };

  void snapshot(std::uint32_t epoch) {
    if (epoch + 1 != plan_.epochs && (epoch + 1) % plan_.evaluate_every != 0) return;
    const auto copy = [](FloatSpan from) {
      auto numbers = std::make_shared<Numbers>(from.count, from.type);
      convert(numbers->span(), from);
      return numbers;
    };
    evaluations_.push({epoch, copy(weights_->span()), copy(buffers_->span())});
  }

  void finish_epochs() {
    if (epochs_seen_ < plan_.epochs) snapshot(plan_.epochs - 1);  // a step limit cut training short
    evaluations_.push({0, nullptr, nullptr});
  }

  Task<> evaluate_epochs() {
    for (;;) {
      const Snapshot now = co_await evaluations_.pop();
      if (!now.weights) co_return;
      convert(place_.learner.parameters(), now.weights->span());
      convert(place_.learner.buffers(), now.buffers->span());
      EpochRecord record{now.epoch, NAN, NAN, hash(now.weights->span())};
      {
        const StageTimer timer(place_.recorder, place_.group.runtime(), Stage::evaluate);
        const Evaluation whole = co_await place_.learner.evaluate(0, 1);
        record.accuracy = whole.correct / whole.samples;
        record.loss = whole.loss / whole.samples;
      }
      place_.recorder.epoch(record);
    }
  }

  Plan plan_;
  Workplace place_;
  const Layout& layout_;
  DType wire_;
  LearningRate learning_rate_;
  double samples_per_epoch_ = 0;
  // The server's:
  std::unique_ptr<Numbers> weights_, buffers_;
  std::unique_ptr<Optimiser> optimiser_;
  std::int64_t version_ = 0;
  double samples_done_ = 0;
  std::uint32_t epochs_seen_ = 0;
  int workers_left_ = 0;
  Queue<Snapshot> evaluations_;
};

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const StrategyInfo&, const Plan& plan, Workplace workplace) {
  return std::make_unique<ParameterServer>(plan, std::move(workplace));
}

std::optional<std::uint64_t> parameter_server_bytes_sent(const StrategyInfo&, const Plan& plan, const Layout& layout,
                                                         int rank, int ranks, const std::vector<std::uint32_t>& steps, std::uint32_t epochs) {
  const std::uint64_t number = size_of(find_wire_format(plan.wire).type(layout.type));
  const std::uint64_t up = layout.parameters * number + layout.buffers * size_of(layout.type);
  const std::uint64_t down = layout.parameters * number;
  if (rank != server) return up * steps[rank - 1] * epochs;
  return down * std::accumulate(steps.begin(), steps.end(), std::uint64_t{0}) * epochs;
}

}  // namespace ripieno
