// The conformance kit: checks that a strategy keeps the promises of its registry line. The strategy need not be
// registered, so the kit works for your own strategy as for the built-in ones. It runs in virtual time on a linear
// learner in fp64 (trial.h), within seconds.
//
//   const StrategyInfo mine{"mine", ...};
//   const std::vector<Finding> findings = check_conformance(mine);
//   std::fputs(report(findings).c_str(), stdout);
//   return conforms(findings) ? 0 : 1;
//
// The checks, and what each proves:
// 1. exact     (where info.exact) P workers end with the weights of one worker whose batches are P times as large, to
//              1e-12 of the distance that the weights moved, also for batches that do not divide evenly. Nothing is
//              lost, doubled or misweighted.
// 2. noticed   (where info.exact) check 1 can fail: if one worker's gradient is dropped, the weights are off by more
//    than 1e-3.
// 3. uneven    (where info.exact) workers with shares 4 : 1 : 2 : 1 of each batch are weighted by samples, not equally.
// 4. agrees    (where info.agrees) after every step all workers hold the same bits, with every codec that is not
//    refused.
// 5. repeats   a second run gives the same bits on every worker in the same virtual time, also with random rounding:
//              only the plan's seed decides.
// 6. learns    from distant first weights, the consensus gets `accuracy` of the samples right in `epochs` epochs
//              (without momentum, which does not suit stale gradients and outer optimisers).
// 7. bytes     each rank's ledger counts the bytes of the closed form info.bytes_sent, for 1 .. max_workers workers and
//              every codec that is not refused; without a closed form, all sent bytes were received.
// 8. overflow  gradients that overflow under a loss scale are not stepped on: weights stay finite and improve, and
//              scales fall, alike on all workers if they agree.
// 9. start     all ranks start from rank 0's weights: the other ranks' first weights change no bit of the result.
// 10. mismatch if one rank has another model, a rank fails with Error(mismatch), and no rank hangs without an error
//     that says why.
// 11. resume   (where the strategy calls Workplace::checkpoint) stopping after an epoch, saving what visit() shows and
//              going on in new objects gives the same bits as not stopping.
// 12. retake   (where can_retake()) with aborts at random times, which reach each rank at a different point, before or
//              after its commit, all ranks end with the same bits as without aborts: weights, optimiser, residuals.
// A check that fails with an exception reports its message; a hang is an exception too ("virtual time stands still
// ...").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/strategy/registry.h"

namespace ripieno::testing {

/// Three epochs of SGD with momentum, at a rate that suits the linear learner, with codec options for so few numbers.
strategy::Plan conformance_plan();

struct ConformanceOptions {
  strategy::Plan plan = conformance_plan();    ///< each check sets its own epochs and codec name
  std::vector<int> workers = {1, 2, 3, 4, 7};  ///< of check 1; refused ones are left out
  int max_workers = 9;                         ///< of check 7
  int per_node = 1;                            ///< of check 7: ranks that share a node
  std::uint32_t epochs = 90;                   ///< of check 6, each of 7 steps
  double accuracy = 0.95;                      ///< of check 6, 0 .. 1
  int retakes = 20;                            ///< of check 12: runs with each codec
};

struct Finding {
  std::string_view check;  ///< "exact", ...
  std::string_view what;   ///< what it shows, in a line
  bool applies = true;     ///< false: the strategy does not promise this, or is refused
  bool passed = true;      ///< true if it does not apply
  std::string detail;      ///< what was compared, what went wrong, or why it does not apply
};

/// All twelve findings, in the order above. A strategy's errors become findings, not exceptions.
std::vector<Finding> check_conformance(const strategy::StrategyInfo& info, const ConformanceOptions& options = {});

bool conforms(std::span<const Finding> findings);

/// A line for each finding: "ok", "FAILED" or "-", the check, what it shows, the detail.
std::string report(std::span<const Finding> findings);

}  // namespace ripieno::testing
