// The conformance kit: whether a strategy keeps what its registry line promises. It needs no entry in the registry, so
// it serves your own strategy as well as Ripieno's; it runs in virtual time on a linear learner in fp64 (trial.h), in
// seconds.
//
//   const StrategyInfo mine{"mine", ...};
//   const std::vector<Finding> findings = check_conformance(mine);
//   std::fputs(report(findings).c_str(), stdout);
//   return conforms(findings) ? 0 : 1;
//
// The checks, and what each proves:
// 1. exact     (where info.exact) P workers end with the weights of one worker whose batches are P times as large, to
//              1e-12 of the way that these went; of batches that do not divide evenly too. Nothing is lost, doubled or
//              misweighted.
// 2. noticed   (where info.exact) check 1 can fail: with one worker's gradient dropped the weights are off by more than
//    1e-3.
// 3. uneven    (where info.exact) workers with shares 4 : 1 : 2 : 1 of each batch count by their samples, not by their
//    heads.
// 4. agrees    (where info.agrees) after every step all workers hold the same bits, with every codec that is not
//    refused.
// 5. repeats   a second run gives the same bits on every worker in the same virtual time, with random rounding as well:
//              nothing but the plan's seed decides.
// 6. learns    from far off, the consensus gets `accuracy` of the samples right in `epochs` epochs (without momentum,
//              which stale gradients and outer optimisers do not go with).
// 7. bytes     what each rank's ledger counted is the closed form of info.bytes_sent, for 1 .. max_workers workers and
//              every codec that is not refused; where that gives none, all that was sent was received.
// 8. overflow  gradients that overflow under a loss scale are not stepped on: weights stay finite and get better,
//              scales fall, alike on all workers where they agree.
// 9. start     all ranks start from rank 0's weights: what the others' were before changes no bit of the result.
// 10. mismatch where one rank has another model, a rank fails with Error(mismatch); nobody hangs for that without a
//     cause.
// 11. resume   (where the strategy calls Workplace::checkpoint) stopping after an epoch, with what visit() shows saved,
//              and going on in new objects gives the bits of not stopping.
// 12. retake   (where can_retake()) with aborts at random times, each of which reaches every rank at a point of its
//              own, before or after it committed, all ranks end with the bits of a run without them: weights,
//              optimiser, residuals.
// A check that fails with an exception has its message; a hang is one ("virtual time stands still ...").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/strategy/registry.h"

namespace ripieno::testing {

/// Three epochs of SGD with momentum, at a rate that the linear learner learns with, and codecs for so few numbers.
strategy::Plan conformance_plan();

struct ConformanceOptions {
  strategy::Plan plan = conformance_plan();    ///< its epochs and codec's name are each check's own
  std::vector<int> workers = {1, 2, 3, 4, 7};  ///< of check 1; refused ones are left out
  int max_workers = 9;                         ///< of check 7
  int per_node = 1;                            ///< of check 7: ranks that share a node
  std::uint32_t epochs = 90;                   ///< of check 6, each of 7 steps
  double accuracy = 0.95;                      ///< of check 6, 0 .. 1
  int retakes = 20;                            ///< of check 12: runs with each codec
};

struct Finding {
  std::string_view check;  ///< "exact", ...
  std::string_view what;   ///< what it would show, in a line
  bool applies = true;     ///< false: the strategy does not promise that, or it is refused
  bool passed = true;      ///< true where it does not apply
  std::string detail;      ///< what was compared, what went wrong, or why it does not apply
};

/// All twelve findings, in the order above. Throws nothing that a strategy does wrong.
std::vector<Finding> check_conformance(const strategy::StrategyInfo& info, const ConformanceOptions& options = {});

bool conforms(std::span<const Finding> findings);

/// A line a finding: "ok", "FAILED" or "-", the check, what it shows, the detail.
std::string report(std::span<const Finding> findings);

}  // namespace ripieno::testing
