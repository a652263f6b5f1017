#include "ripieno/testing/conformance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "ripieno/numeric/elementwise.h"
#include "ripieno/strategy/refusals.h"
#include "ripieno/testing/retaken.h"
#include "ripieno/testing/trial.h"

namespace ripieno::testing {
namespace {

using strategy::Plan;
using Weights = std::vector<double>;

struct Subject {
  const strategy::StrategyInfo& info;
  const ConformanceOptions& options;
};

struct DoesNotApply {
  std::string why;
};
struct Broken {
  std::string how;
};

template <class... Parts>
void expect(bool holds, const Parts&... parts) {
  if (!holds) throw Broken{text(parts...)};
}

Plan plan_of(const Subject& of, std::uint32_t epochs, std::string_view codec = "auto") {
  Plan plan = of.options.plan;
  plan.epochs = epochs;
  plan.first_epoch = 0;
  plan.max_steps = 0;
  plan.exchange.codec.name = codec;
  return plan;
}

/// Why so many workers may not have this plan; "" if they may.
std::string refusal_of(const Subject& of, const Plan& plan, int workers, bool loss_scale = false, bool saves = false) {
  try {
    strategy::refuse({of.info, plan, workers, loss_scale, false, saves});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return error.what();
  }
  return "";
}
bool allowed(const Subject& of, const Plan& plan, int workers) { return refusal_of(of, plan, workers).empty(); }

/// That many workers, or one if more are refused.
int workers_for(const Subject& of, const Plan& plan, int wanted, bool loss_scale = false, bool saves = false) {
  const std::string why = refusal_of(of, plan, wanted, loss_scale, saves);
  if (why.empty()) return wanted;
  if (!refusal_of(of, plan, 1, loss_scale, saves).empty()) throw DoesNotApply{why};
  return 1;
}

/// The learner's own parameters on a rank, not the consensus.
Weights own(Trial& trial, int rank) {
  const auto span = trial.learners[rank]->parameters().as<double>();
  return {span.begin(), span.end()};
}

// exact, noticed, uneven

void needs_exact(const Subject& of) {
  if (!of.info.exact) throw DoesNotApply{"it does not promise the steps of one worker"};
}

/// The distance of the trial's end from that of one worker with the P-fold batch, relative to how far that one moved.
double off(const Subject& of, Trial& trial) {
  constexpr double steps = 1000;  // several of them may share one exchange, if gradients accumulate
  const double exchanges = of.info.rounds ? of.info.rounds(trial.plan, steps) : steps;
  const auto fold = static_cast<std::uint32_t>(std::lround(steps / exchanges));
  const Weights one = train_alone(trial.plan, {}, 16 * fold);
  trial.run();
  return distance(trial.weights(), one) / distance(one, Weights(one.size()));
}

std::string exact(const Subject& of) {
  needs_exact(of);
  const Plan plan = plan_of(of, 3);
  std::string compared;
  double worst = 0;
  for (const int workers : of.options.workers) {
    if (!allowed(of, plan, workers)) continue;
    Trial trial(of.info, workers, plan);
    const double missed = off(of, trial);
    expect(missed <= 1e-12, workers, " workers are off by ", missed, " of the way");
    worst = std::max(worst, missed);
    compared += (compared.empty() ? "" : ", ") + std::to_string(workers);
  }
  expect(!compared.empty(), "every number of workers is refused");
  return text("P = ", compared, ": off by at most ", worst);
}

std::string noticed(const Subject& of) {
  needs_exact(of);
  const Plan plan = plan_of(of, 3);
  Trial trial(of.info, workers_for(of, plan, 4), plan);
  trial.options.back().leave_out = true;
  const double missed = off(of, trial);
  expect(missed > 1e-3, "without the gradient of worker ", trial.workers - 1, " the weights are off by no more than ",
         missed);
  return text("off by ", missed);
}

std::string uneven(const Subject& of) {
  needs_exact(of);
  const Plan plan = plan_of(of, 3);
  if (const std::string why = refusal_of(of, plan, 4); !why.empty()) throw DoesNotApply{why};
  LinearOptions learner;
  learner.sampler.shares = {4, 1, 2, 1};
  Trial trial(of.info, 4, plan, learner);
  const double missed = off(of, trial);
  expect(missed <= 1e-12, "workers with shares 4 : 1 : 2 : 1 are off by ", missed, " of the way");
  return text("shares 4 : 1 : 2 : 1: off by ", missed);
}

// agrees, repeats, learns

std::string agrees(const Subject& of) {
  if (!of.info.agrees) throw DoesNotApply{"it does not promise that"};
  int compared = 0;
  for (const codec::CodecInfo& codec : codec::codecs()) {
    const Plan plan = plan_of(of, 2, codec.name);
    const int workers = allowed(of, plan, 5) ? 5 : 1;
    if (!allowed(of, plan, workers)) continue;
    Trial trial(of.info, workers, plan);
    std::map<std::uint64_t, std::vector<std::uint64_t>> hashes;  // by step
    trial.on_step = [&](int rank, const auto& step) {
      if (rank >= trial.first_worker()) hashes[step.step].push_back(numeric::hash(trial.learners[rank]->parameters()));
    };
    trial.run();
    const std::size_t steps = 2 * trial.learners.back()->steps_per_epoch();
    expect(hashes.size() == steps, "codec ", codec.name, ": the recorders were told of ", hashes.size(), " of ", steps,
           " steps");
    for (const auto& [step, all] : hashes) {
      expect(all == std::vector<std::uint64_t>(workers, all[0]), "codec ", codec.name, ": after step ", step,
             " the workers hold different parameters");
    }
    ++compared;
  }
  expect(compared > 0, "every codec is refused");
  return text("after every step, with ", compared, " codecs");
}

std::string repeats(const Subject& of) {
  std::string compared;
  for (const std::string_view codec : {"auto", "qsgd"}) {  // qsgd draws at random
    const Plan plan = plan_of(of, 3, codec);
    const int workers = allowed(of, plan, 4) ? 4 : 1;
    if (!allowed(of, plan, workers)) continue;
    const LinearOptions learner{.buffers = 3, .sample_cost = Duration(1'000'000)};
    Trial first(of.info, workers, plan, learner), second(of.info, workers, plan, learner);
    first.run();
    second.run();
    expect(first.weights() == second.weights(), "codec ", codec, ": a second run ends with another consensus");
    for (int rank = 0; rank < first.cluster.size(); ++rank) {
      expect(own(first, rank) == own(second, rank), "codec ", codec,
             ": a second run ends with other parameters on rank ", rank);
    }
    expect(first.took == second.took, "codec ", codec, ": a second run takes another time");
    compared += (compared.empty() ? "codec " : ", ") + std::string(codec);
  }
  expect(!compared.empty(), "every codec is refused");
  return compared;
}

std::string learns(const Subject& of) {
  Plan plan = plan_of(of, of.options.epochs);
  plan.optimiser.momentum = 0;
  plan.optimiser.nesterov = false;
  plan.evaluate_every = 0;  // only the last epoch is evaluated
  Trial trial(of.info, workers_for(of, plan, 4), plan, {.buffers = 3});
  trial.run();
  expect(!trial.recorders[0]->epochs().empty(), "rank 0 recorded no epoch");
  const double accuracy = trial.recorders[0]->epochs().back().accuracy;
  expect(accuracy >= of.options.accuracy, "accuracy ", accuracy, " after ", plan.epochs, " epochs, less than ",
         of.options.accuracy);
  return text("accuracy ", accuracy);
}

// bytes

std::string bytes(const Subject& of) {
  int forms = 0, balances = 0;
  for (const codec::CodecInfo& codec : codec::codecs()) {
    Plan plan = plan_of(of, 2, codec.name);
    plan.optimiser.momentum = 0;
    for (int workers = 1; workers <= of.options.max_workers; ++workers) {
      if (!allowed(of, plan, workers)) continue;
      Trial trial(of.info, workers, plan, {.samples = 144, .buffers = 3}, 36);
      trial.per_node = of.options.per_node;
      trial.run();
      std::uint64_t sent = 0, received = 0;
      for (int rank = 0; rank < trial.cluster.size(); ++rank) {
        const observe::Traffic& counted = trial.cluster.ledger(rank).total(observe::Purpose::exchange);
        sent += counted.payload_sent;
        received += counted.payload_received;
        if (!of.info.bytes_sent) continue;
        const auto form = of.info.bytes_sent(of.info, plan, trial.learners[rank]->layout(), trial.workload(), rank);
        if (!form) continue;
        expect(counted.payload_sent == *form, "codec ", codec.name, ", ", workers, " workers: rank ", rank, " sent ",
               counted.payload_sent, " bytes, the closed form is ", *form);
        ++forms;
      }
      expect(sent == received, "codec ", codec.name, ", ", workers, " workers: ", sent, " bytes were sent, ", received,
             " received");
      ++balances;
    }
  }
  expect(balances > 0, "every codec is refused");
  return text(forms, " ledgers are the closed form's, of ", balances, " jobs, whose bytes all arrived");
}

// overflow, start, mismatch

std::string overflow(const Subject& of) {
  Plan plan = plan_of(of, 12);
  plan.optimiser.momentum = 0;
  const int workers = workers_for(of, plan, 3, true);
  Trial trial(of.info, workers, plan, {.loss_scale = true});
  trial.run();
  const optim::LossScale fresh;
  for (int rank = trial.first_worker(); rank < trial.cluster.size(); ++rank) {
    const double scale = trial.learners[rank]->loss_scale()->value();
    const double first = trial.learners[trial.first_worker()]->loss_scale()->value();
    expect(scale < fresh.value(), "the loss scale of rank ", rank, " was not told of an overflow: it is still ", scale);
    expect(!of.info.agrees || scale == first, "loss scales differ: ", first, " and, on rank ", rank, ", ", scale);
  }
  const Weights weights = trial.weights(), truth = trial.learners[0]->truth();
  expect(std::all_of(weights.begin(), weights.end(), [](double w) { return std::isfinite(w); }),
         "weights are not finite");
  const double left = distance(weights, truth) / distance(Weights(truth.size()), truth);
  expect(left < 0.8, "after ", plan.epochs, " epochs ", left, " of the way to the true weights is left");
  return text("finite, ", left, " of the way is left");
}

std::string start(const Subject& of) {
  const Plan plan = plan_of(of, 2);
  const int workers = workers_for(of, plan, 3);
  Trial alike(of.info, workers, plan), apart(of.info, workers, plan);
  for (int rank = 1; rank < apart.cluster.size(); ++rank) apart.options[rank].first_weight = rank;
  alike.run();
  apart.run();
  expect(alike.weights() == apart.weights(), "the consensus depends on what other ranks' weights were before");
  for (int rank = alike.first_worker(); rank < alike.cluster.size(); ++rank) {
    expect(own(alike, rank) == own(apart, rank), "rank ", rank, " ends elsewhere if its weights were others before");
  }
  return text(workers, " workers");
}

Task<> run_and_catch(strategy::Strategy* strategy, std::optional<Error>* caught) {
  try {
    co_await strategy->run();
  } catch (const Error& error) {
    caught->emplace(error);
  }
}

std::string mismatch(const Subject& of) {
  const Plan plan = plan_of(of, 1);
  if (const std::string why = refusal_of(of, plan, 3); !why.empty()) throw DoesNotApply{why};
  Trial trial(of.info, 3, plan);
  trial.options[1].features += 1;
  trial.make();
  std::vector<std::optional<Error>> caught(trial.cluster.size());
  try {
    trial.cluster.run(
        [&](auto comm) { return run_and_catch(trial.strategies[comm.rank()].get(), &caught[comm.rank()]); });
  } catch (const Error& error) {
    expect(false, "rank 1 has one parameter more, and not all ranks end: ", error.what());
  }
  std::string named, others;
  for (std::size_t rank = 0; rank < caught.size(); ++rank) {
    expect(caught[rank].has_value(), "rank 1 has one parameter more, and rank ", rank, " has no error");
    if (named.empty() && caught[rank]->kind() == ErrorKind::mismatch) named = caught[rank]->what();
    others += (others.empty() ? "" : "; ") + std::string(caught[rank]->what());
  }
  expect(!named.empty(), "rank 1 has one parameter more, and no rank has an Error(mismatch): ", others);
  return named;
}

// resume

std::string resume(const Subject& of) {
  constexpr std::uint32_t epochs = 4, done = 2;
  std::string compared;
  for (const std::string_view codec : {"auto", "int8", "topk"}) {  // the latter two keep residuals
    Plan plan = plan_of(of, epochs, codec);
    if (codec != "auto" && !refusal_of(of, plan, 3, false, true).empty()) continue;
    const int workers = workers_for(of, plan, 3, false, true);
    Trial whole(of.info, workers, plan, {.buffers = 3});
    std::vector<SavedState> saved(whole.cluster.size());
    int ranks = 0;
    whole.checkpoint = [&](int rank, std::uint32_t epoch) {
      if (epoch + 1 != done) return;
      whole.walk(rank, saved[rank], false);
      ++ranks;
    };
    whole.run();
    if (ranks == 0) throw DoesNotApply{"it saves nothing on the way"};
    expect(ranks == whole.cluster.size(), "only ", ranks, " of ", whole.cluster.size(), " ranks saved epoch ", done);

    plan.first_epoch = done;
    Trial rest(of.info, workers, plan, {.buffers = 3});
    rest.make();
    for (int rank = 0; rank < rest.cluster.size(); ++rank) rest.walk(rank, saved[rank], true);
    rest.run();
    expect(rest.weights() == whole.weights(), "codec ", codec, ": the consensus is another than without the stop");
    for (int rank = rest.first_worker(); rank < rest.cluster.size(); ++rank) {
      expect(own(rest, rank) == own(whole, rank), "codec ", codec, ": rank ", rank,
             " has other parameters than without the stop");
    }
    compared += (compared.empty() ? "codec " : ", ") + std::string(codec);
  }
  return compared;
}

// retake

std::string retake(const Subject& of) {
  std::string compared;
  for (const codec::CodecInfo& codec : codec::codecs()) {
    const Plan plan = plan_of(of, 3, codec.name);
    if (!strategy::can_retake(of.info, plan)) throw DoesNotApply{"it does not keep the commit contract"};
    const int workers = allowed(of, plan, 3) ? 3 : 1;
    if (!allowed(of, plan, workers)) continue;
    const std::string difference = difference_when_retaken(of.info, plan, workers, of.options.retakes);
    expect(difference.empty(), "codec ", codec.name, ": ", difference);
    compared += (compared.empty() ? "codecs " : ", ") + std::string(codec.name);
  }
  expect(!compared.empty(), "every codec is refused");
  return text(compared, ": ", of.options.retakes, " runs each");
}

struct Check {
  std::string_view name, what;
  std::string (*run)(const Subject&);
};

constexpr std::array checks{
    Check{"exact", "P workers take the steps of one with the P-fold batch", exact},
    Check{"noticed", "leaving a worker's gradient out is noticed", noticed},
    Check{"uneven", "workers count by their samples", uneven},
    Check{"agrees", "all workers hold the same bits", agrees},
    Check{"repeats", "a second run gives the same bits", repeats},
    Check{"learns", "the consensus learns", learns},
    Check{"bytes", "ledgers count what the closed form says", bytes},
    Check{"overflow", "an overflow under a loss scale is not stepped on", overflow},
    Check{"start", "all ranks start from rank 0's weights", start},
    Check{"mismatch", "a rank with another model is an Error(mismatch)", mismatch},
    Check{"resume", "stopping and going on gives the bits of not stopping", resume},
    Check{"retake", "attempts that are broken off and taken again give the bits of a run without", retake},
};

}  // namespace

Plan conformance_plan() {
  Plan plan;
  plan.epochs = 3;
  plan.optimiser.momentum = 0.9;
  plan.learning_rate.base = 0.05;
  plan.exchange.codec.block = 8;
  plan.exchange.codec.fraction = 0.3;
  plan.federated.deltas = true;
  return plan;
}

std::vector<Finding> check_conformance(const strategy::StrategyInfo& info, const ConformanceOptions& options) {
  const Subject subject{info, options};
  std::vector<Finding> findings;
  for (const Check& check : checks) {
    Finding finding{check.name, check.what};
    try {
      finding.detail = check.run(subject);
    } catch (const DoesNotApply& reason) {
      finding.applies = false;
      finding.detail = reason.why;
    } catch (const Broken& broken) {
      finding.passed = false;
      finding.detail = broken.how;
    } catch (const std::exception& error) {
      finding.passed = false;
      finding.detail = error.what();
    }
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace ripieno::testing
