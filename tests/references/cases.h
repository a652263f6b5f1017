// What is held against the references: strategies that are not exact, and codecs with error feedback, each with options
// of its own. Workers' batches are uneven in all of them.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "ripieno/testing/linear_learner.h"

namespace ripieno::testing {

/// A job before it is made.
struct Setup {
  strategy::Plan plan;
  testing::LinearOptions learner;
  std::vector<std::vector<std::int64_t>> shapes = {};  ///< of the model's tensors; none: one vector
  bool own_pace = false;                               ///< every pass takes another time
  int dies = -1;                                       ///< this worker, of those that take steps together,
  std::uint32_t dies_in = 0;                           ///< while it computes that step, counted from 0
};

struct Case {
  std::string_view name, strategy;
  int workers;
  std::uint32_t epochs;
  void (*options)(Setup& setup);
};

/// 24 numbers: with blocks of 8 and in buckets of 12.
inline void codec(Setup& setup, const char* name) {
  setup.plan.exchange.codec.name = name;
  setup.plan.exchange.codec.block = 8;
  setup.plan.exchange.codec.fraction = 0.25;
  setup.learner.features = 24;
  setup.learner.bucket_elements = 12;
}

/// As many blocks as workers, so that each chunk of the ring is one.
inline void hops(Setup& setup, const char* name) {
  codec(setup, name);
  setup.learner.features = 8 * setup.learner.sampler.shares.size();
  setup.learner.bucket_elements = setup.learner.features;
}

/// Five tensors in three fragments.
inline void fragments(Setup& setup) {
  setup.shapes = {{4}, {1}, {3}, {1}, {4}};
  setup.plan.local.steps = 6;
  setup.plan.local.fragments = 3;
}

constexpr std::array cases{
    Case{"fedavg", "fedavg", 4, 6,
         [](Setup& s) {
           s.plan.federated.fraction = 0.5;
           s.learner.sampler.sharing = "dirichlet";
         }},
    Case{"fedavg-deltas", "fedavg", 3, 7,
         [](Setup& s) {
           s.plan.federated.fraction = 0.6;
           s.plan.federated.deltas = true;
           s.plan.federated.local_epochs = 2;
         }},
    Case{"fedavg-topk", "fedavg", 4, 6,
         [](Setup& s) {
           codec(s, "topk");
           s.plan.federated.fraction = 0.75;
           s.plan.federated.deltas = true;
         }},
    Case{"fedavgm", "fedavgm", 4, 8, [](Setup& s) { s.plan.federated.fraction = 0.5; }},
    Case{"fedadam", "fedadam", 3, 8, [](Setup& s) { s.plan.federated.fraction = 0.6; }},
    Case{"local-sgd", "local-sgd", 3, 2, [](Setup& s) { s.plan.local.steps = 4; }},
    Case{"diloco", "diloco", 4, 3, [](Setup& s) { s.plan.local.steps = 5; }},
    Case{"diloco-delay", "diloco", 3, 3,
         [](Setup& s) {
           s.plan.local.steps = 4;
           s.plan.local.delay = 3;
         }},
    Case{"diloco-fragments", "diloco", 3, 3, [](Setup& s) { fragments(s); }},
    Case{"diloco-fragments-delay", "diloco", 4, 3,
         [](Setup& s) {
           fragments(s);
           s.plan.local.delay = 2;
         }},
    Case{"ring-passes-1", "ring-passes", 4, 2, [](Setup& s) { s.plan.passes = 1; }},
    Case{"ring-passes-2", "ring-passes", 4, 2, [](Setup& s) { s.plan.passes = 2; }},
    Case{"ring-passes-3", "ring-passes", 4, 2, [](Setup& s) { s.plan.passes = 3; }},
    Case{"ring-passes-4", "ring-passes", 4, 2, [](Setup& s) { s.plan.passes = 4; }},
    Case{"ring-passes-2-fp16", "ring-passes", 4, 2,
         [](Setup& s) {
           s.plan.passes = 2;
           s.plan.exchange.codec.name = "fp16";
         }},
    Case{"gossip-pairs", "gossip-pairs", 4, 2, [](Setup&) {}},
    Case{"gossip-pairs-odd", "gossip-pairs", 5, 2, [](Setup& s) { s.learner.sampler.sharing = "dirichlet"; }},
    Case{"gossip-pairs-fp16", "gossip-pairs", 4, 2, [](Setup& s) { s.plan.exchange.codec.name = "fp16"; }},
    Case{"gossip-exponential", "gossip-exponential", 4, 2, [](Setup&) {}},
    Case{"gossip-exponential-odd", "gossip-exponential", 5, 2, [](Setup&) {}},
    Case{"leader-ring-death", "leader-ring", 4, 2,
         [](Setup& s) {
           s.own_pace = true;
           s.dies = 3;  // the leader
           s.dies_in = 5;
         }},
    Case{"ps-sync", "ps-sync", 3, 2,
         [](Setup& s) {
           s.own_pace = true;
           s.plan.servers.count = 2;
         }},
    Case{"ps-async", "ps-async", 4, 2, [](Setup& s) { s.own_pace = true; }},
    Case{"ps-async-shards", "ps-async", 3, 2,
         [](Setup& s) {
           s.own_pace = true;
           s.plan.servers.count = 2;
         }},
    Case{"ps-ssp-0", "ps-ssp", 4, 2,
         [](Setup& s) {
           s.own_pace = true;
           s.plan.servers.staleness = 0;
         }},
    Case{"ps-ssp-1", "ps-ssp", 4, 2,
         [](Setup& s) {
           s.own_pace = true;
           s.plan.servers.staleness = 1;
         }},
    Case{"topk", "ring", 4, 2, [](Setup& s) { codec(s, "topk"); }},
    // Of so few numbers the sample is all.
    Case{"topk-sampled", "direct", 3, 2, [](Setup& s) { codec(s, "topk-sampled"); }},
    Case{"sign", "direct", 4, 2, [](Setup& s) { codec(s, "sign"); }},
    Case{"int8", "direct", 4, 2, [](Setup& s) { codec(s, "int8"); }},
    Case{"sign-hops", "ring", 3, 2, [](Setup& s) { hops(s, "sign"); }},
    Case{"int8-hops", "ring", 4, 2, [](Setup& s) { hops(s, "int8"); }},
    Case{"qsgd", "direct", 4, 2, [](Setup& s) { codec(s, "qsgd"); }},
    Case{"powersgd-1", "ring", 4, 2,
         [](Setup& s) {
           codec(s, "powersgd");
           s.plan.exchange.codec.rank = 1;
           s.shapes = {{4, 5}, {4}};
           s.learner.bucket_elements = 24;
         }},
    Case{"powersgd-2", "ring", 3, 2,
         [](Setup& s) {
           codec(s, "powersgd");
           s.plan.exchange.codec.rank = 2;
           s.shapes = {{6, 4}};
           s.learner.bucket_elements = 24;
         }},
    Case{"muon", "ring", 3, 2,
         [](Setup& s) {
           s.shapes = {{3, 5}, {4, 2}, {2, 2, 1}, {3}};
           s.learner.features = s.learner.bucket_elements = 30;
           optim::OptimiserOptions& o = s.plan.optimiser;
           o.name = "muon";
           o.nesterov = o.normalise = true;
           o.newton_schulz = 3;
           o.sgd_momentum = 0.7;
           o.vector_factor = 2;
           o.head_factor = 0.5;
           o.weight_decay = 0.1;
           o.tensors = {{0, 15, 3}, {15, 23, 4}, {23, 27, 2}, {27, 30, 0}};
         }},
    Case{"lookahead", "ring", 3, 2,
         [](Setup& s) {
           optim::OptimiserOptions& o = s.plan.optimiser;
           o.lookahead_every = 3;
           o.lookahead_decay = 0.6;
           o.lookahead_power = 2;
           o.total_steps = 14;
         }},
};

}  // namespace ripieno::testing
