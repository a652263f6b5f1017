// Your own strategy in Ripieno's program. Without arguments: whether it keeps what it promises, and what it sends, in
// virtual time and in a second (exit status 0 where it conforms). With arguments: `ripieno`, with one more strategy.
//   ./own_strategy
//   ./own_strategy train -n 2 --strategy easgd --set batch.per_worker=32 --set data.name=digits --set local.steps=4
#include <cstdio>

#include "apps/ripieno/program.h"
#include "own_strategy.h"
#include "ripieno/testing/conformance.h"
#include "ripieno/testing/trial.h"

using namespace ripieno;

int main(int argc, char** argv) {
  strategy::add_strategy(own::easgd());
  if (argc > 1) return program::run_program(argc, argv, model::zoo());

  testing::ConformanceOptions options;
  options.plan.local.steps = 4;
  const auto findings = testing::check_conformance(strategy::find_strategy("easgd"), options);
  std::fputs(testing::report(findings).c_str(), stdout);

  // Beside one of Ripieno's: 4 workers on one network, the same data, and as many steps.
  strategy::Plan plan = options.plan;
  plan.epochs = 10;
  std::printf("\n4 workers, %u epochs\n", plan.epochs);
  const testing::LinearOptions learner{.samples = 512, .features = 16, .bucket_elements = 16};
  for (const char* name : {"ring", "easgd"}) {
    testing::Trial trial(strategy::find_strategy(name), 4, plan, learner, 64);
    trial.run();
    const std::uint64_t sent = trial.cluster.ledger(0).total(observe::Purpose::exchange).payload_sent;
    std::printf("%-6s accuracy %5.1f %%, %6llu bytes sent by rank 0, %5.2f ms of virtual time\n", name,
                100 * trial.recorders[0]->epochs().back().accuracy, static_cast<unsigned long long>(sent),
                1e3 * seconds(trial.took));
  }
  return testing::conforms(findings) ? 0 : 1;
}
