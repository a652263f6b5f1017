// Every strategy over real connections: the bytes of its closed form, and the weights that it has in virtual time.
#include <gtest/gtest.h>

#include "ripieno/strategy/refusals.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/trial.h"
#include "tests/strategy/linked_rank.h"

namespace ripieno::strategy {
namespace {

class OverTcp : public ::testing::TestWithParam<std::string_view> {};

TEST_P(OverTcp, SendsTheClosedFormsBytesAndEndsAsInVirtualTime) {
  const StrategyInfo& info = find_strategy(GetParam());
  const bool timing_decides = info.name == "ps-async" || info.name == "ps-ssp";
  for (const codec::CodecInfo& info_of_codec : codec::codecs()) {
    const std::string_view codec = info_of_codec.name;
    for (const int workers : {2, 3, 5}) {
      Plan plan = testing::conformance_plan();
      plan.epochs = 2;
      plan.exchange.codec.name = codec;
      try {
        refuse({info, plan, workers});
      } catch (const Error&) {
        continue;
      }
      const std::string here = text(info.name, " ", codec, " ", workers, " workers");
      testing::Trial simulated(info, workers, plan, {.samples = 55, .buffers = 3});
      simulated.run();
      const auto ranks = testing::train_over_links(testing::Way::tcp, info, plan, simulated.options);

      observe::Traffic all;
      for (int r = 0; r < simulated.cluster.size(); ++r) {
        testing::LinkedRank& rank = *ranks[r];
        ASSERT_EQ(rank.error, "") << here << " rank " << r;
        all += rank.traffic();
        const auto form = info.bytes_sent(info, plan, rank.learner.layout(), simulated.workload(), r);
        // How many a sampled threshold lets through depends on the numbers; what servers send back is not encoded so.
        if (codec != "topk-sampled") {
          EXPECT_TRUE(form) << here;
        }
        if (form) {
          EXPECT_EQ(rank.traffic().payload_sent, *form) << here << " rank " << r;
        }
        if (timing_decides || r < simulated.first_worker()) continue;
        const auto own = simulated.learners[r]->parameters().as<double>();
        EXPECT_EQ(rank.own(), std::vector<double>(own.begin(), own.end())) << here << " rank " << r;
      }
      EXPECT_EQ(all.payload_sent, all.payload_received) << here;
      EXPECT_GT(all.payload_sent, 0u) << here;
      if (timing_decides) continue;
      const auto consensus = ranks[0]->strategy->consensus().as<double>();
      EXPECT_EQ(std::vector<double>(consensus.begin(), consensus.end()), simulated.weights()) << here;
      EXPECT_EQ(ranks[0]->recorder.epochs().back().accuracy, simulated.recorders[0]->epochs().back().accuracy) << here;
    }
  }
}

std::vector<std::string_view> strategies_over_tcp() {
  std::vector<std::string_view> names;
  for (const StrategyInfo& info : strategies()) {
    if (info.name != "single") names.push_back(info.name);
  }
  return names;
}

std::string over_tcp_name(const ::testing::TestParamInfo<std::string_view>& name) {
  std::string valid(name.param);
  std::replace(valid.begin(), valid.end(), '-', '_');
  return valid;
}

INSTANTIATE_TEST_SUITE_P(Every, OverTcp, ::testing::ValuesIn(strategies_over_tcp()), over_tcp_name);

}  // namespace
}  // namespace ripieno::strategy
