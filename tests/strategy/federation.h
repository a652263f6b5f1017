// A federation in virtual time whose models can be written out by hand: every client's loss is a square around numbers
// of its own, and the reference below takes the rounds in plain loops.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ripieno/collective/virtual_cluster.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/federated.h"
#include "ripieno/strategy/federated_rounds.h"

namespace ripieno::testing::federated {

using Vector = std::vector<double>;

/// A client whose epochs can be written out by hand: the gradient of weight j is w_j - c_j, with c_j below.
struct Client {
  std::uint32_t samples, steps;
};

inline double target(int client, data::BatchId batch, std::size_t j) {
  return std::sin(1.0 + client * 3.0 + static_cast<double>(j)) + 0.1 * batch.epoch - 0.05 * batch.step;
}

/// What a step makes of a running statistic.
inline double drift(double statistic, int client) { return 0.5 * statistic + client + 1; }

class ToyLearner final : public strategy::Learner {
 public:
  ToyLearner(Runtime& runtime, int id, Client client, std::size_t weights, std::size_t buffers)
      : id_(id),
        client_(client),
        gates_(runtime, 1),
        weights_(weights),
        gradients_(weights),
        buffers_(buffers, 10.0 + id) {
    layout_.type = DType::fp64;
    layout_.parameters = weights;
    layout_.buffers = buffers;
    layout_.tensors = {{"weight", {static_cast<std::int64_t>(weights)}, {0, weights}}};
    layout_.buckets = {{0, weights}};
    for (std::size_t j = 0; j < weights; ++j) weights_[j] = id + 0.01 * static_cast<double>(j);
  }

  const strategy::Layout& layout() const override { return layout_; }
  NumberSpan parameters() override { return NumberSpan(weights_); }
  NumberSpan gradients() override { return NumberSpan(gradients_); }
  NumberSpan buffers() override { return NumberSpan(buffers_); }
  std::uint32_t steps_per_epoch() const override { return client_.steps; }
  std::uint32_t samples_per_epoch() const override { return client_.samples; }
  Gates& gates() override { return gates_; }
  void commit() override {}
  void drop() override {}

  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting) override {
    for (std::size_t j = 0; j < weights_.size(); ++j) gradients_[j] = weights_[j] - target(id_, batch, j);
    for (double& statistic : buffers_) statistic = drift(statistic, id_);
    co_return std::make_unique<ToyPass>();
  }

  /// The loss gives weights and statistics away, the accuracy the first weight.
  Task<strategy::Evaluation> evaluate(int part, int parts) override {
    const double mine = 60.0 / parts;
    co_return strategy::Evaluation{mine * weights_[0],
                                   mine * (weights_[0] + (buffers_.empty() ? 0 : 1000 * buffers_[0])), mine};
  }

 private:
  struct ToyPass final : strategy::Pass {
    Task<std::optional<std::size_t>> next_bucket() override { co_return std::nullopt; }
    strategy::BatchSize size() const override { return {1, 1}; }
    Task<strategy::PassResult> finish() override {
      strategy::PassResult result;
      result.samples = result.global_samples = 1;
      co_return result;
    }
  };

  int id_;
  Client client_;
  Gates gates_;
  strategy::Layout layout_;
  Vector weights_, gradients_, buffers_;
};

/// Everything a rank would save, by name; or gives it back.
struct State final : StateVisitor {
  void span(std::string_view name, NumberSpan values) override {
    auto& saved = spans[std::string(name)];
    if (loading) {
      numeric::convert(values, NumberSpan(saved));
    } else {
      saved.resize(values.count);
      numeric::convert(NumberSpan(saved), values);
    }
  }
  void number(std::string_view name, std::int64_t& value) override {
    (loading ? value : numbers[std::string(name)]) = loading ? numbers.at(std::string(name)) : value;
  }
  void walk(strategy::Learner& learner, strategy::Strategy& strategy) {
    span("parameters", learner.parameters());
    span("buffers", learner.buffers());
    strategy.visit(*this);
  }
  bool loading = false;
  std::map<std::string, Vector> spans;
  std::map<std::string, std::int64_t> numbers;
};

