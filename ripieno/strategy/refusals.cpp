#include "ripieno/strategy/refusals.h"

#include <array>

#include "ripieno/codec/wire.h"

namespace ripieno::strategy {
namespace {

codec::CodecKind kind(const Choice& choice) { return codec::find_codec(choice.plan.exchange.codec.name).kind; }
const Traits& traits(const Choice& choice) { return choice.info.traits; }

/// Whether the strategy exchanges through an Averager.
bool averages(const Choice& choice) {
  const Traits& is = traits(choice);
  return !is.mixes && !is.has_cloud && !is.alone && !choice.info.has_servers;
}

/// The fp32 numbers of a learner.
bool sends_as_they_are(const Choice& choice) {
  const std::string& name = choice.plan.exchange.codec.name;
  return kind(choice) == codec::CodecKind::wire && codec::find_wire_format(name).type(DType::fp32) == DType::fp32;
}

constexpr std::array all_refusals{
    Refusal{"strategy single, workers > 1", "it is one worker alone", "take ring, or workers = 1",
            [](const Choice& c) { return traits(c).alone && c.workers > 1; }},
    Refusal{"exchange.route with a strategy that has its own", "which route it takes is what it is named for",
            "take ddp, accumulate, local-sgd or diloco, or leave it at auto",
            [](const Choice& c) {
              return c.plan.exchange.route != "auto" && c.plan.exchange.route != c.info.route_of(c.plan);
            }},
    Refusal{
        "a codec that is gathered, such as topk, on a route other than ring or direct",
        "its numbers differ from rank to rank, so sums on the way have no room in the same bytes: it must be gathered, "
        "which only ring and direct can do",
        "take the route ring or direct, or codec int8, qsgd or sign",
        [](const Choice& c) {
          return averages(c) && kind(c) == codec::CodecKind::gathered &&
                 !collective::averages_over(c.plan.exchange.codec.name, c.info.route_of(c.plan));
        }},
    Refusal{"exchange.route = native with a codec that changes numbers",
            "MPI's own operation takes them as they are in memory",
            "leave exchange.codec at auto, or take another route",
            [](const Choice& c) { return c.plan.exchange.is_native() && !sends_as_they_are(c); }},
    Refusal{"exchange.segment_kb with exchange.route = native", "MPI cuts what it sends by itself", "leave it at 0",
            [](const Choice& c) { return c.plan.exchange.segment_bytes > 0 && c.plan.exchange.is_native(); }},
    Refusal{"codec powersgd with a parameter server or a federated strategy",
            "its factors are averaged among all workers, and cannot be sent to one",
            "take topk, or a strategy that averages, such as ddp",
            [](const Choice& c) {
              return kind(c) == codec::CodecKind::low_rank && (c.info.has_servers || traits(c).has_cloud);
            }},
    Refusal{
        "a codec that is no floating-point type with gossip, ring-passes or ring-groups",
        "they exchange the parameters themselves, and what a codec loses of these in every step is never made up for",
        "take fp16 or bf16", [](const Choice& c) { return traits(c).mixes && kind(c) != codec::CodecKind::wire; }},
    Refusal{"a codec that keeps little of a number, such as sign or topk, with fedavg, fedavgm or fedadam that "
            "exchange parameters",
            "it drops most of what makes up a number or most numbers: only differences survive that",
            "set fedavg.exchange = deltas",
            [](const Choice& c) {
              return traits(c).has_cloud && !c.plan.federated.deltas &&
                     codec::find_codec(c.plan.exchange.codec.name).for_differences;
            }},
    Refusal{"exchange.segment_kb with a codec that is no floating-point type", "only these are cut into segments",
            "leave it at 0, or take fp32, fp16 or bf16",
            [](const Choice& c) { return c.plan.exchange.segment_bytes > 0 && kind(c) != codec::CodecKind::wire; }},
    Refusal{"exchange.overlap = forward with a strategy other than ddp", "only ddp steps on each bucket by itself",
            "take strategy ddp", [](const Choice& c) { return c.plan.exchange.forward && !traits(c).by_buckets; }},
    Refusal{"exchange.overlap = forward with train.precision = fp16",
            "whether a step overflowed, and is not taken, is known when its last bucket is averaged: too late for the "
            "first",
            "take bf16, or exchange.overlap = backward",
            [](const Choice& c) { return c.plan.exchange.forward && c.loss_scale; }},
    Refusal{"optimiser muon, learning_rate.vector_factor or head_factor, or train.first_layer_epochs with a parameter "
            "server",
            "a server has parts of the model whose tensors it does not know",
            "take a strategy that averages, such as ddp",
            [](const Choice& c) {
              const optim::OptimiserOptions& o = c.plan.optimiser;
              return c.info.has_servers &&
                     (o.name == "muon" || o.vector_factor != 1 || o.head_factor != 1 || o.first_layer_steps > 0);
            }},
    Refusal{"optimiser.lookahead_every with workers whose weights others replace or mix between their steps",
            "it would pull a worker back to a mean of its own weights from before",
            "leave it at 0, or take a strategy that averages gradients, such as ddp",
            [](const Choice& c) {
              const Traits& is = traits(c);
              return c.plan.optimiser.lookahead_every > 0 && (is.mixes || is.has_cloud || is.local_steps);
            }},
    Refusal{"optimiser.lookahead_every with train.precision = fp16",
            "its last mean is of the last step, which is not known where steps that overflow are not taken",
            "take bf16, or leave it at 0",
            [](const Choice& c) { return c.plan.optimiser.lookahead_every > 0 && c.loss_scale; }},
    Refusal{"ps.placement = beside, ps.servers > workers", "every shard lives beside a worker of its own",
            "lower ps.servers, or set ps.placement = own",
            [](const Choice& c) {
              return c.info.has_servers && c.plan.servers.beside && c.plan.servers.count > c.workers;
            }},
    Refusal{"run.checkpoint_every with ps-async or ps-ssp",
            "its workers are never at the same step, so it is saved at its end only", "leave run.checkpoint_every at 0",
            [](const Choice& c) { return c.saves_on_the_way && traits(c).own_pace; }},
    Refusal{"passes > workers with ring-passes", "a worker has no more predecessors than there are workers",
            "lower passes: workers - 1 averages all, workers does so by way of a leader",
            [](const Choice& c) { return traits(c).predecessors && c.plan.passes > c.workers; }},
    Refusal{"passes >= workers with ring-groups", "a group has no more other workers than there are",
            "lower passes: workers - 1 is one group of all",
            [](const Choice& c) { return traits(c).in_groups && c.plan.passes > std::max(1, c.workers - 1); }},
    Refusal{"local.fragments > local.steps", "each fragment needs a step of its own to be exchanged after",
            "lower local.fragments or raise local.steps",
            [](const Choice& c) { return c.plan.local.fragments > c.plan.local.steps; }},
    Refusal{"local.delay > local.steps / local.fragments", "a fragment's exchange would meet the next one's",
            "lower local.delay",
            [](const Choice& c) {
              return std::uint64_t{c.plan.local.delay} * c.plan.local.fragments > c.plan.local.steps;
            }},
    Refusal{"data.partition = labels or dirichlet with a strategy that divides every batch among the workers",
            "its workers have no data of their own",
            "take data.partition = even, or a strategy whose workers have shards",
            [](const Choice& c) { return c.uneven_data && c.info.data == DataUse::global_batches; }},
    Refusal{"simulated.deaths_s with a strategy other than leader-ring",
            "only leader-ring goes on without a worker that died",
            "take leader-ring, or leave simulated.deaths_s empty",
            [](const Choice& c) { return c.deaths && !traits(c).survives; }},
};

}  // namespace

std::span<const Refusal> refusals() { return all_refusals; }

void refuse(const Choice& choice) {
  for (const Refusal& refusal : all_refusals) {
    if (!refusal.applies(choice)) continue;
    fail(ErrorKind::usage, "strategy ", choice.info.name, " (", choice.workers,
         choice.workers == 1 ? " worker" : " workers", ", route ", choice.info.route_of(choice.plan), ", codec ",
         choice.plan.exchange.codec.name, ") cannot be: ", refusal.what, ": ", refusal.reason, "; ", refusal.instead);
  }
}

}  // namespace ripieno::strategy
