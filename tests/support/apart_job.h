// Workers that learn apart, in virtual time, and what they should come to, computed plainly beside it.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/testing/saved_state.h"
#include "tests/support/job.h"

namespace ripieno::testing {

using Vector = std::vector<double>;

/// A job whose workers divide every batch of 16 among them, so that any number of them learns from the same samples.
struct ApartJob : Job {
  ApartJob(std::string_view strategy, int workers, const strategy::Plan& plan,
           const testing::LinearOptions& learner = {})
      : Job(strategy, workers, plan, learner) {
    for (testing::LinearOptions& mine : options) {
      mine.sampler.partition = data::Partition::global_batches;
      mine.sampler.batch = 16;
    }
  }

  void make() {
    for (int rank = 0; rank < workers; ++rank) {
      learners.push_back(std::make_unique<testing::LinearLearner>(cluster.runtime(), options[rank]));
      faces.push_back(face ? face(*learners[rank]) : nullptr);
      recorders.push_back(std::make_unique<observe::Recorder>(cluster.runtime(), &cluster.ledger(rank), nullptr));
      recorders[rank]->on_step = [this, rank](const observe::StepRecord& record) {
        if (on_step) on_step(rank, record);
      };
      const auto saved = [this, rank](std::uint32_t epoch) {
        if (checkpoint) checkpoint(rank, epoch);
      };
      strategies.push_back(
          strategy::make_strategy(info, plan, {cluster.comm(rank), learner(rank), *recorders[rank], saved}));
    }
  }

  void run() {
    if (strategies.empty()) make();
    Job::run();
  }

  /// What the strategy sees.
  strategy::Learner& learner(int rank) {
    return faces[rank] ? *faces[rank] : static_cast<strategy::Learner&>(*learners[rank]);
  }
  std::uint64_t sent(int rank) const { return cluster.ledger(rank).total(observe::Purpose::exchange).payload_sent; }
  std::optional<std::uint64_t> closed_form(int rank) {
    return info.bytes_sent(info, plan, learner(rank).layout(), workload(), rank);
  }
  /// A worker's own, where Job::weights() are the consensus.
  Vector own(int rank) {
    const auto span = learners[rank]->parameters().as<double>();
    return {span.begin(), span.end()};
  }
  Duration total(int rank, observe::Stage stage) const { return recorders[rank]->totals()[stage]; }

  std::function<std::unique_ptr<strategy::Learner>(testing::LinearLearner&)>
      face;  ///< shows the strategy another layout
  std::vector<std::unique_ptr<strategy::Learner>> faces;
  std::function<void(int rank, std::uint32_t epoch)> checkpoint;
};

/// Shares 1, 2, 3, ..: every worker another size of batch.
inline ApartJob& uneven(ApartJob& job) {
  for (testing::LinearOptions& options : job.options) {
    for (int rank = 0; rank < job.workers; ++rank) options.sampler.shares.push_back(1.0 + rank);
  }
  return job;
}

/// Workers' own steps, SGD with momentum.
struct Reference {
  explicit Reference(const ApartJob& job)
      : plan(job.plan),
        workers(job.options.size()),
        w(workers, Vector(job.options[0].features)),
        momentum(w),
        data(std::make_unique<testing::LinearLearner>(*runtime, job.options[0])) {
    for (const testing::LinearOptions& options : job.options) samplers.emplace_back(options.samples, options.sampler);
  }

  std::uint32_t steps_per_epoch() const { return samplers[0].steps(); }
  data::SampleBatch batch(std::size_t r, std::uint64_t step) {
    const std::uint64_t each = steps_per_epoch();
    return samplers[r].batch(static_cast<std::uint32_t>(step / each), static_cast<std::uint32_t>(step % each));
  }

  /// The sum over samples of the gradients at worker r's weights.
  Vector gradient_sum(std::size_t r, const std::vector<std::uint32_t>& samples) const {
    Vector gradient(w[r].size());
    for (const std::uint32_t i : samples) {
      const auto [x, y] = data->sample(i);
      const double error = std::inner_product(x.begin(), x.end(), w[r].begin(), -y);
      for (std::size_t j = 0; j < x.size(); ++j) gradient[j] += error * x[j];
    }
    return gradient;
  }