struct Federation {
  Federation(std::string_view name, strategy::Plan plan, std::vector<Client> clients, std::size_t weights = 10,
             std::size_t buffers = 0)
      : plan(plan), cluster(static_cast<int>(clients.size())), saved(clients.size()) {
    info.name = name;
    work.world = collective::World(cluster.size());
    work.epochs = plan.epochs - plan.first_epoch;
    for (int rank = 0; rank < cluster.size(); ++rank) {
      work.steps.push_back(clients[rank].steps);
      learners.push_back(std::make_unique<ToyLearner>(cluster.runtime(), rank, clients[rank], weights, buffers));
      recorders.push_back(std::make_unique<observe::Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
      const auto save = [this, rank](std::uint32_t epoch) {
        saved[rank][epoch].walk(*learners[rank], *strategies[rank]);
      };
      strategies.push_back(
          strategy::make_federated(info, plan, {cluster.comm(rank), *learners[rank], *recorders[rank], save}));
    }
  }

  Federation& run() {
    cluster.run([&](collective::Communicator comm) { return strategies[comm.rank()]->run(); });
    return *this;
  }

  Vector model(int rank = 0) {
    const auto span = strategies[rank]->consensus().as<double>();
    return {span.begin(), span.end()};
  }
  /// Bytes for the exchange: by the ledger, and in closed form.
  std::uint64_t sent(int rank) const { return cluster.ledger(rank).total(observe::Purpose::exchange).payload_sent; }
  std::optional<std::uint64_t> closed_form(int rank) const {
    return strategy::federated_bytes_sent(info, plan, learners[rank]->layout(), work, rank);
  }
  Vector buffers(int rank) {
    const auto span = learners[rank]->buffers().as<double>();
    return {span.begin(), span.end()};
  }

  strategy::StrategyInfo info{};
  strategy::Plan plan;
  collective::VirtualCluster cluster;
  strategy::Workload work{collective::World(1), {}, 1};
  std::vector<std::unique_ptr<ToyLearner>> learners;
  std::vector<std::unique_ptr<observe::Recorder>> recorders;
  std::vector<std::unique_ptr<strategy::Strategy>> strategies;
  std::vector<std::map<std::uint32_t, State>> saved;  // by rank and epoch
};

inline strategy::Plan plan_of(std::uint32_t epochs, std::uint32_t local_epochs = 1, double momentum = 0.5) {
  strategy::Plan plan;
  plan.epochs = epochs;
  plan.optimiser.momentum = momentum;
  plan.learning_rate.base = 0.1;
  plan.federated.local_epochs = local_epochs;
  return plan;
}

inline const std::vector<Client> uneven{{10, 2}, {40, 5}, {5, 1}, {17, 3}};

inline Vector first_model(std::size_t weights) {  // rank 0's
  Vector w(weights);
  for (std::size_t j = 0; j < weights; ++j) w[j] = 0.01 * static_cast<double>(j);
  return w;
}

/// The round's epochs of one client, written out: SGD with momentum.
struct LocalSgd {
  Vector momentum = {};
  bool begun = false;
  Vector train(Vector w, int id, Client client, std::uint32_t first_epoch, std::uint32_t end_epoch, double mu = 0.5) {
    const double rate = 0.1;
    momentum.resize(w.size());
    for (std::uint32_t epoch = first_epoch; epoch < end_epoch; ++epoch) {
      for (std::uint32_t k = 0; k < client.steps; ++k) {
        for (std::size_t j = 0; j < w.size(); ++j) {
          const double gradient = w[j] - target(id, {epoch, k}, j);
          momentum[j] = (begun ? mu * momentum[j] : 0) + gradient;
          w[j] -= rate * momentum[j];
        }
        begun = true;
      }
    }
    return w;
  }
};

/// The models after each round, by the paper: `server` makes the next model of this one and the weighted mean.
template <class Server>
std::vector<Vector> by_hand(const strategy::Plan& plan, const std::vector<Client>& clients, std::size_t weights,
                            Server server) {
  std::vector<Vector> models{first_model(weights)};
  std::vector<LocalSgd> local(clients.size());
  const std::uint32_t length = plan.federated.local_epochs;
  for (std::uint32_t t = 0; t * length < plan.epochs; ++t) {
    double samples = 0;
    Vector mean(weights, 0.0);
    const auto drawn = strategy::clients_of(plan, t, static_cast<int>(clients.size()));
    for (const int i : drawn) samples += clients[i].samples;
    for (const int i : drawn) {
      const std::uint32_t end = std::min((t + 1) * length, plan.epochs);
      const Vector w = local[i].train(models.back(), i, clients[i], t * length, end);
      for (std::size_t j = 0; j < weights && samples > 0; ++j) mean[j] += clients[i].samples / samples * w[j];
    }
    models.push_back(samples > 0 ? server(models.back(), mean) : models.back());
  }
  return models;
}

inline Vector take_mean(const Vector&, const Vector& mean) { return mean; }

inline void expect_near(const Vector& a, const Vector& b, double tolerance, const std::string& what = "") {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(a[j], b[j], tolerance) << what << ", number " << j;
}

}  // namespace ripieno::testing::federated
