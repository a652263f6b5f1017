// What a way to agree would take: the strategy's own code, in virtual time, on a learner that charges what a pass was
// measured to take.
//
// 1. The model is shrunk to some ten thousand numbers and the links are slowed down alike (shrink.h): by the ratio of
//    the two closed forms of bytes, where there is one.
// 2. An epoch of few steps runs, and another that is longer by whole periods (what repeats itself: local steps and
//    their exchange, passes and theirs, a round of hops). An epoch of fewer steps than that runs as it is.
// 3. Time, exposed exchange and bytes of an epoch are on the straight line through the two; bytes are the closed form's
//    where it has one.
//
// Modelled: passes and how they vary (who waits for all waits for the slowest), optimisers' steps, encoding and
// decoding, and the links: their rate, their delay, and the queues at senders and receivers, each rank with a link of
// its own (and one inside its node, where nodes have some), which messages to several ranks share. Not: evaluation,
// what else happens at an epoch's end besides the exchange of buffers, other traffic, lost packets and the time that
// TCP needs to speed up, and the CPU that sending and receiving take from compute.
#pragma once

#include "ripieno/strategy/compute_profile.h"
#include "ripieno/strategy/registry.h"
#include "ripieno/transport/link_model.h"

namespace ripieno::predict {

struct ProjectedJob {
  const strategy::StrategyInfo* info = nullptr;
  strategy::Plan plan;  ///< its codec with number_s, where that is known
  int workers = 1, per_node = 1;
  strategy::Layout layout;
  strategy::ComputeProfile profile;  ///< `ready` for each of the layout's buckets
  double spread = 0;     ///< of passes: one takes 1 - spread + spread x times the profile, x exponential with mean 1
  Duration optimise{0};  ///< a step on the whole model
  std::vector<std::uint32_t> steps;    ///< of each worker in an epoch
  std::vector<std::uint32_t> images;   ///< of each worker's pass
  std::vector<std::uint32_t> samples;  ///< of each worker in an epoch
  std::vector<double> slow;            ///< of each rank: times that a pass takes; missing: 1
  transport::LinkModel link;           ///< of every rank, each way
  int link_per_node = 1;               ///< ranks of a node, which reach each other over a second link of each of them:
  transport::LinkModel node_link;      ///< that one (transport/simulated/network.h)
  std::size_t framing_bytes = 0, window_bytes = 256 << 10, burst_bytes = 0;  ///< transport/simulated/network.h
  bool loss_scale = false;
};

struct Projection {
  double epoch_s = 0;          ///< of the slowest worker, without evaluation
  double step_s = 0;           ///< epoch_s over its steps
  double exchange_s = 0;       ///< of the epoch: compute waited for the exchange
  double bytes = 0;            ///< of payload that the busiest rank sends for the exchange in an epoch
  std::uint64_t messages = 0;  ///< that were simulated for it
};

/// Throws Error(usage) where the strategy is refused.
Projection project(const ProjectedJob& job);

}  // namespace ripieno::predict