  /// The gradient is the mean over the worker's samples; `mixing`: times samples * workers / samples of all.
  void local_step(std::uint64_t step, bool mixing) {
    for (std::size_t r = 0; r < workers; ++r) {
      const data::SampleBatch mine = batch(r, step);
      const Vector sum = gradient_sum(r, mine.indices);
      const double samples = std::max(1.0, static_cast<double>(mine.indices.size()));
      const double weight = mixing ? static_cast<double>(workers) / mine.global_count : 1 / samples;
      for (std::size_t j = 0; j < sum.size(); ++j) {
        momentum[r][j] = plan.optimiser.momentum * momentum[r][j] + weight * sum[j];
        w[r][j] -= plan.learning_rate.base * momentum[r][j];
      }
    }
  }

  Vector mean() const {
    Vector sum(w[0].size());
    for (const Vector& of : w) {
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += of[j] / static_cast<double>(workers);
    }
    return sum;
  }

  strategy::Plan plan;
  std::size_t workers;
  std::vector<Vector> w, momentum;  // of each worker
  std::vector<data::Sampler> samplers;
  std::unique_ptr<Runtime> runtime = virtual_runtime(0);
  std::unique_ptr<testing::LinearLearner> data;
};

/// How far, in the worst step of the job, the mean of the workers' weights ended from where the mean gradient over all
/// their samples, each at its own worker's weights, leads it. For plain SGD.
inline double worst_step_of_the_mean(ApartJob& job) {
  std::map<std::uint64_t, std::vector<Vector>> after;  // by steps done, by rank
  job.on_step = [&](int rank, const observe::StepRecord& record) {
    auto& all = after[record.step + 1];
    all.resize(job.options.size());
    all[rank] = job.own(rank);
  };
  Reference at(job);
  after[0] = at.w;
  job.run();
  double worst = 0;
  for (std::uint64_t step = 0; step + 1 < after.size(); ++step) {
    at.w = after[step];
    Vector expected = at.mean();
    for (std::size_t r = 0; r < at.workers; ++r) {
      const data::SampleBatch mine = at.batch(r, step);
      const Vector sum = at.gradient_sum(r, mine.indices);
      const double rate = job.plan.learning_rate.base / mine.global_count;
      for (std::size_t j = 0; j < sum.size(); ++j) expected[j] -= rate * sum[j];
    }
    at.w = after[step + 1];
    worst = std::max(worst, testing::distance(at.mean(), expected));
  }
  return worst;
}

/// Whether a run that is taken up again after `epochs` epochs of its plan ends with the same bits on every rank.
inline bool resumes_bit_for_bit(std::string_view strategy, int workers, const strategy::Plan& plan,
                                std::uint32_t epochs, const std::function<void(ApartJob&)>& prepare = {}) {
  std::vector<SavedState> saved(workers);
  const auto walk = [&saved](ApartJob& job, int rank) {
    saved[rank].span("parameters", job.learner(rank).parameters());
    saved[rank].span("buffers", job.learner(rank).buffers());
    job.strategies[rank]->visit(saved[rank]);
  };
  ApartJob whole(strategy, workers, plan, {.buffers = 3});
  if (prepare) prepare(whole);
  whole.checkpoint = [&](int rank, std::uint32_t epoch) {
    if (epoch + 1 == epochs) walk(whole, rank);
  };
  whole.run();

  strategy::Plan rest = plan;
  rest.first_epoch = epochs;
  ApartJob resumed(strategy, workers, rest, {.buffers = 3});
  if (prepare) prepare(resumed);
  resumed.make();
  for (int rank = 0; rank < workers; ++rank) {
    saved[rank].begin(/*restoring=*/true);
    walk(resumed, rank);
  }
  resumed.run();
  bool same = true;
  for (int rank = 0; rank < workers; ++rank) {
    same = same && resumed.own(rank) == whole.own(rank) && resumed.weights(rank) == whole.weights(rank);
  }
  return same;
}

}  // namespace ripieno::testing
