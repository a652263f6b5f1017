// A number that changes on one rank, in memory or on its way, ends the job at the end of the epoch, before anything of
// that epoch is saved.
#include <gtest/gtest.h>

#include <map>

#include "ripieno/core/async.h"
#include "tests/support/flip.h"
#include "tests/support/job.h"

namespace ripieno::strategy {
namespace {

using namespace ripieno::testing;

constexpr int workers = 3;

struct Ending {
  std::vector<std::string> errors;           ///< of each rank; "" where it has none
  int found = 0;                             ///< ranks that have found it; others may be told by one of them
  std::map<int, std::uint32_t> checkpoints;  ///< how many each rank saved
};

Task<> note_error(Task<> task, int rank, Ending* into) {
  const std::exception_ptr error = co_await error_of(std::move(task));
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& e) {
    EXPECT_TRUE(e.kind() == ErrorKind::mismatch || e.kind() == ErrorKind::peer);
    into->found += e.kind() == ErrorKind::mismatch;
    into->errors[rank] = e.what();
  }
}

/// Three epochs of a job; `harm` is called on rank 1 after its first step of the second epoch.
Ending train(Job& job, const std::function<void()>& harm) {
  Ending ending;
  ending.errors.resize(workers);
  job.on_step = [&](int rank, const observe::StepRecord& step) {
    if (rank == 1 && step.epoch == 1 && step.step == job.learners[1]->steps_per_epoch()) harm();
  };
  job.checkpoint = [&](int rank, std::uint32_t) { ++ending.checkpoints[rank]; };
  job.make();
  job.cluster.run_mortal([&](collective::Communicator comm) {
    return note_error(job.strategies[comm.rank()]->run(), comm.rank(), &ending);
  });
  return ending;
}

void expect_all_end(const Ending& ending, const std::string& what) {
  for (int rank = 0; rank < workers; ++rank) {
    const std::string& error = ending.errors[rank];
    EXPECT_NE(error.find("the ranks' " + what + " differ after 2 epochs: rank 1 holds "), std::string::npos) << error;
    EXPECT_NE(error.find(", ranks 0 and 2 hold "), std::string::npos) << error;
    EXPECT_NE(error.find("go on from an earlier checkpoint"), std::string::npos) << error;
    EXPECT_EQ(ending.checkpoints.at(rank), 1) << "only the first epoch's";
  }
  EXPECT_GE(ending.found, 1);
}

TEST(Replicas, ThatPartEndTheJobBeforeTheyAreSaved) {
  int tried = 0;
  for (const StrategyInfo& info : strategies()) {
    if (!info.agrees || info.has_servers || info.traits.alone) continue;  // a server's workers take all weights anew
    SCOPED_TRACE(info.name);
    Plan plan = sgd(3);
    plan.passes = info.traits.sums_passes ? 2 : 1;
    Job job(info.name, workers, plan, {.buffers = 2});
    expect_all_end(train(job, [&] { flip(job.learners[1]->parameters().as<double>()[3]); }), "parameters");
    ++tried;
  }
  EXPECT_GE(tried, 9);
}

TEST(Replicas, WhatWorkersHaveAgreedOnIsComparedTooWhereTheyDiffer) {
  for (const auto& [name, part] : {std::pair("local-sgd", "local.agreed"), std::pair("diloco", "local.agreed")}) {
    for (const std::uint32_t evaluate_every : {1u, 0u}) {
      SCOPED_TRACE(text(name, " evaluated every ", evaluate_every));
      Plan plan = sgd(3);
      plan.local.steps = 3;
      plan.evaluate_every = evaluate_every;
      Job job(name, workers, plan);
      FlipIn harm(part);
      expect_all_end(train(job, [&] { job.strategies[1]->visit(harm); }), "agreed weights");
      EXPECT_TRUE(harm.found);
    }
  }
}

TEST(Replicas, ThatAgreeGoOnAndTheirExchangesBytesAreAsBefore) {
  Job job("ring", workers, sgd(3));
  const Ending ending = train(job, [] {});
  for (int rank = 0; rank < workers; ++rank) {
    EXPECT_EQ(ending.errors[rank], "");
    const observe::Ledger& ledger = job.cluster.ledger(rank);
    const auto& info = find_strategy("ring");
    const auto sent = info.bytes_sent(info, job.plan, job.learners[rank]->layout(), job.workload(), rank);
    EXPECT_EQ(ledger.total(observe::Purpose::exchange).payload_sent, sent);
    EXPECT_EQ(ledger.total(observe::Purpose::control).payload_sent, 3 * (workers - 1) * sizeof(std::uint64_t));
  }
}

}  // namespace
}  // namespace ripieno::strategy
