#include "apps/ripieno/explain_strategy.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/ripieno/job.h"
#include "ripieno/data/dataset.h"
#include "ripieno/data/partition.h"
#include "ripieno/model/classifier.h"
#include "ripieno/report/format.h"
#include "ripieno/train/flat_model.h"

namespace ripieno::program {
namespace {

/// How Cheng ("Performance comparison of distributed machine learning with different communication overheads", 2020)
/// counts: one model of whole megabytes per round, and fractions of rounds, regardless of what the route sends and to
/// how many.
double as_cheng_counts(double rounds, double parameters, std::size_t number) {
  return rounds * std::floor(parameters * static_cast<double>(number) / 1e6) * 1e6;
}

}  // namespace

std::string explain_strategy(const Settings& settings, const model::Zoo& zoo, const transport::LinkModel& link,
                             bool json) {
  const strategy::StrategyInfo& info = strategy_of(settings);
  const strategy::Plan plan = plan_of(settings);
  const data::DatasetInfo& data = data::find_dataset(settings->data_name);
  const model::ModelInfo& model = zoo.find(settings->model);
  const std::uint32_t samples = train_samples_of(settings);
  if (data::needs_labels(settings->sampling.sharing)) {
    fail(ErrorKind::usage, "data.partition = ", settings->sampling.sharing,
         ": how many samples a worker has is known when the labels are read; explain counts for data.partition = even "
         "or reshuffled");
  }
  strategy::Layout layout = train::FlatModel(model.make(), layout_of(settings)).layout();
  layout.type = numbers_type(settings);
  const data::Sampler sampler(samples, sampling_of(settings, 0));

  // The mean over the job's epochs, which may differ (clients and partners are drawn), and over whole rounds.
  const std::uint32_t round = info.traits.has_cloud ? plan.federated.local_epochs : 1;
  const std::uint32_t epochs = (std::max(plan.epochs, 1u) + round - 1) / round * round;
  strategy::Plan counted = plan;
  counted.first_epoch = 0;
  counted.epochs = epochs;
  counted.max_steps = 0;
  const strategy::Workload work = workload_of(settings, sampler.steps_of_all(), epochs);
  double all = 0, busiest = 0;
  int busiest_rank = 0;
  bool known = true;  // false if the bytes depend on the numbers
  for (int rank = 0; rank < work.world.ranks; ++rank) {
    const auto sent = info.bytes_sent(info, counted, layout, work, rank);
    known = sent.has_value();
    if (!known) break;
    const double an_epoch = static_cast<double>(*sent) / epochs;
    all += an_epoch;
    if (an_epoch > busiest) {
      busiest = an_epoch;
      busiest_rank = rank;
    }
  }
  const double steps = work.steps[0], exact_steps = static_cast<double>(samples) / sampler.options().batch;
  const bool whole_batches = info.data == strategy::DataUse::global_batches;
  const double rounds = info.rounds(plan, steps);
  const auto parameters = static_cast<double>(layout.parameters);
  const codec::CodecInfo& codec = codec::find_codec(plan.exchange.codec.name);
  const auto number = codec.kind == codec::CodecKind::wire
                          ? codec::make_codec(plan.exchange.codec, layout.type)->bytes(1)
                          : std::nullopt;
  std::optional<double> cheng;
  if (number && work.world.ranks > 1)
    cheng = as_cheng_counts(info.rounds(plan, whole_batches ? exact_steps : steps), parameters, *number);

  // The time in which the busiest rank sends its bytes one after the other, if nothing else takes time.
  std::optional<double> least;
  if (known && work.world.ranks > 1) least = busiest * seconds(link.per_byte) + rounds * seconds(link.latency);

  if (json) {
    nlohmann::ordered_json out{{"strategy", info.name},
                               {"what", info.what},
                               {"when", info.when},
                               {"with whom", info.route_of(plan)},
                               {"how", codec.name},
                               {"exact", info.exact},
                               {"agrees", info.agrees},
                               {"workers", settings->workers},
                               {"ranks", work.world.ranks},
                               {"model", model.name},
                               {"parameters", layout.parameters},
                               {"samples", samples},
                               {"batch", sampler.options().batch},
                               {"steps", work.steps[0]},
                               {"rounds", rounds}};
    out["bytes_sent"] = known ? nlohmann::ordered_json(all) : nlohmann::ordered_json();
    out["bytes_of_the_busiest"] = known ? nlohmann::ordered_json(busiest) : nlohmann::ordered_json();
    out["seconds_at_least"] = least ? nlohmann::ordered_json(*least) : nlohmann::ordered_json();
    out["as_cheng_2020_counts"] = cheng ? nlohmann::ordered_json(*cheng) : nlohmann::ordered_json();
    return out.dump(2) + "\n";
  }
  std::string out = text(info.name, ": ", info.title, "\n", info.what, " · ", info.when, " · ", info.route_of(plan),
                         " · ", codec.name, "; ",
                         is_exact(settings) ? "takes the steps of one worker with the whole batch"
                         : info.agrees      ? "all workers hold the same parameters"
                                            : "workers' parameters differ between exchanges",
                         "\n\n", settings->workers, " workers on ", work.world.ranks, " ranks, ", model.name, " of ",
                         report::format_count(static_cast<std::int64_t>(parameters)), " parameters, ",
                         report::format_count(static_cast<std::int64_t>(samples)), " samples of ", data.name, "\n\n");
  out += text("steps of a worker an epoch   ", work.steps[0], whole_batches ? " of " : " of its own ",
              sampler.options().batch, " samples\n");
  out +=
      text("exchanges an epoch           ", report::format_fixed(rounds, rounds == std::floor(rounds) ? 0 : 2), "\n");
  out += text("sent by all an epoch         ",
              known ? report::format_bytes(all) + "  (payload, closed form)\n" : "depends on the numbers\n");
  if (known)
    out += text("sent by the busiest          ", report::format_bytes(busiest), "  (rank ", busiest_rank, ")\n");
  if (least) {
    out += text("which takes at least         ", report::format_seconds(*least), "  (", seconds(link.latency) * 1e6,
                " us, ", 8e-6 / seconds(link.per_byte), " Mb/s)\n");
  }
  if (cheng && *cheng > 0) {  // of a model of a megabyte or more
    out += text("one model a round            ", report::format_bytes(*cheng),
                "  (as Cheng 2020 counts: samples/batch rounds, the model in whole MB)\n");
  }
  return out;
}

}  // namespace ripieno::program
