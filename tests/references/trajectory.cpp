// Runs one case in virtual time, on a network that takes no time, and prints as JSON what went in and what came out:
//
//   trajectory          the cases' names
//   trajectory CASE     the problem (x, y), the options, each worker's batches, what is drawn at random (clients,
//                       partners, rounding, first factors), how long passes take; and under "result" every worker's
//                       parameters after each of its steps, and the consensus
//
// The references next to it start from the same, and know nothing else.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "ripieno/collective/slot_memory.h"
#include "ripieno/strategy/federated.h"
#include "ripieno/strategy/federated_rounds.h"
#include "ripieno/strategy/gossip.h"
#include "ripieno/strategy/local_sgd.h"
#include "ripieno/strategy/outer.h"
#include "tests/references/cases.h"
#include "tests/support/job.h"

namespace ripieno::testing {
namespace {

using Json = nlohmann::json;

Json numbers(NumberSpan span) { return span.as<double>(); }

/// The linear learner's numbers as the tensors of a case.
class Shaped final : public strategy::Learner {
 public:
  Shaped(testing::LinearLearner& inner, const std::vector<std::vector<std::int64_t>>& shapes)
      : inner_(inner), layout_(inner.layout()) {
    if (shapes.empty()) return;
    layout_.tensors.clear();
    std::size_t begin = 0;
    for (const auto& shape : shapes) {
      std::size_t end = begin + 1;
      for (const std::int64_t length : shape) end = begin + (end - begin) * static_cast<std::size_t>(length);
      layout_.tensors.push_back({text("tensor", begin), shape, {begin, end}});
      begin = end;
    }
    require(begin == layout_.parameters, "tensors of ", begin, " numbers, not of ", layout_.parameters);
  }
  const strategy::Layout& layout() const override { return layout_; }
  NumberSpan parameters() override { return inner_.parameters(); }
  NumberSpan gradients() override { return inner_.gradients(); }
  NumberSpan buffers() override { return inner_.buffers(); }
  std::uint32_t steps_per_epoch() const override { return inner_.steps_per_epoch(); }
  std::uint32_t samples_per_epoch() const override { return inner_.samples_per_epoch(); }
  Task<std::unique_ptr<strategy::Pass>> begin(data::BatchId batch, strategy::Weighting weighting) override {
    return inner_.begin(batch, std::move(weighting));
  }
  Gates& gates() override { return inner_.gates(); }
  void commit() override { inner_.commit(); }
  void drop() override { inner_.drop(); }
  Task<strategy::Evaluation> evaluate(int part, int parts) override { return inner_.evaluate(part, parts); }

 private:
  testing::LinearLearner& inner_;
  strategy::Layout layout_;
};

/// PowerSGD's first factors, from a strategy that has not run.
struct FirstFactors final : StateVisitor {
  void span(std::string_view name, NumberSpan values) override {
    if (name.ends_with(".q")) found.push_back(numbers(values));
  }
  void number(std::string_view, std::int64_t&) override {}
  Json found = Json::array();
};

/// A job of a case, which keeps what each worker went through.
struct Trajectory : Job {
  Trajectory(const Case& which, Setup made)
      : Job(which.strategy, which.workers, made.plan, made.learner, 16, {.link = {Duration(0), Duration(0)}}),
        setup(std::move(made)),
        servers(info.servers(plan)) {
    result["workers"] = Json(static_cast<std::size_t>(workers), Json::array());
    result["ages"] = result["workers"];
    result["rounds"] = Json::array();
    for (int rank = 0; rank < cluster.size(); ++rank) prepare(rank);
    if (setup.dies >= 0) kill();
  }

