#include "ripieno/transport/simulated/network.h"

#include "ripieno/transport/simulated/state.h"

namespace ripieno::transport {

namespace simulation {

State::State(Runtime& runtime, int ranks, SimulatedOptions options)
    : runtime(runtime), ranks(ranks), options(options), members(static_cast<std::size_t>(ranks)) {
  require(options.detection >= Duration(0), "a failure detector that takes ", options.detection.count(), " ps");
  require(options.per_node >= 1, "a network with ", options.per_node, " ranks on a node: at least 1");
}

namespace {

class RankEndpoint final : public Endpoint {
 public:
  RankEndpoint(std::shared_ptr<State> state, int rank) : state_(std::move(state)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return state_->ranks; }
  Runtime& runtime() override { return state_->runtime; }
  std::size_t framing_bytes(int) const override { return state_->options.framing_bytes; }
  std::string way(int) const override { return "simulated network"; }
  void abort(Scope scope, const std::vector<int>& members, std::exception_ptr error) override {
    state_->abort(rank_, scope, members, std::move(error));
  }
  void watch_aborts(std::function<void(Scope, std::exception_ptr)> watcher) override {
    state_->at(rank_).watchers.push_back(std::move(watcher));
  }
  Task<std::vector<int>> survivors() override { co_return state_->survivors(rank_); }

  Task<> send(int peer, Message message, ConstBytes payload) override {
    auto operation = std::make_unique<Operation>();
    add_send(*operation, {peer, message, payload});
    return carry_out(std::move(operation));
  }
  using Endpoint::receive;
  Task<> receive(int peer, Message message, Sink into) override {
    auto operation = std::make_unique<Operation>();
    operation->in = {peer, message, into};
    operation->receives = true;
    return carry_out(std::move(operation));
  }
  /// A step of a schedule, which suspends its caller only once.
  Task<> exchange(Outgoing out, Incoming in, std::function<void(std::exception_ptr)> on_error) override {
    auto operation = std::make_unique<Operation>();
    add_send(*operation, out);
    operation->in = in;
    operation->receives = true;
    operation->on_error = std::move(on_error);
    return carry_out(std::move(operation));
  }

 private:
  static void add_send(Operation& operation, const Outgoing& out) {
    operation.peer = out.peer;
    operation.parcel = new Parcel;
    operation.parcel->message = out.message;
    operation.parcel->payload = out.payload;
    ParcelReference::hold(operation.parcel);
  }
  Task<> carry_out(std::unique_ptr<Operation> operation) {
    auto start = [this, operation = std::move(operation)](Resume resume) mutable {
      operation->resume = std::move(resume);
      state_->start(rank_, std::move(operation));
    };
    return suspend(std::move(start));
  }

  std::shared_ptr<State> state_;
  int rank_;
};

}  // namespace
}  // namespace simulation

SimulatedNetwork::SimulatedNetwork(Runtime& runtime, int ranks, SimulatedOptions options)
    : state_(std::make_shared<simulation::State>(runtime, ranks, options)) {
  std::weak_ptr<simulation::State> weak = state_;
  runtime.explain_stall([weak] {
    auto state = weak.lock();
    return state ? state->stalled() : std::string();
  });
}

SimulatedNetwork::~SimulatedNetwork() { state_->close(); }

std::shared_ptr<Endpoint> SimulatedNetwork::endpoint(int rank) {
  return std::make_shared<simulation::RankEndpoint>(state_, rank);
}

std::unique_ptr<Network> simulated_network(Runtime& runtime, int ranks, const SimulatedOptions& options) {
  return std::make_unique<SimulatedNetwork>(runtime, ranks, options);
}

void SimulatedNetwork::kill(int rank) {
  require(rank >= 0 && rank < state_->ranks, "kills rank ", rank, " of ", state_->ranks);
  state_->kill(rank);
}

bool SimulatedNetwork::dead(int rank) const {
  return state_->members.at(static_cast<std::size_t>(rank)).killed != nullptr;
}

}  // namespace ripieno::transport
