// Steps that an abort breaks off and that are taken again, computed with LibTorch: dropout, batch norm, cropped and
// flipped images, a loss scale. RIPIENO_RETAKES: runs of each case (6).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "ripieno/model/classifier.h"
#include "ripieno/testing/interruptions.h"
#include "ripieno/testing/saved_state.h"
#include "tests/train/random_net.h"

namespace ripieno::train {
namespace {

using testing::RandomNet;
using testing::TorchJob;

int runs() {
  const char* const asked = std::getenv("RIPIENO_RETAKES");
  return asked ? std::atoi(asked) : 6;
}

strategy::Plan plan_of(std::string_view codec) {
  strategy::Plan plan;
  plan.epochs = 2;
  plan.optimiser.momentum = 0.9;
  plan.learning_rate.base = 0.05;
  plan.exchange.codec.name = codec;
  plan.federated.deltas = true;
  plan.local.steps = 2;
  return plan;
}

testing::SavedState state(TorchJob& job, int rank) {
  testing::SavedState saved;
  saved.begin(false);
  saved.span("learner.parameters", job.learners[rank]->parameters());
  saved.span("learner.buffers", job.learners[rank]->buffers());
  job.learners[rank]->visit(saved);
  job.strategies[rank]->visit(saved);
  return saved;
}

void expect_the_same(std::string_view strategy, std::string_view codec, Precision precision) {
  TorchOptions options;
  options.precision = precision;
  options.image_cost = Duration(1'000'000'000);
  options.flat.bucket_bytes = 1000;
  const auto job_of = [&] {
    return std::make_unique<TorchJob>(
        strategy, 3, plan_of(codec), options, 30, 90, -1, [] { return std::make_shared<RandomNet>(); },
        data::AugmentOptions{.crop_padding = 2, .flip = true});
  };
  const auto whole = job_of();
  whole->run();
  Duration begun{0};
  for (const auto& recorder : whole->recorders) begun = std::max(begun, recorder->began());
  int recovered = 0;
  for (int seed = 0; seed < runs(); ++seed) {
    const auto job = job_of();
    testing::Interruptions interruptions(job->cluster);
    job->interruptions = &interruptions;
    interruptions.schedule(static_cast<std::uint64_t>(seed), 1 + seed % 3, begun, whole->cluster.runtime().now());
    job->run();
    recovered += interruptions.recovered;
    for (int rank = 0; rank < job->cluster.size(); ++rank) {
      EXPECT_EQ(state(*job, rank).difference(state(*whole, rank)), "")
          << strategy << " " << codec << " run " << seed << " rank " << rank;
    }
  }
  EXPECT_GE(recovered, runs()) << strategy << " " << codec;
}

/// All that keep the commit contract.
std::vector<std::string_view> retakable() {
  std::vector<std::string_view> names;
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    if (!info.traits.alone && strategy::can_retake(info, plan_of("auto"))) names.push_back(info.name);
  }
  return names;
}

class RetakeComputed : public ::testing::TestWithParam<std::string_view> {};

TEST_P(RetakeComputed, GivesTheBitsOfARunWithout) {
  for (const char* codec : {"auto", "int8"}) {
    const bool mixes = strategy::find_strategy(GetParam()).traits.mixes;
    if (mixes && std::string_view(codec) == "int8") continue;
    expect_the_same(GetParam(), codec, Precision::fp32);
    expect_the_same(GetParam(), codec, Precision::fp16);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RetakeComputed, ::testing::ValuesIn(retakable()), [](const auto& one) {
  std::string name(one.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace ripieno::train