  /// Ranks start from numbers of their own, though all are to take rank 0's.
  void prepare(int rank) {
    testing::LinearOptions& mine = options[static_cast<std::size_t>(rank)];
    const int worker = info.worker(plan, rank);
    if (setup.own_pace && worker >= 0) {
      mine.cost = [this, worker](data::BatchId batch) { return cost(worker, batch); };
    }
    learners.push_back(std::make_unique<testing::LinearLearner>(cluster.runtime(), mine));
    Random random(7, static_cast<std::uint64_t>(rank));
    for (double& x : learners.back()->parameters().as<double>()) x = random.uniform(-1, 1);
    faces.push_back(std::make_unique<Shaped>(*learners.back(), setup.shapes));
    recorders.push_back(std::make_unique<observe::Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
    recorders.back()->on_step = [this, rank, worker](const observe::StepRecord& record) {
      if (worker < 0) return;
      result["workers"][worker].push_back(numbers(learners[rank]->parameters()));
      if (record.age) result["ages"][worker].push_back(*record.age);
    };
    if (rank == 0 && info.name.starts_with("fed")) {
      recorders.back()->on_epoch = [this](const observe::EpochRecord& record) { end_epoch(record); };
    }
    const strategy::Workplace place{cluster.comm(rank), *faces.back(), *recorders.back(), nullptr};
    strategies.push_back(strategy::make_strategy(info, plan, place));
  }

  /// While all live, a step takes as long as its slowest worker.
  void kill() {
    const std::uint32_t per_epoch = learners[0]->sampler().steps();
    Duration when = cost(setup.dies, {setup.dies_in / per_epoch, setup.dies_in % per_epoch}) / 2;
    for (std::uint32_t t = 0; t < setup.dies_in; ++t) {
      Duration slowest{0};
      for (int worker = 0; worker < workers; ++worker) {
        slowest = std::max(slowest, cost(worker, {t / per_epoch, t % per_epoch}));
      }
      when += slowest;
    }
    cluster.kill_at(when, servers + setup.dies);
  }

  void end_epoch(const observe::EpochRecord& record) {
    const std::uint32_t done = record.epoch + 1;
    if (done % plan.federated.local_epochs != 0 && done != plan.epochs) return;
    result["rounds"].push_back(numbers(learners[0]->parameters()));
  }

  /// Worker w takes about w + 2 milliseconds, now more and now less: no two ever end at the same time.
  Duration cost(int worker, data::BatchId batch) const {
    Random random(static_cast<std::uint64_t>(worker) << 32 | batch.epoch, batch.step);
    return Duration(1'000'000'000) * (worker + 2) + Duration(static_cast<std::int64_t>(random.below(3'000'000'000)));
  }

