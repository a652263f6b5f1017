#include "ripieno/loop/agree_options.h"

#include <array>
#include <limits>

#include "ripieno/strategy/refusals.h"

namespace ripieno::loop {
namespace {

using strategy::StrategyInfo;

constexpr std::uint32_t without_end = std::numeric_limits<std::int32_t>::max();

/// An option that only some strategies, or codecs, use.
struct OptionUse {
  const char* name;
  bool (*is_given)(const AgreeOptions& given, const AgreeOptions& usual);
  bool (*is_used)(const StrategyInfo& info, const AgreeOptions& given);
};

#define RIPIENO_GIVEN(option) [](const AgreeOptions& a, const AgreeOptions& b) { return a.option != b.option; }

bool is_local(const StrategyInfo& info, const AgreeOptions&) { return info.traits.local_steps; }
bool has_cloud(const StrategyInfo& info, const AgreeOptions&) { return info.traits.has_cloud; }
bool has_open_route(const StrategyInfo& info, const AgreeOptions&) { return info.route == "any"; }
bool has_outer(const StrategyInfo& info, const AgreeOptions&) {
  return info.traits.local_steps || info.traits.has_cloud;
}
bool has_buckets(const StrategyInfo& info, const AgreeOptions&) {
  return !info.traits.has_cloud && !info.traits.local_steps && !info.traits.mixes && !info.has_servers;
}

bool steps_alone(const StrategyInfo& info, const AgreeOptions&) {
  return info.traits.local_steps || info.traits.has_cloud || info.traits.mixes;
}

bool has_route(const StrategyInfo& info, const AgreeOptions& given) {
  const bool is_leader_ring = info.traits.predecessors && given.passes > 1;  // with as many passes as ranks
  return (!info.traits.has_cloud && !info.traits.mixes && !info.has_servers) || is_leader_ring;
}

template <codec::CodecKind... Kinds>
bool has_codec(const StrategyInfo&, const AgreeOptions& given) {
  const codec::CodecKind kind = codec::find_codec(given.codec.name).kind;
  return ((kind == Kinds) || ...);
}

constexpr std::array uses{
    OptionUse{"steps", RIPIENO_GIVEN(steps), is_local},
    OptionUse{"fragments", RIPIENO_GIVEN(fragments), is_local},
    OptionUse{"delay", RIPIENO_GIVEN(delay), is_local},
    OptionUse{"passes", RIPIENO_GIVEN(passes),
              [](const StrategyInfo& i, const AgreeOptions&) {
                return i.traits.sums_passes || i.traits.predecessors || i.traits.in_groups;
              }},
    OptionUse{"servers", RIPIENO_GIVEN(servers),
              [](const StrategyInfo& i, const AgreeOptions&) { return i.has_servers; }},
    OptionUse{"staleness", RIPIENO_GIVEN(staleness),
              [](const StrategyInfo& i, const AgreeOptions&) { return i.name == "ps-ssp"; }},
    OptionUse{"local_epochs", RIPIENO_GIVEN(local_epochs), has_cloud},
    OptionUse{"deltas", RIPIENO_GIVEN(deltas), has_cloud},
    OptionUse{"batch_norm", RIPIENO_GIVEN(batch_norm), has_cloud},
    OptionUse{"samples_per_epoch", RIPIENO_GIVEN(samples_per_epoch), has_cloud},
    OptionUse{"outer.learning_rate", RIPIENO_GIVEN(outer.learning_rate), has_outer},
    OptionUse{"outer.momentum", RIPIENO_GIVEN(outer.momentum),
              [](const StrategyInfo& i, const AgreeOptions&) { return i.name == "diloco" || i.name == "fedavgm"; }},
    OptionUse{"outer.beta1", RIPIENO_GIVEN(outer.beta1),
              [](const StrategyInfo& i, const AgreeOptions&) { return i.name == "fedadam"; }},
    OptionUse{"outer.beta2", RIPIENO_GIVEN(outer.beta2),
              [](const StrategyInfo& i, const AgreeOptions&) { return i.name == "fedadam"; }},
    OptionUse{"outer.epsilon", RIPIENO_GIVEN(outer.epsilon),
              [](const StrategyInfo& i, const AgreeOptions&) { return i.name == "fedadam"; }},
    OptionUse{"route", RIPIENO_GIVEN(route), has_open_route},
    OptionUse{"small_route", RIPIENO_GIVEN(small_route), has_open_route},
    OptionUse{"small_kb", RIPIENO_GIVEN(small_kb), has_open_route},
    OptionUse{"segment_kb", RIPIENO_GIVEN(segment_kb), has_route},
    OptionUse{"bucket_mb", RIPIENO_GIVEN(bucket_mb), has_buckets},
    OptionUse{"own_rates", RIPIENO_GIVEN(own_rates), steps_alone},
    OptionUse{"codec.error_feedback", RIPIENO_GIVEN(codec.error_feedback),
              has_codec<codec::CodecKind::block, codec::CodecKind::gathered, codec::CodecKind::low_rank>},
    OptionUse{"codec.block", RIPIENO_GIVEN(codec.block), has_codec<codec::CodecKind::block>},
    OptionUse{"codec.bits", RIPIENO_GIVEN(codec.bits),
              [](const StrategyInfo&, const AgreeOptions& given) { return given.codec.name == "qsgd"; }},
    OptionUse{"codec.fraction", RIPIENO_GIVEN(codec.fraction), has_codec<codec::CodecKind::gathered>},
    OptionUse{"codec.rank", RIPIENO_GIVEN(codec.rank), has_codec<codec::CodecKind::low_rank>},
};

#undef RIPIENO_GIVEN

template <class... Parts>
[[noreturn]] void refuse_loop(const StrategyInfo& info, const Parts&... parts) {
  fail(ErrorKind::usage, "strategy ", info.name, " in a loop of one's own cannot be: ", parts...);
}

void check_uses(const StrategyInfo& info, const AgreeOptions& options) {
  if (!strategy::is_built_in(info.name)) return;  // what others use is not known
  const AgreeOptions usual;
  for (const OptionUse& use : uses) {
    if (!use.is_given(options, usual) || use.is_used(info, options)) continue;
    const bool is_codecs = std::string_view(use.name).starts_with("codec.");
    fail(ErrorKind::usage, is_codecs ? "codec " : "strategy ", is_codecs ? options.codec.name : std::string(info.name),
         " has no use for the option ", use.name, "; leave it out");
  }
}

void check_loop(const StrategyInfo& info, const AgreeOptions& options) {
  if (info.traits.by_buckets) {
    refuse_loop(info,
                "it exchanges while backward() runs, and step() comes after that; take "
                "DistributedDataParallel, or ring, which takes the same steps");
  }
  if (info.traits.has_cloud && options.steps_per_epoch == 0) {
    refuse_loop(info,
                "its rounds are of whole epochs, and the loop has none; give steps_per_epoch, this rank's steps "
                "in an epoch");
  }
  const bool counts_batches = !info.traits.own_pace && !info.traits.has_cloud;
  if (options.uneven_batches && !counts_batches) {
    refuse_loop(info,
                "uneven_batches: no batch is weighed against other ranks' batches of the same step, since there "
                "are none; ",
                info.traits.has_cloud ? "give samples_per_epoch" : "scale the loss", " instead");
  }
  if (options.local_epochs < 1) fail(ErrorKind::usage, "local_epochs = 0; give 1 or more");
  if (options.steps < 1) fail(ErrorKind::usage, "steps = 0; give 1 or more");
  if (options.servers < 1) fail(ErrorKind::usage, "servers = ", options.servers, "; give 1 or more");
  if (options.staleness < 0) fail(ErrorKind::usage, "staleness = ", options.staleness, "; give 0 or more");
  if (options.passes < 1) fail(ErrorKind::usage, "passes = ", options.passes, "; give 1 or more");
  if (!(options.bucket_mb > 0)) fail(ErrorKind::usage, "bucket_mb = ", options.bucket_mb, "; give more than 0");
  if (options.steps_per_epoch > without_end)
    fail(ErrorKind::usage, "steps_per_epoch = ", options.steps_per_epoch, "; give ", without_end, " at most");
}

}  // namespace

std::uint32_t epoch_length(const AgreeOptions& options) {
  return options.steps_per_epoch > 0 ? options.steps_per_epoch : without_end;
}

strategy::Plan plan_of_loop(const StrategyInfo& info, const AgreeOptions& options, int ranks) {
  check_loop(info, options);
  check_uses(info, options);
  strategy::Plan plan;
  plan.epochs = without_end;
  plan.evaluate_every = 0;
  plan.seed = options.seed;
  plan.passes = options.passes;
  plan.exchange = {.route = options.route,
                   .small_route = options.small_route,
                   .small_bytes = options.small_kb << 10,
                   .codec = options.codec,
                   .segment_bytes = options.segment_kb << 10};
  plan.servers = {.count = options.servers, .beside = true, .staleness = options.staleness};
  plan.federated = {.local_epochs = options.local_epochs, .deltas = options.deltas, .statistics = options.batch_norm};
  plan.local = {.steps = options.steps, .fragments = options.fragments, .delay = options.delay};
  plan.outer = options.outer;
  codec::check_codec(options.codec);
  strategy::refuse({info, plan, ranks});
  return plan;
}

std::vector<std::string> lines_of(const StrategyInfo& info, const AgreeOptions& options) {
  const std::array<const char*, 3> statistics{"rank0", "mean", "local"};
  const codec::CodecOptions& codec = options.codec;
  const strategy::OuterOptions& outer = options.outer;
  const bool own_epochs = info.traits.has_cloud || info.traits.own_pace;
  return {text("strategy ", info.name),
          own_epochs ? "" : text("steps_per_epoch ", options.steps_per_epoch),
          text("steps ", options.steps, ", fragments ", options.fragments, ", delay ", options.delay),
          text("passes ", options.passes),
          text("servers ", options.servers, ", staleness ", options.staleness),
          text("local_epochs ", options.local_epochs, ", deltas ", options.deltas, ", batch_norm ",
               statistics.at(static_cast<std::size_t>(options.batch_norm))),
          text("outer.learning_rate ", outer.learning_rate, ", momentum ", outer.momentum, ", beta1 ", outer.beta1,
               ", beta2 ", outer.beta2, ", epsilon ", outer.epsilon),
          text("codec ", codec.name, ", error_feedback ", codec.error_feedback, ", block ", codec.block, ", bits ",
               codec.bits, ", fraction ", codec.fraction, ", rank ", codec.rank),
          text("route ", options.route, ", small_route ", options.small_route, ", small_kb ", options.small_kb,
               ", segment_kb ", options.segment_kb, ", bucket_mb ", options.bucket_mb),
          text("seed ", options.seed),
          text("uneven_batches ", options.uneven_batches),
          text("own_rates ", options.own_rates)};
}

}  // namespace ripieno::loop
