// Every strategy with every codec that it takes, by the linear learner, on the ranks of a real job: each rank must end
// with the numbers that it has in virtual time, to the bit. Strategies that leave the route open take a ring; or
// native, MPI's own operation, whose sums may be rounded otherwise. Started by mpi_test.py, through each transport:
//
//   every_strategy TRANSPORT [native]     prints a line for each case, and ends with 1 if one differs
//   every_strategy TRANSPORT late         runs none; rank 0 ends 7 s after the others, which must not end it
#include <cmath>
#include <iostream>

#include "ripieno/codec/codec.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/native.h"
#include "ripieno/core/hash.h"
#include "ripieno/launch/join.h"
#include "ripieno/testing/trial.h"

namespace ripieno::testing {
namespace {

constexpr int per_node = 2;

struct Case {
  const strategy::StrategyInfo* info;
  std::string codec;
  bool native = false;
};

strategy::Plan plan_of(const Case& which, std::string_view open_route) {
  strategy::Plan plan;
  plan.epochs = 2;
  plan.optimiser.momentum = 0.9;
  plan.learning_rate.base = 0.05;
  plan.passes = 1;
  if (which.info->route == "any") plan.exchange.route = open_route;
  plan.exchange.codec.name = which.codec;
  return plan;
}

/// In virtual time; nullptr if the combination is refused.
std::unique_ptr<Trial> trial_of(const Case& which, int ranks) {
  const strategy::Plan plan = plan_of(which, "ring");
  auto trial = std::make_unique<Trial>(*which.info, ranks - which.info->servers(plan), plan);
  trial->per_node = per_node;
  try {
    trial->make();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return nullptr;
  }
  trial->run();
  return trial;
}

/// On this rank of the job.
Task<std::vector<double>> run_here(Case which, collective::Communicator comm, observe::Ledger* ledger,
                                   LinearOptions options) {
  LinearLearner learner(comm.runtime(), options);
  observe::Recorder recorder(comm.runtime(), ledger, nullptr);
  const auto strategy = strategy::make_strategy(*which.info, plan_of(which, which.native ? "native" : "ring"),
                                                strategy::Workplace{comm, learner, recorder, {}, nullptr});
  Task<> running = strategy->run();
  co_await std::move(running);
  const std::span<const double> weights = strategy->consensus().as<double>();
  co_return std::vector<double>(weights.begin(), weights.end());
}

bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::abs(x - y) <= 1e-12 * (1 + std::abs(x)); });
}

Task<> run_all(transport::Cluster* cluster, bool native, bool* are_same) {
  const collective::Communicator whole(cluster->endpoint, per_node);
  for (const strategy::StrategyInfo& info : strategy::strategies()) {
    if (info.traits.alone) continue;
    for (const codec::CodecInfo& codec : codec::codecs()) {
      const Case which{&info, std::string(codec.name), native};
      if (native && (info.route != "any" || codec.name != "auto")) continue;
      const auto trial = trial_of(which, whole.size());
      if (!trial) continue;
      std::optional<collective::Communicator> comm = whole;
      if (!native) comm = co_await whole.split(0);
      Task<std::vector<double>> running =
          run_here(which, *comm, &cluster->endpoint->ledger(), trial->options[static_cast<std::size_t>(whole.rank())]);
      const std::vector<double> mine = co_await std::move(running);
      // Where workers keep their own pace, the result depends on who came first.
      const std::vector<double>& theirs = trial->weights(whole.rank());
      const bool is_same = info.traits.own_pace
                               ? std::all_of(mine.begin(), mine.end(), [](double x) { return std::isfinite(x); })
                           : native ? are_close(mine, theirs)
                                    : mine == theirs;
      const int same = co_await whole.all_reduce<std::int32_t>(is_same ? 1 : 0);
      *are_same = *are_same && same == whole.size();
      if (whole.rank() > 0) continue;
      std::cout << info.name << " " << which.codec << " "
                << (same != whole.size()   ? "differs"
                    : info.traits.own_pace ? "ends"
                    : native               ? "close"
                                           : "same")
                << "\n";
    }
  }
  Task<> meeting = whole.barrier();
  co_await std::move(meeting);
}

Task<> end_late(transport::Cluster* cluster) {
  const collective::Communicator whole(cluster->endpoint);
  std::vector<double> numbers(1000, 1);
  Task<> adding =
      collective::all_reduce(collective::native::route(), whole, NumberSpan(numbers), {.wire = DType::fp64});
  co_await std::move(adding);
  const Duration later = std::chrono::seconds(7);
  if (whole.rank() == 0) co_await cluster->runtime->sleep(later);
}

int run(const std::string& transport, const std::string& how) {
  bool are_same = true;
  {
    launch::JoinOptions options;
    options.transport = transport;
    options.timeout = std::chrono::seconds(60);
    transport::Cluster cluster = launch::join(launch::placement(), options);
    if (cluster.endpoint->rank() == 0) std::cout << "way " << cluster.endpoint->way(1) << "\n";
    cluster.runtime->spawn("every strategy",
                           how == "late" ? end_late(&cluster) : run_all(&cluster, how == "native", &are_same));
    cluster.runtime->run();
  }
  return are_same ? 0 : 1;
}

}  // namespace
}  // namespace ripieno::testing

int main(int count, char** words) {
  try {
    return ripieno::testing::run(count > 1 ? words[1] : "tcp", count > 2 ? words[2] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
