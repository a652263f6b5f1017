// A step whose gradients overflow is not taken, and nothing that error feedback has kept goes with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "tests/support/job.h"

namespace ripieno::strategy {
namespace {

/// What codecs keep between steps, of a strategy's state.
class Kept final : public StateVisitor {
 public:
  void span(std::string_view name, NumberSpan values) override {
    if (name.find("residual") == std::string_view::npos) return;
    ++residuals;
    const Bytes bytes = values.bytes();
    is_empty &= std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
  }
  void number(std::string_view, std::int64_t&) override {}

  int residuals = 0;
  bool is_empty = true;
};

Kept kept(testing::Job& job) {
  Kept all;
  for (const auto& strategy : job.strategies) strategy->visit(all);
  return all;
}

TEST(Overflow, LeavesWhatErrorFeedbackKeepsAsItWas) {
  for (const char* name : {"ring", "ddp", "ps-sync", "ps-async"}) {
    for (const char* codec : {"topk", "int8", "sign"}) {
      const auto after = [&](bool overflows) {
        Plan plan = testing::sgd(1);
        plan.max_steps = 1;
        plan.exchange.codec.name = codec;
        testing::Job job(name, 3, plan, {.loss_scale = overflows});
        job.run();
        if (overflows) {
          EXPECT_LT(job.learners.back()->loss_scale()->value(), 65536) << name << " " << codec;
        }
        return kept(job);
      };
      EXPECT_FALSE(after(false).is_empty) << name << " " << codec;
      const Kept none = after(true);
      EXPECT_TRUE(none.is_empty) << name << " " << codec;
      EXPECT_GT(none.residuals, 0) << name << " " << codec;
    }
  }
}

}  // namespace
}  // namespace ripieno::strategy
