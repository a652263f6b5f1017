// Gossip: after each of its own steps a worker averages its parameters with one partner, a different one every time. A
// change reaches all workers within O(log P) steps, and a step costs as much as with two workers, however many there
// are.
//
//   gossip-pairs        a random perfect matching of the workers, drawn anew for every step from the plan's seed; both
//                       send to each other. Of an odd number one worker idles, drawn too.
//   gossip-exponential  the one-peer exponential graph: in step t worker r sends to r + h and receives from r - h,
//                       mod P, with h = 2^(t mod ceil(log2 P)). If P is a power of two, log2 P such means in a row,
//                       without steps in between, give the mean of all.
//
// 1. All workers start from rank 0's parameters w.
// 2. Each takes its optimiser's step on its gradient times (its samples * P / samples of all workers in this step).
// 3. Each sends q, its w rounded to the wire format, and gets its partner's q':  w <- (w - q) + (q + q') / 2.
// 4. Go to 2, until the plan's epochs are done.
//
// strategy/mixing.h says why 2 weights and why 3 keeps w - q. The mean over the workers is the consensus, and 3
// preserves it. With pairs both partners end with the same bits, unless the wire format is narrower than the numbers in
// memory: then they differ by what rounding lost of each.
//
// Rounds: one a step. Bytes sent a step for n bytes on the wire: n by each worker; 0 by one that idles and by a worker
// alone.
// Commits: as strategy/mixing.h says.
// Sources: Boyd, Ghosh, Prabhakar, Shah, Randomized gossip algorithms, IEEE Trans. Information Theory 52 (6), 2006;
// Jin, Yuan, Iandola, Keutzer, How to scale distributed deep learning?, 2016 (gossiping SGD); Lian, Zhang, Zhang, Liu,
// Asynchronous decentralized parallel stochastic gradient descent, ICML 2018; Assran, Loizou, Ballas, Rabbat,
// Stochastic gradient push for distributed deep learning, ICML 2019, and Ying, Yuan, Chen, Hu, Pan, Yin, Exponential
// graph is provably efficient for decentralized deep training, NeurIPS 2021 (the one-peer exponential graph).
#pragma once

#include "ripieno/strategy/registry.h"

namespace ripieno::strategy {

/// The ranks that a worker sends to and receives from; its own rank if it idles.
struct Partners {
  int to = 0, from = 0;
  bool operator==(const Partners&) const = default;
};

/// gossip-pairs; every rank draws the same pairs.
Partners random_partners(int rank, int ranks, std::uint64_t seed, std::uint64_t step);

/// gossip-exponential; the seed has no effect.
Partners exponential_partners(int rank, int ranks, std::uint64_t seed, std::uint64_t step);

/// info.name is gossip-pairs or gossip-exponential. The plan's codec is a wire format: else Error(usage).
std::unique_ptr<Strategy> make_gossip(const StrategyInfo& info, const Plan& plan, Workplace workplace);

std::optional<std::uint64_t> gossip_bytes_sent(const StrategyInfo& info, const Plan& plan, const Layout& layout,
                                               const Workload& work, int rank);

}  // namespace ripieno::strategy