  Setup setup;
  int servers;
  std::vector<std::unique_ptr<Shaped>> faces;
  Json result;
};

/// Uniform draws of worker `worker` for its `call`-th encoding of a bucket: codec/qsgd.h has two numbers take one.
Json rounding(const strategy::Plan& plan, int worker, std::uint32_t bucket, std::size_t elements, std::int64_t call) {
  Random random = collective::rounding_draws(plan.seed, worker, bucket, call);
  Json draws = Json::array();
  for (std::size_t i = 0; i < elements; i += 2) {
    const std::uint64_t two = random.next();
    draws.push_back(static_cast<double>(two >> 40) * 0x1p-24);
    if (i + 1 < elements) draws.push_back(static_cast<double>(two & 0xFFFFFF) * 0x1p-24);
  }
  return draws;
}

Json problem(Trajectory& job) {
  Json json;
  testing::LinearLearner& learner = *job.learners[0];
  for (std::uint32_t i = 0; i < job.options[0].samples; ++i) {
    const auto [x, y] = learner.sample(i);
    json["x"].push_back(x);
    json["y"].push_back(y);
  }
  json["start"] = numbers(learner.parameters());
  for (const Range bucket : learner.layout().buckets) json["buckets"].push_back({bucket.begin, bucket.end});
  return json;
}

Json options(const Trajectory& job) {
  const strategy::Plan& plan = job.plan;
  const codec::CodecOptions& codec = plan.exchange.codec;
  Json json = {{"workers", job.workers},
               {"rate", plan.learning_rate.base},
               {"momentum", plan.optimiser.momentum},
               {"sgd_momentum", plan.optimiser.sgd_momentum},
               {"vector_factor", plan.optimiser.vector_factor},
               {"head_factor", plan.optimiser.head_factor},
               {"weight_decay", plan.optimiser.weight_decay},
               {"newton_schulz", plan.optimiser.newton_schulz},
               {"lookahead_every", plan.optimiser.lookahead_every},
               {"lookahead_decay", plan.optimiser.lookahead_decay},
               {"lookahead_power", plan.optimiser.lookahead_power},
               {"total_steps", plan.optimiser.total_steps},
               {"local_epochs", plan.federated.local_epochs},
               {"deltas", plan.federated.deltas},
               {"local_steps", plan.local.steps},
               {"delay", plan.local.delay},
               {"outer_momentum", plan.outer.momentum},
               {"beta1", plan.outer.beta1},
               {"beta2", plan.outer.beta2},
               {"epsilon", plan.outer.epsilon},
               {"passes", plan.passes},
               {"staleness", plan.servers.staleness},
               {"codec", codec.name},
               {"block", codec.block},
               {"bits", codec.bits},
               {"fraction", codec.fraction},
               {"rank", codec.rank},
               {"shapes", job.setup.shapes},
               {"dies", job.setup.dies},
               {"dies_in", job.setup.dies_in}};
  const std::string_view name = job.info.name;
  const bool has_outer = name.starts_with("fed") || name == "local-sgd" || name == "diloco";
  if (has_outer) json["outer_rate"] = strategy::outer_rate(name, plan.outer);
  return json;
}

/// Of each worker and epoch, by step: the samples, and how long they take.
void add_batches(Json& json, Trajectory& job) {
  for (int worker = 0; worker < job.workers; ++worker) {
    data::Sampler sampler = job.learners[static_cast<std::size_t>(job.servers + worker)]->sampler();
    Json epochs = Json::array(), times = Json::array();
    for (std::uint32_t epoch = 0; epoch < job.plan.epochs; ++epoch) {
      Json steps = Json::array();
      for (std::uint32_t step = 0; step < sampler.steps(); ++step) {
        steps.push_back(sampler.batch(epoch, step).indices);
        times.push_back(job.cost(worker, {epoch, step}).count());
      }
      epochs.push_back(steps);
    }
    json["epochs"].push_back(epochs);
    if (job.setup.own_pace) json["times"].push_back(times);
  }
}

/// What is drawn from the seed.
void add_draws(Json& json, Trajectory& job) {
  const strategy::Plan& plan = job.plan;
  const std::string_view name = job.info.name;
  const std::uint64_t steps = std::uint64_t{plan.epochs} * job.learners[0]->sampler().steps();
  if (name.starts_with("fed")) {
    for (std::uint32_t t = 0; t * plan.federated.local_epochs < plan.epochs; ++t) {
      json["clients"].push_back(strategy::clients_of(plan, t, job.workers));
    }
  }
  if (name == "diloco" || name == "local-sgd") {
    for (const Range range : strategy::fragments_of(job.faces[0]->layout(), plan.local.fragments)) {
      json["fragments"].push_back({range.begin, range.end});
    }
  }
  for (int worker = 0; worker < job.workers; ++worker) {
    Json partners = Json::array(), draws = Json::array();
    for (std::uint64_t t = 0; t < steps; ++t) {
      if (name == "gossip-pairs") partners.push_back(strategy::random_partners(worker, job.workers, plan.seed, t).to);
      Json buckets = Json::array();
      const std::vector<Range>& ranges = job.faces[0]->layout().buckets;
      for (std::uint32_t b = 0; b < ranges.size() && plan.exchange.codec.name == "qsgd"; ++b) {
        buckets.push_back(rounding(plan, worker, b, ranges[b].size(), static_cast<std::int64_t>(t)));
      }
      draws.push_back(buckets);
    }
    json["partners"].push_back(partners);
    json["draws"].push_back(draws);
  }
  FirstFactors first;
  job.strategies[0]->visit(first);
  json["factors"] = first.found;
}

Json run(const Case& which) {
  Setup setup;
  setup.plan = sgd(which.epochs, 0.05);
  setup.plan.seed = 3;
  for (int worker = 0; worker < which.workers; ++worker) setup.learner.sampler.shares.push_back(1 + worker % 3);
  which.options(setup);
  Trajectory job(which, setup);
  Json json = problem(job);
  json.update(options(job));
  add_batches(json, job);
  add_draws(json, job);
  job.run();
  job.result["consensus"] = job.weights();
  json["result"] = job.result;
  return json;
}

}  // namespace
}  // namespace ripieno::testing

int main(int argc, char** argv) {
  using namespace ripieno::testing;
  if (argc < 2) {
    Json names;
    for (const Case& one : cases) names.push_back(one.name);
    std::cout << names.dump() << "\n";
    return 0;
  }
  const auto* const found = std::ranges::find(cases, argv[1], &Case::name);
  if (found == cases.end()) {
    std::cerr << "there is no case " << argv[1] << "; without one, trajectory lists them\n";
    return 2;
  }
  try {
    std::cout << run(*found).dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
