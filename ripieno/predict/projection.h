// Projects the time and bytes of a strategy with a codec and route: runs the strategy's own code in virtual time, on a
// learner that charges a pass's measured times.
//
// 1. Shrink the model to some ten thousand numbers, and slow the links down by the same factor (shrink.h): the ratio of
//    the two closed forms of bytes, if there is one.
// 2. Run an epoch of few steps, and another that is longer by whole periods (what repeats: local steps and their
//    exchange, passes and theirs, a round of hops). An epoch with fewer steps than that runs as it is.
// 3. Extrapolate time, exposed exchange and bytes of an epoch linearly from the two; use the closed form of bytes if
//    there is one. Local steps go on from one epoch to the next: of them, the mean of the job's epochs.
//
// Modelled: passes and their variation (an exchange of all waits for the slowest), optimisers' steps, encoding and
// decoding, and the links: rate, delay, and queues at senders and receivers. Each rank has its own link (and, if nodes
// have several ranks, one inside its node), which messages to several ranks share. Not modelled: evaluation, work at
// the end of an epoch other than the exchange of buffers, other traffic, lost packets, TCP's slow start, and the CPU
// time that sending and receiving take from compute.
#pragma once

#include "ripieno/strategy/compute_profile.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/transport/link_model.h"

namespace ripieno::predict {

struct ProjectedJob {
  const strategy::StrategyInfo* info = nullptr;
  strategy::Plan plan;  ///< its codec with number_s, if known
  int workers = 1, per_node = 1;
  strategy::Layout layout;
  strategy::ComputeProfile profile;  ///< `ready` for each of the layout's buckets
  double spread = 0;  ///< of passes: a pass takes (1 - spread + spread x) times the profile, x exponential with mean 1
  Duration optimise{0};                ///< a step on the whole model
  std::vector<std::uint32_t> steps;    ///< of each worker in an epoch
  std::vector<std::uint32_t> images;   ///< of each worker's pass
  std::vector<std::uint32_t> samples;  ///< of each worker in an epoch
  std::vector<double> slow;            ///< of each rank: factor of a pass's time; missing: 1
  transport::LinkModel link;           ///< of every rank, each way
  int link_per_node = 1;               ///< ranks of a node, which reach each other over a second link:
  transport::LinkModel node_link;      ///< the second link (transport/simulated/network.h)
  std::size_t framing_bytes = 0, window_bytes = 256 << 10, burst_bytes = 0;  ///< transport/simulated/network.h
  bool loss_scale = false;
};

struct Projection {
  double epoch_s = 0;          ///< of the slowest worker, without evaluation
  double step_s = 0;           ///< epoch_s over its steps
  double exchange_s = 0;       ///< the part of the epoch in which compute waited for the exchange
  double bytes = 0;            ///< payload that the busiest rank sends for the exchange in an epoch
  std::uint64_t messages = 0;  ///< simulated for this projection
};

/// Whether times or bytes of a job may depend on the exchanged numbers: of built-in strategies only with codecs whose
/// bytes do. `type`: of the numbers in memory.
bool looks_at_numbers(const strategy::StrategyInfo& info, const codec::CodecOptions& codec, DType type);

/// Throws Error(usage) if the strategy is refused.
Projection project(const ProjectedJob& job);

}  // namespace ripieno::predict
